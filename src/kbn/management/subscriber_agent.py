"""A subscriber's agent: whether it is misplaced, by its own count of hops.

Brokers count hops when a policy server asks them to. A subscriber that counts by itself spares them
the work, and the policy server the question: it says by itself that it had better be elsewhere.
"""

from __future__ import annotations

from collections import Counter

from kbn.management.reports import MisplacedReport
from kbn.placement import MEAN_HOPS_MAX

NOTIFICATIONS_MIN = 10
"""So many notifications a subscriber judges by, at least."""
ASK_EVERY_S = 60.0
"""How often it says so at most."""
PUBLISHERS_MAX = 100
"""So many publishers are counted, the most frequent ones."""


class SubscriberAgent:
    """Follows what one subscriber receives since it came to its broker.

    >>> agent = SubscriberAgent("ann", notifications_min=2)
    >>> for _ in range(2):
    ...     agent.received("east", hops=4, publisher="bob")
    >>> agent.report(0.0).mean_hops
    4.0
    >>> agent.report(1.0) is None  # it was said a moment ago
    True
    """

    def __init__(
        self,
        subscriber: str,
        mean_hops_max: float = MEAN_HOPS_MAX,
        notifications_min: int = NOTIFICATIONS_MIN,
        ask_every_s: float = ASK_EVERY_S,
    ) -> None:
        self._subscriber = subscriber
        self._mean_hops_max = mean_hops_max
        self._notifications_min = notifications_min
        self._ask_every_s = ask_every_s
        self._broker: str | None = None
        self._hops: Counter[int] = Counter()
        self._publishers: Counter[str] = Counter()
        self._told_at: float | None = None

    def received(self, broker: str, hops: int, publisher: str) -> None:
        """A notification came from a publisher, over so many brokers, by way of this one."""
        if broker != self._broker:
            self._broker = broker
            self._hops.clear()
            self._publishers.clear()
        self._hops[hops] += 1
        self._publishers[publisher] += 1
        if len(self._publishers) > 2 * PUBLISHERS_MAX:  # rarely, so that it costs little for each
            self._publishers = Counter(dict(self._publishers.most_common(PUBLISHERS_MAX)))

    def report(self, now: float, *, asked: bool = False) -> MisplacedReport | None:
        """What to say: None while it is well placed or does not know, or has just said so.

        When it is `asked`, it says how many hops there are although these are few.
        """
        count = self._hops.total()
        if self._broker is None or count < self._notifications_min:
            return None
        if self._told_at is not None and 0 <= now - self._told_at < self._ask_every_s:
            return None
        frequent = dict(self._publishers.most_common(PUBLISHERS_MAX))
        report = MisplacedReport.of(self._subscriber, self._broker, self._hops, frequent)
        if report.mean_hops <= self._mean_hops_max and not asked:
            return None
        self._told_at = now
        return report
