"""Deliveries to one client: what waits for it, and how much of it may be sent.

Deliveries that may be lost wait in a bounded queue; those to a durable client wait in the store
until it acknowledges them, and are bounded, too. Both are sent as far as the client's credit goes.

**At the bound** the oldest are dropped and counted. The client is told the count with each
delivery and each `Grant`; of a durable client the store keeps it, and it is told when the client
connects. A client
that may *block* is spared that for a time: its publishers wait from when it is *full*, a quarter of
the bound, until it is back at an eighth of it; but no longer than `block_s`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Container
from dataclasses import dataclass, field
from typing import Literal

from msgspec.structs import replace

from kbn.broker.limits import ClientLimits
from kbn.broker.messages import Connect, Deliver, Envelope
from kbn.broker.projection import projected
from kbn.broker.store import INTEGER_MAX
from kbn.broker.unacked import UnackedQueue

WhenSlow = Literal["drop", "block"]
SKIPPED_MAX = 512  # in one turn: others wait meanwhile

# What a queued delivery takes beside its content: the envelope, a tuple, the place in the queue.
DELIVERY_BYTES = 512


@dataclass(slots=True)
class Queue:
    """Deliveries that may be lost, the oldest first; `size` is their bytes."""

    waiting: deque[tuple[tuple[int, ...], Envelope]] = field(default_factory=deque)
    size: int = 0

    def __len__(self) -> int:
        return len(self.waiting)

    def push(self, ids: tuple[int, ...], envelope: Envelope) -> None:
        self.waiting.append((ids, envelope))
        self.size += DELIVERY_BYTES + len(envelope.content) + 8 * len(ids)

    def pop(self) -> tuple[tuple[int, ...], Envelope]:
        ids, envelope = self.waiting.popleft()
        self.size -= DELIVERY_BYTES + len(envelope.content) + 8 * len(ids)
        return ids, envelope

    def clear(self) -> None:
        self.waiting.clear()
        self.size = 0

    def withdraw(self, withdrawn: Container[int]) -> None:
        """Forget what waits for these subscriptions, and for no other."""
        held, self.waiting, self.size = self.waiting, deque(), 0
        for ids, envelope in held:
            left = tuple(each for each in ids if each not in withdrawn)
            if left:
                self.push(left, envelope)


@dataclass(slots=True)
class Waiting:
    """The publishers that wait for a slow client, by name, and `since` when.

    `is_over`: they have waited long enough, and wait no more until the client has caught up.
    """

    publishers: set[str] = field(default_factory=set)
    since: float | None = None
    is_over: bool = False

    def end(self) -> set[str]:
        """Nobody waits any more; who did."""
        publishers, self.publishers, self.since = self.publishers, set(), None
        return publishers


@dataclass(slots=True)
class Deliveries:
    """`unacked` is there when the client is durable; `dropped` counts what was dropped.

    The client is `shown` these attributes; None: all. Of subscriptions that were `withdrawn` from
    it nothing is delivered up to the sequence that each had then. One that is not shown all is
    delivered what it `holds` a subscription for: of others nobody knows whether it may have them.
    """

    unacked: UnackedQueue | None
    window: int
    when_slow: WhenSlow
    queue: Queue = field(default_factory=Queue)
    dropped: int = 0
    numbered: int = 0  # the last number of a delivery that may be lost
    credit: int = 0
    sent: int = 0
    # How many bytes of content its socket takes now; whoever drives the broker sets it.
    room_bytes: float = math.inf
    progress_at: float = 0.0
    waiting: Waiting = field(default_factory=Waiting)
    is_cut_short: bool = False
    shown: frozenset[str] | None = None
    withdrawn: dict[int, int] = field(default_factory=dict)
    holds: Callable[[int], bool] = lambda id: True
    held_up: int = 0  # by how many that find out what it may have

    def connect(self, connect: Connect, limits: ClientLimits, *, is_new_epoch: bool) -> None:
        """Begin a connection: credit is counted anew, what was not acknowledged is sent again."""
        self.window = max(1, min(connect.window, limits.window))
        self.when_slow = connect.when_slow
        self.credit, self.sent = self.window, 0
        self.waiting.is_over = False
        if is_new_epoch:
            self.queue.clear()
        if self.unacked is not None:
            self.unacked.rewind()

    def push(self, ids: tuple[int, ...], envelope: Envelope, limits: ClientLimits) -> None:
        """Queue a delivery that may be lost, at the cost of the oldest when the queue is full."""
        queue = self.queue
        queue.push(ids, envelope)
        while len(queue.waiting) > limits.queue or queue.size > limits.queue_bytes:
            queue.pop()
            self.dropped += 1

    def take_sendable(self, at_most: int) -> list[Deliver]:
        """What can be sent now; `is_cut_short` says that there is more to look at."""
        self.is_cut_short = False
        found: list[Deliver] = []
        while self.sent < self.credit and self.room_bytes > 0 and not self.held_up:
            if self.unacked is None and not self.queue.waiting:
                break
            delivery = self._next()
            if delivery is None:
                break
            self.sent += 1
            self.room_bytes -= len(delivery.envelope.content)
            found.append(delivery)
            if len(found) >= at_most:
                self.is_cut_short = True
                break
        return found

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

    def withdraw(self, ids: Collection[int], *, is_over: bool) -> None:
        """What waits for these subscriptions, and for no other, is not to be delivered.

        Nor is what comes until that `is_over`.
        """
        if self.unacked is not None:
            up_to = self.unacked.last if is_over else INTEGER_MAX
            self.withdrawn.update(dict.fromkeys(ids, up_to))
        self.queue.withdraw(ids)

    def restore_withdrawn(self, withdrawn: dict[int, int]) -> None:
        """These were withdrawn before a restart, up to the last that came before it."""
        assert self.unacked is not None
        last = self.unacked.last
        self.withdrawn = {id: min(up_to, last) for id, up_to in withdrawn.items()}

    def stops_publishers(self, limits: ClientLimits) -> bool:
        """Whether its publishers should wait."""
        may_stop = self.when_slow == "block" and not self.waiting.is_over
        return may_stop and self._is_above(4, limits)

    def has_room(self, limits: ClientLimits) -> bool:
        """Whether its publishers may go on."""
        return not self._is_above(8, limits)

    def _is_above(self, part: int, limits: ClientLimits) -> bool:
        """Whether more waits than such a part of what may."""
        if self.unacked is not None:
            count, size = len(self.unacked), self.unacked.size
            return count > limits.unacked // part or size > limits.unacked_bytes // part
        return (
            len(self.queue) > limits.queue // part or self.queue.size > limits.queue_bytes // part
        )

    @property
    def unacked_bytes(self) -> int:
        """How much of it the store keeps."""
        return 0 if self.unacked is None else self.unacked.size

    @property
    def is_empty(self) -> bool:
        """Whether the client has everything that was for it."""
        return not self.queue.waiting and (self.unacked is None or not len(self.unacked))

    def _next(self) -> Deliver | None:
        skipped = 0
        while self.unacked is not None and (found := self.unacked.next()) is not None:
            sequence, after, ids, envelope = found
            if self.withdrawn:
                ids = tuple(id for id in ids if self.withdrawn.get(id, -1) < sequence)
            if self.shown is not None:
                ids = tuple(filter(self.holds, ids))
            seen = self._seen(envelope) if ids else None
            if seen is not None:
                return Deliver(sequence, True, ids, seen, self.dropped, after)
            self.unacked.skip(found)
            skipped += 1
            if skipped >= SKIPPED_MAX:
                self.is_cut_short = True
                return None
        while self.queue.waiting:
            ids, envelope = self.queue.pop()
            if self.shown is not None:
                ids = tuple(filter(self.holds, ids))
            seen = self._seen(envelope) if ids else None
            if seen is not None:
                self.numbered += 1
                return Deliver(self.numbered, False, ids, seen, self.dropped)
        return None

    def _seen(self, envelope: Envelope) -> Envelope | None:
        """What the client is shown of a notification; None when it may see nothing of it."""
        if self.shown is None:
            return envelope
        left = projected(envelope.content, self.shown)
        return None if left is None else replace(envelope, content=left)
