"""A channel: bodies to and from one neighbour, once each and in order, over a link that may lose,
repeat and reorder what it carries.

Bodies are numbered from 1 in each session. The receiver takes the next number only and says how far
it is; the sender repeats what was not heard. A channel is of one session: a new one begins empty,
and what must outlast it is kept elsewhere (announcements are made again, durable notifications are
in the store).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from kbn.broker.messages import Announce, Body, Forward, Frame, Heard

# How many overdue frames are repeated at a time; the rest follow when these are heard.
REPEATED_MAX = 64


# What a body takes beside filters and contents.
BODY_BYTES = 256


def size_of(body: Body) -> int:
    """About how many bytes a body takes."""
    match body:
        case Forward(_, envelope):
            return BODY_BYTES + len(envelope.content)
        case Announce(_, add, drop):
            return BODY_BYTES * (1 + len(add) + len(drop)) + sum(len(text) for _, text in add)
        case _:
            return BODY_BYTES


class Channel:
    """One session with one neighbour."""

    def __init__(self, sender_epoch: int, receiver_epoch: int) -> None:
        self.sender_epoch = sender_epoch
        self.receiver_epoch = receiver_epoch
        self._sent: deque[tuple[int, Body]] = deque()
        self.unheard_bytes = 0
        self._last_sent = 0
        self._last_arrived = 0
        self._progress_at = 0.0
        self.owes_answer = False

    def is_of(self, sender_epoch: int, receiver_epoch: int) -> bool:
        """Whether a message of the other side, in these epochs, belongs to this session."""
        return sender_epoch == self.receiver_epoch and receiver_epoch == self.sender_epoch

    @property
    def unheard(self) -> int:
        """How many bodies the other has not acknowledged."""
        return len(self._sent)

    def send(self, body: Body, now: float) -> Frame:
        """The frame for one more body."""
        if not self._sent:
            self._progress_at = now
        self._last_sent += 1
        self._sent.append((self._last_sent, body))
        self.unheard_bytes += size_of(body)
        return self._frame(self._last_sent, body)

    def receive(self, frame: Frame, now: float) -> Body | None:
        """The body, if it is the next one; None for one that came before or comes too early."""
        self.hear(frame.heard, now)
        self.owes_answer = True
        if frame.number != self._last_arrived + 1:
            return None
        self._last_arrived = frame.number
        return frame.body

    def hear(self, number: int, now: float) -> None:
        """Forget what has arrived at the other side."""
        while self._sent and self._sent[0][0] <= number:
            self.unheard_bytes -= size_of(self._sent.popleft()[1])
            self._progress_at = now

    def answer(self, best_effort: int) -> Heard:
        """Say how far we are."""
        self.owes_answer = False
        return Heard(self.sender_epoch, self.receiver_epoch, self._last_arrived, best_effort)

    def overdue(self, now: float, after_s: float) -> Iterator[Frame]:
        """What to repeat, when nothing was heard for so long."""
        if self._sent and now - self._progress_at >= after_s:
            self._progress_at = now
            yield from self.repeated()

    def repeated(self, at_most: int = REPEATED_MAX) -> Iterator[Frame]:
        """The oldest frames that were not heard, again."""
        for number, body in list(self._sent)[:at_most]:
            yield self._frame(number, body)

    def _frame(self, number: int, body: Body) -> Frame:
        self.owes_answer = False
        return Frame(self.sender_epoch, self.receiver_epoch, number, self._last_arrived, body)
