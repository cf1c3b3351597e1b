"""Which elements of two bags an operator relates, found through an index instead of trying all.

A class is below exactly its ancestors, a string starts with exactly its prefixes: looking those up
among the other bag's elements costs what the answer costs. The negative of an operator relates the
rest of the pairs it takes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import TypeAlias

from kbn.filters.operators import AnyOperator, Negated, Operator, negate
from kbn.filters.values import Operand, Relation
from kbn.filters.vocabulary import Vocabulary
from kbn.ontology.terms import Term

__all__ = ["related_pairs"]

_THING = "http://www.w3.org/2002/07/owl#Thing"
_Pairs: TypeAlias = Iterator[tuple[int, int]]
_Items: TypeAlias = Sequence[Operand]


def related_pairs(
    operator: AnyOperator, xs: _Items, vs: _Items, ontology: Vocabulary
) -> _Pairs | None:
    """The positions (i, j) with `xs[i] operator vs[j]`; None when there is no index for it.

    The elements on each side are distinct, and none is a bare term.
    """
    if isinstance(operator, Negated) or operator is Operator.IS_NOT_A:
        positive = related_pairs(negate(operator), xs, vs, ontology)
        return None if positive is None else _others(negate(operator), xs, vs, set(positive))
    if isinstance(operator, Operator) and operator in _INDEXED:
        return _INDEXED[operator](xs, vs, ontology)
    return None


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


_INDEXED: dict[Operator, Callable[[_Items, _Items, Vocabulary], _Pairs]] = {
    Operator.MORE_SPECIFIC: _more_specific,
    Operator.LESS_SPECIFIC: _less_specific,
    Operator.ISA: _isa,
    Operator.ONT_PROP: _ont_prop,
    Operator.PREFIX: _prefix,
    Operator.SUFFIX: _suffix,
    Operator.CONTAINS: _contains,
    Operator.IN: _in,
}


def _others(operator: AnyOperator, xs: _Items, vs: _Items, known: set[tuple[int, int]]) -> _Pairs:
    """The pairs the operator takes and does not relate."""
    for i, x in enumerate(xs):
        for j, v in enumerate(vs):
            if (i, j) not in known and _takes(operator, x, v):
                yield i, j


def _takes(operator: AnyOperator, x: Operand, v: Operand) -> bool:
    if operator is Operator.ISA:
        return _kind(x) == "individual" and _kind(v) == "class"
    if operator is Operator.ONT_PROP:
        return _kind(x) == "individual" and type(v) is Relation
    if operator is Operator.MORE_SPECIFIC or operator is Operator.LESS_SPECIFIC:
        return _kind(x) == _kind(v) and _kind(x) in ("class", "property")
    return type(x) is str and type(v) is str


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
