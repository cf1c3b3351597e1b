"""The outbox: what a broker is about to send, the time it sends it at, and what that has cost."""

from __future__ import annotations

from kbn.broker.messages import AnyMessage, Peer, Send
from kbn.broker.work import Work


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

    __slots__ = ("now", "sends", "work")

    def __init__(self, now: float = 0.0) -> None:
        self.now = now
        self.work = Work()
        self.sends: list[Send] = []

    def send(self, to: Peer, message: AnyMessage) -> None:
        self.sends.append(Send(to, message))

    def take(self) -> list[Send]:
        """Everything written since the last time, in order."""
        sends, self.sends = self.sends, []
        return sends
