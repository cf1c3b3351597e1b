"""A preorder over dense ids: who is at or above whom, equivalence cycles folded together.

Subclass, subproperty and sameAs links are all directed graphs over ids whose reflexive-transitive
closure is wanted. The graph is condensed first: ids that reach each other (equivalents) form one
component, numbered so that a component's wider neighbours always have smaller numbers. What is
then stored, as CSR arrays (`starts[i]:starts[i + 1]` is row i of `items`):

    component_of   id -> component
    members        component -> its ids, ascending
    parents        component -> the directly wider components (transitive reduction)
    children       component -> the directly narrower ones
    ancestors      component -> every component at or above it, ascending
    descendants    component -> every component at or below it, ascending

Ancestors are found in one pass in number order, because a component's parents come before it:
its row is the union of its parents' rows and itself. Real hierarchies are wide and shallow (the
Gene Ontology has some 20 ancestors per class), so the rows are small; a hierarchy whose rows would
not fit (a chain of many thousands) is refused by `CLOSURE_MAX`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from kbn.errors import LimitError

Ids = npt.NDArray[np.int32]
Name = TypeVar("Name", bound=Hashable)

CLOSURE_MAX = 100_000_000
"""How many (narrower, wider) pairs a closure may hold: 400 MB of int32."""


@dataclass(frozen=True, eq=False)
class Rows:
    """A ragged table of ids: row `i` is `items[starts[i]:starts[i + 1]]`."""

    starts: npt.NDArray[np.int64]
    items: Ids

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, row: int) -> Ids:
        return self.items[self.starts[row] : self.starts[row + 1]]

    def flipped(self, count: int) -> Rows:
        """The same pairs read the other way: row j lists the rows that hold j, ascending."""
        order = np.argsort(self.items, kind="stable")
        sources = np.repeat(np.arange(len(self), dtype=np.int32), np.diff(self.starts))
        return Rows(_starts(np.bincount(self.items, minlength=count)), sources[order])

    @classmethod
    def of(cls, rows: Iterable[Ids]) -> Rows:
        """Rows from one array each."""
        listed = list(rows)
        sizes = np.fromiter((len(row) for row in listed), dtype=np.int64, count=len(listed))
        items = np.concatenate(listed) if listed else np.empty(0, dtype=np.int32)
        return cls(_starts(sizes), items.astype(np.int32, copy=False))


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """The compiled preorder; see the module's docstring for its tables."""

    component_of: Ids
    members: Rows
    parents: Rows
    children: Rows
    ancestors: Rows
    descendants: Rows

    @cached_property
    def _sizes(self) -> npt.NDArray[np.int64]:
        return np.diff(self.members.starts)

    def __len__(self) -> int:
        return len(self.component_of)

    def is_below(self, one: int, other: int) -> bool:
        """Whether id `one` is at or below id `other`."""
        row = self.ancestors[self.component_of[one]]
        wanted = self.component_of[other]
        place = int(np.searchsorted(row, wanted))
        return place < len(row) and bool(row[place] == wanted)

    def expand(self, components: Ids) -> list[int]:
        """The ids that belong to `components`."""
        starts, sizes = self.members.starts[components], self._sizes[components]
        firsts: list[int] = self.members.items[starts].tolist()
        for component in components[sizes > 1].tolist():
            firsts.extend(self.members[component][1:].tolist())
        return firsts

    def above(self, one: int) -> list[int]:
        """Every id at or above id `one`."""
        return self.expand(self.ancestors[self.component_of[one]])

    def below(self, one: int) -> list[int]:
        """Every id at or below id `one`."""
        return self.expand(self.descendants[self.component_of[one]])

    def alike(self, one: int) -> list[int]:
        """Every id equivalent to id `one`, itself included."""
        return list(self.members[self.component_of[one]].tolist())

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """The tables by name, for the cache."""
        found: dict[str, npt.NDArray[np.generic]] = {"component_of": self.component_of}
        for item in fields(self)[1:]:
            rows: Rows = getattr(self, item.name)
            found[item.name + ".starts"] = rows.starts
            found[item.name + ".items"] = rows.items
        return found

    @classmethod
    def from_arrays(cls, arrays: dict[str, npt.NDArray[np.generic]]) -> Hierarchy:
        """The hierarchy whose `arrays()` these are."""
        rows = {
            item.name: Rows(
                arrays[item.name + ".starts"].astype(np.int64, copy=False),
                arrays[item.name + ".items"].astype(np.int32, copy=False),
            )
            for item in fields(cls)[1:]
        }
        return cls(arrays["component_of"].astype(np.int32, copy=False), **rows)


