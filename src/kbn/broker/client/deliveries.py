"""What the application is given: each notification once, in the order of its publisher.

Links keep order. So when a client has moved, a notification that is older than something the old
broker delivered of the same publisher, and that the old broker did not deliver, was not due: it is
*past*, and is dropped when the new broker brings it. Between general peers the order is not
certain, and nothing counts as past.
"""

from __future__ import annotations

from collections import OrderedDict

from kbn.broker.distances import Distances
from kbn.broker.messages import Deliver, Hops, NotificationId

SEEN_MAX = 100_000


class Deliveries:
    """Tells which deliveries, of all brokers, the application is given."""

    __slots__ = ("_distances", "_newest", "_past", "_seen")

    def __init__(self) -> None:
        self._seen: OrderedDict[NotificationId, None] = OrderedDict()
        self._newest: dict[tuple[str, int, int], int] = {}
        self._past: dict[tuple[str, int, int], int] = {}
        self._distances = Distances()

    def is_due(self, delivery: Deliver, *, in_order: bool, is_late: bool = False) -> bool:
        """Whether the application is given this one; not twice, and not out of order.

        `in_order` says that its broker receives the notifications of each publisher in their order.
        One that may be lost is dropped when a newer one overtook it. Nothing that is late is past.
        """
        envelope = delivery.envelope
        id, stream = envelope.id, envelope.stream
        newest = self._newest.get(stream, 0)
        if in_order and not (is_late and delivery.durable):
            passed = self._past.get(stream, 0) if delivery.durable else newest
            if id.number <= passed:
                return False
        if id in self._seen:
            return False
        self._seen[id] = None
        if id.number > newest:
            self._newest[stream] = id.number
        if len(self._seen) > SEEN_MAX:
            self._seen.popitem(last=False)
        self._distances.count(id.publisher, envelope.hops)
        return True

    def moved(self) -> None:
        """The old broker has delivered everything: what is older than its last ones is past."""
        self._past = dict(self._newest)
        self._distances.clear()

    def hops(self) -> Hops:
        """How far the notifications came since the client is at its broker."""
        return self._distances.message()
