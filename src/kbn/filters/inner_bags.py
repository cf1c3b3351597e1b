"""Inner bags: whether bags inside two bags are related, from one table of their elements.

Under a composite over a composite many pairs of small bags are looked at, and the same elements
turn up in them again and again. So it is worked out once which inner elements are related, and a
pair of inner bags then only looks that up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kbn.filters.assignment import all_served
from kbn.filters.candidates import spread
from kbn.filters.operators import AnyOperator, Operator, split_bag_operator
from kbn.filters.values import Bag, Operand, value_key
from kbn.filters.vocabulary import Vocabulary

__all__ = ["inner_check"]


def inner_check(
    operator: AnyOperator, xs: Sequence[Operand], vs: Sequence[Operand], ontology: Vocabulary
) -> Callable[[Operand, Operand], bool] | None:
    """A quick way to ask `x operator v` for x among xs and v among vs, if there is one.

    There is for composites (not negated) over an operator whose pairs are known exactly.
    """
    parts = split_bag_operator(operator)
    if parts is None or split_bag_operator(parts[1]) is not None:
        return None
    left, right = _inner(xs), _inner(vs)
    bits = [1 << place for place in range(len(right))]
    table = spread(parts[1], list(left.values()), list(right.values()), bits, True, ontology)
    if not table.exact:
        return None
    rows = _looked_up(xs, dict(zip(left, table.rows, strict=True)))
    wanted = _looked_up(vs, dict(zip(right, bits, strict=True)))
    return _by_table(parts[0], rows, wanted)


def _looked_up(bags: Sequence[Operand], table: dict[object, int]) -> dict[Operand, list[int]]:
    """For each inner bag what the table says of its elements."""
    return {bag: [table[value_key(item)] for item in bag.items] for bag in bags if type(bag) is Bag}


def _by_table(
    bag: Operator, rows: dict[Operand, list[int]], wanted: dict[Operand, list[int]]
) -> Callable[[Operand, Operand], bool]:
    def related(x: Operand, v: Operand) -> bool:
        if type(x) is not Bag or type(v) is not Bag or not _sizes_fit(bag, len(x), len(v)):
            return False
        served, offered = rows[x], wanted[v]
        if bag is Operator.SUPER_BAG:
            served, offered = offered, served
        return all_served([_row(mine, offered) for mine in served], len(offered))

    return related


def _sizes_fit(bag: Operator, left: int, right: int) -> bool:
    if bag is Operator.EQUAL_BAG:
        return left == right
    return left <= right if bag is Operator.SUB_BAG else left >= right


def _row(mine: int, offered: list[int]) -> int:
    """The places of those offered that share a bit with mine."""
    row, place = 0, 1
    for bits in offered:
        if mine & bits:
            row |= place
        place <<= 1
    return row


def _inner(bags: Sequence[Operand]) -> dict[object, Operand]:
    return {value_key(item): item for bag in bags if type(bag) is Bag for item in bag.items}
