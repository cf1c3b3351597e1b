"""Bags: `P #</λ Q`, `P #>/λ Q` and `P #=/λ Q` by counting, sorting or matching.

Each asks for an injection: the smaller side is *served*, each of its elements needs a *partner* of
its own on the other side, and the pair must be related by λ (always p λ q, with p from the
notification's bag, whichever side is served). The general answer is bipartite matching, see
`assignment`; three kinds of λ need less.

- `=` and `@~` split the elements into classes; enough partners of each class is all it takes.
- `!=` and `@!~` relate everything but the own class, so by Hall's condition it suffices that each
  class has enough partners outside itself, and all together have enough.
- `<` `<=` `>` `>=`: whoever is hardest to serve takes the best partner; sorting decides.

For the rest, `candidates` finds through indexes who may partner whom, which for a nested composite
can be too many; a pair that matching wants to use is then looked at first. Only a bag with a bare
term in it starts with every pair as a candidate.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeAlias, cast

from kbn.filters.assignment import all_served
from kbn.filters.candidates import Bits, Spread, spread, transposed
from kbn.filters.inner_bags import inner_check
from kbn.filters.operators import (
    ORDER_OPERATORS,
    AnyOperator,
    Negated,
    Operator,
    split_bag_operator,
)
from kbn.filters.values import Bag, Family, Operand, Relation, Value, value_family, value_key
from kbn.filters.vocabulary import Vocabulary, expanded, may_have_prefix, with_known_kind
from kbn.ontology import Term

__all__ = ["Compare", "all_partnered", "bag_with_known_kinds", "bags_related"]

Compare: TypeAlias = Callable[[AnyOperator, Operand, Operand, Vocabulary], bool]
_Related: TypeAlias = Callable[[Operand, Operand], bool]
_Classify: TypeAlias = Callable[[Operand], tuple[Hashable, Hashable] | None]

MANY_PAIRS = 400
"""Fewer pairs of inner bags are sooner tried one by one than by rows."""


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
    if x.bare or v.bare or x.prefixed or v.prefixed:
        served, partners = (
            bag_with_known_kinds(served, ontology),
            bag_with_known_kinds(partners, ontology),
        )
        if served.bare or partners.bare:
            return _tried_by_pair(element, served, partners, inward, ontology, compare)
    return _decided(element, served, partners, inward, ontology, compare)


def bag_with_known_kinds(bag: Bag, ontology: Vocabulary) -> Bag:
    """The bag with each term inside as the ontology reads it (see `with_known_kind`).

    >>> from kbn.filters.vocabulary import NO_ONTOLOGY
    >>> bag_with_known_kinds(Bag("tea"), NO_ONTOLOGY)
    Bag('tea')
    """
    if not (bag.bare or (bag.prefixed and _has_known_prefix(bag, ontology))):
        return bag
    return Bag.of(operand_with_known_kinds(item, ontology) for item in bag.items)


def _has_known_prefix(bag: Bag, ontology: Vocabulary) -> bool:
    """Whether some term in the bag may be written with a prefix that the ontology knows."""
    prefixes: set[str] = set()
    bags = [bag]
    while bags:
        for item in bags.pop().items:
            if isinstance(item, Term):
                prefixes.add(item.iri.partition(":")[0])
            elif type(item) is Bag:
                bags.append(item)
            elif type(item) is Relation:
                terms = (item.property, item.individual)
                prefixes.update(term.iri.partition(":")[0] for term in terms)
    # No term has such a name, so its prefix is expanded if it is known.
    names = (f"{prefix}:\0" for prefix in prefixes)
    return any(ontology.full_iri(name) != name for name in names)


def operand_with_known_kinds(operand: Operand, ontology: Vocabulary) -> Operand:
    """`bag_with_known_kinds` of a bag, `with_known_kind` of anything else."""
    if type(operand) is Bag:
        return bag_with_known_kinds(operand, ontology)
    if type(operand) is Relation:
        return relation_with_known_terms(operand, ontology)
    return with_known_kind(operand, ontology)


def relation_with_known_terms(relation: Relation, ontology: Vocabulary) -> Relation:
    """The relation with the prefixes of its terms expanded."""
    name, individual = relation.property, relation.individual
    if not (may_have_prefix(name) or may_have_prefix(individual)):
        return relation
    return Relation(expanded(name, ontology), expanded(individual, ontology))


def all_partnered(
    served: Sequence[Operand], partners: Sequence[Operand], fits: Callable[[Any, Any], bool]
) -> bool:
    """Whether each served element can have a partner of its own with fits(served, partner).

    `fits` must depend on the elements' values alone; it is asked about a distinct pair once at
    most, and only about pairs that matter.
    """
    everyone = (1 << len(partners)) - 1
    partners = sorted(partners, key=_size)
    return all_served([everyone] * len(served), len(partners), _asked_once(served, partners, fits))


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
    return None if type(item) is Relation else (value_family(cast(Value, item)), value_key(item))


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
        kind = None if type(item) is Relation else value_family(cast(Value, item))
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
    if len(served) * len(partners) >= MANY_PAIRS and _is_over_bags(element):
        from kbn.filters.inner_rows import all_inner_served

        by_x = not inward
        both = (served.items, partners.items) if by_x else (partners.items, served.items)
        answer = all_inner_served(element, *both, by_x, ontology)
        if answer is not None:
            return answer
    mine, theirs = served.items, sorted(partners.items, key=_size)
    found = _candidates(element, mine, theirs, inward, ontology)
    if found.exact:
        return all_served(found.rows, len(theirs))
    if not all(found.rows):
        return False
    xs, vs = (theirs, mine) if inward else (mine, theirs)
    quick = inner_check(element, xs, vs, ontology)
    fits = _oriented(quick or _fixed(element, ontology, compare), inward)
    return all_served(found.rows, len(theirs), _asked_once(mine, theirs, fits))


def _is_over_bags(element: AnyOperator) -> bool:
    positive = element.operator if isinstance(element, Negated) else element
    return split_bag_operator(positive) is not None


def _candidates(
    element: AnyOperator,
    mine: Sequence[Operand],
    theirs: Sequence[Operand],
    inward: bool,
    ontology: Vocabulary,
) -> Spread:
    """Who may partner whom, as rows for the served side."""
    xs, vs = (theirs, mine) if inward else (mine, theirs)
    parts = split_bag_operator(element.operator if isinstance(element, Negated) else element)
    easy_by_x = parts is None or parts[0] is not Operator.SUPER_BAG
    if parts is None or easy_by_x is not inward:
        return spread(element, xs, vs, Bits(len(theirs)), not inward, ontology)
    # A composite narrows candidates best from the side whose inner elements are to be served.
    columns = spread(element, xs, vs, Bits(len(mine)), inward, ontology)
    return Spread(transposed(columns.rows, len(mine)), columns.exact)


def _tried_by_pair(
    element: AnyOperator,
    served: Bag,
    partners: Bag,
    inward: bool,
    ontology: Vocabulary,
    compare: Compare,
) -> bool:
    fits = _oriented(_fixed(element, ontology, compare), inward)
    return all_partnered(served.items, partners.items, fits)


def _fixed(element: AnyOperator, ontology: Vocabulary, compare: Compare) -> _Related:
    return lambda x, v: compare(element, x, v, ontology)


def _oriented(related: _Related, inward: bool) -> _Related:
    """The same question with the served element first."""
    return (lambda mine, theirs: related(theirs, mine)) if inward else related


def _asked_once(
    served: Sequence[Operand], partners: Sequence[Operand], fits: Callable[[Any, Any], bool]
) -> Callable[[int, int], bool]:
    """The same question by position, answered from memory for equal elements."""
    mine, theirs = _numbered(served), _numbered(partners)
    width = len(partners)
    answers: dict[int, bool] = {}

    def certain(row: int, partner: int) -> bool:
        pair = mine[row] * width + theirs[partner]
        known = answers.get(pair)
        if known is None:
            known = answers[pair] = fits(served[row], partners[partner])
        return known

    return certain


def _numbered(items: Sequence[Operand]) -> list[int]:
    """A number for each element, the same for equal ones."""
    numbers: dict[object, int] = {}
    return [numbers.setdefault(value_key(item), len(numbers)) for item in items]


def _size(item: Operand) -> int:
    return len(item) if type(item) is Bag else 0
