"""Pair arrays: what `element_pairs` finds, for thousands of elements, as arrays.

Terms are looked up by number in the compiled hierarchies of an ontology, texts are searched
together by a kernel. Other operators, and other ontologies, go through `element_pairs`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kbn.filters.element_pairs import related_pairs
from kbn.filters.operators import STRING_OPERATORS, AnyOperator, Operator
from kbn.filters.values import Operand
from kbn.filters.vocabulary import Vocabulary
from kbn.ontology import NOTHING, THING, Class, Ontology, Property, Term

__all__ = ["Patterns", "related_arrays"]

Numbers: TypeAlias = NDArray[np.int64]
Pairs: TypeAlias = tuple[Numbers, Numbers]
_Items: TypeAlias = Sequence[Operand]

PAIRS_MAX = 1 << 22
LISTED_MAX = 1 << 17
"""So many pairs, found by array and found one by one, are too many."""

_HIERARCHIC: tuple[tuple[type[Term], str], ...] = ((Class, "class"), (Property, "property"))


def related_arrays(
    operator: AnyOperator, xs: _Items, vs: _Items, ontology: Vocabulary
) -> Pairs | None:
    """The places (i, j) with `xs[i] operator vs[j]`; it asks for what `related_pairs` asks for.

    None if there are too many.
    """
    if operator is Operator.MORE_SPECIFIC and isinstance(ontology, Ontology):
        return _below(xs, vs, ontology)
    if operator is Operator.LESS_SPECIFIC and isinstance(ontology, Ontology):
        return _swapped(_below(vs, xs, ontology))
    if operator in STRING_OPERATORS:
        return _in_texts(operator, xs, vs)
    return _listed(related_pairs(operator, xs, vs, ontology))


def _listed(pairs: Iterator[tuple[int, int]]) -> Pairs | None:
    found = np.array([*islice(pairs, LISTED_MAX)], np.int64).reshape(-1, 2)
    if found.shape[0] == LISTED_MAX:
        return None
    return np.ascontiguousarray(found[:, 0]), np.ascontiguousarray(found[:, 1])


def _swapped(pairs: Pairs | None) -> Pairs | None:
    return None if pairs is None else (pairs[1], pairs[0])


# Terms.


def _below(xs: _Items, vs: _Items, ontology: Ontology) -> Pairs | None:
    found: list[Pairs] = []
    for kind, name in _HIERARCHIC:
        places, terms = _of_type(xs, kind)
        other_places, wanted = _of_type(vs, kind)
        if not (terms and wanted):
            continue
        iris, others = [term.iri for term in terms], [term.iri for term in wanted]
        if kind is Class and not {THING, NOTHING}.isdisjoint(iris + others):
            # These stand in the order without being listed.
            pairs = _listed(related_pairs(Operator.MORE_SPECIFIC, terms, wanted, ontology))
        else:
            pairs = _below_by_number(iris, others, name, ontology)
        if pairs is None:
            return None
        found.append((places[pairs[0]], other_places[pairs[1]]))
    return _joined(found)


def _below_by_number(
    iris: list[str], others: list[str], kind: str, ontology: Ontology
) -> Pairs | None:
    named = ontology.hierarchy_of(kind)
    tree, number = named.tree, named.ids.get
    mine = np.array([number(iri, -1) for iri in iris], np.int64)
    theirs = np.array([number(iri, -1) for iri in others], np.int64)
    is_known, are_known = np.flatnonzero(mine >= 0), np.flatnonzero(theirs >= 0)
    components = tree.component_of[mine[is_known]].astype(np.int64)
    wanted = tree.component_of[theirs[are_known]].astype(np.int64)
    starts, sizes = _runs(tree.ancestors.starts, components)
    if sizes.sum() > PAIRS_MAX:
        return None
    above = tree.ancestors.items[_within(starts, sizes)].astype(np.int64)
    asking = np.repeat(is_known, sizes)
    # Several of those that are wanted may be one component: equivalents.
    order = np.argsort(wanted, kind="stable")
    held = np.zeros(len(tree.ancestors) + 1, np.int64)
    held[1:] = np.cumsum(np.bincount(wanted, minlength=len(tree.ancestors)))
    starts, sizes = _runs(held, above)
    if sizes.sum() > PAIRS_MAX:
        return None
    pairs = (np.repeat(asking, sizes), are_known[order[_within(starts, sizes)]])
    if is_known.shape[0] == len(iris) or are_known.shape[0] == len(others):
        return pairs
    places = {others[place]: place for place in np.flatnonzero(theirs < 0).tolist()}
    alike = [
        (place, places[iris[place]])
        for place in np.flatnonzero(mine < 0).tolist()
        if iris[place] in places
    ]
    unknown = np.array(alike, np.int64).reshape(-1, 2)
    return _joined([pairs, (unknown[:, 0], unknown[:, 1])])


def _runs(starts: Numbers, rows: Numbers) -> Pairs:
    return starts[rows], starts[rows + 1] - starts[rows]


def _within(starts: Numbers, sizes: Numbers) -> Numbers:
    """The places of runs one after another: each run's begin at its start."""
    before = np.cumsum(sizes) - sizes
    return np.repeat(starts - before, sizes) + np.arange(int(sizes.sum()))


