"""Links for tests: delays that are written down, or drawn from a seed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from kbn.grouping import Bound, DelayTree, Distribution


class FixedLinks:
    """Links that take what a table says; those it does not name are not known."""

    def __init__(self, table: Mapping[tuple[Hashable, Hashable], Distribution]) -> None:
        self.table = {**table, **{(b, a): link for (a, b), link in table.items()}}

    @cache  # noqa: B019
    def along(self, path: tuple[Hashable, ...]) -> Distribution:
        """When the last of a path is reached."""
        if len(path) == 1:
            return Distribution.exactly(0)
        return self.along(path[:-1]).then(self.table[path[-2], path[-1]])

    def known(self, child: Hashable) -> Collection[Hashable]:
        return [parent for parent, other in self.table if other == child]

    def between(self, parent: Hashable, child: Hashable) -> Distribution | None:
        return self.table.get((parent, child))

    def moments(self, parents: Any, child: Hashable) -> Any:
        found = [self.between(parent, child) for parent in parents]
        return np.array([each.moments if each else (math.inf, 0, 0) for each in found]).T


def constant(delays: Mapping[tuple[Hashable, Hashable], float]) -> FixedLinks:
    return FixedLinks({pair: Distribution.exactly(value) for pair, value in delays.items()})


def all_alike(size: int, delay: float = 1.0) -> FixedLinks:
    return constant({pair: delay for pair in itertools.combinations(range(size), 2)})


def skewed(seed: int, size: int, samples: int = 30) -> FixedLinks:
    """Peers on a map; each link was measured some times, with lognormal delays."""
    rng = np.random.default_rng(seed)
    places = rng.random((size, 2)) * 50
    return FixedLinks(
        {
            (a, b): Distribution.of_samples(
                (float(np.linalg.norm(places[a] - places[b])) + 2)
                * rng.lognormal(-0.05, 0.3, samples)
            )
            for a, b in itertools.combinations(range(size), 2)
        }
    )


def most_kept(links: FixedLinks, bounds: Sequence[Bound | None], slots: Sequence[int]) -> int:
    """The most bounds any tree keeps: all trees are tried (peer 0 is the source)."""
    size = len(bounds)
    best = 0
    for parents in itertools.product(range(size), repeat=size - 1):
        above = (0, *parents)
        if any(peer == above[peer] for peer in range(1, size)):
            continue
        if any(above[1:].count(peer) > slots[peer] for peer in range(size)):
            continue
        best = max(best, _kept(links, bounds, above))
    return best


def _kept(links: FixedLinks, bounds: Sequence[Bound | None], above: Sequence[int]) -> int:
    """How many bounds that tree keeps; 0 when it is none."""
    kept = 0
    for peer in range(1, len(bounds)):
        path = [peer]
        while path[-1] != 0:
            path.append(above[path[-1]])
            if len(path) > len(bounds):
                return 0
        bound = bounds[peer]
        kept += bound is None or bound.slack(links.along(tuple(path[::-1]))) >= 0
    return kept


def grown(links: FixedLinks, bounds: Sequence[Bound | None], slots: Sequence[int]) -> DelayTree:
    """A tree of all of them, who joined at once; peer 0 is the source."""
    tree = DelayTree(links, 0, slots[0])
    tree.join_all((peer, bounds[peer], slots[peer]) for peer in range(1, len(bounds)))
    return tree
