"""Which elements of two bags an operator relates, found through an index instead of trying all.

A class is below exactly its ancestors, a string starts with exactly its prefixes: looking those up
among the other bag's elements costs what the answer costs.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import accumulate
from typing import Any, TypeAlias, cast

from kbn.filters.nearness import is_range, near_distance, near_range
from kbn.filters.operators import ORDER_OPERATORS, STRING_OPERATORS, AnyOperator, Near, Operator
from kbn.filters.values import Family, Operand, Relation, Value, value_family, value_key
from kbn.filters.vocabulary import Vocabulary
from kbn.ontology import Term

__all__ = ["related_pairs", "subject"]

_THING = "http://www.w3.org/2002/07/owl#Thing"
_Pairs: TypeAlias = Iterator[tuple[int, int]]
_Items: TypeAlias = Sequence[Operand]


def related_pairs(operator: AnyOperator, xs: _Items, vs: _Items, ontology: Vocabulary) -> _Pairs:
    """The positions (i, j) with `xs[i] operator vs[j]`, for a positive plain operator.

    The elements on each side are distinct, and none is or holds a bare term. Order operators,
    negatives and composites have better ways than pairs and are not answered here.
    """
    if isinstance(operator, Near):
        return _near(operator, xs, vs, ontology)
    assert isinstance(operator, Operator)
    return _INDEXED[operator](xs, vs, ontology)


def subject(operator: AnyOperator, item: Operand, *, is_value: bool) -> Hashable:
    """What decides whether the operator takes a value with an operand; None if it never does.

    A value and an operand are taken together exactly when this is the same for both.
    """
    if operator in _OF_INDIVIDUALS:
        if is_value:
            return "individual" if _kind(item) == "individual" else None
        wanted = type(item) is Relation if operator is Operator.ONT_PROP else _kind(item) == "class"
        return "individual" if wanted else None
    if type(item) is Relation:
        return None
    kind = value_family(cast(Value, item))
    if isinstance(operator, Near):
        return kind if kind in _NEAR else None
    return kind if operator is Operator.EQ or kind in _TAKEN.get(operator, _BAGS) else None


_OF_INDIVIDUALS = frozenset({Operator.ISA, Operator.ONT_PROP})
_BAGS = frozenset({Family.BAG})
_TERMS = frozenset({Family.CLASS, Family.PROPERTY, Family.INDIVIDUAL})
_NEAR = _TERMS | {Family.NUMBER, Family.STRING, Family.TIME}
_TAKEN: dict[AnyOperator, frozenset[Family]] = {
    **dict.fromkeys(ORDER_OPERATORS, frozenset({Family.NUMBER, Family.STRING, Family.TIME})),
    **dict.fromkeys(STRING_OPERATORS, frozenset({Family.STRING})),
    **dict.fromkeys(
        (Operator.MORE_SPECIFIC, Operator.LESS_SPECIFIC),
        frozenset({Family.CLASS, Family.PROPERTY}),
    ),
    Operator.EQUIV: _TERMS,
}


def _equal(xs: _Items, vs: _Items, ontology: Vocabulary) -> _Pairs:
    places = {value_key(v): j for j, v in enumerate(vs)}
    for i, x in enumerate(xs):
        j = places.get(value_key(x))
        if j is not None:
            yield i, j


def _equivalent(xs: _Items, vs: _Items, ontology: Vocabulary) -> _Pairs:
    for kind, alike in (
        ("class", ontology.equivalents),
        ("property", ontology.equivalent_properties),
        ("individual", ontology.same_as),
    ):
        wanted = _positions(vs, kind)
        for iri, i in _positions(xs, kind).items() if wanted else ():
            for name in wanted.keys() & alike(iri):
                yield i, wanted[name]


def _more_specific(xs: _Items, vs: _Items, ontology: Vocabulary) -> _Pairs:
    wanted = _positions(vs, "class")
    for iri, i in _positions(xs, "class").items() if wanted else ():
        for name in wanted.keys() & ontology.ancestors(iri):
            yield i, wanted[name]
        # Ontologies leave the class of everything out of their lists of ancestors and types.
        if _THING in wanted and iri != _THING and ontology.is_subclass(iri, _THING):
            yield i, wanted[_THING]
    wanted = _positions(vs, "property")
    for iri, i in _positions(xs, "property").items() if wanted else ():
        for name in wanted.keys() & ontology.property_ancestors(iri):
            yield i, wanted[name]


def _less_specific(xs: _Items, vs: _Items, ontology: Vocabulary) -> _Pairs:
    for j, i in _more_specific(vs, xs, ontology):
        yield i, j


def _isa(xs: _Items, vs: _Items, ontology: Vocabulary) -> _Pairs:
    wanted = _positions(vs, "class")
    for iri, i in _positions(xs, "individual").items():
        for name in wanted.keys() & ontology.types(iri):
            yield i, wanted[name]
        if _THING in wanted and ontology.is_instance(iri, _THING):
            yield i, wanted[_THING]


def _ont_prop(xs: _Items, vs: _Items, ontology: Vocabulary) -> _Pairs:
    by_property: dict[str, dict[str, int]] = defaultdict(dict)
    for j, v in enumerate(vs):
        if type(v) is Relation:
            by_property[v.property.iri][v.individual.iri] = j
    for iri, i in _positions(xs, "individual").items():
        for name, wanted in by_property.items():
            for other in wanted.keys() & ontology.related(iri, name):
                yield i, wanted[other]


def _prefix(xs: _Items, vs: _Items, ontology: Vocabulary) -> _Pairs:
    wanted = _strings(vs)
    lengths = sorted({len(text) for text in wanted})
    for text, i in _strings(xs).items():
        for length in lengths:
            if length > len(text):
                break
            j = wanted.get(text[:length])
            if j is not None:
                yield i, j


def _suffix(xs: _Items, vs: _Items, ontology: Vocabulary) -> _Pairs:
    wanted = _strings(vs)
    lengths = sorted({len(text) for text in wanted})
    for text, i in _strings(xs).items():
        for length in lengths:
            if length > len(text):
                break
            j = wanted.get(text[len(text) - length :])
            if j is not None:
                yield i, j


def _contains(xs: _Items, vs: _Items, ontology: Vocabulary) -> _Pairs:
    """Search one text made of all strings on the left for each string on the right."""
    found = _strings(xs)
    owners = list(found.values())
    everything = "\0".join(found)
    ends = [end - 1 for end in accumulate(len(text) + 1 for text in found)]
    for needle, j in _strings(vs).items():
        at = everything.find(needle)
        while at >= 0 and owners:
            place = bisect_right(ends, at - 1)
            within = at + len(needle) <= ends[place]
            if within:
                yield owners[place], j
            # At most one hit per string counts; a hit across two strings is none.
            at = everything.find(needle, ends[place] + 1 if within else at + 1)


def _in(xs: _Items, vs: _Items, ontology: Vocabulary) -> _Pairs:
    for j, i in _contains(vs, xs, ontology):
        yield i, j


def _near(operator: Near, xs: _Items, vs: _Items, ontology: Vocabulary) -> _Pairs:
    for family in (Family.NUMBER, Family.TIME):
        yield from _near_in_order(operator, _of_family(xs, family), _of_family(vs, family))
    if type(operator.tolerance) is not int:
        return
    most = operator.tolerance
    for text, i in _strings(xs).items():
        for wanted, j in _strings(vs).items():
            if near_distance(text, wanted, most, ontology) is not None:
                yield i, j
    for kind in ("class", "property", "individual"):
        terms = _positions(vs, kind)
        for iri, i in _positions(xs, kind).items() if terms else ():
            steps = ontology.steps_to(kind, iri, list(terms), most)
            for j, found in zip(terms.values(), steps, strict=True):
                if found is not None:
                    yield i, j


def _near_in_order(operator: Near, xs: list[tuple[Any, int]], vs: list[tuple[Any, int]]) -> _Pairs:
    """Numbers, or times: each wanted one is a range of those there are, in order."""
    xs = sorted(xs)
    values = [value for value, _ in xs]
    for wanted, j in vs:
        low, high = near_range(operator, wanted)
        for place in range(bisect_left(values, low), bisect_right(values, high)):
            yield xs[place][1], j


def _of_family(items: _Items, family: Family) -> list[tuple[Any, int]]:
    return [
        (item, place)
        for place, item in enumerate(items)
        if is_range(item) and value_family(cast(Value, item)) is family
    ]


_INDEXED: dict[Operator, Callable[[_Items, _Items, Vocabulary], _Pairs]] = {
    Operator.EQ: _equal,
    Operator.EQUIV: _equivalent,
    Operator.MORE_SPECIFIC: _more_specific,
    Operator.LESS_SPECIFIC: _less_specific,
    Operator.ISA: _isa,
    Operator.ONT_PROP: _ont_prop,
    Operator.PREFIX: _prefix,
    Operator.SUFFIX: _suffix,
    Operator.CONTAINS: _contains,
    Operator.IN: _in,
}


def _kind(item: Operand) -> str | None:
    return item.kind if isinstance(item, Term) else None


def _positions(items: _Items, kind: str) -> dict[str, int]:
    return {
        item.iri: place
        for place, item in enumerate(items)
        if isinstance(item, Term) and item.kind == kind
    }


def _strings(items: _Items) -> dict[str, int]:
    return {item: place for place, item in enumerate(items) if type(item) is str}
