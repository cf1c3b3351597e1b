"""Deliveries to one client: what waits for it, and how much of it may be sent.

Deliveries that may be lost wait in a bounded queue; those to a durable client wait in the store
until it acknowledges them. Both are sent as far as the client's credit goes. A client that asked
for its publishers to be stopped when it is slow is *full* from the high mark until its queue is
back at the low one.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from msgspec import msgpack

from kbn.broker.kept import ENVELOPES
from kbn.broker.limits import ClientLimits
from kbn.broker.messages import Connect, Deliver, Envelope
from kbn.broker.unacked import UnackedQueue

WhenSlow = Literal["drop", "block"]

_IDS = msgpack.Decoder(tuple[int, ...])


@dataclass(slots=True)
class Deliveries:
    """`unacked` is there when the client is durable. `stops` names the publishers that wait."""

    unacked: UnackedQueue | None
    window: int
    when_slow: WhenSlow
    queue: deque[tuple[tuple[int, ...], Envelope]] = field(default_factory=deque)
    dropped: int = 0
    numbered: int = 0  # the last number of a delivery that may be lost
    credit: int = 0
    sent: int = 0
    # How many bytes of content its socket takes now; whoever drives the broker sets it.
    room_bytes: float = math.inf
    progress_at: float = 0.0
    stops: set[str] = field(default_factory=set)

    def connect(self, connect: Connect, limits: ClientLimits, *, is_new_epoch: bool) -> None:
        """Begin a connection: credit is counted anew, what was not acknowledged is sent again."""
        self.window = max(1, min(connect.window, limits.window))
        self.when_slow = connect.when_slow
        self.credit, self.sent = self.window, 0
        if is_new_epoch:
            self.queue.clear()
        if self.unacked is not None:
            self.unacked.rewind()

    def push(self, wanted_by: tuple[int, ...], envelope: Envelope, limits: ClientLimits) -> None:
        """Queue a delivery that may be lost, at the cost of the oldest when the queue is full."""
        if len(self.queue) >= limits.queue:
            self.queue.popleft()
            self.dropped += 1
        self.queue.append((wanted_by, envelope))

    def sendable(self) -> Iterator[Deliver]:
        """What can be sent now."""
        while self.sent < self.credit and self.room_bytes > 0:
            delivery = self._next()
            if delivery is None:
                return
            self.sent += 1
            self.room_bytes -= len(delivery.envelope.content)
            yield delivery

    def ack(self, sequence: int, now: float) -> None:
        """The client has everything up to here."""
        if self.unacked is not None:
            self.unacked.ack(sequence)
        self.progress_at = now

    def is_stuck(self, now: float, after_s: float) -> bool:
        """Whether nothing was heard for so long of what was sent."""
        in_flight = self.unacked is not None and self.unacked.in_flight > 0
        return (in_flight or self.sent >= self.credit) and now - self.progress_at >= after_s

    def start_again(self, now: float) -> None:
        """Send again what was not acknowledged, and forget what credit it cost."""
        if self.unacked is not None:
            self.unacked.rewind()
        self.sent = max(0, self.credit - self.window)
        self.progress_at = now

    def is_full(self, limits: ClientLimits) -> bool:
        """Whether its publishers should wait."""
        return self.when_slow == "block" and len(self.queue) >= limits.queue // 4

    def has_room(self, limits: ClientLimits) -> bool:
        """Whether its publishers may go on."""
        return len(self.queue) <= limits.queue // 8

    @property
    def is_empty(self) -> bool:
        """Whether the client has everything that was for it."""
        return not self.queue and (self.unacked is None or not len(self.unacked))

    def _next(self) -> Deliver | None:
        if self.unacked is not None and (found := self.unacked.next()) is not None:
            envelope, ids = ENVELOPES.decode(found.envelope), _IDS.decode(found.note)
            return Deliver(found.sequence, True, ids, envelope, self.dropped, found.after)
        if not self.queue:
            return None
        self.numbered += 1
        wanted_by, envelope = self.queue.popleft()
        return Deliver(self.numbered, False, wanted_by, envelope, self.dropped)
