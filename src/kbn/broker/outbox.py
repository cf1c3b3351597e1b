"""The outbox: what a broker is about to send and to tell, when, and what it has cost."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from kbn.broker.messages import AnyMessage, Peer, Send
from kbn.broker.occurrences import Occurrence
from kbn.broker.work import Work

OCCURRED_MAX = 1000
"""So many occurrences wait for somebody to take them; of more, the oldest are forgotten."""


class Outbox:
    """The one thing that every part of a broker may write.

    >>> from kbn.broker.messages import Alive
    >>> outbox = Outbox(now=5.0)
    >>> outbox.send(Peer("client", "ann"), Alive())
    >>> outbox.take()
    [Send(to=Peer(kind='client', name='ann'), message=Alive())]
    >>> outbox.take()
    []
    """

    __slots__ = ("now", "occurred", "sends", "work")

    def __init__(self, now: float = 0.0) -> None:
        self.now = now
        self.work = Work()
        self.sends: list[Send] = []
        self.occurred: deque[Occurrence] = deque(maxlen=OCCURRED_MAX)

    def send(self, to: Peer, message: AnyMessage) -> None:
        self.sends.append(Send(to, message))

    def note(self, occurrence: Occurrence) -> None:
        """Have a person told."""
        self.occurred.append(occurrence)

    def send_all(self, to: Peer, messages: Iterable[AnyMessage]) -> None:
        sends = self.sends
        for message in messages:
            sends.append(Send(to, message))

    def take(self) -> list[Send]:
        """Everything written since the last time, in order."""
        sends, self.sends = self.sends, []
        return sends

    def take_occurred(self) -> list[Occurrence]:
        """Everything that a person should hear of, since the last time."""
        occurred = list(self.occurred)
        self.occurred.clear()
        return occurred
