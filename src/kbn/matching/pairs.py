"""Pairs: numbers and times as float64 and what rounding left over, so that they compare exactly."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
EXACT_INT_MAX = 2**53


def as_pair(number: int | float) -> tuple[float, int]:
    """`number` as float64 and what rounding left over; pairs order as the numbers do.

    >>> as_pair(2**53 + 1)
    (9007199254740992.0, 1)
    """
    if number.__class__ is float:
        return number + 0.0, 0
    if -EXACT_INT_MAX <= number <= EXACT_INT_MAX:
        return float(number), 0
    rounded = float(number)
    return rounded, int(number) - int(rounded)


def microseconds(time: datetime) -> int:
    """A time as whole microseconds since 1970, exactly."""
    return (time - EPOCH) // MICROSECOND
