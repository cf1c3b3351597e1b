"""The in-memory network: a whole overlay in one process, deterministic from its seed.

Events happen in the order of simulated time; those of the same moment in the order they were made.
Chance comes from one generator. So a run is a function of the seed and of what the caller does, and
a failing one can be run again.

On perfect links (the default) no clock ticks and nothing is repeated: the network is *quiet* when
no message is on its way. With faults, brokers and clients repeat and greet by the clock, as they do
over real links, and `run_until` says what to wait for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any, Literal

from kbn.broker import (
    AnyMessage,
    Authorizer,
    Broker,
    ClientCore,
    ClientSettings,
    Confirmed,
    Delivered,
    Dial,
    Effect,
    Failed,
    HangUp,
    Limits,
    MemoryStore,
    Moved,
    NotificationId,
    OntologyChanged,
    Peer,
    Send,
    Topology,
    content,
)
from kbn.errors import InvalidInputError, KbnError
from kbn.filters import Notification, Subscription
from kbn.ontology import Ontology
from kbn.simulation.faults import Faults

TICK_S = 0.05
RETRANSMIT_S = 0.1


@dataclass(frozen=True, slots=True)
class Received:
    """A notification that reached an application."""

    id: NotificationId
    notification: Notification
    subscriptions: tuple[int, ...]
    hops: int
    path: tuple[str, ...] | None
    at: float
    delay_s: float


@dataclass(slots=True)
class _BrokerNode:
    name: str
    store: MemoryStore
    broker: Broker | None
    ontology: Ontology | None
    digest: str
    # Who was on its way to it when it crashed; a real server has its neighbours in its store.
    guests: list[str] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class SimulatedClient:
    """A client in the network. What it asks takes effect as simulated time goes on."""

    network: Network
    core: ClientCore
    received: list[Received] = field(default_factory=list)
    confirmed: list[Confirmed] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)
    moves: list[str] = field(default_factory=list)
    ontologies: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.core.name

    @property
    def broker(self) -> str:
        return self.core.broker

    def subscribe(self, subscription: Subscription | str) -> int:
        """Want what the subscription says; the number it is known by."""
        if isinstance(subscription, str):
            id, effects = self.core.subscribe(subscription)
        else:
            id, effects = self.core.subscribe(json_text(subscription), is_text=False)
        self.network.carry_out(self, effects)
        return id

    def unsubscribe(self, id: int) -> None:
        self.network.carry_out(self, self.core.unsubscribe(id))

    def advertise(self, advertisement: Subscription | str) -> int:
        if isinstance(advertisement, str):
            id, effects = self.core.advertise(advertisement)
        else:
            id, effects = self.core.advertise(json_text(advertisement), is_text=False)
        self.network.carry_out(self, effects)
        return id

    def unadvertise(self, id: int) -> None:
        self.network.carry_out(self, self.core.unadvertise(id))

    def publish(
        self, notification: Notification | Mapping[str, object], *, durable: bool = False
    ) -> int:
        """Publish; the number by which a durable one is confirmed."""
        if not isinstance(notification, Notification):
            notification = Notification(notification)
        body = content.encode(notification.attributes)
        number, effects = self.core.publish(body, self.network.now, durable)
        self.network.carry_out(self, effects)
        return number

    def ask(self, what: str, /, **about: Any) -> int:
        """Ask the broker, or instruct it; the number by which it is answered."""
        request, effects = self.core.ask(what, about)
        self.network.carry_out(self, effects)
        return request

    def barrier(self) -> int:
        request, effects = self.core.barrier()
        self.network.carry_out(self, effects)
        return request

    def move(self, broker: str) -> None:
        self.network.carry_out(self, self.core.move(broker, broker))

    def leave(self) -> None:
        self.network.carry_out(self, self.core.leave())

    def has(self, what: str, reference: int) -> bool:
        """Whether something asked for is confirmed."""
        return any((each.what, each.reference) == (what, reference) for each in self.confirmed)


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
    clock ticks on perfect links too, as crashes need: the silent are noticed.
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
        self._moving: dict[str, str] = {}
        self._faults = faults or Faults()
        self._faults_of: dict[frozenset[Peer], Faults] = {}
        self._settings: dict[str, Any] = {
            "advertisements": advertisements,
            "keeps_roots": keeps_roots,
            "authorizer": authorizer,
            "limits": limits,
        }
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._cut: set[frozenset[Peer]] = set()
        self._ticks = ticks or not self._faults.is_reliable
        self._runs = count(1)
        self._nodes = {
            name: _BrokerNode(name, MemoryStore(), None, ontology, "") for name in topology.brokers
        }
        for name in topology.brokers:
            self.restart(name)

    # Nodes.

    def broker(self, name: str) -> Broker:
        """A running broker."""
        broker = self._node(name).broker
        if broker is None:
            raise InvalidInputError(f"broker {name!r} is down: restart it first")
        return broker

    @property
    def brokers(self) -> dict[str, Broker]:
        """The brokers that are running."""
        return {n.name: n.broker for n in self._nodes.values() if n.broker is not None}

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
        self._node(at)
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
        self.carry_out(client, core.connected(at, self.now))
        if self._ticks:
            self._tick_client(client)
        return client

    def detach(self, name: str) -> None:
        """Have a client vanish without a word."""
        client = self.clients.pop(name)
        broker = self._nodes[client.broker].broker
        if broker is not None and not self._ticks:
            self._send_all(client.broker, broker.disconnected(Peer("client", name), self.now))

    def move_broker(self, name: str, to: str, leaving: str | None = None) -> None:
        """Move a broker with all that hangs on it: to another parent, or to another peer.

        `leaving` says which link is meant, where a peer has several.
        """
        node, broker = self._node(name), self.broker(name)
        ups = [n.name for n in broker.neighbours.values() if n.role != "child"]
        if leaving is None and len(ups) != 1:
            raise InvalidInputError(f"{name!r} has {len(ups)} neighbours it could move away from")
        old = leaving or ups[0]
        self._node(to)

        def done(trouble: str | None) -> None:
            self._moving.pop(name, None)
            if trouble is None:
                links = tuple(
                    (name, to) if set(link) == {name, old} else link for link in self.topology.links
                )
                self.topology = replace(self.topology, links=links)
            self.broker_moves.append((name, to, trouble))

        sends = broker.rehome(old, to, self.now, done=done)
        self._moving[name] = to
        self._send_all(node.name, sends)
        self._send_all(node.name, broker.connected(Peer("broker", to), self.now))

    def use_ontology(self, name: str, ontology: Ontology | None, digest: str) -> None:
        """Give a running broker another ontology."""
        node = self._node(name)
        node.ontology, node.digest = ontology, digest
        if node.broker is not None:
            self._send_all(name, node.broker.use_ontology(ontology, digest, self.now))

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

    def crash(self, name: str) -> None:
        """A broker stops in mid-air: what is not in its store is gone."""
        node = self._node(name)
        if node.broker is not None:
            node.guests = [guest for guest in node.broker.neighbours if self._is_guest(guest, name)]
        node.broker = None
        node.store.rollback()
        self._moving.pop(name, None)  # it starts again at the old place

    def restart(self, name: str) -> None:
        """Start a broker from what its store has kept."""
        node = self._node(name)
        if node.broker is not None:
            raise InvalidInputError(f"broker {name!r} is running")
        node.broker = broker = Broker(
            name,
            routing=self.topology.routing,
            ontology=node.ontology,
            ontology_digest=node.digest,
            store=node.store,
            now=self.now,
            retransmit_s=RETRANSMIT_S if self._ticks else None,
            **self._settings,
        )
        is_hierarchy = self.topology.routing == "hierarchical"
        for one, other in self.topology.links:
            if name == one:
                self._link(broker, other, "parent" if is_hierarchy else "peer")
            elif name == other:
                self._link(broker, one, "child" if is_hierarchy else "peer")
        for guest in node.guests:
            if self._is_guest(guest, name):
                self._link(broker, guest, "child" if is_hierarchy else "peer")
        node.store.commit()
        if self._ticks:
            self._tick_broker(node, broker)

    def _is_guest(self, guest: str, name: str) -> bool:
        return self._moving.get(guest) == name

    def heal(self) -> None:
        """Everything works again: links are perfect and up, brokers run."""
        self._cut.clear()
        self._faults = Faults(self._faults.latency_s)
        self._faults_of.clear()
        for node in self._nodes.values():
            if node.broker is None:
                self.restart(node.name)

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

    def carry_out(self, client: SimulatedClient, effects: list[Effect]) -> None:
        """Do what a client's core asks for."""
        core = client.core
        for effect in effects:
            match effect:
                case Send(to, message):
                    self._transmit(Peer("client", core.name), to, message)
                case Delivered():
                    self._hand_over(client, effect)
                case Dial(broker, _):
                    self.at(self.now, lambda broker=broker: self._connect(client, broker))  # type: ignore[misc]
                case Confirmed():
                    client.confirmed.append(effect)
                case Failed():
                    client.failed.append(effect)
                case Moved(broker):
                    client.moves.append(broker)
                case HangUp(broker):
                    pass
                case OntologyChanged(ontology):
                    client.ontologies.append(ontology)

    def _connect(self, client: SimulatedClient, broker: str) -> None:
        if broker in self._nodes:
            self.carry_out(client, client.core.connected(broker, self.now))
        else:
            self.carry_out(client, client.core.unreachable(broker, f"no broker {broker!r}"))

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

    def _send_all(self, name: str, sends: list[Send]) -> None:
        """What a broker asks for happens after its store is committed."""
        self._nodes[name].store.commit()
        for to, message in sends:
            self._transmit(Peer("broker", name), to, message)

    def _transmit(self, sender: Peer, to: Peer, message: AnyMessage) -> None:
        self.messages += 1
        pair = frozenset((sender, to))
        if pair in self._cut:
            return
        faults = self._faults_of.get(pair, self._faults)
        for delay in faults.arrivals(self.rng):
            self.at(self.now + delay, lambda: self._arrive(sender, to, message))

    def _arrive(self, sender: Peer, to: Peer, message: AnyMessage) -> None:
        if to.kind == "client":
            client = self.clients.get(to.name)
            if client is not None:
                effects = client.core.receive(message, sender.name, self.now)  # type: ignore[arg-type]
                self.carry_out(client, effects)
            return
        broker = self._nodes[to.name].broker
        if broker is not None:
            self._send_all(to.name, broker.receive(message, sender, self.now))

    def _link(self, broker: Broker, other: str, role: Any) -> None:
        self._send_all(broker.name, broker.link(other, role))
        self._send_all(broker.name, broker.connected(Peer("broker", other), self.now))

    def _tick_broker(self, node: _BrokerNode, broker: Broker) -> None:
        if node.broker is broker:
            self._send_all(node.name, broker.tick(self.now))
            self.at(self.now + TICK_S, lambda: self._tick_broker(node, broker))

    def _tick_client(self, client: SimulatedClient) -> None:
        if self.clients.get(client.name) is client:
            self.carry_out(client, client.core.tick(self.now))
            self.at(self.now + TICK_S, lambda: self._tick_client(client))

    def _node(self, name: str) -> _BrokerNode:
        node = self._nodes.get(name)
        if node is None:
            raise InvalidInputError(f"no broker is called {name!r}: {', '.join(self._nodes)}")
        return node


def json_text(subscription: Subscription) -> str:
    """A subscription's JSON, as it is sent."""
    import json

    return json.dumps(subscription.to_json(), separators=(",", ":"), ensure_ascii=False)


def _pair(one: str, other: str) -> frozenset[Peer]:
    return frozenset((Peer("broker", one), Peer("broker", other)))
