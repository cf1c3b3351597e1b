"""The connections of a node: whom they lead to, and what is to be sent on them in this turn."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Literal

from kbn.broker.fields import shortened
from kbn.broker.messages import AnyMessage, Peer, Refused
from kbn.broker.node import notes
from kbn.broker.node.effects import Close, Effect, Note, PauseReading, ResumeReading
from kbn.broker.node.inboxes import Inbox
from kbn.broker.node.outgoing_links import OutgoingLink
from kbn.errors import RemotePeerError

# asked: we connected and asked for a name; new, introduced: the other side did, and may have asked;
# parting: we have said `Bye` and wait for the answer.
Stage = Literal["asked", "new", "introduced", "client", "broker", "parting"]


@dataclass(slots=True, eq=False)
class NodeConnection:
    """One connection, and whom it leads to once that is known."""

    id: int
    stage: Stage
    address: str
    link: OutgoingLink | None
    certificate: str | None
    opened_at: float
    heard_at: float
    peer: Peer | None = None
    epoch: int = 0
    token: str = ""
    is_older: bool = False  # the other side speaks the version before
    inbox: Inbox = field(default_factory=Inbox)
    is_closing: bool = False
    is_superseded: bool = False  # the peer has come again: what still comes here is not for us
    is_stalled: bool = False
    is_paused: bool = False
    spent: float = 0.0  # see `shares.py`
    last_spent: int = 0

    @property
    def is_open_to_anybody(self) -> bool:
        """Whether nobody has said yet whose it is."""
        return self.stage in ("asked", "new", "introduced")


class NodeConnections:
    """All connections, those of known peers by peer, and the effects gathered in this turn."""

    def __init__(self) -> None:
        self.all: dict[int, NodeConnection] = {}
        self.bound: dict[Peer, NodeConnection] = {}
        self.sends: defaultdict[NodeConnection, list[AnyMessage]] = defaultdict(list)
        self._closes: list[Close] = []
        self._others: list[Effect] = []

    def to_broker(self, name: str) -> NodeConnection | None:
        """The connection with a neighbour, if there is one."""
        return self.bound.get(Peer("broker", name))

    def bind(self, connection: NodeConnection, peer: Peer, stage: Stage) -> None:
        """From now on a connection is a peer's; an older one of that peer is closed."""
        older = self.bound.get(peer)
        self.bound[peer] = connection
        connection.peer, connection.stage = peer, stage
        if older is not None and older is not connection:
            self.note(notes.ConnectionReplaced(peer))
            self.close(older)

    def unbind(self, connection: NodeConnection) -> Peer | None:
        """The peer that a connection was bound to, and is not any more."""
        peer = connection.peer
        if peer is None or self.bound.get(peer) is not connection:
            return None
        del self.bound[peer]
        return peer

    def send(self, connection: NodeConnection, message: AnyMessage) -> None:
        if not connection.is_closing:
            self.sends[connection].append(message)

    def close(self, connection: NodeConnection, *, aborts: bool = False) -> None:
        if not connection.is_closing or aborts:
            connection.is_closing = True
            self._closes.append(Close(connection.id, aborts))

    def refuse(
        self, connection: NodeConnection, reason: str, kind: str = RemotePeerError.__name__
    ) -> None:
        """Say why, and close."""
        if connection.is_closing:
            return
        self.note(notes.ConnectionRefused(connection.peer, connection.address, kind, reason))
        if connection.stage != "asked":  # there, it is us who came
            what = "connect" if connection.peer is None else "frame"
            self.send(connection, Refused(what, 0, kind, shortened(reason)))
        self.close(connection)

    def pause_or_resume(self, connection: NodeConnection) -> None:
        """Read from a connection unless it is crowded, or a client that does not read itself.

        Between brokers both may have much to say at once, so both go on reading.
        """
        does_not_read = connection.is_stalled and connection.stage == "client"
        pauses = does_not_read or connection.inbox.is_crowded
        if pauses is not connection.is_paused:
            connection.is_paused = pauses
            id = connection.id
            self._others.append(PauseReading(id) if pauses else ResumeReading(id))

    def note(self, note: notes.Note) -> None:
        self._others.append(Note(note))

    def effect(self, effect: Effect) -> None:
        self._others.append(effect)

    def take_sends(self) -> dict[NodeConnection, list[AnyMessage]]:
        """What is to be sent on each connection; the caller makes `Send`s of it."""
        sends, self.sends = self.sends, defaultdict(list)
        return sends

    def take_others(self) -> list[Effect]:
        """All else, closes after whatever else: what was sent comes before the end."""
        found: list[Effect] = [*self._others, *self._closes]
        self._others.clear()
        self._closes.clear()
        return found
