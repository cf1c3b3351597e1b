"""The best-effort queue to one neighbour: notifications that may be lost, in bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from kbn.broker.channel import Channel
from kbn.broker.messages import BestEffort, Envelope

AHEAD_MAX = 8_192
AHEAD_BYTES_MAX = 16 << 20
"""So many are sent ahead of what the neighbour says it has handled, and so many bytes."""

# What a queued notification takes beside its content.
ENVELOPE_BYTES = 512


@dataclass(slots=True)
class BestEffortQueue:
    """Counts are of one session: `sent` includes what was dropped from the queue, and `handled` is
    how far the neighbour says it is. What lies between and was not dropped is `ahead`: the number
    and the bytes of each.
    """

    bytes_max: int
    waiting: deque[Envelope] = field(default_factory=deque)
    size: int = 0
    enqueued: int = 0
    sent: int = 0
    handled: int = 0
    dropped: int = 0
    ahead: deque[tuple[int, int]] = field(default_factory=deque)
    ahead_bytes: int = 0

    def begin_session(self) -> None:
        """Count anew; what waits still waits."""
        self.sent = self.handled = 0
        self._forget_ahead()
        self.enqueued = len(self.waiting)

    def push(self, envelope: Envelope) -> None:
        """Queue a notification, at the cost of the oldest when there is too much."""
        self.enqueued += 1
        self.waiting.append(envelope)
        self.size += _size(envelope)
        while self.size > self.bytes_max:
            self._pop()
            self.dropped += 1
            self.sent += 1

    def sendable(self, channel: Channel) -> Iterator[BestEffort]:
        """The queued notifications that can be sent now."""
        while self.waiting and len(self.ahead) < AHEAD_MAX and self.ahead_bytes < AHEAD_BYTES_MAX:
            envelope = self._pop()
            self.sent += 1
            self.ahead.append((self.sent, _size(envelope)))
            self.ahead_bytes += _size(envelope)
            yield BestEffort(channel.sender_epoch, channel.receiver_epoch, self.sent, envelope)

    def skip(self) -> None:
        """What was on its way is lost: do not wait for it."""
        self.handled = self.sent
        self._forget_ahead()

    def heard(self, handled: int) -> None:
        """The neighbour has handled so many."""
        self.handled = max(self.handled, handled)
        while self.ahead and self.ahead[0][0] <= handled:
            self.ahead_bytes -= self.ahead.popleft()[1]

    def clear(self) -> None:
        """Nobody is to have what waits."""
        self.waiting.clear()
        self.size = 0

    def _pop(self) -> Envelope:
        envelope = self.waiting.popleft()
        self.size -= _size(envelope)
        return envelope

    def _forget_ahead(self) -> None:
        self.ahead.clear()
        self.ahead_bytes = 0


def _size(envelope: Envelope) -> int:
    return ENVELOPE_BYTES + len(envelope.content)
