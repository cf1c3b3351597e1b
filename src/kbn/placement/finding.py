"""Finding medoids: the node of a graph that is nearest to all members of a set, for many sets.

The distances from all candidates to the terms that the sets name are put in a table; `choose` then
sums rows of it. There are two ways to fill it, and both search from 64 nodes at a time:

- by term: backwards from each term to all candidates. What was found is remembered, so later sets
  that name the same terms cost no search. This needs room for as many rows as there are terms.
- by candidate: when there is no such room, forwards from some candidates to all terms; the sets go
  over these columns, and then the next candidates take their place.

Candidates are the nodes of the core, and the pendants among a set's own members: any other pendant
is farther from everything than its hub is (see `graph.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kbn.errors import LimitError
from kbn.placement.graph import NO_WAY, Edges, Graph, Ids, Numbers
from kbn.placement.kernels.choosing import BLOCK, SPAN, Best, Sets, choose, floors_of
from kbn.placement.kernels.searching import WIDTH, search
from kbn.placement.medoid import spread

ROOM_BYTES = 128 * 2**20
"""How much memory the remembered distances may take."""
COLUMNS = 16 * WIDTH
"""How many candidates at a time, when distances are not remembered."""

Table = npt.NDArray[np.unsignedinteger]


@dataclass(frozen=True, eq=False)
class Found:
    """Per set: its medoid's node (-1: none), the distances it sums up, and how many these are."""

    node: Numbers
    cost: Numbers
    squares: Numbers
    terms: Numbers
    reached: Numbers

    def spread(self, one: int) -> float:
        """The population standard deviation of set `one`'s distances."""
        return spread(int(self.reached[one]), int(self.cost[one]), int(self.squares[one]))


class Rows(NamedTuple):
    """Distances to some core nodes: `table[rows[i], c]` is that from core node c to the i-th.

    `far` in the table means that there is no way.
    """

    table: Table
    rows: Ids
    far: int