def _joined(pairs: list[Pairs]) -> Pairs:
    if len(pairs) == 1:
        return pairs[0]
    none = np.zeros(0, np.int64)
    return (
        np.concatenate([none, *(left for left, _ in pairs)]),
        np.concatenate([none, *(right for _, right in pairs)]),
    )


def _of_type(items: _Items, kind: type) -> tuple[Numbers, list[Any]]:
    """The items of a type, and their places."""
    if set(map(type, items)) == {kind}:
        return np.arange(len(items)), [*items]
    places = [place for place, item in enumerate(items) if type(item) is kind]
    return np.array(places, np.int64), [items[place] for place in places]


# Texts.


class Patterns:
    """Distinct patterns, ready to be looked for in many texts.

    >>> Patterns(["tea", "a", "x"], anywhere=True).found_in(*utf8(["a pot of tea"]))
    (array([0, 0]), array([1, 0]))
    """

    def __init__(self, patterns: Sequence[str], *, anywhere: bool, backwards: bool = False) -> None:
        from kbn.filters.kernels import texts

        encoded = [text.encode() for text in patterns]
        if backwards:
            encoded = [text[::-1] for text in encoded]
        self._anywhere = anywhere
        self._backwards = backwards
        self._order = np.array(sorted(range(len(encoded)), key=encoded.__getitem__), np.int64)
        ordered = [encoded[place] for place in self._order.tolist()]
        self._starts = _ends([len(text) for text in ordered])
        self._bytes = _as_array(b"".join(ordered))
        self._firsts = texts.first_places(self._bytes, self._starts)

    def found_in(
        self, texts: NDArray[np.uint8], bounds: Numbers, most: int = PAIRS_MAX
    ) -> Pairs | None:
        """Which texts have which patterns, as places; None if these are more than `most` pairs."""
        from kbn.filters.kernels import texts as kernels

        if self._backwards:
            end = texts.shape[0]
            texts, bounds = texts[::-1].copy(), end - bounds[::-1]
        room = np.empty(max(1024, 2 * bounds.shape[0]), np.int64)
        holders, found, count = kernels.find(
            texts, bounds, self._bytes, self._starts, self._firsts, self._anywhere,
            most, room, np.empty_like(room),
        )  # fmt: skip
        if count > most:
            return None
        holders = holders[:count]
        if self._backwards:
            holders = bounds.shape[0] - 2 - holders
        return holders, self._order[found[:count]]


def utf8(texts: Sequence[str]) -> tuple[NDArray[np.uint8], Numbers]:
    """Texts one after another, and where each begins and ends."""
    whole = "".join(texts)
    sizes = [*map(len, texts if whole.isascii() else [text.encode() for text in texts])]
    return _as_array(whole.encode()), _ends(sizes)


def _as_array(text: bytes) -> NDArray[np.uint8]:
    # A copy: kernels are compiled for arrays that can be written.
    return np.frombuffer(text, np.uint8).copy()


def _ends(sizes: list[int]) -> Numbers:
    ends = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(np.array(sizes, np.int64), out=ends[1:])
    return ends


_IS_PART: dict[AnyOperator, tuple[bool, bool]] = {
    Operator.PREFIX: (False, False),
    Operator.SUFFIX: (False, True),
    Operator.CONTAINS: (True, False),
}


def _in_texts(operator: AnyOperator, xs: _Items, vs: _Items) -> Pairs | None:
    if operator is Operator.IN:
        return _swapped(_in_texts(Operator.CONTAINS, vs, xs))
    places, texts = _of_type(xs, str)
    pattern_places, patterns = _of_type(vs, str)
    if not (texts and patterns):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    anywhere, backwards = _IS_PART[operator]
    wanted = Patterns(patterns, anywhere=anywhere, backwards=backwards)
    found = wanted.found_in(*utf8(texts))
    return None if found is None else (places[found[0]], pattern_places[found[1]])
