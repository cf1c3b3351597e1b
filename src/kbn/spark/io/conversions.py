"""Values of records, turned into what a mapping says they are."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from email.utils import parsedate_to_datetime
from typing import Any
from zoneinfo import ZoneInfo

from kbn.errors import InvalidInputError
from kbn.spark.io.records import instant, json_value

TERM_KINDS = ("term", "class", "individual", "property")
TIME_FORMATS = ("iso", "epoch_s", "epoch_ms", "rfc822")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_TRUTHS = {
    **dict.fromkeys(("true", "yes", "t", "y", "1"), True),
    **dict.fromkeys(("false", "no", "f", "n", "0"), False),
}


@dataclass(frozen=True)
class TimeFormat:
    """How a time is written: a format, and the zone of times that name none."""

    format: str = "iso"
    zone: str | None = None

    def read(self, name: str, value: Any) -> datetime:
        """The instant the value stands for, in UTC."""
        if type(value) is str and self.format == "iso" and value[-1:] == "Z":
            return instant(name, value.strip())
        if isinstance(value, date) and not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day)
        try:
            moment = value if isinstance(value, datetime) else self._parsed(value)
        except InvalidInputError as error:
            raise InvalidInputError(f"{name}: {error}") from None
        except (ValueError, OverflowError, TypeError) as error:
            raise InvalidInputError(f"{name}: {value!r:.60} is not a time: {error}") from None
        if moment.tzinfo is None and self.zone is not None:
            moment = moment.replace(tzinfo=ZoneInfo(self.zone))
        if moment.tzinfo is None:
            raise InvalidInputError(
                f"{name}: {value!s:.60} has no time zone; say which in the mapping: `zone: UTC`"
            )
        return instant(name, moment)

    def _parsed(self, value: Any) -> datetime:
        if self.format in ("epoch_s", "epoch_ms"):
            number = _number(value)
            return _EPOCH + timedelta(
                **{"seconds" if self.format == "epoch_s" else "milliseconds": number}
            )
        if not isinstance(value, str):
            raise ValueError("a number is a time only with `format: epoch_s` or `epoch_ms`")
        text = value.strip()
        if self.format == "iso":
            return datetime.fromisoformat(text)
        if self.format == "rfc822":
            return parsedate_to_datetime(text)
        return datetime.strptime(text, self.format)


ISO = TimeFormat()


def as_text(name: str, value: Any) -> str:
    """The value of a field as text."""
    try:
        return as_string(value)
    except InvalidInputError as error:
        raise InvalidInputError(f"{name}: {error}") from None


def as_string(value: Any) -> str:
    """The value as text; a number as JSON writes it."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (dict, list, bytes)):
        raise InvalidInputError(f"{value!r:.60} is not text")
    if isinstance(value, (int, float)):
        return str(json_value(value))
    return value.isoformat() if isinstance(value, date) else str(value)


def _integer(value: Any) -> int:
    number = _number(value)
    if isinstance(number, float):
        if not number.is_integer():
            raise InvalidInputError(f"{value!r:.60} is not an integer")
        number = int(number)
    made: int = json_value(number)
    return made


def _number(value: Any) -> int | float:
    if isinstance(value, str):
        text = value.strip()
        if _INTEGER.fullmatch(text) and len(text) < 40:
            return _finite(int(text), value)
        if _NUMBER.fullmatch(text):
            return _finite(float(text), value)
        raise InvalidInputError(f"{value!r:.60} is not a number")
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise InvalidInputError(f"{value!r:.60} is not a number")
    return _finite(value, value)


def _finite(number: int | float | Decimal, value: Any) -> int | float:
    if not isinstance(number, int) and not math.isfinite(number):
        raise InvalidInputError(f"{value!r:.60} is not a finite number")
    made: int | float = json_value(number)
    return made


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    known = _TRUTHS.get(str(value).strip().lower()) if isinstance(value, (str, int)) else None
    if known is None:
        raise InvalidInputError(f"{value!r:.60} is neither true nor false")
    return known


def _name(value: Any) -> Any:
    """A text that names a term, or a term already."""
    return json_value(value) if isinstance(value, dict) else as_string(value).strip()


CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "string": as_string,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    **dict.fromkeys(TERM_KINDS, _name),
}
KINDS = (*CONVERSIONS, "time")
