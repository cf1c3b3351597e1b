"""The shell of simulated clients: performs what their cores ask for.

Over TCP `ClientDriver` does the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kbn.broker import (
    Confirmed,
    ConnAck,
    Delivered,
    Dial,
    Effect,
    Failed,
    HangUp,
    Lost,
    Moved,
    OntologyChanged,
    Peer,
    Refused,
    Send,
    TermsUnknown,
    content,
    wire,
)
from kbn.errors import RemotePeerError
from kbn.simulation.client import Line, Received, SimulatedClient
from kbn.simulation.connection import End, SimulatedConnection
from kbn.simulation.links import Links
from kbn.simulation.timeline import Timeline

TICK_S = 0.05
REDIAL_S = 0.1
SILENT_S = 5.0
ATTEMPTS_MAX = 5
"""After so many connections without admission, a client takes the broker for unreachable."""

Accept = Callable[[End, str], SimulatedConnection | None]
"""Connects an end to a broker; None while that broker is down."""


class ClientShell:
    """Connects the `clients` of a network, and performs the effects of their cores."""

    def __init__(
        self,
        clients: Mapping[str, SimulatedClient],
        timeline: Timeline,
        links: Links,
        knows: Callable[[str], bool],
        accept: Accept,
    ) -> None:
        self._clients = clients
        self._timeline = timeline
        self._links = links
        self._knows = knows
        self._accept = accept

    def carry_out(self, client: SimulatedClient, effects: list[Effect]) -> None:
        """Do what the core of a client asks for."""
        for effect in effects:
            match effect:
                case Send(to, message):
                    line = client.lines.get(to.name)
                    if line is not None and line.connection is not None and line.end is not None:
                        self._links.transmit(line.connection, line.end, message)
                case Delivered():
                    self._hand_over(client, effect)
                case Dial(broker, _):
                    line = client.lines.setdefault(broker, Line(broker))
                    if line.connection is None:
                        self.connect_soon(client, line)
                case Confirmed():
                    client.confirmed.append(effect)
                case Lost():
                    client.lost.append(effect)
                case Failed():
                    client.failed.append(effect)
                case Moved(broker):
                    client.moves.append(broker)
                case HangUp(broker):
                    self._hang_up(client, broker)
                case OntologyChanged(ontology):
                    client.ontologies.append(ontology)
                case TermsUnknown():
                    client.unknown.append(effect)

    def connect_soon(self, client: SimulatedClient, line: Line, after_s: float = 0.0) -> None:
        """Connect a client after a time, if it still wants that connection then."""

        def connect() -> None:
            is_wanted = client.lines.get(line.broker) is line and line.connection is None
            if is_wanted and self._clients.get(client.key) is client:
                self.connect(client, line)

        self._timeline.at(self._timeline.now + after_s, connect)

    def connect(self, client: SimulatedClient, line: Line) -> None:
        """Connect a client; a broker that is down has it connected when it is back.

        One that is turned away again and again stays away, until it has another token.
        """
        if not self._knows(line.broker):
            self._give_up(client, line, f"no broker {line.broker!r}")
        elif line.attempts >= ATTEMPTS_MAX:
            if client.core.is_arriving_at(line.broker):
                self._give_up(client, line, "it turns us away")
        else:
            self._open(client, line)

    def _give_up(self, client: SimulatedClient, line: Line, reason: str) -> None:
        client.lines.pop(line.broker)
        self.carry_out(client, client.core.unreachable(line.broker, reason))

    def _open(self, client: SimulatedClient, line: Line) -> None:
        end = End(Peer("client", client.key), lambda body: None, lambda: None)
        if self._links.is_cut(frozenset((end.peer, Peer("broker", line.broker)))):
            self.connect_soon(client, line, REDIAL_S)
            return
        end.received = lambda body: self._received(client, line, body)
        end.closed = lambda: self._lost(client, line, end)
        connection = self._accept(end, line.broker)
        if connection is None:
            return
        line.attempts += 1
        line.connection, line.end, line.heard_at = connection, end, self._timeline.now
        self.carry_out(client, client.core.connected(line.broker, self._timeline.now))

    def _received(self, client: SimulatedClient, line: Line, body: bytes) -> None:
        line.heard_at = self._timeline.now
        message = wire.decode_to_client(body)
        if isinstance(message, ConnAck):
            line.attempts = 0
        if isinstance(message, Refused) and message.kind == RemotePeerError.__name__:
            line.attempts = 0  # it is to come back later
        self.carry_out(client, client.core.receive(message, line.broker, self._timeline.now))

    def _lost(self, client: SimulatedClient, line: Line, end: End) -> None:
        if line.end is not end:
            return
        line.connection = line.end = None
        if self._clients.get(client.key) is client and client.lines.get(line.broker) is line:
            effects = client.core.disconnected(line.broker, self._timeline.now)
            self.carry_out(client, effects)
            self.connect_soon(client, line, REDIAL_S)

    def _hang_up(self, client: SimulatedClient, broker: str) -> None:
        line = client.lines.pop(broker, None)
        if line is not None and line.connection is not None and line.end is not None:
            line.end.is_open = False
            self._links.close_other(line.connection, line.end)

    def _hand_over(self, client: SimulatedClient, delivered: Delivered) -> None:
        envelope, now = delivered.delivery.envelope, self._timeline.now
        received = Received(
            envelope.id,
            content.decode(envelope.content),
            delivered.delivery.subscriptions,
            envelope.hops,
            envelope.path,
            now,
            now - envelope.time,
            envelope.by_manager,
            delivered.broker,
            envelope.strand,
            delivered.is_late,
        )
        client.received.append(received)
        if client.is_reading:
            self.carry_out(client, client.core.consumed(delivered))
        else:
            client.unread.append(delivered)

    def tick(self, client: SimulatedClient) -> None:
        """Let the clock of a client tick from now on, until it is detached."""
        if self._clients.get(client.key) is client:
            self.carry_out(client, client.core.tick(self._timeline.now))
            self._drop_silent(client)
            self._timeline.at(self._timeline.now + TICK_S, lambda: self.tick(client))

    def _drop_silent(self, client: SimulatedClient) -> None:
        """Break connections to brokers that gave no sign of life for long."""
        for line in client.lines.values():
            is_silent = line.heard_at < self._timeline.now - SILENT_S
            if line.connection is not None and line.end is not None and is_silent:
                self._links.close(line.end)
                self._links.close_other(line.connection, line.end)
