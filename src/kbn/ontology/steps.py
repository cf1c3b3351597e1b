"""Steps: how many direct links of the ontology lie between two terms of one kind.

A step goes from a class to one directly above or below it, from a property likewise, and from an
individual to one that it has a property towards, or that has one towards it. Equivalent terms are
no step apart. `owl:Thing` is no term on the way: what lies under different roots is not connected.

The links are compiled once, as rows over the components of a hierarchy. A search goes from a term
outwards, ring by ring, and looks at each link once at most.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kbn.ontology.hierarchy import Ids, Rows
from kbn.ontology.named_hierarchy import NamedHierarchy

STEPS_MAX = 16
"""How far a subscriber may look."""
FAR = 127
"""Stands for the distance of what is further away, or not connected."""
REMEMBERED_BYTES_MAX = 8 << 20

Distances = npt.NDArray[np.int8]


class Steps:
    """The terms of one kind and the links between them.

    >>> from kbn.data import namespace, path
    >>> from kbn.ontology import Ontology
    >>> classes, of = Ontology.load(path("animals")).steps("class"), namespace("animals")
    >>> classes.to(of + "JackRussell", [of + "Dogs", of + "Cats"], 3)
    [1, 3]
    """

    __slots__ = ("_known", "_links", "_terms")

    def __init__(self, terms: NamedHierarchy, links: Rows) -> None:
        """`links` has for each component of `terms` those one step away, in both directions."""
        self._terms = terms
        self._links = links
        self._known: dict[tuple[int, int], Distances] = {}

    @classmethod
    def in_hierarchy(cls, terms: NamedHierarchy) -> Steps:
        """Among terms that stand above and below each other."""
        return cls(terms, _joined(terms.tree.parents, terms.tree.children))

    @classmethod
    def among_related(cls, terms: NamedHierarchy, towards: Rows) -> Steps:
        """Among terms of which each component is related towards some others."""
        return cls(terms, _joined(towards, towards.flipped(len(towards))))

    def to(self, one: str, others: Sequence[str], most: int) -> list[int | None]:
        """The steps from one term to each of the others; None if there are more than `most`."""
        if all(other == one for other in others):
            return [0] * len(others)
        distances = self.from_term(one, most)
        found: list[int | None] = []
        for other in others:
            end = None if distances is None else self._terms.ids.get(other)
            steps = 0 if other == one else FAR if end is None else int(distances[end])  # type: ignore[index]
            found.append(None if steps == FAR else steps)
        return found

    def from_term(self, one: str, most: int) -> Distances | None:
        """The steps to each id, FAR for more than `most`; None if the term is not known."""
        start = self._terms.component(one)
        if start is None:
            return None
        known = self._known.get((start, most))
        if known is None:
            if len(self._known) * len(self._links) > REMEMBERED_BYTES_MAX:
                self._known.clear()
            known = self._known[start, most] = self._rings(start, most)
        return known[self._terms.tree.component_of]

    def number(self, iri: str) -> int | None:
        """The id of a term."""
        return self._terms.ids.get(iri)

    def __len__(self) -> int:
        return len(self._links)

    def _rings(self, start: int, most: int) -> Distances:
        distances = np.full(len(self._links), FAR, np.int8)
        distances[start] = 0
        ring: Ids = np.array([start], np.int32)
        for step in range(1, min(most, FAR - 1) + 1):
            reached = _rows_of(self._links, ring)
            ring = np.unique(reached[distances[reached] == FAR])
            if not len(ring):
                break
            distances[ring] = step
        return distances


def _joined(one: Rows, other: Rows) -> Rows:
    """The links of both, row by row."""
    sources = np.concatenate([_sources(one), _sources(other)])
    items = np.concatenate([one.items, other.items])
    order = np.argsort(sources, kind="stable")
    return Rows(one.starts + other.starts, items[order])


def _sources(rows: Rows) -> npt.NDArray[np.int64]:
    """The row that each item stands in."""
    return np.repeat(np.arange(len(rows)), np.diff(rows.starts))


def _rows_of(rows: Rows, numbers: Ids) -> Ids:
    """The items of some rows, end to end."""
    starts = rows.starts[numbers]
    sizes = rows.starts[numbers + 1] - starts
    begin = np.cumsum(sizes) - sizes
    places = np.arange(int(sizes.sum())) + np.repeat(starts - begin, sizes)
    found: Ids = rows.items[places]
    return found
