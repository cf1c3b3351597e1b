"""Inner bags: whether bags inside two bags are related, from one table of their elements.

Under a composite over a composite many pairs of small bags are looked at, and the same elements
turn up in them again and again. So it is worked out once which inner elements are related, and a
pair of inner bags then only looks that up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kbn.filters.assignment import all_served
from kbn.filters.candidates import spread
from kbn.filters.operators import AnyOperator, Negated, Operator, split_bag_operator
from kbn.filters.values import Bag, Operand, value_key
from kbn.filters.vocabulary import Vocabulary

__all__ = ["inner_check"]


def inner_check(
    operator: AnyOperator, xs: Sequence[Operand], vs: Sequence[Operand], ontology: Vocabulary
) -> Callable[[Operand, Operand], bool] | None:
    """A quick way to ask `x operator v` for x among xs and v among vs, if there is one.

    There is for composites, negated or not, over an operator whose pairs are known exactly.
    """
    positive = operator.operator if isinstance(operator, Negated) else operator
    parts = split_bag_operator(positive)
    if parts is None or split_bag_operator(parts[1]) is not None:
        return None
    outer, element = parts
    by_x = outer is not Operator.SUPER_BAG
    served, partners = (xs, vs) if by_x else (vs, xs)
    places, starts = _laid_out(partners)
    mine, theirs = _distinct(served), _distinct(partners)
    left, right = (mine, theirs) if by_x else (theirs, mine)
    bits = [places[name] for name in theirs]
    table = spread(element, [*left.values()], [*right.values()], bits, by_x, ontology)
    if not table.exact:
        return None
    row_of = dict(zip(mine, table.rows, strict=True))
    rows = {bag: [row_of[value_key(item)] for item in _inner(bag)] for bag in served}

    def related(x: Operand, v: Operand) -> bool:
        if type(x) is not Bag or type(v) is not Bag:
            return False
        asking, asked = (x, v) if by_x else (v, x)
        return _sizes_fit(outer, len(x), len(v)) and _served(rows[asking], starts[asked], asked)

    if positive is operator:
        return related
    return lambda x, v: type(x) is Bag and type(v) is Bag and not related(x, v)


def _laid_out(bags: Sequence[Operand]) -> tuple[dict[object, int], dict[Operand, int]]:
    """A place for each element of each bag: the places of equal ones as bits, where bags start."""
    places: dict[object, int] = {}
    starts: dict[Operand, int] = {}
    place = 0
    for bag in bags:
        if bag in starts:
            continue
        starts[bag] = place
        for item in _inner(bag):
            name = value_key(item)
            places[name] = places.get(name, 0) | 1 << place
            place += 1
    return places, starts


def _served(rows: list[int], start: int, partners: Bag) -> bool:
    """Whether each row has a place of its own among those of one bag."""
    its = (1 << len(partners)) - 1
    return all_served([row >> start & its for row in rows], len(partners))


def _sizes_fit(bag: Operator, left: int, right: int) -> bool:
    if bag is Operator.EQUAL_BAG:
        return left == right
    return left <= right if bag is Operator.SUB_BAG else left >= right


def _distinct(bags: Sequence[Operand]) -> dict[object, Operand]:
    return {value_key(item): item for bag in bags for item in _inner(bag)}


def _inner(item: Operand) -> Sequence[Operand]:
    return item.items if type(item) is Bag else ()
