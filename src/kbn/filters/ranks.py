"""Ranks: which bags of one list go with which of another, where sorting their elements decides.

Under an order, the element that is hardest to serve takes the best partner, the next hardest the
second best, and so on; under `=`, the first of equal elements takes the first of its equals. So a
bag goes with another exactly if each of its ranks finds the same rank good enough there, and one
pass over each rank, hardest and best first, finds that for all bags together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from datetime import datetime
from operator import ge, gt, itemgetter, le, lt
from typing import Any, TypeAlias

from kbn.filters.operators import ORDER_OPERATORS, AnyOperator, Operator
from kbn.filters.values import Bag, Family, Operand

__all__ = ["RANKED", "spread_by_rank"]

RANKED = ORDER_OPERATORS | {Operator.EQ}

_Rank: TypeAlias = tuple[Hashable, int]
_Fits: TypeAlias = Callable[[Any, Any], bool]
_PARTNER_FITS: dict[AnyOperator, _Fits] = {
    Operator.LT: gt,
    Operator.LE: ge,
    Operator.GT: lt,
    Operator.GE: le,
    Operator.EQ: ge,  # of two zeros, see `_ranks`
}
_SEEN_FROM_OPERAND: dict[_Fits, _Fits] = {gt: lt, ge: le, lt: gt, le: ge}
_ORDERED: dict[type, Family] = {
    int: Family.NUMBER,
    float: Family.NUMBER,
    str: Family.STRING,
    datetime: Family.TIME,
}
_UNSERVED: _Rank = (None, 0)  # of elements that have no order; nobody offers it
_first = itemgetter(0)


def spread_by_rank(
    element: AnyOperator,
    mine: Sequence[Operand],
    its: Sequence[Operand],
    bits: Sequence[int],
    by_x: bool,
) -> list[int]:
    """For each of my bags the bits of those others that have a partner for each of its elements.

    `by_x` says that mine come from the notification. That no bit belongs to two of the others is
    up to the caller: else two of them may serve a bag together.
    """
    fits = _PARTNER_FITS[element] if by_x else _SEEN_FROM_OPERAND[_PARTNER_FITS[element]]
    largest_first = fits in (gt, ge)
    rows = [0] * len(mine)
    asked: dict[_Rank, list[tuple[Any, int]]] = defaultdict(list)
    for place, bag in enumerate(mine):
        if type(bag) is Bag:
            rows[place] = -1  # every bit there is, until an element asks for less
            for rank, value in _ranks(element, bag, largest_first):
                asked[rank].append((value, place))
    offered: dict[_Rank, list[tuple[Any, int]]] = {rank: [] for rank in asked}
    for bag, mask in zip(its, bits, strict=True):
        if type(bag) is Bag:
            for rank, value in _ranks(element, bag, largest_first):
                if rank in offered and rank is not _UNSERVED:
                    offered[rank].append((value, mask))
    for rank, asking in asked.items():
        _narrow(rows, asking, offered[rank], fits)
    return rows


def _ranks(element: AnyOperator, bag: Bag, largest_first: bool) -> Iterator[tuple[_Rank, Any]]:
    """The elements with their ranks; of equal elements under `=` only how many there are counts."""
    if element is Operator.EQ:
        for name, count in bag.counts().items():
            for n in range(count):
                yield (name, n), 0
        return
    for family, items in _families(bag).items():
        if family is None:
            yield _UNSERVED, 0
            continue
        items.sort(reverse=largest_first)
        for n, item in enumerate(items):
            yield (family, n), item


def _families(bag: Bag) -> dict[Family | None, list[Any]]:
    """The elements by family; those that have no order under None."""
    found: dict[Family | None, list[Any]] = defaultdict(list)
    for item in bag.items:
        found[_ORDERED.get(type(item))].append(item)
    return found


def _narrow(
    rows: list[int], asking: list[tuple[Any, int]], offered: list[tuple[Any, int]], fits: _Fits
) -> None:
    """Leave each row that asks only the bits of what is offered that fits it."""
    largest_first = fits in (gt, ge)
    asking.sort(key=_first, reverse=largest_first)
    offered.sort(key=_first, reverse=largest_first)
    fitting, taken = 0, 0
    for value, place in asking:
        while taken < len(offered) and fits(offered[taken][0], value):
            fitting |= offered[taken][1]
            taken += 1
        rows[place] &= fitting
