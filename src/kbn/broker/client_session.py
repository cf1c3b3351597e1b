"""An attached client, as its broker knows it: what it may do, what it wants, what it has
not acknowledged.

Deliveries that may be lost wait in a bounded queue; those to a durable client wait in the
store. Both are sent as far as the client's credit goes. A client that asked its publishers to
be stopped when it is slow is *full* from the high mark until its queue is back at the low one.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from msgspec import msgpack

from kbn.broker.access import Limits, Permission
from kbn.broker.messages import Connect, Deliver, Envelope, Hops, Peer
from kbn.broker.unacked import UnackedQueue
from kbn.filters import Subscription

ENVELOPES = msgpack.Decoder(Envelope)
NOTES = msgpack.Decoder(tuple[int, ...])


@dataclass(slots=True)
class ClientSession:
    """One client. `unacked` is there when the client is durable."""

    peer: Peer
    epoch: int
    permission: Permission
    window: int
    when_slow: Literal["drop", "block"]
    unacked: UnackedQueue | None
    is_connected: bool = True
    with_path: bool = False
    heard_at: float = 0.0
    progress_at: float = 0.0
    subscriptions: dict[int, Subscription] = field(default_factory=dict)
    advertisements: dict[int, Subscription] = field(default_factory=dict)
    # Advertisements that the whole network knows of; until then what they cover goes everywhere.
    in_force: set[int] = field(default_factory=set)
    queue: deque[tuple[tuple[int, ...], Envelope]] = field(default_factory=deque)
    dropped: int = 0
    delivered: int = 0
    credit: int = 0
    sent: int = 0
    # How many bytes of content its socket takes now; whoever drives the broker sets it.
    room_bytes: float = math.inf
    taken: int = 0
    last_fired: int = 0
    published: int = 0
    granted: int = 0
    waits_for: set[str] = field(default_factory=set)
    stops: set[str] = field(default_factory=set)
    leaving: int | None = None
    is_drained: bool = False
    redirect: tuple[str, str] | None = None
    hops: Hops | None = None  # as it last told

    def greet(self, connect: Connect, limits: Limits) -> None:
        """Begin a connection: credit is counted anew, what was not acknowledged is sent again."""
        self.is_connected = True
        self.window = max(1, min(connect.window, limits.window))
        self.when_slow = connect.when_slow
        self.with_path = connect.with_path
        self.credit, self.sent = self.window, 0
        self.published, self.granted = 0, limits.publish_ahead
        self.taken = max(self.taken if connect.epoch == self.epoch else 0, connect.published)
        if connect.epoch != self.epoch:
            self.last_fired = 0
            self.queue.clear()
        self.epoch = connect.epoch
        if self.unacked is not None:
            self.unacked.rewind()

    def start_again(self, now: float) -> None:
        """Nothing was heard of what was sent: send it again, and forget what credit it cost."""
        if self.unacked is not None:
            self.unacked.rewind()
        self.sent = max(0, self.credit - self.window)
        self.progress_at = now

    def enqueue(self, wanted_by: tuple[int, ...], envelope: Envelope, limits: Limits) -> None:
        """Put a delivery that may be lost into the queue, at the cost of the oldest when full."""
        if len(self.queue) >= limits.queue:
            self.queue.popleft()
            self.dropped += 1
        self.queue.append((wanted_by, envelope))

    def deliveries(self) -> Iterator[Deliver]:
        """What can be sent now."""
        while self.is_connected and self.sent < self.credit and self.room_bytes > 0:
            delivery = self._next()
            if delivery is None:
                return
            self.sent += 1
            self.room_bytes -= len(delivery.envelope.content)
            yield delivery

    def is_full(self, limits: Limits) -> bool:
        """Whether its publishers should wait."""
        return self.when_slow == "block" and len(self.queue) >= limits.queue // 4

    def has_room(self, limits: Limits) -> bool:
        """Whether its publishers may go on."""
        return len(self.queue) <= limits.queue // 8

    @property
    def is_empty(self) -> bool:
        """Whether it has everything that was for it."""
        return not self.queue and (self.unacked is None or not len(self.unacked))

    def _next(self) -> Deliver | None:
        if self.unacked is not None and (unacked := self.unacked.next()) is not None:
            envelope = ENVELOPES.decode(unacked.envelope)
            return Deliver(
                unacked.sequence,
                True,
                NOTES.decode(unacked.note),
                envelope,
                self.dropped,
                unacked.after,
            )
        if not self.queue:
            return None
        self.delivered += 1
        wanted_by, envelope = self.queue.popleft()
        return Deliver(self.delivered, False, wanted_by, envelope, self.dropped)
