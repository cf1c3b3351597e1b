"""Candidates: for each element of one bag, which elements of another it may be paired with.

A set of candidates is an integer with one bit (or, for repeated elements, several) per candidate.
The caller gives each element on the *weighted* side its bits; `spread` gives each element on the
other side the union of the bits of those it is related to. The answer is exact, or says that it
may hold too many, never too few; then the caller looks at single pairs, but only at those it uses.

A plain operator goes through an index: a class is below exactly its ancestors, a string starts with
exactly its prefixes. An ordered one goes through a sorted list with running unions. A composite
asks the same question one level down: with the bits of the bags that hold an element as that
element's bits, each inner element learns which bags have a partner for it, and a bag whose elements
must all be served can only go where each of them has one. Over `=` and the orders sorting tells
more: where each of them has one of its own (see `ranks`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import accumulate
from operator import and_, or_
from typing import Any, NamedTuple, TypeAlias, cast

from kbn.filters.element_pairs import related_pairs, subject
from kbn.filters.operators import (
    ORDER_OPERATORS,
    AnyOperator,
    Negated,
    Operator,
    negate_operator,
    split_bag_operator,
)
from kbn.filters.ranks import RANKED, spread_by_rank
from kbn.filters.values import Bag, Operand, value_key
from kbn.filters.vocabulary import Vocabulary

__all__ = ["Bits", "Spread", "spread", "transposed"]

_Items: TypeAlias = Sequence[Operand]
_NEGATIVE = frozenset({Operator.NE, Operator.NOT_EQUIV, Operator.IS_NOT_A})
_EVERY = -1  # all bits there are
_PAIRS_PER_ELEMENT = 64  # beyond this a relation is dense, and most choices are good ones


class Spread(NamedTuple):
    """The candidates of each element; when not `exact`, a superset of them."""

    rows: list[int]
    exact: bool


def spread(
    operator: AnyOperator,
    xs: _Items,
    vs: _Items,
    bits: Sequence[int],
    by_x: bool,
    ontology: Vocabulary,
    *,
    apart: bool = True,
) -> Spread:
    """For each x the union of the bits of the v with `x operator v`; for each v if not `by_x`.

    `bits` belong to the other side's elements. `apart` says that no bit belongs to two of them. No
    element is, or holds, a bare term.
    """
    if operator is Operator.EXISTS:
        return Spread([_union(bits)] * len(xs if by_x else vs), True)
    if split_bag_operator(operator) is not None:
        return _spread_over_bags(operator, xs, vs, bits, by_x, ontology, apart)
    if isinstance(operator, Negated) or operator in _NEGATIVE:
        return _spread_negative(operator, xs, vs, bits, by_x, ontology, apart)
    if operator in ORDER_OPERATORS:
        return Spread(_spread_in_order(operator, xs, vs, bits, by_x), True)
    return _spread_by_index(operator, xs, vs, bits, by_x, ontology)


def transposed(rows: Sequence[int], width: int) -> list[int]:
    """Columns for rows: bit r of answer c is bit c of row r.

    >>> transposed([0b01, 0b11, 0b01], 2) == [0b111, 0b010]
    True
    """
    if not rows or not width:
        return [0] * width
    digits = "".join(format(row, f"0{width}b") for row in reversed(rows))
    return [int(digits[place::width], 2) for place in reversed(range(width))]


def _union(bits: Iterable[int]) -> int:
    return reduce(or_, bits, 0)


class Bits(Sequence[int]):
    """One bit for each of so many elements, made when looked at: all at once would be large."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, place: Any) -> Any:
        if not 0 <= place < self._count:
            raise IndexError(place)
        return 1 << place


def _distinct(items: _Items) -> list[Operand]:
    return list({value_key(item): item for item in items}.values())


def _spread_by_index(
    operator: AnyOperator,
    xs: _Items,
    vs: _Items,
    bits: Sequence[int],
    by_x: bool,
    ontology: Vocabulary,
) -> Spread:
    left, right = _distinct(xs), _distinct(vs)
    source, target = (right, left) if by_x else (left, right)
    copies: dict[object, list[int]] = {}
    for place, item in enumerate(vs if by_x else xs):
        copies.setdefault(value_key(item), []).append(place)
    given: list[int | None] = [None] * len(source)
    made = [0] * len(target)
    budget = _PAIRS_PER_ELEMENT * (len(left) + len(right)) + 1024
    for i, j in related_pairs(operator, left, right, ontology):
        mine, its = (i, j) if by_x else (j, i)
        mask = given[its]
        if mask is None:
            mask = given[its] = _union(bits[place] for place in copies[value_key(source[its])])
        made[mine] |= mask
        budget -= 1
        if not budget:
            return _taken(operator, xs, vs, bits, by_x, exact=False)
    rows = {value_key(item): row for item, row in zip(target, made, strict=True)}
    return Spread([rows[value_key(item)] for item in (xs if by_x else vs)], True)


def _taken(
    operator: AnyOperator,
    xs: _Items,
    vs: _Items,
    bits: Sequence[int],
    by_x: bool,
    *,
    exact: bool,
) -> Spread:
    """Everything the operator so much as takes."""
    kinds_x = [subject(operator, x, is_value=True) for x in xs]
    kinds_v = [subject(operator, v, is_value=False) for v in vs]
    mine, its = (kinds_x, kinds_v) if by_x else (kinds_v, kinds_x)
    totals: dict[object, int] = {}
    for kind, mask in zip(its, bits, strict=True):
        totals[kind] = totals.get(kind, 0) | mask
    return Spread([0 if kind is None else totals.get(kind, 0) for kind in mine], exact)


