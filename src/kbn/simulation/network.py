"""The in-memory network: a whole overlay in one process, deterministic from its seed.

Events happen in the order of simulated time; those of the same moment in the order they were made.
Chance comes from one generator. So a run is a function of the seed and of what the caller does, and
a failing one can be run again.

Each broker is a `Node`, as it is over TCP: connections are opened, admitted, cross, break and are
dialled again. Only sockets and the clock are simulated.

On perfect links (the default) no clock ticks and nothing is repeated: the network is *quiet* when
no message is on its way. With faults, brokers and clients repeat and greet by the clock, as they do
over real links, and `run_until` says what to wait for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import count
from math import inf
from random import Random
from typing import Literal

from kbn.broker import (
    AllowAll,
    AnyMessage,
    Authorizer,
    Broker,
    ClientCore,
    ClientSettings,
    Confirmed,
    ConnAck,
    Delivered,
    Dial,
    Effect,
    Failed,
    HangUp,
    Limits,
    LinkTo,
    MemoryStore,
    Moved,
    Node,
    NodeSettings,
    OntologyChanged,
    Peer,
    Role,
    RoutingTable,
    Send,
    ServerLimits,
    Topology,
    content,
    node_effects,
    node_events,
    notes,
    wire,
)
from kbn.errors import InvalidInputError, KbnError
from kbn.ontology import Ontology
from kbn.simulation.client import Line, Received, SimulatedClient
from kbn.simulation.connection import End, SimulatedConnection
from kbn.simulation.faults import Faults

TICK_S = 0.05
RETRANSMIT_S = 0.1
REDIAL_S = 0.1
ATTEMPTS_MAX = 5
LIMITS = ServerLimits(connect_timeout_s=1.0, silent_s=5.0)


@dataclass(slots=True)
class _Place:
    """Where a broker runs: its store outlives its node."""

    settings: NodeSettings
    store: MemoryStore
    node: Node | None = None
    ends: dict[int, tuple[SimulatedConnection, End]] = field(default_factory=dict)
    reports: list[node_events.Event] = field(default_factory=list)
    wakes_at: float = inf


class Network:
    """An overlay of brokers with clients, in memory.

    >>> from kbn import Network
    >>> net = Network({"root": None, "east": "root", "west": "root"})
    >>> ann, bob = net.client("ann", at="east"), net.client("bob", at="west")
    >>> _ = ann.subscribe("price < 10")
    >>> net.run()
    >>> _ = bob.publish({"price": 5}); _ = bob.publish({"price": 50})
    >>> net.run()
    >>> [(dict(each.notification), each.hops) for each in ann.received]
    [({'price': 5}, 3)]

    A topology is a `Topology`, or for a hierarchy a mapping from broker to parent. With `ticks` the
    clock ticks on perfect links too, as crashes need: the silent are noticed. Brokers show each
    other `broker_token`. `notes` is what the nodes noted, and who did.
    """

    def __init__(
        self,
        topology: Topology | Mapping[str, str | None],
        ontology: Ontology | None = None,
        seed: int = 0,
        *,
        faults: Faults | None = None,
        ticks: bool = False,
        advertisements: bool = False,
        keeps_roots: bool = False,
        authorizer: Authorizer | None = None,
        broker_token: str = "",
        limits: Limits | None = None,
    ) -> None:
        if not isinstance(topology, Topology):
            topology = Topology.hierarchy(topology)
        self.topology = topology
        self.now = 0.0
        self.rng = Random(seed)
        self.clients: dict[str, SimulatedClient] = {}
        self.messages = 0
        self.broker_moves: list[tuple[str, str, str | None]] = []
        self.notes: list[tuple[str, notes.Note]] = []
        self._faults = faults or Faults()
        self._faults_of: dict[frozenset[Peer], Faults] = {}
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._cut: set[frozenset[Peer]] = set()
        self._ticks = ticks or not self._faults.is_reliable
        self._runs = count(1)
        self._connection_ids = count(1)
        self._parked: list[tuple[str, Node, node_effects.Dial]] = []
        common = NodeSettings(
            "",
            topology.routing,
            token=broker_token,
            ontology=ontology,
            ontology_digest="",
            authorizer=authorizer or AllowAll(),
            limits=limits or Limits(),
            server_limits=LIMITS,
            advertisements=advertisements,
            keeps_roots=keeps_roots,
            retransmit_s=RETRANSMIT_S if self._ticks else None,
        )
        self._places = {name: _place(name, common) for name in topology.brokers}
        for name, place in self._places.items():
            links = tuple(self._links(name, broker_token))
            place.settings = replace(place.settings, links=links)
        for name in topology.brokers:
            self.restart(name)

    def _links(self, name: str, token: str) -> list[LinkTo]:
        """Whom a broker dials: its parent; of two peers the first; of general peers both."""
        role: Role = "parent" if self.topology.routing == "hierarchical" else "peer"
        both = self._ticks and self.topology.routing == "general"
        found = [other for one, other in self.topology.links if one == name]
        found += [one for one, other in self.topology.links if other == name and both]
        return [LinkTo(other, role, token, other) for other in found]

    # Nodes.

    def broker(self, name: str) -> Broker:
        """A running broker."""
        return self._running(name).broker

    @property
    def brokers(self) -> dict[str, Broker]:
        """The brokers that are running."""
        nodes = {name: place.node for name, place in self._places.items()}
        return {name: node.broker for name, node in nodes.items() if node is not None}

    def client(
        self,
        name: str,
        at: str,
        *,
        durable: bool = False,
        window: int = 1000,
        when_slow: Literal["drop", "block"] = "drop",
        token: str = "",
        with_path: bool = False,
    ) -> SimulatedClient:
        """Attach a new client to a broker."""
        self._place(at)
        settings = ClientSettings(
            durable=durable,
            window=window,
            when_slow=when_slow,
            token=token,
            with_path=with_path,
            retransmit_s=RETRANSMIT_S if self._ticks else None,
        )
        core = ClientCore(name, at, next(self._runs), settings)
        client = self.clients[name] = SimulatedClient(self, core)
        client.lines[at] = Line(at)
        self._connect(client, client.lines[at])
        if self._ticks:
            self._tick_client(client)
        return client

    def detach(self, name: str) -> None:
        """Have a client vanish without a word."""
        client = self.clients.pop(name)
        for line in client.lines.values():
            if line.connection is None or line.end is None:
                continue
            line.end.is_open = False
            if not self._ticks:
                self._close_other(line.connection, line.end)

    def move_broker(self, name: str, to: str, leaving: str | None = None) -> None:
        """Move a broker with all that hangs on it: to another parent, or to another peer.

        `leaving` says which link is meant, where a peer has several.
        """
        node = self._running(name)
        self._place(to)
        request = node_events.MoveBroker(to, leaving)
        old = node.leaving(request)
        if to == name or to in node.broker.neighbours:
            raise InvalidInputError(
                f"{name!r} cannot move from {old!r} to {to!r}: the first must be a neighbour "
                "and the second none"
            )
        self._tell(name, request)

    def use_ontology(
        self, name: str, ontology: Ontology | None, digest: str, table: RoutingTable | None = None
    ) -> None:
        """Give a broker another ontology."""
        place = self._place(name)
        place.settings = replace(place.settings, ontology=ontology, ontology_digest=digest)
        if place.node is not None:
            self._tell(name, node_events.UseOntology(ontology, digest, table))

    # Disturbances.

    def set_faults(self, faults: Faults, one: str | None = None, other: str | None = None) -> None:
        """How links behave from now on: all, or the one between two brokers."""
        assert self._ticks or faults.is_reliable, "give faults to the network when it is made"
        if one is None or other is None:
            self._faults = faults
            self._faults_of.clear()
        else:
            self._faults_of[_pair(one, other)] = faults

    def cut(self, one: str, other: str) -> None:
        """Nothing passes between two brokers from now on."""
        self._cut.add(_pair(one, other))

    def mend(self, one: str, other: str) -> None:
        self._cut.discard(_pair(one, other))

    def reset(self, one: str, other: str) -> None:
        """Break the connections between two brokers; both notice at once."""
        pair = _pair(one, other)
        for connection, _ in list(self._places[one].ends.values()):
            if connection.pair == pair:
                self._close(connection.dialler)
                self._close(connection.acceptor)

    def crash(self, name: str) -> None:
        """A broker stops in mid-air: what is not in its store is gone."""
        place = self._place(name)
        place.node = None
        place.store.rollback()
        place.reports.clear()
        ends, place.ends = place.ends, {}
        for connection, end in ends.values():
            end.is_open = False
            self._close_other(connection, end)

    def restart(self, name: str) -> None:
        """Start a broker from what its store has kept."""
        place = self._place(name)
        if place.node is not None:
            raise InvalidInputError(f"broker {name!r} is running")
        node = place.node = Node(place.settings, self.now, self.rng.random)
        place.wakes_at = inf
        self._perform(name, node.start(self.now))
        if self._ticks:
            self._tick_node(name, node)
        self._dial_parked(name)

    def heal(self) -> None:
        """Everything works again: links are perfect and up, brokers run."""
        self._cut.clear()
        self._faults = Faults(self._faults.latency_s)
        self._faults_of.clear()
        for name, place in self._places.items():
            if place.node is None:
                self.restart(name)

    # Time.

    def run(self, events_max: int = 100_000_000) -> None:
        """Go on until nothing is on its way; only without a ticking clock."""
        assert not self._ticks, "the clock ticks on and on: use run_for or run_until"
        for _ in range(events_max):
            if not self._step():
                return
        raise KbnError(f"the network is not quiet after {events_max} events")

    def run_for(self, seconds: float) -> None:
        """Let so much simulated time pass."""
        end = self.now + seconds
        while self._events and self._events[0][0] <= end:
            self._step()
        self.now = end

    def run_until(self, condition: Callable[[], bool], at_most_s: float) -> bool:
        """Go on until the condition holds; False when it does not within so much time."""
        end = self.now + at_most_s
        while not condition():
            if not self._events or self._events[0][0] > end:
                return False
            self._step()
        return True

    def at(self, time: float, action: Callable[[], None]) -> None:
        """Have something done at a simulated time."""
        heappush(self._events, (max(time, self.now), next(self._order), action))

    def _step(self) -> bool:
        if not self._events:
            return False
        self.now, _, action = heappop(self._events)
        action()
        return True

    # What nodes ask for.

    def _tell(self, name: str, event: node_events.Event) -> None:
        place = self._places[name]
        if place.node is not None:
            reports, place.reports = place.reports, []
            self._perform(name, place.node.handle([*reports, event], self.now))

    def _perform(self, name: str, effects: list[node_effects.Effect]) -> None:
        place = self._places[name]
        for effect in effects:
            match effect:
                case node_effects.Send():
                    self._send(name, place, effect)
                case node_effects.Close(id, _):
                    if id in place.ends:
                        self._close(place.ends[id][1])
                        self._close_other(*place.ends[id])
                case node_effects.Dial():
                    assert place.node is not None
                    self._dial_soon(name, place.node, effect)
                case node_effects.Note(note):
                    self._noted(name, note)
                case _:
                    pass  # sockets have room here, and frames any length
        if place.node is not None and place.node.due_at < place.wakes_at:
            self._wake(name, place, place.node)

    def _send(self, name: str, place: _Place, send: node_effects.Send) -> None:
        found = place.ends.get(send.connection)
        if found is None:
            return
        for message in send.messages:
            self._transmit(*found, message)
        report = node_events.Writable(send.connection)
        if send.is_cut_short:
            self.at(self.now, lambda: self._tell(name, report))
        else:
            place.reports.append(report)

    def _noted(self, name: str, note: notes.Note) -> None:
        self.notes.append((name, note))
        if isinstance(note, notes.Bug):
            raise note.error
        if isinstance(note, notes.MoveEnded):
            if note.trouble is None:
                links = tuple(
                    (name, note.to) if set(link) == {name, note.leaving} else link
                    for link in self.topology.links
                )
                self.topology = replace(self.topology, links=links)
            self.broker_moves.append((name, note.to, note.trouble))

    def _wake(self, name: str, place: _Place, node: Node) -> None:
        place.wakes_at = node.due_at

        def wake() -> None:
            if place.node is node:
                place.wakes_at = inf
                self._perform(name, node.handle((), self.now))

        self.at(node.due_at, wake)

    def _tick_node(self, name: str, node: Node) -> None:
        if self._places[name].node is node:
            self._tell(name, node_events.Tick())
            self.at(self.now + TICK_S, lambda: self._tick_node(name, node))

    # Connections.

    def _dial_soon(self, name: str, node: Node, dial: node_effects.Dial) -> None:
        self.at(self.now, lambda: self._dial(name, node, dial))

    def _dial(self, name: str, node: Node, dial: node_effects.Dial) -> None:
        """Connect one broker to another, if both run and can hear each other."""
        if self._places[name].node is not node:
            return
        target = self._places.get(dial.url)
        is_cut = _pair(name, dial.url) in self._cut
        if target is not None and target.node is not None and not is_cut:
            connection = self._join(self._end(name), self._end(dial.url))
            self._tell(dial.url, node_events.Opened(connection.id, name))
            self._tell(name, node_events.Opened(connection.id, dial.url, dial.link))
        elif self._ticks:
            self._tell(name, node_events.DialFailed(dial.link, f"{dial.url} does not answer"))
        else:
            self._parked.append((name, node, dial))

    def _dial_parked(self, target: str) -> None:
        """Where no clock ticks nobody tries again and again: dial when a broker is back."""
        parked = [each for each in self._parked if each[2].url == target]
        self._parked = [each for each in self._parked if each[2].url != target]
        for name, node, dial in parked:
            self._dial_soon(name, node, dial)
        for client in self.clients.values():
            line = client.lines.get(target)
            if line is not None and line.connection is None:
                self._connect_soon(client, line)

    def _end(self, name: str) -> End:
        """The side of a broker."""
        return End(Peer("broker", name), lambda body: None, lambda: None)

    def _join(self, dialler: End, acceptor: End) -> SimulatedConnection:
        connection = SimulatedConnection(next(self._connection_ids), dialler, acceptor)
        for end in (dialler, acceptor):
            if end.peer.kind == "broker":
                self._join_node(connection, end)
        return connection

    def _join_node(self, connection: SimulatedConnection, end: End) -> None:
        name, id = end.peer.name, connection.id
        place = self._places[name]
        place.ends[id] = (connection, end)
        end.received = lambda body: self._tell(name, node_events.Received(id, [body]))

        def closed() -> None:
            if place.ends.pop(id, None) is not None:
                self._tell(name, node_events.Closed(id))

        end.closed = closed

    def _close(self, end: End) -> None:
        """Close one end; it is told, and nothing reaches it any more."""
        if end.is_open:
            end.is_open = False
            self.at(self.now, end.closed)

    def _close_other(self, connection: SimulatedConnection, end: End) -> None:
        """The other end learns that this one is closed, unless nothing passes."""
        other = connection.other(end)
        if connection.pair not in self._cut:
            latency_s = self._faults_of.get(connection.pair, self._faults).latency_s
            arrives = max(self.now + latency_s, other.nothing_before)
            self.at(arrives, lambda: self._close(other))

    def _transmit(self, connection: SimulatedConnection, end: End, message: AnyMessage) -> None:
        self.messages += 1
        is_opening = connection.is_opening(end, message)
        if connection.pair in self._cut:
            return
        to = connection.other(end)
        faults = self._faults_of.get(connection.pair, self._faults)
        delays = [faults.latency_s] if is_opening else faults.arrivals(self.rng)
        body = wire.encode(message)[wire.HEADER_BYTES :]
        for delay in delays:
            arrives = max(self.now + delay, to.nothing_before)
            self.at(arrives, lambda: self._arrive(connection, to, body))
        if is_opening:
            to.nothing_before = self.now + faults.latency_s

    def _arrive(self, connection: SimulatedConnection, to: End, body: bytes) -> None:
        if to.is_open:
            to.received(body)
        else:
            self._close_other(connection, to)  # nobody is there: the sender learns of it

    # What clients ask for.

    def carry_out(self, client: SimulatedClient, effects: list[Effect]) -> None:
        """Do what a client's core asks for."""
        for effect in effects:
            match effect:
                case Send(to, message):
                    line = client.lines.get(to.name)
                    if line is not None and line.connection is not None and line.end is not None:
                        self._transmit(line.connection, line.end, message)
                case Delivered():
                    self._hand_over(client, effect)
                case Dial(broker, _):
                    line = client.lines.setdefault(broker, Line(broker))
                    if line.connection is None:
                        self._connect_soon(client, line)
                case Confirmed():
                    client.confirmed.append(effect)
                case Failed():
                    client.failed.append(effect)
                case Moved(broker):
                    client.moves.append(broker)
                case HangUp(broker):
                    self._hang_up(client, broker)
                case OntologyChanged(ontology):
                    client.ontologies.append(ontology)

    def _connect_soon(self, client: SimulatedClient, line: Line, after_s: float = 0.0) -> None:
        def connect() -> None:
            is_wanted = client.lines.get(line.broker) is line and line.connection is None
            if is_wanted and self.clients.get(client.name) is client:
                self._connect(client, line)

        self.at(self.now + after_s, connect)

    def _connect(self, client: SimulatedClient, line: Line) -> None:
        """Connect a client; to a broker that is down when it is back."""
        place = self._places.get(line.broker)
        if place is None or line.attempts >= ATTEMPTS_MAX:
            reason = f"no broker {line.broker!r}" if place is None else "it turns us away"
            client.lines.pop(line.broker)
            self.carry_out(client, client.core.unreachable(line.broker, reason))
        elif place.node is not None:
            line.attempts += 1
            end = End(Peer("client", client.name), lambda body: None, lambda: None)
            connection = self._join(end, self._end(line.broker))
            line.connection, line.end = connection, end
            end.received = lambda body: self._client_received(client, line, body)
            end.closed = lambda: self._client_lost(client, line, end)
            self._tell(line.broker, node_events.Opened(connection.id, client.name))
            self.carry_out(client, client.core.connected(line.broker, self.now))

    def _client_received(self, client: SimulatedClient, line: Line, body: bytes) -> None:
        message = wire.decode_to_client(body)
        if isinstance(message, ConnAck):
            line.attempts = 0
        self.carry_out(client, client.core.receive(message, line.broker, self.now))

    def _client_lost(self, client: SimulatedClient, line: Line, end: End) -> None:
        if line.end is not end:
            return
        line.connection = line.end = None
        if self.clients.get(client.name) is client and client.lines.get(line.broker) is line:
            self.carry_out(client, client.core.disconnected(line.broker, self.now))
            self._connect_soon(client, line, REDIAL_S)

    def _hang_up(self, client: SimulatedClient, broker: str) -> None:
        line = client.lines.pop(broker, None)
        if line is not None and line.connection is not None and line.end is not None:
            line.end.is_open = False
            self._close_other(line.connection, line.end)

    def _hand_over(self, client: SimulatedClient, delivered: Delivered) -> None:
        envelope = delivered.delivery.envelope
        client.received.append(
            Received(
                envelope.id,
                content.decode(envelope.content),
                delivered.delivery.subscriptions,
                envelope.hops,
                envelope.path,
                self.now,
                self.now - envelope.time,
            )
        )
        self.carry_out(client, client.core.consumed(delivered))

    def _tick_client(self, client: SimulatedClient) -> None:
        if self.clients.get(client.name) is client:
            self.carry_out(client, client.core.tick(self.now))
            self.at(self.now + TICK_S, lambda: self._tick_client(client))

    def _place(self, name: str) -> _Place:
        place = self._places.get(name)
        if place is None:
            raise InvalidInputError(f"no broker is called {name!r}: {', '.join(self._places)}")
        return place

    def _running(self, name: str) -> Node:
        node = self._place(name).node
        if node is None:
            raise InvalidInputError(f"broker {name!r} is down: restart it first")
        return node


def _place(name: str, common: NodeSettings) -> _Place:
    store = MemoryStore()
    return _Place(replace(common, name=name, store=store), store)


def _pair(one: str, other: str) -> frozenset[Peer]:
    return frozenset((Peer("broker", one), Peer("broker", other)))
