"""The medoid of a set of terms that changes all the time: a broker's, over all its subscriptions.

For each candidate the sums of its distances and of their squares are kept, and how many terms it
misses. A term that comes or goes adds or takes the row of distances to it, which the semantic map
remembers; the medoid is then the least in one pass over the candidates.

Changes are gathered first: a term that comes and goes again costs nothing, and the rows that are
not known yet are searched for together. What is gathered is worked off when the medoid is asked
for, or when so many terms have changed that the next one to ask would have to wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from kbn.errors import InvalidInputError
from kbn.placement.medoid import Medoid, spread
from kbn.placement.semantic_map import SemanticMap, Terms, counted

PENDING_MAX = 16  # changed terms: their distances to all nodes are added up together


class RunningMedoid:
    """A multiset of terms that always knows its medoid, without looking at all terms again.

    It keeps some 30 bytes for each node of the map, so it is for the terms of many: for the few
    terms of one client, `SemanticMap.medoid` is faster.

    >>> from kbn.data import namespace, path
    >>> from kbn.ontology import Ontology
    >>> cats, dogs = (namespace("animals") + name for name in ("Cats", "Dogs"))
    >>> running = RunningMedoid(SemanticMap(Ontology.load(path("animals"))))
    >>> running.add([cats, dogs, dogs])
    >>> running.medoid().term.partition("#")[2]
    'Dogs'
    >>> running.remove({dogs: 2})
    >>> running.medoid().term.partition("#")[2]
    'Cats'
    """

    def __init__(self, semantic_map: SemanticMap) -> None:
        # Imported here, because it brings a compiler along.
        from kbn.placement.kernels import running

        self._kernels = running
        self._map = semantic_map
        graph = semantic_map.finder.graph
        pendants = np.flatnonzero(graph.from_hub > 0)
        self._nodes = running.Nodes(graph.core, pendants, graph.hub, graph.from_hub, graph.to_hub)
        missed, cost, squares = np.zeros((3, len(graph.core)), dtype=np.int64)
        times = np.zeros(len(semantic_map), dtype=np.int64)
        self._sums = running.Sums(missed, cost, squares, times)
        self._unit = graph.unit
        self._counts: dict[str, int] = {}
        self._skipped: dict[str, None] = {}
        self._total = 0
        self._pending: dict[int, int] = {}
        self._cached: Medoid | None = Medoid(None)

    @property
    def terms(self) -> Mapping[str, int]:
        """The IRIs in the set, and how often each is; a view that follows the changes."""
        return MappingProxyType(self._counts)

    def add(self, terms: Terms) -> None:
        """Put `terms` in: IRIs or terms, repeats count, or a mapping that says how often each.

        LimitError, and nothing is put in, when the sums over so many would be too large.
        """
        coming = _summed(terms)
        places = sum(count * len(self._map.places(iri)) for iri, count in coming.items())
        self._map.finder.require_room_for(self._total + places)
        for iri, count in coming.items():
            self._change(iri, count)

    def remove(self, terms: Terms) -> None:
        """Take `terms` out; InvalidInputError, and nothing is, when one is not there so often."""
        going = _summed(terms)
        for iri, count in going.items():
            if self._counts.get(iri, 0) < count:
                raise InvalidInputError(
                    f"<{iri}> cannot be taken out {count} times: it is there "
                    f"{self._counts.get(iri, 0)} times"
                )
        for iri, count in going.items():
            self._change(iri, -count)

    def medoid(self) -> Medoid:
        """The medoid of what is there now: what `SemanticMap.medoid` says of `terms`."""
        if self._cached is None:
            self._apply_pending()
            self._cached = self._found()
        return self._cached

    def _change(self, iri: str, change: int) -> None:
        count = self._counts.get(iri, 0) + change
        if count:
            self._counts[iri] = count
        else:
            del self._counts[iri]
        places = self._map.places(iri)
        for node in places:
            self._gather(node, change)
        if not places:
            self._note_skipped(iri, count)
        self._cached = None

    def _gather(self, node: int, change: int) -> None:
        self._total += change
        left = self._pending.get(node, 0) + change
        if left:
            self._pending[node] = left
        else:
            del self._pending[node]
        if len(self._pending) == PENDING_MAX:
            self._apply_pending()

    def _note_skipped(self, iri: str, count: int) -> None:
        if count:
            self._skipped[iri] = None
        else:
            del self._skipped[iri]

    def _apply_pending(self) -> None:
        if not self._pending:
            return
        nodes = np.fromiter(self._pending.keys(), np.int64, len(self._pending))
        changes = np.fromiter(self._pending.values(), np.int64, len(self._pending))
        table, rows, far = self._map.finder.distances_to(self._nodes.hub[nodes])
        self._kernels.change(table, rows, far, nodes, changes, self._nodes, self._sums)
        self._pending.clear()

    def _found(self) -> Medoid:
        skipped = tuple(self._skipped)
        if not self._total:
            return Medoid(None, skipped=skipped)
        node, missed, cost, squares = self._kernels.best(self._sums, self._nodes, self._total)
        cost, squares, reached = cost * self._unit, squares * self._unit**2, self._total - missed
        name = self._map.name(node)
        return Medoid(name, spread(reached, cost, squares), cost, self._total, reached, skipped)


def _summed(terms: Terms) -> dict[str, int]:
    """How often each IRI is named."""
    summed: dict[str, int] = {}
    for iri, count in counted(terms):
        summed[iri] = summed.get(iri, 0) + count
    return summed