def _spread_negative(
    operator: AnyOperator,
    xs: _Items,
    vs: _Items,
    bits: Sequence[int],
    by_x: bool,
    ontology: Vocabulary,
    apart: bool,
) -> Spread:
    positive = negate_operator(operator)
    taken = _taken(positive, xs, vs, bits, by_x, exact=False)
    if not apart:
        return taken
    denied = spread(positive, xs, vs, bits, by_x, ontology)
    if not denied.exact:
        return taken
    rows = [row & ~no for row, no in zip(taken.rows, denied.rows, strict=True)]
    return Spread(rows, True)


_LARGER = frozenset({Operator.LT, Operator.LE})
_STRICT = frozenset({Operator.LT, Operator.GT})


def _spread_in_order(
    operator: AnyOperator, xs: _Items, vs: _Items, bits: Sequence[int], by_x: bool
) -> list[int]:
    mine, its = (xs, vs) if by_x else (vs, xs)
    wants_larger = (operator in _LARGER) == by_x
    kinds = [subject(operator, item, is_value=by_x) for item in mine]
    made = [0] * len(mine)
    for kind in {kind for kind in kinds if kind is not None}:
        offered = [
            (cast(Any, item), mask)
            for item, mask in zip(its, bits, strict=True)
            if subject(operator, item, is_value=not by_x) is kind
        ]
        offered.sort(key=lambda pair: pair[0], reverse=wants_larger)
        unions = [0, *accumulate((mask for _, mask in offered), or_)]
        values = [item for item, _ in offered]
        if wants_larger:
            values.reverse()
        for place, item in enumerate(mine):
            if kinds[place] is kind:
                made[place] = unions[_fitting(values, item, wants_larger, operator in _STRICT)]
    return made


def _fitting(values: list[Any], item: Any, wants_larger: bool, strict: bool) -> int:
    """How many of the ascending values are larger than the item, or smaller, or also equal."""
    if wants_larger:
        return len(values) - (bisect_right if strict else bisect_left)(values, item)
    return (bisect_left if strict else bisect_right)(values, item)


# One level down.


def _spread_over_bags(
    operator: AnyOperator,
    xs: _Items,
    vs: _Items,
    bits: Sequence[int],
    by_x: bool,
    ontology: Vocabulary,
    apart: bool,
) -> Spread:
    outer, element = cast(tuple[Operator, AnyOperator], split_bag_operator(operator))
    mine, its = (xs, vs) if by_x else (vs, xs)
    all_mine_served = by_x is not (outer is Operator.SUPER_BAG)
    by_rank = all_mine_served and element in RANKED
    by_size = _bits_by_size(its, bits)
    if by_rank:
        rows = spread_by_rank(element, mine, its, bits, by_x)
    else:
        may = _reach_of_elements(element, mine, its, bits, by_x, ontology)
        reach = ([may[value_key(inner)] for inner in _inner(bag)] for bag in mine)
        if all_mine_served:
            rows = [reduce(and_, each, _EVERY) for each in reach]
        else:
            # The other bag's elements are the ones to serve: an empty one needs nothing.
            rows = [reduce(or_, each, by_size.get(0, 0)) for each in reach]
    sizes = {len(bag) for bag in mine if type(bag) is Bag}
    allowed = {size: _of_fitting_size(outer, size, by_size, by_x) for size in sizes}
    fitting = [
        row & allowed[len(bag)] if type(bag) is Bag else 0
        for row, bag in zip(rows, mine, strict=True)
    ]
    return Spread(fitting, by_rank and apart)


def _inner(item: Operand) -> Sequence[Operand]:
    return item.items if type(item) is Bag else ()


def _reach_of_elements(
    element: AnyOperator,
    mine: _Items,
    its: _Items,
    bits: Sequence[int],
    by_x: bool,
    ontology: Vocabulary,
) -> dict[object, int]:
    """For each inner element of mine the bits of those other bags that hold a partner for it."""
    held: dict[object, int] = {}
    inner: dict[object, Operand] = {}
    for bag, mask in zip(its, bits, strict=True):
        for item in _inner(bag):
            name = value_key(item)
            inner[name] = item
            held[name] = held.get(name, 0) | mask
    own = {value_key(item): item for bag in mine for item in _inner(bag)}
    asking, asked = list(own.values()), list(inner.values())
    left, right = (asking, asked) if by_x else (asked, asking)
    weights = [held[name] for name in inner]
    found = spread(element, left, right, weights, by_x, ontology, apart=False)
    return dict(zip(own, found.rows, strict=True))


def _bits_by_size(items: _Items, bits: Sequence[int]) -> dict[int, int]:
    found: dict[int, int] = {}
    for item, mask in zip(items, bits, strict=True):
        if type(item) is Bag:
            found[len(item)] = found.get(len(item), 0) | mask
    return found


def _of_fitting_size(outer: Operator, size: int, by_size: dict[int, int], by_x: bool) -> int:
    def fits(other: int) -> bool:
        left, right = (size, other) if by_x else (other, size)
        if outer is Operator.EQUAL_BAG:
            return left == right
        return left <= right if outer is Operator.SUB_BAG else left >= right

    return _union(mask for other, mask in by_size.items() if fits(other))
