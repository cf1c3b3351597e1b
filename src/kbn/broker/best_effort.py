"""The best-effort queue to one neighbour: notifications that may be lost, in bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from kbn.broker.channel import Channel
from kbn.broker.messages import BestEffort, Envelope

QUEUE_MAX = 65_536
AHEAD_MAX = 8_192
"""So many are sent ahead of what the neighbour says it has handled."""


@dataclass(slots=True)
class BestEffortQueue:
    """Counts are of one session: `sent` includes what was dropped from the queue, and `handled` is
    how far the neighbour says it is.
    """

    waiting: deque[Envelope] = field(default_factory=deque)
    enqueued: int = 0
    sent: int = 0
    handled: int = 0
    dropped: int = 0

    def begin_session(self) -> None:
        """Count anew; what waits still waits."""
        self.sent = self.handled = 0
        self.enqueued = len(self.waiting)

    def push(self, envelope: Envelope) -> None:
        """Queue a notification, at the cost of the oldest when there are too many."""
        if len(self.waiting) >= QUEUE_MAX:
            self.waiting.popleft()
            self.dropped += 1
            self.sent += 1
        self.enqueued += 1
        self.waiting.append(envelope)

    def sendable(self, channel: Channel) -> Iterator[BestEffort]:
        """The queued notifications that can be sent now."""
        while self.waiting and self.sent - self.handled < AHEAD_MAX:
            self.sent += 1
            envelope = self.waiting.popleft()
            yield BestEffort(channel.sender_epoch, channel.receiver_epoch, self.sent, envelope)

    def skip(self) -> None:
        """What was on its way is lost: do not wait for it."""
        self.handled = self.sent

    def heard(self, handled: int) -> None:
        """The neighbour has handled so many."""
        self.handled = max(self.handled, handled)
