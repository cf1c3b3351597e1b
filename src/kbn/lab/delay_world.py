"""Worlds for delay trees: peers on a map, links with skewed delays, what can be kept at most.

Peers lie on a square map, 50 ms from side to side. A link takes on average its distance and 2 ms,
times a factor drawn for each notification from a *shape* of mean 1:

- *lognormal*: with a standard deviation of 0.3;
- *bimodal*: one notification in twelve takes twice as long as the others, as if sent again.

A tree knows none of that. It knows of each link what PROBES measurements say, drawn from its shape
once for each of many kinds of links.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from kbn.grouping import Bound, DelayTree, Distribution

MAP_MS, HOP_MS = 50.0, 2.0
SLOTS_MAX, SLOTS_OF_SOURCE = 5, 10
PROBABILITY = 0.95
BOUNDS_MS = {"tight": (30.0, 100.0), "loose": (60.0, 200.0)}
SHAPES = ("lognormal", "bimodal")
PROBES = 100
KINDS_OF_LINKS = 256
HOPS_MAX = 24


def draw(shape: str, size: Any, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Factors of mean 1."""
    import numpy as np

    if shape == "lognormal":
        squared = np.log1p(0.3**2)
        found = rng.lognormal(-squared / 2, np.sqrt(squared), size)
    else:
        again = rng.random(size) < 1 / 12
        found = np.where(again, 2.0, 1.0) * rng.normal(12 / 13, 0.03, size)
    return np.asarray(found)


class MapLinks:
    """Links of peers on a map, numbered from 0; what was measured of each."""

    def __init__(self, size: int, shape: str, seed: int) -> None:
        import numpy as np

        from kbn.grouping import Distribution

        rng = np.random.default_rng([seed, size])
        self.x, self.y = MAP_MS * rng.random((2, size))
        self._kinds = [
            Distribution.of_samples(draw(shape, PROBES, rng)) for _ in range(KINDS_OF_LINKS)
        ]
        self._moments = np.array([kind.moments for kind in self._kinds])

    def __len__(self) -> int:
        return len(self.x)

    def known(self, child: Any) -> None:
        """All are."""

    def between(self, parent: Any, child: Any) -> Distribution:
        """What measuring a link said."""
        kind: Distribution = self._kinds[(parent + child) * 7919 % KINDS_OF_LINKS]
        return kind.times(float(self.means(parent, child)))

    def means(self, parents: Any, children: Any) -> Any:
        """What links take on average."""
        import numpy as np

        across = self.x[parents] - self.x[children]
        along = self.y[parents] - self.y[children]
        return np.sqrt(across * across + along * along) + HOP_MS

    def moments(self, parents: np.ndarray[Any, Any], child: Any) -> Any:
        """Mean, variance and third moment of what was measured."""
        numbers = parents.astype(int)
        means = self.means(numbers, child)
        of_kind = self._moments[(numbers + child) * 7919 % KINDS_OF_LINKS]
        return means * of_kind[:, 0], means**2 * of_kind[:, 1], means**3 * of_kind[:, 2]


@dataclass(frozen=True)
class World:
    """Peers that may be in a tree: one in eleven is outside it at any time."""

    links: MapLinks
    shape: str
    bounds: np.ndarray[Any, Any]
    slots: np.ndarray[Any, Any]
    members: int

    def wanted(self, peer: int) -> tuple[int, Bound, int]:
        """A peer as it joins."""
        from kbn.grouping import Bound

        return peer, Bound(float(self.bounds[peer]), PROBABILITY), int(self.slots[peer])

    def grown(self) -> DelayTree:
        """A tree of the first members."""
        from kbn.grouping import DelayTree

        tree = DelayTree(self.links, 0, int(self.slots[0]))
        tree.join_all(self.wanted(peer) for peer in range(1, self.members + 1))
        return tree


def drawn(
    members: int, shape: str, bounds_ms: tuple[float, float], churn: float, seed: int
) -> World:
    """A world from a seed; the same places and slots for any bounds."""
    import numpy as np

    size = 1 + members + round(churn * members)
    rng = np.random.default_rng([seed, size, 1])
    slots = rng.integers(0, SLOTS_MAX + 1, size)
    slots[0] = SLOTS_OF_SOURCE
    return World(MapLinks(size, shape, seed), shape, rng.uniform(*bounds_ms, size), slots, members)


def at_most_kept(tree: DelayTree, world: World) -> int:
    """How many bounds any tree of these peers could keep.

    No way of h links to a peer at distance d takes less than d + 2h on average, and none of that
    average is more reliable than h equal links. So each peer has a number of links at which its
    bound can hold at all, and a largest such number, its deepest level. And the levels down to the
    h-th have room for no more than if those with most slots came first. Whoever has a deepest level
    needs one of these places: as many as fit, by their deepest levels, is the bound.
    """
    import numpy as np

    peers = np.array([peer for _, peer in tree.edges()] + list(tree.waiting), int)
    direct = world.links.means(0, peers) - HOP_MS
    deepest = np.zeros(peers.size, int)
    for hops, quantile in enumerate(straight(world.shape), start=1):
        reached = (direct + HOP_MS * hops) * quantile <= world.bounds[peers]
        deepest[reached] = hops
    room = sorted(world.slots[peers].tolist(), reverse=True)
    ahead = np.concatenate(([0], np.cumsum(room)))
    kept, places = 0, int(world.slots[0])
    for hops in range(1, HOPS_MAX + 1):
        kept = min(kept + int(np.count_nonzero(deepest == hops)), places)
        places = int(world.slots[0]) + int(ahead[min(places, peers.size)])
    return kept


@cache
def straight(shape: str) -> tuple[float, ...]:
    """What h equal links of mean 1 in all keep with the probability asked for, for h from 1."""
    import numpy as np

    rng = np.random.default_rng(1)
    total = np.zeros(400_000)
    found = []
    for hops in range(1, HOPS_MAX + 1):
        total += draw(shape, total.size, rng)
        found.append(float(np.quantile(total, PROBABILITY)) / hops)
    return tuple(found)


def arrivals(
    tree: DelayTree, world: World, notifications: int, rng: np.random.Generator
) -> Iterator[tuple[Any, np.ndarray[Any, Any]]]:
    """When each peer gets each notification: one draw for each link, peers below it share it."""
    import numpy as np

    times: dict[Any, Any] = {tree.source: np.zeros(notifications)}
    for parent, child in tree.edges():
        taken = world.links.means(parent, child) * draw(world.shape, notifications, rng)
        times[child] = times[parent] + taken
        yield child, times[child]
