"""The form of management messages: a struct in a process, a notification on its way.

The attribute `message` of such a notification is an individual of the management ontology, which
says the type. `overlayId` says which overlay it is about, `publicationTime` when it was published.
The other attributes are the fields of the struct, by the names that ontology gives them. Lists and
maps travel as JSON text, for an attribute holds no structure. A field that is not known is left
out.

Anybody at the trigger broker can publish anything, so reading checks every field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, ClassVar, NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from kbn.errors import InvalidInputError
from kbn.filters import Notification
from kbn.management.terms import MAIN, MESSAGE, NAMESPACE, OVERLAY, PUBLICATION_TIME, type_of
from kbn.ontology import Term

SHOWN_MAX = 200
"""Of a message that cannot be read, so many characters are shown."""
STRUCTURED = (msgspec.inspect.VarTupleType, msgspec.inspect.DictType)


class ManagementMessage(Struct, frozen=True):
    """A message of which `individual` is the type; a field's `name=` is its attribute."""

    individual: ClassVar[str]


M = TypeVar("M", bound=ManagementMessage)


def to_notification(
    message: ManagementMessage, now: float | None = None, overlay: str = MAIN
) -> Notification:
    """The message as it is published, at a time (if that is known) and about an overlay."""
    attributes: dict[str, Any] = {MESSAGE: type_of(message.individual), OVERLAY: overlay}
    if now is not None:
        attributes[PUBLICATION_TIME] = round(now * 1000)
    for field in _fields(type(message)):
        value = getattr(message, field.name)
        if value is not None:
            attributes[field.attribute] = field.write(value)
    return Notification(attributes)


def overlay_in(notification: Notification) -> str:
    """The overlay that a message is about; '' where it does not say."""
    overlay = notification.get(OVERLAY)
    return overlay if isinstance(overlay, str) else ""


def published_at(notification: Notification) -> float | None:
    """When a message was published, in seconds since 1970; None where it does not say."""
    told = notification.get(PUBLICATION_TIME)
    return told / 1000 if type(told) is int and 0 <= told < 2**53 else None


def individual_in(notification: Notification) -> str:
    """The local name of the individual that says a message's type; '' where there is none."""
    message = notification.get(MESSAGE)
    return message.iri.removeprefix(NAMESPACE) if isinstance(message, Term) else ""


def from_notification(notification: Notification, types: Mapping[str, type[M]]) -> M:
    """The message that a notification carries; `types` has those expected, by individual.

    Raises InvalidInputError when the type is none of these, or a field is missing or wrong.
    """
    name = individual_in(notification)
    expected = types.get(name)
    if expected is None:
        told = notification.get(MESSAGE)
        raise InvalidInputError(f"expected a {MESSAGE} of another type than {told!r:.{SHOWN_MAX}}")
    values = {}
    for field in _fields(expected):
        if field.attribute in notification:
            values[field.name] = _read(name, field, notification[field.attribute])
        elif field.when_missing is not msgspec.NODEFAULT:
            values[field.name] = field.when_missing
        else:
            raise InvalidInputError(f"{name}: the attribute {field.attribute!r} is missing")
    return expected(**values)


class _Field(NamedTuple):
    name: str
    attribute: str
    when_missing: Any
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


def _read(message: str, field: _Field, value: object) -> Any:
    try:
        return field.read(value)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
        raise InvalidInputError(
            f"{message}: {field.attribute!r} cannot be read: {error!s:.{SHOWN_MAX}}"
        ) from None


@cache
def _fields(type: type[ManagementMessage]) -> tuple[_Field, ...]:
    return tuple(_field(info) for info in msgspec.structs.fields(type))


def _field(info: msgspec.structs.FieldInfo) -> _Field:
    when_missing = None if info.required and _may_be_none(info.type) else info.default
    if isinstance(msgspec.inspect.type_info(info.type), STRUCTURED):
        read = msgspec.json.Decoder(info.type).decode
        return _Field(info.name, info.encode_name, when_missing, _json, read)
    return _Field(info.name, info.encode_name, when_missing, _itself, _converter(info.type))


def _may_be_none(type: Any) -> bool:
    found = msgspec.inspect.type_info(type)
    return isinstance(found, msgspec.inspect.UnionType) and found.includes_none


def _converter(type: Any) -> Callable[[Any], Any]:
    return lambda value: msgspec.convert(value, type)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _itself(value: object) -> object:
    return value