class MedoidFinder:
    """Finds medoids on one graph; remembers distances from one call to the next."""

    def __init__(self, graph: Graph, room_bytes: int = ROOM_BYTES) -> None:
        self.graph = graph
        self._room_bytes = room_bytes
        self._use(np.uint16)

    def find(self, sets: int, of_set: Numbers, nodes: Numbers, times: Numbers) -> Found:
        """The medoids of `sets` query sets, to which mention i adds a node, so many times."""
        if len(nodes) == 0:
            none = np.zeros(sets, dtype=np.int64)
            return Found(none - 1, none, none, none, none)
        try:
            return self._find(sets, of_set, nodes, times)
        except _TooFar:
            self._use(np.uint32)  # These hold what any ontology has.
            return self._find(sets, of_set, nodes, times)

    def distances_to(self, hubs: Ids) -> Rows:
        """The distances from the core to `hubs`, core nodes, at most WIDTH of them.

        To be used before the finder is asked again. What is not remembered costs a search.
        """
        try:
            return self._distances_to(hubs)
        except _TooFar:
            self._use(np.uint32)
            return self._distances_to(hubs)

    def _distances_to(self, hubs: Ids) -> Rows:
        rows = self._row_of[hubs]
        if rows.min() >= 0:
            return Rows(self._table, rows, self._far)
        distinct, which = np.unique(hubs, return_inverse=True)
        if len(distinct) <= self._capacity:
            self._remember(distinct)
            return Rows(self._table, self._row_of[hubs], self._far)
        found = self._search(self.graph.backward, distinct)[:, : len(distinct)]
        return Rows(np.ascontiguousarray(found.T), which.astype(np.int32), self._far)

    def between(self, starts: Numbers, ends: Numbers) -> Numbers:
        """The distances from the nodes `starts`, a row each, to the nodes `ends`; or NO_WAY."""
        graph = self.graph
        columns = graph.hub[starts]
        found = np.empty((len(starts), len(ends)), dtype=np.int64)
        for first in range(0, len(ends), WIDTH):
            some = ends[first : first + WIDTH]
            table, rows, far = self.distances_to(graph.hub[some])
            inner = table[rows[None, :], columns[:, None]].astype(np.int64)
            whole = graph.to_hub[starts, None] + inner + graph.from_hub[None, some]
            no_way = (inner == far) | (graph.to_hub[starts, None] < 0)
            found[:, first : first + WIDTH] = np.where(no_way, NO_WAY, whole * graph.unit)
        found[starts[:, None] == ends[None, :]] = 0
        return found

    def require_room_for(self, terms: int) -> None:
        """Raise LimitError when sums over so many terms may not fit the numbers that hold them."""
        _more_than_any_cost(terms, self._farthest)

    def _use(self, dtype: type[np.unsignedinteger]) -> None:
        """Forget what is remembered, and hold distances as such numbers from now on."""
        core = len(self.graph.core)
        self._far = int(np.iinfo(dtype).max)
        # No distance is longer, as long as those of the core fit these numbers.
        self._farthest = min(self._far - 1, self.graph.distance_max) + self.graph.detour_max
        self._dtype = dtype
        self._capacity = min(core, self._room_bytes // max(1, core * np.dtype(dtype).itemsize))
        self._table: Table = np.empty((self._capacity, core), dtype=dtype)
        self._floors: Table = np.empty((self._capacity, _blocks(self._table)), dtype=dtype)
        self._forget()

    def _forget(self) -> None:
        self._row_of = np.full(len(self.graph.core), -1, dtype=np.int32)
        self._used = 0

    def _find(self, sets: int, of_set: Numbers, nodes: Numbers, times: Numbers) -> Found:
        entries = _entries(sets, of_set, nodes, times, self.graph)
        terms = np.bincount(of_set, weights=times, minlength=sets).astype(np.int64)
        missed = _more_than_any_cost(int(terms.max()), self._farthest)
        largest = int(terms.max()) * missed
        sums = np.zeros(SPAN, dtype=np.int32 if largest < 2**31 else np.int64)
        best = Best(
            key=np.full(sets, np.iinfo(np.int64).max),
            squares=np.zeros(sets, dtype=np.int64),
            member=np.zeros(sets, dtype=np.bool_),
            node=np.full(sets, -1, dtype=np.int64),
        )
        hubs = np.unique(entries.hub)
        for first, table, floors, rows in self._tables(hubs):
            chosen = entries._replace(row=rows[entries.hub])
            choose(table, floors, self._far, first, self.graph.core, chosen, missed, sums, best)
        found = best.node >= 0
        key = np.where(found, best.key, 0)
        unit = self.graph.unit
        reached = np.where(found, terms - key // missed, 0)
        return Found(best.node, key % missed * unit, best.squares * unit**2, terms, reached)

    def _tables(self, hubs: Ids) -> Iterator[tuple[int, Table, Table, Ids]]:
        """The first candidate's number, a table with its floors, and the row of each core node."""
        if len(hubs) <= self._capacity:
            self._remember(hubs)
            yield 0, self._table[: self._used], self._floors[: self._used], self._row_of
            return
        rows = np.full(len(self.graph.core), -1, dtype=np.int32)
        rows[hubs] = np.arange(len(hubs), dtype=np.int32)
        for first in range(0, len(self.graph.core), COLUMNS):
            table = self._columns(hubs, first)
            floors = np.empty((len(table), _blocks(table)), dtype=self._dtype)
            floors_of(table, floors)
            yield first, table, floors, rows

    def _remember(self, hubs: Ids) -> None:
        """Make sure that the table has a row for each of `hubs`."""
        if self._used + np.count_nonzero(self._row_of[hubs] < 0) > self._capacity:
            self._forget()
        missing = hubs[self._row_of[hubs] < 0]
        for start in range(0, len(missing), WIDTH):
            some = missing[start : start + WIDTH]
            rows = slice(self._used, self._used + len(some))
            self._table[rows] = self._search(self.graph.backward, some)[:, : len(some)].T
            floors_of(self._table[rows], self._floors[rows])
            self._row_of[some] = np.arange(rows.start, rows.stop, dtype=np.int32)
            self._used = rows.stop

    def _columns(self, hubs: Ids, first: int) -> Table:
        """The distances to `hubs` from the candidates `first` and on."""
        candidates = np.arange(first, min(first + COLUMNS, len(self.graph.core)), dtype=np.int32)
        table = np.empty((len(hubs), len(candidates)), dtype=self._dtype)
        for start in range(0, len(candidates), WIDTH):
            some = candidates[start : start + WIDTH]
            found = self._search(self.graph.forward, some)
            table[:, start : start + len(some)] = found[hubs, : len(some)]
        return table

    def _search(self, edges: Edges, sources: Ids) -> Table:
        out = np.full((len(self.graph.core), WIDTH), self._far, dtype=self._dtype)
        if len(edges.weights) == 0:
            out[sources, np.arange(len(sources))] = 0
            return out
        # A search looks one edge beyond the last node it finds.
        limit = min(self._far - 1, self.graph.distance_max + int(edges.weights[-1]))
        if not search(edges.weights, edges.starts, edges.ends, sources, limit, out):
            raise _TooFar
        return out


class _TooFar(Exception):
    """A distance does not fit the numbers it is held in."""


def _entries(sets: int, of_set: Numbers, nodes: Numbers, times: Numbers, graph: Graph) -> Sets:
    """The query sets with each distinct node once; rows are for the caller to fill in."""
    order = np.lexsort((nodes, of_set))
    of_set, nodes, times = of_set[order], nodes[order], times[order]
    new = np.ones(len(nodes), dtype=np.bool_)
    new[1:] = (of_set[1:] != of_set[:-1]) | (nodes[1:] != nodes[:-1])
    firsts = np.flatnonzero(new)
    distinct = nodes[firsts]
    starts = np.searchsorted(of_set[firsts], np.arange(sets + 1))
    return Sets(
        starts=starts,
        node=distinct,
        times=np.add.reduceat(times, firsts),
        row=np.empty(0, dtype=np.int32),
        extra=graph.from_hub[distinct],
        hub=graph.hub[distinct],
        way=graph.to_hub[distinct],
    )


def _blocks(table: Table) -> int:
    return math.ceil(int(table.shape[1]) / BLOCK)


def _more_than_any_cost(terms: int, farthest: int) -> int:
    missed = terms * farthest + 1
    # The largest number that is made: all terms missed, or all squares summed.
    if max(terms * missed, terms * farthest**2) >= 2**62:
        raise LimitError(
            f"a query set of {terms:,} terms is too large for this ontology; leave some out, or "
            "count each distinct term less often",
            limit="terms per query set",
            maximum=int((2**62 // (farthest + 1)) ** 0.5),
        )
    return missed
