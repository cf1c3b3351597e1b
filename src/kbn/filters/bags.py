"""Bags: `P #</λ Q`, `P #>/λ Q` and `P #=/λ Q` by counting, sorting or matching.

Each asks for an injection: the smaller side is *served*, each of its elements needs a *partner* of
its own on the other side, and the pair must be related by λ (always p λ q, with p from the
notification's bag, whichever side is served). The general answer is bipartite matching, see
`assignment`; three kinds of λ need less.

- `=` and `@~` split the elements into classes; enough partners of each class is all it takes.
- `!=` and `@!~` relate everything but the own class, so by Hall's condition it suffices that each
  class has enough partners outside itself, and all together have enough.
- `<` `<=` `>` `>=`: whoever is hardest to serve takes the best partner; sorting decides.

For the other plain operators the pairs are found through an index (the ancestors of a class, the
prefixes of a string) instead of trying all. Only a nested composite, or a bag with a bare term in
it, is tried pair by pair, and then every pair of distinct elements at most once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeAlias, cast

from kbn.filters.assignment import all_served
from kbn.filters.element_pairs import related_pairs
from kbn.filters.operators import ORDER_OPERATORS, AnyOperator, Operator
from kbn.filters.values import Bag, Family, Operand, Relation, Value, family, key
from kbn.filters.vocabulary import Vocabulary, settled
from kbn.ontology.terms import Term

__all__ = ["Compare", "all_partnered", "bags_related", "settled_bag"]

Compare: TypeAlias = Callable[[AnyOperator, Operand, Operand, Vocabulary], bool]
_Classify: TypeAlias = Callable[[Operand], tuple[Hashable, Hashable] | None]


def bags_related(
    bag: Operator, element: AnyOperator, x: Bag, v: Bag, ontology: Vocabulary, compare: Compare
) -> bool:
    """Whether the notification's bag x is so related to the operand v, elements by `element`."""
    inward = bag is Operator.SUPER_BAG  # the operand's elements are the ones to serve
    served, partners = (v, x) if inward else (x, v)
    if len(served) > len(partners) or (bag is Operator.EQUAL_BAG and len(x) != len(v)):
        return False
    if not served.items or element is Operator.EXISTS:
        return True
    if x.bare or v.bare:
        served, partners = settled_bag(served, ontology), settled_bag(partners, ontology)
        if served.bare or partners.bare:
            return _tried_by_pair(element, served, partners, inward, ontology, compare)
    return _decided(element, served, partners, inward, ontology, compare)


def settled_bag(bag: Bag, ontology: Vocabulary) -> Bag:
    """The bag with each bare term inside given its kind, where the ontology knows exactly one."""
    if not bag.bare:
        return bag
    return Bag.of(
        settled_bag(item, ontology) if type(item) is Bag else settled(item, ontology)
        for item in bag.items
    )


def all_partnered(
    served: Sequence[Operand], partners: Sequence[Operand], fits: Callable[[Any, Any], bool]
) -> bool:
    """Whether each served element can have a partner of its own with fits(served, partner).

    `fits` must depend on the elements' values alone; it is asked about each distinct pair once.
    """
    if len(served) > len(partners):
        return False
    groups, masks = _grouped(served), _masks(partners)
    distinct: list[tuple[Operand, int]] = [(part, masks[key(part)]) for part in _first(partners)]
    fits = _asked_once(fits)
    if _first_come_first_served(groups, distinct, fits):
        return True
    rows: list[int] = []
    for item, count in groups:
        row = sum(mask for partner, mask in distinct if fits(item, partner))
        if not row:
            return False
        rows.extend([row] * count)
    return all_served(rows, len(partners))


def _decided(
    element: AnyOperator,
    served: Bag,
    partners: Bag,
    inward: bool,
    ontology: Vocabulary,
    compare: Compare,
) -> bool:
    if element is Operator.EQ:
        offered = partners.counts()
        return all(offered.get(name, 0) >= count for name, count in served.counts().items())
    if element is Operator.EQUAL_BAG:
        return _same_class(served, partners, _by_equal_bag)
    if element is Operator.NE:
        return _other_class(served, partners, _by_value)
    if element is Operator.EQUIV:
        return _same_class(served, partners, _by_equivalence(ontology))
    if element is Operator.NOT_EQUIV:
        return _other_class(served, partners, _by_equivalence(ontology))
    if element in ORDER_OPERATORS:
        assert isinstance(element, Operator)
        return _sorted_out(element, served, partners, inward)
    return _matched(element, served, partners, inward, ontology, compare)


# Counting.


def _by_value(item: Operand) -> tuple[Hashable, Hashable] | None:
    return None if type(item) is Relation else (family(cast(Value, item)), key(item))


def _by_equal_bag(item: Operand) -> tuple[Hashable, Hashable] | None:
    return (Family.BAG, item) if type(item) is Bag else None


def _by_equivalence(ontology: Vocabulary) -> _Classify:
    spokesmen: dict[Term, str] = {}

    def classify(item: Operand) -> tuple[Hashable, Hashable] | None:
        if not isinstance(item, Term):
            return None
        if item not in spokesmen:
            spokesmen[item] = min(_equivalent_iris(item, ontology))
        return item.kind, spokesmen[item]

    return classify


def _equivalent_iris(term: Term, ontology: Vocabulary) -> Iterable[str]:
    if term.kind == "class":
        return ontology.equivalents(term.iri)
    if term.kind == "property":
        return ontology.equivalent_properties(term.iri)
    return ontology.same_as(term.iri)


