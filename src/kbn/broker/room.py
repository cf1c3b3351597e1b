"""Room: how much a broker's store holds, for everybody together and for each neighbour.

Nothing that was acknowledged is lost in silence, and no client stops another:

1. When the store is full, the durable client that is owed most loses its oldest deliveries, and is
   told. Only when no client is owed anything is a durable publication refused.
2. What a neighbour is owed is not dropped: whoever published it has been told that it is safe. When
   a neighbour is owed too much, durable publications that would go there are refused to our own
   clients; those that other neighbours bring are *held*: they are not acknowledged, so these keep
   them, and behind them all else that the same neighbour says waits, to keep the order. In a tree
   no two brokers can wait for each other so: what waits for a link waits for links beyond it. A
   wave that serves the move of a broker ends such waiting: the broker holds back what it is sent
   until the wave has passed, so that room would never come.
"""

from __future__ import annotations

from collections.abc import Callable

from kbn.broker.limits import BrokerLimits
from kbn.broker.messages import Peer
from kbn.broker.occurrences import StoreFull
from kbn.broker.outbox import Outbox
from kbn.broker.store import Store
from kbn.broker.unacked import UnackedQueue
from kbn.errors import LimitError

# The store is looked at again when a part of what it may hold was published.
LOOKED_AT_SHARE = 64


class Room:
    """Tells whether there is room; `free_most` makes some at the cost of who is owed most, or says
    that nobody is owed anything.
    """

    def __init__(
        self,
        limits: BrokerLimits,
        store: Store,
        outbox: Outbox,
        free_most: Callable[[int], bool],
    ) -> None:
        self.full: set[str] = set()  # the neighbours that are owed too much
        self._limits = limits
        self._store = store
        self._outbox = outbox
        self._free_most = free_most
        self._is_full = False
        self._published_bytes = 0

    def look(self) -> None:
        """See how full the store is, and make room if it must be."""
        self._published_bytes = 0
        used = self._store.used_bytes
        excess = used - self._limits.store_bytes
        was_full, self._is_full = self._is_full, excess > 0 and not self._free_most(excess)
        if self._is_full and not was_full:
            self._outbox.note(StoreFull(None, used))

    def check(self, size: int) -> None:
        """Raise `LimitError` when one more durable publication is too much for the store."""
        self._published_bytes += size
        if self._is_full or self._published_bytes > self._limits.store_bytes // LOOKED_AT_SHARE:
            self.look()
        if self._is_full:
            raise LimitError(
                f"the store of this broker is full, {self._limits.store_bytes} bytes: publish "
                "again when its neighbours have taken what is kept for them",
                limit="bytes in the store",
                maximum=self._limits.store_bytes,
            )

    def queued(self, name: str, unacked: UnackedQueue) -> None:
        """A neighbour is owed more than before; one that was never met is known by its url."""
        size = unacked.size
        if size > self._limits.neighbour_unacked_bytes and name not in self.full:
            self.full.add(name)
            self._outbox.note(StoreFull(Peer("broker", name), size))

    def acked(self, name: str, unacked: UnackedQueue) -> bool:
        """A neighbour is owed less than before; whether it may be owed more again."""
        limit = self._limits.neighbour_unacked_bytes
        return name in self.full and unacked.size <= limit - limit // 8 and self.gone(name)

    def gone(self, name: str) -> bool:
        """A neighbour is owed nothing any more; whether that makes a difference."""
        was_full = name in self.full
        self.full.discard(name)
        return was_full

    def refuse(self, names: list[str]) -> None:
        """Raise `LimitError` when a durable publication would go to one that is owed too much."""
        for name in names:
            if name in self.full:
                raise LimitError(
                    f"too much is kept for the broker {name!r}, which does not take it: publish "
                    "again when it does, or have it unlinked",
                    limit="bytes kept for a neighbour",
                    maximum=self._limits.neighbour_unacked_bytes,
                )
