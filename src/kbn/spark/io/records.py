"""Records to notifications: JSON texts, plain objects, kbn's own JSON form and CloudEvents.

The fast path is msgspec and a look at each value's type; whatever is out of the ordinary goes
through `kbn.filters.json_form`, which knows the rules and words the complaints. A null stands for
an absent attribute. What is wrong raises InvalidInputError with the reason for the quarantine.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import msgspec

from kbn.errors import InvalidInputError, LimitError
from kbn.filters import (
    INT_MAX,
    INT_MIN,
    MAX_ATTRIBUTES,
    MAX_BAG_DEPTH,
    MAX_BAG_SIZE,
    MAX_NAME,
    Notification,
    check_value,
    from_cloudevent,
    json_depth_error,
    refuse_duplicate_names,
    value_from_json,
    value_to_json,
)
from kbn.spark.io.outcomes import Row, stable_id

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_TERM_TAGS = frozenset({"class", "individual", "property", "term"})
_ENVELOPE = frozenset({"attributes", "id", "publisher", "time"})
_BOM = b"\xef\xbb\xbf"


# JSON text.


def json_content(text: bytes) -> tuple[Any, bytes]:
    """What the JSON text says, and the same written again without spaces.

    An object with one name twice is refused: nobody knows which of the two was meant.
    """
    try:
        content = _decode(text)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise InvalidInputError(_not_json(text, error)) from None
    except RecursionError:
        raise json_depth_error() from None
    written = _encode(content)
    # msgspec keeps the last of two equal names. Every name is followed by one colon and msgspec
    # never escapes one, so where nothing was dropped both texts have as many, unless the given
    # text escapes some itself.
    if text.count(b":") != written.count(b":") or b"\\u003" in text:
        _check_each_name_once(text)
    return content, written


def _not_json(text: bytes, error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8 text: {error.reason}"
    if isinstance(error, msgspec.ValidationError):
        return f"not a value: {error}"
    return "an empty text is not JSON" if not text.strip() else f"not JSON: {_told(error)}"


def _told(error: Exception) -> str:
    return str(error).removeprefix("JSON is malformed: ")


def _check_each_name_once(text: bytes) -> None:
    try:
        json.loads(text.removeprefix(_BOM), object_pairs_hook=refuse_duplicate_names)
    except RecursionError:
        raise json_depth_error() from None


# Values.


def json_value(value: Any) -> Any:
    """Any value of a record, in kbn's JSON form; None for what is absent.

    Takes what JSON, Arrow and Spark give: times must have a time zone, decimals become numbers.
    """
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return value
    if kind is int:
        if INT_MIN <= value <= INT_MAX:
            return value
        return check_value(value)
    if kind is float:
        return value if math.isfinite(value) else value_to_json(check_value(value))
    if kind is list:
        return _bag(value)
    if kind is dict and len(value) == 1:
        ((tag, body),) = value.items()
        if tag in _TERM_TAGS and type(body) is str and body:
            return value
    return _unusual(value)


_STRINGS = frozenset({str})


def _bag(values: list[Any], depth: int = 1) -> list[Any]:
    made = values
    if not _STRINGS.issuperset(map(type, values)):
        if depth > MAX_BAG_DEPTH:
            raise json_depth_error()
        made = [
            _bag(value, depth + 1) if type(value) is list else json_value(value)
            for value in values
            if value is not None
        ]
    if len(made) > MAX_BAG_SIZE:
        raise LimitError(
            f"a bag of {len(made)} elements; the limit is {MAX_BAG_SIZE}",
            limit="bag size",
            maximum=MAX_BAG_SIZE,
        )
    return made


def _unusual(value: Any) -> Any:
    if isinstance(value, (dict, list)):
        return value_to_json(value_from_json(value))
    if isinstance(value, Decimal):
        return _of_decimal(value)
    if isinstance(value, date) and not isinstance(value, datetime):
        raise InvalidInputError(
            f"{value} is a date without a time zone; give it `as: time` and a `zone`"
        )
    if isinstance(value, tuple):
        return _bag(list(value))
    return value_to_json(check_value(value))


def _of_decimal(value: Decimal) -> Any:
    if not value.is_finite():
        raise InvalidInputError(f"{value} is not a finite number")
    if value == value.to_integral_value():
        return json_value(int(value))
    return json_value(float(value))


def attributes_text(attributes: Mapping[str, Any]) -> str:
    """The attributes as JSON text; null ones are left out."""
    if len(attributes) > MAX_ATTRIBUTES:
        raise LimitError(
            f"a notification of {len(attributes)} attributes; the limit is {MAX_ATTRIBUTES}",
            limit="attributes per notification",
            maximum=MAX_ATTRIBUTES,
        )
    ready = attributes
    for name, value in attributes.items():
        if name not in _known_names:
            _check_name(name)
        if type(value) in _READY_TYPES:
            continue
        made = _attribute(name, value)
        if made is not value or made is None:
            if ready is attributes:
                ready = dict(attributes)
            if made is None:
                del ready[name]  # type: ignore[attr-defined]
            else:
                ready[name] = made  # type: ignore[index]
    return written(ready)


_READY_TYPES = frozenset({str, bool})
_known_names: set[str] = set()


def _check_name(name: str) -> None:
    if not name or len(name) > MAX_NAME:
        raise InvalidInputError(f"an attribute has a name of 1 to {MAX_NAME} characters")
    if len(_known_names) < MAX_ATTRIBUTES:
        _known_names.add(name)


def _attribute(name: str, value: Any) -> Any:
    try:
        return json_value(value)
    except InvalidInputError as error:
        raise InvalidInputError(f"{name}: {_without_root(error)}") from None


def written(attributes: Mapping[str, Any]) -> str:
    """Attributes that are ready, as JSON text."""
    try:
        return _encode(attributes).decode()
    except (UnicodeError, msgspec.MsgspecError) as error:
        raise InvalidInputError(f"not valid Unicode text: {error}") from None


def _without_root(error: InvalidInputError) -> str:
    return str(error).removeprefix("$: ").removeprefix("$")


# Whole records.


def own_row(record: Any, content: bytes, source: str | None) -> Row:
    """The row of a record in kbn's own JSON form, with its envelope or without."""
    if type(record) is not dict:
        raise InvalidInputError(f"a notification is an object, not {_type(record)}")
    attributes = record.get("attributes")
    if type(attributes) is not dict or not _ENVELOPE.issuperset(record):
        return Row(stable_id(source, content), None, None, attributes_text(record))
    id_, time = record.get("id"), record.get("time")
    return Row(
        stable_id(source, content) if id_ is None else text_of("id", id_),
        optional_text("publisher", record.get("publisher")),
        None if time is None else instant("time", time),
        attributes_text(attributes),
    )