def _same_class(served: Bag, partners: Bag, classify: _Classify) -> bool:
    needed, offered = Counter(map(classify, served)), Counter(map(classify, partners))
    return None not in needed and all(offered[name] >= n for name, n in needed.items())


def _other_class(served: Bag, partners: Bag, classify: _Classify) -> bool:
    needed, offered = Counter(map(classify, served)), Counter(map(classify, partners))
    if None in needed:
        return False
    needed_in, offered_in = _by_group(needed), _by_group(offered)
    if any(offered_in[group] < n for group, n in needed_in.items()):
        return False
    return all(offered_in[name[0]] - offered[name] >= n for name, n in needed.items() if name)


def _by_group(counts: Counter[tuple[Hashable, Hashable] | None]) -> Counter[Hashable]:
    totals: Counter[Hashable] = Counter()
    for name, count in counts.items():
        if name is not None:
            totals[name[0]] += count
    return totals


# Sorting.

_SWAPPED = {
    Operator.LT: Operator.GT,
    Operator.GT: Operator.LT,
    Operator.LE: Operator.GE,
    Operator.GE: Operator.LE,
}


def _sorted_out(element: Operator, served: Bag, partners: Bag, inward: bool) -> bool:
    """Pair off family by family: the i-th largest with the i-th largest, or smallest likewise."""
    if inward:
        element = _SWAPPED[element]
    wants_larger = element in (Operator.LT, Operator.LE)
    strict = element in (Operator.LT, Operator.GT)
    offered = _ordered_families(partners)
    for kind, items in _ordered_families(served).items():
        choices = offered.get(kind, [])
        if kind is None or len(items) > len(choices):
            return False
        items.sort(reverse=wants_larger)
        choices.sort(reverse=wants_larger)
        lower, upper = (items, choices) if wants_larger else (choices, items)
        pairs = zip(lower, upper, strict=False)
        if not all(low < high if strict else low <= high for low, high in pairs):
            return False
    return True


def _ordered_families(bag: Bag) -> dict[Family | None, list[Any]]:
    found: dict[Family | None, list[Any]] = defaultdict(list)
    for item in bag:
        kind = None if type(item) is Relation else family(cast(Value, item))
        ordered = kind in (Family.NUMBER, Family.STRING, Family.TIME)
        found[kind if ordered else None].append(item)
    return found


# Matching.


def _matched(
    element: AnyOperator,
    served: Bag,
    partners: Bag,
    inward: bool,
    ontology: Vocabulary,
    compare: Compare,
) -> bool:
    groups, masks = _grouped(served), _masks(partners)
    distinct = _first(partners)
    items = [item for item, _ in groups]
    pairs = related_pairs(element, *((distinct, items) if inward else (items, distinct)), ontology)
    if pairs is None:
        return _tried_by_pair(element, served, partners, inward, ontology, compare)
    rows = [0] * len(groups)
    bits = [masks[key(item)] for item in distinct]
    for left, right in pairs:
        mine, theirs = (right, left) if inward else (left, right)
        rows[mine] |= bits[theirs]
    if not all(rows):
        return False
    repeated = [row for row, (_, count) in zip(rows, groups, strict=True) for _ in range(count)]
    return all_served(repeated, len(partners))


def _tried_by_pair(
    element: AnyOperator,
    served: Bag,
    partners: Bag,
    inward: bool,
    ontology: Vocabulary,
    compare: Compare,
) -> bool:
    def fits(mine: Operand, theirs: Operand) -> bool:
        x, v = (theirs, mine) if inward else (mine, theirs)
        return compare(element, x, v, ontology)

    return all_partnered(served.items, partners.items, fits)


def _asked_once(fits: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    answers: dict[tuple[int, int], bool] = {}

    def remembered(mine: Operand, theirs: Operand) -> bool:
        pair = (id(mine), id(theirs))  # the callers hold one object for each distinct element
        if pair not in answers:
            answers[pair] = fits(mine, theirs)
        return answers[pair]

    return remembered


def _first_come_first_served(
    groups: list[tuple[Operand, int]],
    distinct: list[tuple[Operand, int]],
    fits: Callable[[Any, Any], bool],
) -> bool:
    """Try the obvious: small bags to small bags. False means only that it did not work out."""
    left = [[item, mask.bit_count()] for item, mask in sorted(distinct, key=_by_size)]
    for item, count in sorted(groups, key=_by_size):
        for place in left:
            if place[1] and fits(item, place[0]):
                taken = min(count, cast(int, place[1]))
                place[1] -= taken  # type: ignore[operator]
                count -= taken
                if not count:
                    break
        if count:
            return False
    return True


def _by_size(pair: tuple[Operand, int]) -> int:
    return len(pair[0]) if type(pair[0]) is Bag else 0


def _grouped(items: Iterable[Operand]) -> list[tuple[Operand, int]]:
    """The distinct elements and how often each occurs."""
    items = list(items)
    counts = Counter(map(key, items))
    return [(item, counts[key(item)]) for item in _first(items)]


def _first(items: Iterable[Operand]) -> list[Operand]:
    return list({key(item): item for item in items}.values())


def _masks(items: Iterable[Operand]) -> dict[object, int]:
    """For each distinct element the bits of its copies."""
    masks: dict[object, int] = {}
    start = 0
    for name, count in Counter(map(key, items)).items():
        masks[name] = ((1 << count) - 1) << start
        start += count
    return masks
