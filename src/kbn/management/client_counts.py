"""How many clients each broker has, for whoever places more of them."""

from __future__ import annotations

from collections import Counter

from kbn.management.mib import Mib
from kbn.management.reports import Kind

CLIENTS: tuple[Kind, ...] = ("subscriber", "publisher")
COUNT_EVERY_S = 1.0
"""How often clients are counted anew; between, those that are sent somewhere are added."""


class ClientCounts:
    """Counts subscribers and publishers alike."""

    def __init__(self, mib: Mib) -> None:
        self._mib = mib
        self._by_broker: Counter[str] = Counter()
        self._counted_at: float | None = None

    def by_broker(self, now: float) -> Counter[str]:
        """How many clients each broker has, with those that are on their way to it."""
        if self._counted_at is None or not 0 <= now - self._counted_at < COUNT_EVERY_S:
            self._counted_at = now
            self._by_broker = self._count("broker")
        return self._by_broker

    def sent(self, old: str, new: str) -> None:
        """A client goes from one broker to another."""
        self._by_broker[new] += 1
        self._by_broker[old] -= 1

    def by_medoid(self) -> Counter[str]:
        """How many clients have each medoid."""
        return self._count("medoid")

    def _count(self, field: str) -> Counter[str]:
        counts = (self._mib.count_by(kind, field) for kind in CLIENTS)
        return sum(map(Counter, counts), Counter())
