"""CloudEvents 1.0, structured JSON, to notifications and back.

    id -> id        source -> publisher        time -> time        data -> attributes

The other context attributes (type, subject, extensions) become attributes named `ce.type`,
`ce.subject` and so on, so that filters can ask for them without clashing with the data. Data in
JSON follows `json_form`, data in `application/ld+json` follows `jsonld`; data that is no JSON
object is put whole under `data`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kbn.errors import InvalidInputError
from kbn.filters.json_form import decode_json, value_from_json, value_to_json
from kbn.filters.notification import Notification
from kbn.filters.printing import print_time
from kbn.filters.values import Value

__all__ = ["DEFAULT_TYPE", "from_cloudevent", "to_cloudevent"]

DEFAULT_TYPE = "kbn.notification"
_PREFIX = "ce."
_OWN = frozenset({"specversion", "id", "source", "time", "data", "data_base64", "datacontenttype"})
_CONTEXT_NAME = re.compile(r"[a-z0-9]+")


def from_cloudevent(data: object) -> Notification:
    """The notification an event stands for; `data` is the event, or its JSON text.

    >>> event = {"specversion": "1.0", "id": "7", "source": "/shop", "type": "sold",
    ...          "data": {"price": 3}}
    >>> from_cloudevent(event)
    Notification({'price': 3, 'ce.type': 'sold'}, id='7', publisher='/shop')
    """
    event = decode_json(data)
    if not isinstance(event, dict):
        raise InvalidInputError("a CloudEvent is a JSON object")
    _check_version(event)
    for name in ("id", "source", "type"):
        _required(event, name)
    attributes = {**_content(event), **_context(event)}
    time = event.get("time")
    return Notification(
        attributes,
        id=event["id"],
        publisher=event["source"],
        time=None if time is None else _time(time),
    )


def to_cloudevent(
    notification: Notification, *, id: str | None = None, source: str | None = None
) -> dict[str, Any]:
    """The notification as an event; `id` and `source` are used where it has none of its own.

    >>> to_cloudevent(Notification({"price": 5}), id="8", source="/shop")["data"]
    {'price': 5}
    """
    event: dict[str, Any] = {
        "specversion": "1.0",
        "id": _either(notification.id, id, "id"),
        "source": _either(notification.publisher, source, "source"),
        "type": DEFAULT_TYPE,
    }
    if notification.time is not None:
        event["time"] = print_time(notification.time)
    event["datacontenttype"] = "application/json"
    event["data"] = {}
    for name, value in notification.attributes.items():
        if name.startswith(_PREFIX):
            _put_context(event, name.removeprefix(_PREFIX), value)
        else:
            event["data"][name] = value_to_json(value)
    return event


def _check_version(event: Mapping[str, Any]) -> None:
    if event.get("specversion") != "1.0":
        found = event.get("specversion")
        raise InvalidInputError(f"$.specversion: expected '1.0', found {found!r:.60}")


def _required(event: Mapping[str, Any], name: str) -> None:
    value = event.get(name)
    if not isinstance(value, str) or not value:
        raise InvalidInputError(f"$.{name}: a CloudEvent needs a non-empty string here")


def _time(value: object) -> datetime:
    if not isinstance(value, str):
        raise InvalidInputError(f"$.time: a time is a string, not {value!r:.60}")
    try:
        return datetime.fromisoformat(value)
    except ValueError as error:
        raise InvalidInputError(f"$.time: not a time: {error}") from None


def _context(event: Mapping[str, Any]) -> dict[str, Value]:
    made: dict[str, Value] = {}
    for name, value in event.items():
        if name in _OWN or value is None or (name == "type" and value == DEFAULT_TYPE):
            continue
        if not isinstance(name, str) or not _CONTEXT_NAME.fullmatch(name):
            raise InvalidInputError(f"$.{name}: context attributes have lower-case names")
        if not isinstance(value, (str, bool, int)):
            raise InvalidInputError(f"$.{name}: a context attribute is a string, number or boolean")
        made[_PREFIX + name] = value
    return made


def _content(event: Mapping[str, Any]) -> Mapping[str, object]:
    if "data_base64" in event:
        if "data" in event:
            raise InvalidInputError("$: an event has data or data_base64, not both")
        return _of_bytes(event)
    if event.get("data") is None:
        return {}
    content_type = event.get("datacontenttype", "application/json")
    if not isinstance(content_type, str):
        raise InvalidInputError("$.datacontenttype: a media type is a string")
    media = content_type.partition(";")[0].strip().lower()
    return _of_json(event["data"], media)


def _of_bytes(event: Mapping[str, Any]) -> Mapping[str, object]:
    try:
        return {"data": base64.b64decode(event["data_base64"], validate=True)}
    except (binascii.Error, TypeError, ValueError) as error:
        raise InvalidInputError(f"$.data_base64: not base64: {error}") from None


def _of_json(data: object, media: str) -> Mapping[str, object]:
    if media == "application/ld+json":
        from kbn.filters.jsonld import from_jsonld

        return from_jsonld(data).attributes
    if isinstance(data, dict) and (media.endswith(("/json", "+json"))):
        return {name: _value(f"$.data.{name}", item) for name, item in data.items()}
    return {"data": _value("$.data", data)}


def _value(path: str, data: object) -> Value:
    try:
        return value_from_json(data)
    except InvalidInputError as error:
        raise InvalidInputError(f"{path}: {str(error).removeprefix('$: ')}") from None


def _either(own: str | None, given: str | None, name: str) -> str:
    value = own or given
    if not value:
        raise InvalidInputError(
            f"a CloudEvent needs its {name}; the notification has none, pass it"
        )
    return value


def _put_context(event: dict[str, Any], name: str, value: Value) -> None:
    taken = name in _OWN or not _CONTEXT_NAME.fullmatch(name)
    if taken or not isinstance(value, (str, bool, int)):
        raise InvalidInputError(
            f"attribute {_PREFIX + name!r} cannot be a context attribute of a CloudEvent"
        )
    event[name] = value