def cloudevent_row(record: Any) -> Row:
    """The row of a CloudEvent; nulls in its data are absent attributes."""
    if type(record) is not dict or not _has_plain_data(record):
        return _of_notification(from_cloudevent(record), {})
    # The rules for the event's context; its data and its time by the fast path.
    context = {name: record[name] for name in record if name not in ("data", "time")}
    made, time = from_cloudevent(context), record.get("time")
    row = _of_notification(made, record["data"])
    return row if time is None else row._replace(time=instant("time", time))


def _has_plain_data(event: dict[str, Any]) -> bool:
    media = event.get("datacontenttype", "application/json")
    if type(media) is not str or type(event.get("data")) is not dict or "data_base64" in event:
        return False
    media = media.partition(";")[0].strip().lower()
    return media.endswith(("/json", "+json")) and media != "application/ld+json"


def _of_notification(made: Notification, data: dict[str, Any]) -> Row:
    context = {name: value_to_json(value) for name, value in made.attributes.items()}
    assert made.id is not None
    return Row(made.id, made.publisher, made.time, attributes_text({**data, **context}))


def cloudevent_fields(record: Any) -> dict[str, Any]:
    """A CloudEvent as the record a mapping sees: its data's fields, and `ce.` for its context."""
    made = cloudevent_row(record)
    data = record.get("data")
    context = {f"ce.{name}": value for name, value in record.items() if name != "data"}
    fields = data if type(data) is dict else {} if data is None else {"data": data}
    return {**fields, **context, "ce.time": made.time}


def text_of(name: str, value: object) -> str:
    """The value as the non-empty string it must be."""
    if type(value) is not str or not value:
        raise InvalidInputError(f"{name}: expected a string that is not empty, not {_type(value)}")
    return value


def optional_text(name: str, value: object) -> str | None:
    """The same, or None."""
    return None if value is None else text_of(name, value)


def instant(name: str, value: object) -> datetime:
    """The time the value is, or says in ISO 8601, in UTC."""
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(_iso(value))
        if moment.tzinfo is UTC:
            return moment
        made = check_value(moment)
    except InvalidInputError as error:
        raise InvalidInputError(f"{name}: {error}") from None
    except ValueError as error:
        raise InvalidInputError(f"{name}: not a time: {error}") from None
    assert isinstance(made, datetime)
    return made


def _iso(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInputError(f"a time is a string, not {_type(value)}")
    return value


def _type(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a string", type(None): "null"}
    return (
        "an empty string"
        if value == ""
        else names.get(type(value), f"{type(value).__name__} {value!r:.40}")
    )
