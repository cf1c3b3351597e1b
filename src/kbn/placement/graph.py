"""A directed graph with whole weights, laid out for many searches.

Half of an ontology's terms and more are leaves: a class below one other class, an individual of one
class. No path leads through such a *pendant*, and its distances follow from those of its *hub*, the
one node it hangs on. So searches go over the *core*, the other nodes, only.

Core nodes are renumbered so that near ones get near numbers: searches start from 64 of them at
once, and the nearer these are to each other, the more of the way they share.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int32]
Numbers = npt.NDArray[np.int64]

NO_WAY = 2**62
"""Stands for the distance to what is not reached."""


@dataclass(frozen=True, eq=False)
class Edges:
    """Edges by first node, a row of starts per distinct weight: what `search` walks over."""

    weights: Numbers
    starts: Numbers
    ends: Ids

    @classmethod
    def of(cls, count: int, first: Ids, second: Ids, weight: Numbers) -> Edges:
        """The edges from `first` to `second`."""
        distinct, which = np.unique(weight, return_inverse=True)
        order = np.lexsort((second, first, which))
        starts = np.zeros((len(distinct), count + 1), dtype=np.int64)
        for k in range(len(distinct)):
            sizes = np.bincount(first[which == k], minlength=count)
            starts[k, 0] = starts[k - 1, -1] if k else 0
            starts[k, 1:] = starts[k, 0] + np.cumsum(sizes)
        return cls(distinct.astype(np.int64), starts, second[order].astype(np.int32))


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes, their core, and the edges of the core both ways; weights are in units of `unit`."""

    unit: int
    core: Ids
    """Core number -> node."""
    hub: Ids
    """Node -> its core number, or that of the node it hangs on."""
    from_hub: Numbers
    """Node -> the weight of the edge from its hub; 0 in the core."""
    to_hub: Numbers
    """Node -> the weight of the edge to its hub; 0 in the core, -1 when there is none."""
    forward: Edges
    backward: Edges

    @classmethod
    def of(cls, count: int, first: Ids, second: Ids, weight: Numbers) -> Graph:
        """The graph of `count` nodes with such edges; between two nodes the lightest counts."""
        first, second, weight = _lightest(first, second, weight)
        unit = int(np.gcd.reduce(weight)) if len(weight) else 1
        weight = weight // max(1, unit)
        pendant, from_hub, to_hub, hub_node = _pendants(count, first, second, weight)
        core = _near_each_other(np.flatnonzero(~pendant), count, first, second)
        number = np.full(count, -1, dtype=np.int32)
        number[core] = np.arange(len(core), dtype=np.int32)
        inside = ~pendant[first] & ~pendant[second]
        one, other = number[first[inside]], number[second[inside]]
        return cls(
            unit=unit,
            core=core.astype(np.int32),
            hub=number[np.where(pendant, hub_node, np.arange(count))],
            from_hub=np.where(pendant, from_hub, 0),
            to_hub=np.where(pendant, np.where(to_hub > 0, to_hub, -1), 0),
            forward=Edges.of(len(core), one, other, weight[inside]),
            backward=Edges.of(len(core), other, one, weight[inside]),
        )

    @property
    def distance_max(self) -> int:
        """No distance between core nodes is larger."""
        heaviest = int(self.forward.weights[-1]) if len(self.forward.weights) else 0
        return heaviest * max(0, len(self.core) - 1)

    @property
    def detour_max(self) -> int:
        """No way from one pendant to its hub, and from a hub to another pendant, is longer."""
        ways = (self.from_hub, self.to_hub)
        return sum(int(way.max()) if len(way) else 0 for way in ways)


def _lightest(first: Ids, second: Ids, weight: Numbers) -> tuple[Ids, Ids, Numbers]:
    order = np.lexsort((weight, second, first))
    first, second, weight = first[order], second[order], weight[order]
    kept = first != second
    kept[1:] &= (first[1:] != first[:-1]) | (second[1:] != second[:-1])
    return first[kept], second[kept], weight[kept]


def _pendants(
    count: int, first: Ids, second: Ids, weight: Numbers
) -> tuple[npt.NDArray[np.bool_], Numbers, Numbers, Numbers]:
    """Which nodes are pendants, the weights from and to their hubs, and the hubs (as nodes)."""
    pairs = np.unique(np.sort(np.stack([first, second], axis=1), axis=1), axis=0)
    degree = np.bincount(pairs.ravel(), minlength=count)
    hub = np.full(count, -1, dtype=np.int64)
    hub[pairs[:, 0]] = pairs[:, 1]
    hub[pairs[:, 1]] = pairs[:, 0]
    from_hub = np.zeros(count, dtype=np.int64)
    to_hub = np.zeros(count, dtype=np.int64)
    ends, begins = degree[second] == 1, degree[first] == 1
    from_hub[second[ends]] = weight[ends]
    to_hub[first[begins]] = weight[begins]
    pendant = (degree == 1) & (from_hub > 0)
    # Of two that have only each other, one has to be the hub.
    lone = pairs[(degree[pairs] == 1).all(axis=1)]
    pendant[lone[:, 0]] = False
    return pendant, from_hub, to_hub, hub


def _near_each_other(nodes: Numbers, count: int, first: Ids, second: Ids) -> Numbers:
    """`nodes` in an order that has near ones near: down each branch of a tree that spans them."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import breadth_first_order, connected_components, depth_first_order

    def graph(one: Ids, other: Ids) -> coo_array:
        ones = np.ones(len(one), dtype=np.int8)
        return coo_array((ones, (one, other)), shape=(count + 1, count + 1)).tocsr()

    if count == 0:
        return nodes
    # One more node, next to the first one of each component, starts it all.
    _, component = connected_components(graph(first, second), directed=False)
    tops = np.unique(component[:count], return_index=True)[1].astype(np.int32)
    start = np.full(len(tops), count, dtype=np.int32)
    whole = graph(np.concatenate([first, start]), np.concatenate([second, tops]))
    order, before = breadth_first_order(whole, count, directed=False)
    tree = graph(before[order[1:]], order[1:])
    down = depth_first_order(tree, count, directed=True, return_predecessors=False)
    place = np.empty(count + 1, dtype=np.int64)
    place[down] = np.arange(count + 1)
    return nodes[np.argsort(place[nodes], kind="stable")]
