"""How far brokers are apart: the brokers a notification passes on its way.

A hop is a broker passed, the first too, as the source counts: from a broker to itself 1, to a
neighbour 2. In a tree there is one way; in any other overlay the shortest counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from kbn.errors import InvalidInputError

Link = tuple[str, str]
Matrix = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Distances:
    """The links between each two of `brokers`, by their places in that order."""

    brokers: tuple[str, ...]
    links: Matrix

    @cached_property
    def _place(self) -> dict[str, int]:
        return {broker: place for place, broker in enumerate(self.brokers)}

    def place(self, broker: str) -> int:
        """Where a broker stands in `brokers`."""
        if broker not in self._place:
            raise InvalidInputError(f"no distance is known to {broker!r}: it is no broker here")
        return self._place[broker]

    def hops(self, one: str, other: str) -> int:
        """The brokers passed from one to the other; 1 when they are the same."""
        return int(self.links[self.place(one), self.place(other)]) + 1

    def nearest(self, broker: str) -> tuple[str, ...]:
        """All brokers, the nearest to `broker` first (itself); equal ones in their own order."""
        order = np.argsort(self.links[self.place(broker)], kind="stable")
        return tuple(self.brokers[place] for place in order)


def overlay_distances(brokers: Sequence[str], links: Iterable[Link]) -> Distances:
    """The distances in an overlay with such links, in either direction.

    >>> found = overlay_distances(["root", "east", "west"], [("east", "root"), ("west", "root")])
    >>> found.hops("east", "west"), found.hops("east", "east")
    (3, 1)
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import shortest_path

    named = tuple(brokers)
    place = {broker: number for number, broker in enumerate(named)}
    if len(place) < len(named):
        raise InvalidInputError(f"a broker is listed twice among {', '.join(named)}")
    pairs = [_pair(link, place) for link in links]
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    size = (len(named), len(named))
    graph = coo_array((np.ones(len(pairs)), (ends[0], ends[1])), shape=size).tocsr()
    found = shortest_path(graph, directed=False, unweighted=True)
    if not np.isfinite(found).all():
        one, other = np.argwhere(~np.isfinite(found))[0]
        raise InvalidInputError(f"no links lead from {named[one]!r} to {named[other]!r}")
    return Distances(named, found.astype(np.int64))


def _pair(link: Link, place: dict[str, int]) -> tuple[int, int]:
    one, other = link
    if one not in place or other not in place:
        raise InvalidInputError(
            f"the link from {one!r} to {other!r} leads to no broker of the plan"
        )
    return place[one], place[other]
