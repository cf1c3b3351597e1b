"""Notifications: what publishers send, attributes with their values.

A notification is immutable and is checked when it is made, so that other code may rely on its
values. Constraints, filters and subscriptions, which ask about notifications, are in `model`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from kbn.errors import InvalidInputError, LimitError
from kbn.filters.immutable import Immutable, set_once
from kbn.filters.values import Value, check_value, value_key

MAX_ATTRIBUTES = 4096
MAX_NAME = 1024


class Notification(Immutable, Mapping[str, Value]):
    """What a publisher sends: attribute names and their values.

    >>> Notification({"title": "Brew", "tags": ["tea", "tea"]})["tags"]
    Bag('tea', 'tea')

    `attributes` is the plain dictionary, for reading only. `id`, `publisher` and `time` tell who
    sent it and when; no constraint sees them.
    """

    __slots__ = ("_hash", "attributes", "id", "publisher", "time")

    attributes: dict[str, Value]
    id: str | None
    publisher: str | None
    time: datetime | None
    _hash: int | None

    def __init__(
        self,
        attributes: Mapping[str, object],
        *,
        id: str | None = None,
        publisher: str | None = None,
        time: datetime | None = None,
    ) -> None:
        if not isinstance(attributes, Mapping):
            raise InvalidInputError(f"a notification is made of a mapping, not {attributes!r}")
        if len(attributes) > MAX_ATTRIBUTES:
            raise LimitError(
                f"a notification of {len(attributes)} attributes; the limit is {MAX_ATTRIBUTES}",
                limit="attributes per notification",
                maximum=MAX_ATTRIBUTES,
            )
        set_once(self, "attributes", _checked_attributes(attributes))
        set_once(self, "id", _optional_text("id", id))
        set_once(self, "publisher", _optional_text("publisher", publisher))
        set_once(self, "time", None if time is None else _instant(time))
        set_once(self, "_hash", None)

    @classmethod
    def trusted(
        cls,
        attributes: dict[str, Value],
        *,
        id: str | None = None,
        publisher: str | None = None,
        time: datetime | None = None,
    ) -> Notification:
        """A notification whose parts are known to be checked; the dictionary becomes its own."""
        made = cls.__new__(cls)
        set_once(made, "attributes", attributes)
        set_once(made, "id", id)
        set_once(made, "publisher", publisher)
        set_once(made, "time", time)
        set_once(made, "_hash", None)
        return made

    def to_json(self) -> dict[str, Any]:
        """The notification as JSON-ready data."""
        from kbn.filters.json_form import notification_to_json

        return notification_to_json(self)

    @classmethod
    def from_json(cls, data: object) -> Notification:
        """The notification that JSON data, or JSON text, stands for."""
        from kbn.filters.json_form import notification_from_json

        return notification_from_json(data)

    def __getitem__(self, attribute: str) -> Value:
        return self.attributes[attribute]

    def __iter__(self) -> Iterator[str]:
        return iter(self.attributes)

    def __len__(self) -> int:
        return len(self.attributes)

    def _content(self) -> tuple[object, ...]:
        named = frozenset((name, value_key(value)) for name, value in self.attributes.items())
        return named, self.id, self.publisher, self.time

    def __hash__(self) -> int:
        known = self._hash
        if known is None:
            known = hash(self._content())
            set_once(self, "_hash", known)
        return known

    def __eq__(self, other: object) -> bool:
        if type(other) is not Notification:
            return NotImplemented
        return self is other or self._content() == other._content()

    def __repr__(self) -> str:
        named = ((name, getattr(self, name)) for name in ("id", "publisher", "time"))
        extra = "".join(f", {name}={value!r}" for name, value in named if value is not None)
        return f"Notification({self.attributes!r}{extra})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_notification, (self.attributes, self.id, self.publisher, self.time)


def check_attribute_name(name: object) -> None:
    """Raise InvalidInputError unless `name` can be the name of an attribute."""
    if type(name) is not str or not name or len(name) > MAX_NAME:
        raise InvalidInputError(_bad_name(name))
    if not name.isascii():
        check_value(name)


def _bad_name(name: object) -> str:
    if not isinstance(name, str):
        return f"an attribute's name is a string, not {type(name).__name__}"
    if not name:
        return "an attribute's name is empty"
    return f"an attribute's name of {len(name)} characters; the limit is {MAX_NAME}"


def _checked_attributes(attributes: Mapping[str, object]) -> dict[str, Value]:
    made: dict[str, Value] = {}
    for name, value in attributes.items():
        check_attribute_name(name)
        try:
            made[name] = check_value(value)
        except LimitError:
            raise
        except InvalidInputError as error:
            raise InvalidInputError(f"attribute {name!r}: {error}") from None
    return made


def _optional_text(what: str, value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise InvalidInputError(f"a notification's {what} is a string, not {value!r}")
    return value


def _instant(time: object) -> datetime:
    if not isinstance(time, datetime):
        raise InvalidInputError(f"a notification's time is a datetime, not {time!r}")
    made = check_value(time)
    assert isinstance(made, datetime)
    return made


def as_notification(given: Notification | Mapping[str, object]) -> Notification:
    """The notification itself, or one made of a mapping."""
    return given if type(given) is Notification else Notification(given)


def _restore_notification(
    attributes: dict[str, Value], id: str | None, publisher: str | None, time: datetime | None
) -> Notification:
    return Notification(attributes, id=id, publisher=publisher, time=time)
