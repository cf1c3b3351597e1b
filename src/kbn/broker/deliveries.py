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
from msgspec.structs import replace

from kbn.broker.kept import ENVELOPES
from kbn.broker.limits import ClientLimits
from kbn.broker.messages import Connect, Deliver, Envelope
from kbn.broker.projection import projected
from kbn.broker.unacked import UnackedQueue

WhenSlow = Literal["drop", "block"]
SKIPPED_MAX = 512  # in one turn: others wait meanwhile

_IDS = msgpack.Decoder(tuple[int, ...])


@dataclass(slots=True)
class Deliveries:
    """`unacked` is there when the client is durable. `stops` names the publishers that wait.

    The client is `shown` these attributes; None: all. Of subscriptions that were `withdrawn` from
    it nothing is delivered up to the sequence that each had then.
    """

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
    is_cut_short: bool = False
    shown: frozenset[str] | None = None
    withdrawn: dict[int, int] = field(default_factory=dict)

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
        """What can be sent now; `is_cut_short` says that there is more to look at."""
        self.is_cut_short = False
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

    def withdraw(self, id: int) -> None:
        """What waits for this subscription, and for no other, is not to be delivered."""
        if self.unacked is not None:
            self.withdrawn[id] = self.unacked.last
        kept = ((_without(id, wanted_by), envelope) for wanted_by, envelope in self.queue)
        self.queue = deque((wanted_by, envelope) for wanted_by, envelope in kept if wanted_by)

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
        skipped = 0
        while self.unacked is not None and (found := self.unacked.next()) is not None:
            ids = _IDS.decode(found.note)
            if self.withdrawn:
                ids = tuple(id for id in ids if self.withdrawn.get(id, -1) < found.sequence)
            seen = self._seen(ENVELOPES.decode(found.envelope)) if ids else None
            if seen is not None:
                return Deliver(found.sequence, True, ids, seen, self.dropped, found.after)
            self.unacked.skip(found)
            skipped += 1
            if skipped >= SKIPPED_MAX:
                self.is_cut_short = True
                return None
        while self.queue:
            wanted_by, envelope = self.queue.popleft()
            seen = self._seen(envelope)
            if seen is not None:
                self.numbered += 1
                return Deliver(self.numbered, False, wanted_by, seen, self.dropped)
        return None

    def _seen(self, envelope: Envelope) -> Envelope | None:
        """What the client is shown of a notification; None when it may see nothing of it."""
        if self.shown is None:
            return envelope
        left = projected(envelope.content, self.shown)
        return None if left is None else replace(envelope, content=left)


def _without(id: int, ids: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(each for each in ids if each != id)
