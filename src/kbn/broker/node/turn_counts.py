"""Turn counts: what the turns of a node have cost, counted since it began."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

from kbn.broker.broker_status import TurnStatus

WORK_BOUNDS = (100, 1_000, 5_000, 10_000, 20_000, 30_000, 50_000, 100_000, 1_000_000)


@dataclass(slots=True)
class TurnCounts:
    """How many turns there were, what they cost in units of work, and what the largest did.

    `buckets` counts them by cost: the first has those up to `WORK_BOUNDS[0]`, the last those beyond
    all bounds.
    """

    count: int = 0
    work: int = 0
    largest: int = 0
    buckets: list[int] = field(default_factory=lambda: [0] * (len(WORK_BOUNDS) + 1))

    def add(self, work: int) -> None:
        """Count a turn.

        >>> turns = TurnCounts()
        >>> turns.add(70); turns.add(7_000)
        >>> turns.largest, turns.buckets[:4]
        (7000, [1, 0, 0, 1])
        """
        self.count += 1
        self.work += work
        self.largest = max(self.largest, work)
        self.buckets[bisect_left(WORK_BOUNDS, work)] += 1

    def status(self) -> TurnStatus:
        """What a person wants to know of them."""
        buckets = tuple(self.buckets)
        return TurnStatus(self.count, self.work, self.largest, WORK_BOUNDS, buckets)
