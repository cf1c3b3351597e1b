"""Sending: on which connections the broker's messages go out, and in which version."""

from __future__ import annotations

from msgspec.structs import replace

from kbn.broker.messages import Bye, Greet, Peer, Refused
from kbn.broker.messages import Send as BrokerSend
from kbn.broker.node import notes
from kbn.broker.node.connections import NodeConnection, NodeConnections
from kbn.broker.node.effects import Effect, Send
from kbn.broker.node.flow_control import FlowControl
from kbn.broker.node.neighbourhood import Neighbourhood
from kbn.broker.wire_versions import WireVersions


class Sending:
    """Brings what the broker wants sent to connections: one `Send` for each in a turn."""

    __slots__ = ("_connections", "_flow", "_neighbours", "_wire")

    def __init__(
        self,
        wire: WireVersions,
        connections: NodeConnections,
        neighbours: Neighbourhood,
        flow: FlowControl,
    ) -> None:
        self._wire = wire
        self._connections = connections
        self._neighbours = neighbours
        self._flow = flow

    def address(self, sends: list[BrokerSend], now: float) -> None:
        """Find the connections on which the broker's messages go out."""
        bound, gathered = self._connections.bound, self._connections.sends
        for to, message in sends:
            kind = type(message)
            if kind is Bye:
                self._neighbours.say_bye(to, message, now)  # type: ignore[arg-type]
                continue
            connection = bound.get(to)
            if connection is None or connection.is_closing:
                continue
            if kind is Greet:
                message = self._in_version(connection, message)  # type: ignore[arg-type]
            gathered[connection].append(message)
            if kind is Refused:
                self._note_refusal(connection, to, message)  # type: ignore[arg-type]

    def _in_version(self, connection: NodeConnection, greet: Greet) -> Greet:
        """A greeting that says which version is spoken here."""
        version = self._wire.oldest if connection.is_older else self._wire.newest
        return greet if greet.version == version else replace(greet, version=version)

    def _note_refusal(self, connection: NodeConnection, to: Peer, refused: Refused) -> None:
        what, _, kind, reason = refused.what, refused.reference, refused.kind, refused.reason
        self._connections.note(notes.RequestRefused(to.name, what, kind, reason))
        if what == "connect":
            self._connections.close(connection)

    def take(self) -> list[Effect]:
        """What is to be sent in this turn."""
        is_cut_short = self._flow.is_cut_short
        return [
            Send(connection.id, messages, is_cut_short(connection), connection.is_older)
            for connection, messages in self._connections.take_sends().items()
        ]
