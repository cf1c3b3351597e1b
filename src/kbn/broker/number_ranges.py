"""Numbers that were refused, as ranges: few, and told again until they are known."""

from __future__ import annotations

from typing import TypeAlias

Ranges: TypeAlias = tuple[tuple[int, int], ...]

RANGES_MAX = 64


def with_number(ranges: Ranges, number: int) -> Ranges:
    """The ranges with one more number, above all others.

    When there are too many, the two lowest become one. So a number may be in them that was not
    added; none that was is missing.

    >>> with_number(with_number(with_number((), 3), 4), 7)
    ((3, 4), (7, 7))
    """
    if ranges and ranges[-1][1] >= number - 1:
        return (*ranges[:-1], (ranges[-1][0], max(number, ranges[-1][1])))
    ranges = (*ranges, (number, number))
    if len(ranges) > RANGES_MAX:
        return ((ranges[0][0], ranges[1][1]), *ranges[2:])
    return ranges


def above(ranges: Ranges, number: int) -> Ranges:
    """What of the ranges is above a number.

    >>> above(((1, 4), (7, 9)), 3)
    ((4, 4), (7, 9))
    """
    return tuple((max(first, number + 1), last) for first, last in ranges if last > number)


def holds(ranges: Ranges, number: int) -> bool:
    """Whether a number is in one of them."""
    return any(first <= number <= last for first, last in ranges)