def compile_hierarchy(count: int, links: Iterable[tuple[int, int]]) -> Hierarchy:
    """The hierarchy over ids `0..count-1` with `links` of (narrower, wider)."""
    pairs = np.array(sorted(set(links)), dtype=np.int32).reshape(-1, 2)
    component_of, total = _components(count, pairs)
    edges = component_of[pairs]
    edges = np.unique(edges[edges[:, 0] != edges[:, 1]], axis=0)
    wider = Rows(_starts(np.bincount(edges[:, 0], minlength=total)), edges[:, 1].copy())
    ancestors = _ancestors(wider)
    parents = _reduced(wider, ancestors)
    order = np.argsort(component_of, kind="stable").astype(np.int32)
    return Hierarchy(
        component_of,
        Rows(_starts(np.bincount(component_of, minlength=total)), order),
        parents,
        parents.flipped(total),
        ancestors,
        ancestors.flipped(total),
    )


def _starts(sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes, dtype=np.int64)])


def _components(count: int, pairs: Ids) -> tuple[Ids, int]:
    """Strongly connected components, renumbered so that wider ones come first."""
    if count == 0:
        return np.empty(0, dtype=np.int32), 0
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    ones = np.ones(len(pairs), dtype=np.int8)
    graph = coo_array((ones, (pairs[:, 0], pairs[:, 1])), shape=(count, count)).tocsr()
    total, labels = connected_components(graph, directed=True, connection="strong")
    edges = labels[pairs]
    rank = _topological_rank(int(total), np.unique(edges[edges[:, 0] != edges[:, 1]], axis=0))
    return rank[labels].astype(np.int32), int(total)


def _topological_rank(total: int, edges: Ids) -> Ids:
    """A number per component, each wider one's smaller (Kahn's algorithm, wave by wave)."""
    narrower = Rows(
        _starts(np.bincount(edges[:, 1], minlength=total)),
        edges[np.argsort(edges[:, 1], kind="stable"), 0].astype(np.int32),
    )
    waiting = np.bincount(edges[:, 0], minlength=total)
    rank = np.empty(total, dtype=np.int32)
    wave = np.flatnonzero(waiting == 0)
    placed = 0
    while len(wave):
        rank[wave] = np.arange(placed, placed + len(wave), dtype=np.int32)
        placed += len(wave)
        touched = np.concatenate([narrower[int(component)] for component in wave])
        np.subtract.at(waiting, touched, 1)
        candidates = np.unique(touched)
        wave = candidates[waiting[candidates] == 0]
    assert placed == total, "the condensation of a graph has no cycle"
    return rank


def _ancestors(wider: Rows) -> Rows:
    rows: list[Ids] = []
    size = 0
    for component in range(len(wider)):
        above = wider[component]
        own = np.array([component], dtype=np.int32)
        if len(above) == 0:
            row = own
        elif len(above) == 1:
            # Its parent's row is sorted and smaller throughout, so no sort is needed.
            row = np.concatenate([rows[above[0]], own])
        else:
            joined = np.concatenate([rows[parent] for parent in above])
            row = np.append(np.unique(joined), own)
        size += len(row)
        if size > CLOSURE_MAX:
            raise LimitError(
                f"the hierarchy's closure has more than {CLOSURE_MAX:,} pairs; "
                "it is too deep to compile",
                limit="CLOSURE_MAX",
                maximum=CLOSURE_MAX,
            )
        rows.append(row)
    return Rows.of(rows)


def _reduced(wider: Rows, ancestors: Rows) -> Rows:
    """`wider` without the links that follow from others."""
    rows: list[Ids] = []
    for component in range(len(wider)):
        above = wider[component]
        if len(above) > 1:
            implied: set[int] = set()
            for parent in above:
                implied.update(ancestors[parent][:-1].tolist())
            kept = [parent for parent in above.tolist() if parent not in implied]
            above = np.array(kept, dtype=np.int32)
        rows.append(above)
    return Rows.of(rows)


def lowest(one: Name, above: Mapping[Name, AbstractSet[Name]]) -> set[Name]:
    """The members of `above[one]` other than itself from which the rest of them follow."""
    rest = set(above[one])
    rest.discard(one)
    for other in sorted(rest, key=lambda name: -len(above[name])):
        if other in rest and one not in above[other]:
            rest -= above[other] - {other}
    return rest
