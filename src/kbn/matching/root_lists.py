"""Lists of roots: by plain equalities, and by what they say of each axis.

A plain filter covers only roots that have its equalities, and whose bounds lie inside its own, and
that ask about all of its attributes. Each list holds, in arrays that a kernel looks through, the
roots with one equality, or with bounds on one axis: their bounds there, rounded, and a mask of
their attributes. One list says who could be covered: the shortest.

Most equalities are rare, and their roots are had by meeting sets; the others have a list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from kbn.filters import (
    ORDER_OPERATORS,
    AnyOperator,
    Constraint,
    Family,
    Filter,
    Operator,
)
from kbn.matching.groups import Array, grown
from kbn.matching.kernels.covering import select
from kbn.matching.pairs import as_pair, microseconds
from kbn.matching.plain_filters import ON_AXES, is_plain

Axis = tuple[str, Family]
FEW = 64
"""Roots so few that meeting sets of them costs less than calling a kernel."""


class RootLists:
    """The roots in their lists."""

    def __init__(
        self, posted: Mapping[Constraint, set[int]], filter_of: Callable[[int], Filter]
    ) -> None:
        """`posted` says which roots have an equality, `filter_of` what a root asks for."""
        self._posted = posted
        self._filter_of = filter_of
        self._equal: dict[Constraint, _List] = {}
        self._axes: dict[Axis, _List] = {}
        self._bits: dict[str, int] = {}
        self._lists_of: dict[int, list[_List]] = {}

    def add(self, root: int, filter: Filter) -> None:
        """Enter a root, which is posted already, into its lists."""
        bounds = bounds_by_axis(filter)
        lists: list[_List] = []
        mask = self._mask(filter)
        for constraint in dict.fromkeys(filter.constraints):
            found = self._equal.get(constraint)
            if found is not None:
                found.add(root, -inf, inf, mask)
                lists.append(found)
        for axis, (low, high) in bounds.items():
            lists.append(_in(self._axes, axis))
            lists[-1].add(root, low, high, mask)
        if lists:
            self._lists_of[root] = lists
        for constraint in filter.constraints:
            if constraint.operator is Operator.EQ and is_plain(constraint):
                self._list_if_many(constraint)

    def discard(self, root: int) -> None:
        for each in self._lists_of.pop(root, ()):
            each.discard(root)
            if each.count == 0:
                self._equal.pop(each.name, None)  # type: ignore[call-overload]
                self._axes.pop(each.name, None)  # type: ignore[call-overload]

    def few_with_equalities(self, filter: Filter) -> list[int] | None:
        """The roots with all equalities of a plain filter; None where not even one is rare."""
        sets: list[set[int]] = []
        for constraint in filter.constraints:
            if constraint.operator is Operator.EQ:
                posted = self._posted.get(constraint)
                if posted is None:
                    return []
                sets.append(posted)
        sets.sort(key=len)
        if not sets or len(sets[0]) > FEW:
            return None
        return list(sets[0].intersection(*sets[1:]))

    def candidates(self, filter: Filter) -> Array:
        """Some roots, among which are all that a plain filter covers; no equality is rare."""
        shortest, span = None, (-inf, inf)
        for axis, bounds in bounds_by_axis(filter, with_equalities=False).items():
            found = self._axes.get(axis)
            if found is None:
                return _NOBODY
            if shortest is None or found.count < shortest.count:
                shortest, span = found, bounds
        for constraint in filter.constraints:
            found = self._equal.get(constraint)
            # Bounds pass over most of a list, too: an equality must be rarer to be the better one.
            if found is not None and (shortest is None or 2 * found.count < shortest.count):
                shortest, span = found, (-inf, inf)
        return _NOBODY if shortest is None else shortest.select(*span, self._mask(filter))

    def check_invariants(self) -> None:
        """The list of an equality holds whom it is posted for, and roots know their lists."""
        for equality, each in self._equal.items():
            assert set(each.roots()) == self._posted[equality]
        for equality, posted in self._posted.items():
            if len(posted) > FEW and equality.operator is Operator.EQ and is_plain(equality):
                assert equality in self._equal
        for each in (*self._equal.values(), *self._axes.values()):
            assert each.ids[: each.count].tolist() == sorted(
                each.places, key=each.places.__getitem__
            )
            assert all(any(e is each for e in self._lists_of[root]) for root in each.roots())

    def _list_if_many(self, equality: Constraint) -> None:
        """Begin the list of an equality that is not rare any more."""
        posted = self._posted[equality]
        if len(posted) > FEW and equality not in self._equal:
            found = _in(self._equal, equality)
            for root in posted:
                found.add(root, -inf, inf, self._mask(self._filter_of(root)))
                self._lists_of.setdefault(root, []).append(found)

    def inside(self, axis: Axis, low: float, high: float) -> list[int]:
        """The roots whose bounds on an axis lie inside these."""
        found = self._axes.get(axis)
        return [] if found is None else found.select(low, high, 0).tolist()

    def on(self, attribute: str) -> Iterator[int]:
        """The roots with bounds on an axis of an attribute."""
        for (name, _), found in self._axes.items():
            if name == attribute:
                yield from found.roots()

    def _mask(self, filter: Filter) -> int:
        mask = 0
        for constraint in filter.constraints:
            bit = self._bits.get(constraint.attribute)
            if bit is None:
                bit = self._bits[constraint.attribute] = 1 << len(self._bits) % 63
            mask |= bit
        return mask


@dataclass(slots=True)
class _List:
    """Some roots, their bounds and masks, in no order."""

    name: object
    count: int
    ids: Array
    lows: Array
    highs: Array
    masks: Array
    places: dict[int, int]

    def add(self, root: int, low: float, high: float, mask: int) -> None:
        at = self.count
        if at == self.ids.shape[0]:
            self.ids, self.masks = grown(self.ids, at + 1), grown(self.masks, at + 1)
            self.lows, self.highs = grown(self.lows, at + 1), grown(self.highs, at + 1)
        self.ids[at], self.lows[at], self.highs[at], self.masks[at] = root, low, high, mask
        self.places[root] = at
        self.count = at + 1

    def discard(self, root: int) -> None:
        place = self.places.pop(root)
        last = self.count - 1
        if place != last:
            for array in (self.ids, self.lows, self.highs, self.masks):
                array[place] = array[last]
            self.places[int(self.ids[place])] = place
        self.count = last

    def roots(self) -> Iterable[int]:
        return self.places

    def select(self, low: float, high: float, mask: int) -> Array:
        found: Array = select(
            self.ids, self.lows, self.highs, self.masks, self.count, low, high, mask
        )
        return found


_NOBODY: Array = np.zeros(0, np.int64)


def _in(lists: dict[Any, _List], name: object) -> _List:
    found = lists.get(name)
    if found is None:
        whole, real = np.empty(4, np.int64), np.empty(4, np.float64)
        found = lists[name] = _List(name, 0, whole, real, real.copy(), whole.copy(), {})
    return found


def on_axis(constraint: Constraint) -> bool:
    """Whether it bounds an axis from one side."""
    return constraint.operator in ORDER_OPERATORS and is_plain(constraint)


def bounds_by_axis(
    filter: Filter, *, with_equalities: bool = True
) -> dict[Axis, tuple[float, float]]:
    """What a filter says of each axis, rounded and closed: only to narrow down.

    `!= 3` says that there is a number, from which a range without ends follows.
    """
    found: dict[Axis, tuple[float, float]] = {}
    for constraint in filter.constraints:
        operand: Any = constraint.operand
        kind = ON_AXES.get(operand.__class__)
        if kind is None:
            continue
        side = _SIDES.get(constraint.operator, _NEITHER)
        if side is _NEITHER and not with_equalities:
            continue
        axis = (constraint.attribute, kind)
        low, high = found.get(axis, (-inf, inf))
        value = as_pair(operand if kind is Family.NUMBER else microseconds(operand))[0]
        if side is not _HIGH and constraint.operator is not Operator.NE:
            low = max(low, value)
        if side is not _LOW and constraint.operator is not Operator.NE:
            high = min(high, value)
        found[axis] = (low, high)
    return found


_LOW, _HIGH, _NEITHER = "low", "high", "neither"
_SIDES: dict[AnyOperator, str] = {
    Operator.LT: _HIGH,
    Operator.LE: _HIGH,
    Operator.GT: _LOW,
    Operator.GE: _LOW,
}
