"""Distances: how many brokers a client's notifications passed, and who published them."""

from __future__ import annotations

from kbn.broker.messages import Hops

PUBLISHERS_MAX = 1024
"""So many publishers are told of."""
COUNTED_MAX = 4 * PUBLISHERS_MAX
"""When more are counted, the half that published least is forgotten."""


class Distances:
    """Counts of what was delivered since the client came to its present broker.

    >>> distances = Distances()
    >>> for hops in (1, 1, 4):
    ...     distances.count("ann", hops)
    >>> distances.message()
    Hops(counts=((1, 2), (4, 1)), publishers=(('ann', 3),))
    """

    __slots__ = ("_by_hops", "_by_publisher")

    def __init__(self) -> None:
        self._by_hops: dict[int, int] = {}
        self._by_publisher: dict[str, int] = {}

    def count(self, publisher: str, hops: int) -> None:
        """A notification was handed to the application."""
        self._by_hops[hops] = self._by_hops.get(hops, 0) + 1
        self._by_publisher[publisher] = self._by_publisher.get(publisher, 0) + 1
        if len(self._by_publisher) > COUNTED_MAX:
            self._by_publisher = dict(self._most(COUNTED_MAX // 2))

    def clear(self) -> None:
        """Begin anew: the client is somewhere else."""
        self._by_hops.clear()
        self._by_publisher.clear()

    def message(self) -> Hops:
        """What a broker is told."""
        return Hops(tuple(sorted(self._by_hops.items())), tuple(self._most(PUBLISHERS_MAX)))

    def _most(self, count: int) -> list[tuple[str, int]]:
        return sorted(self._by_publisher.items(), key=lambda each: (-each[1], each[0]))[:count]
