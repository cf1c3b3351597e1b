"""The in-memory network: a whole overlay in one process, deterministic from its seed.

`Timeline` keeps the order of events, and all chance comes from one generator. So a run is a
function of the seed and of what the caller does, and you can run a failing one again.

Each broker is a `Node`, as it is over TCP: connections are opened, admitted, cross, break and are
dialled again. Only sockets (`Links`) and the clock are simulated.

On perfect links (the default) no clock ticks and nothing is repeated: the network is *quiet* when
no message is on its way. With faults, brokers and clients repeat and greet by the clock, as they do
over real links; use `run_until` and say what to wait for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count
from random import Random
from typing import Literal, Unpack

from kbn.broker import (
    AnyMessage,
    Broker,
    ClientCore,
    ClientSettings,
    Effect,
    LinkTo,
    Node,
    NotificationId,
    Peer,
    Role,
    RoutingTable,
    Topology,
    node_events,
    notes,
)
from kbn.errors import InvalidInputError, KbnError
from kbn.ontology import Ontology
from kbn.simulation.client import Line, SimulatedClient
from kbn.simulation.client_shell import ClientShell
from kbn.simulation.disk import Disk, Losses, SimulatedDisk, Spoilt
from kbn.simulation.faults import Faults
from kbn.simulation.links import Links, broker_pair
from kbn.simulation.node_shell import NodeShell, Observers
from kbn.simulation.options import BrokerOptions, node_settings
from kbn.simulation.place import Place
from kbn.simulation.timeline import Timeline

RETRANSMIT_S = 0.1


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
    clock ticks on perfect links too; crashes need it, because a broker notices by the clock that
    another is silent. `disks` makes the disk of each broker. `BrokerOptions` are the options that
    all brokers share. `notes` lists what the nodes noted, each with the name of the node. `watch`
    is told what clients are sent, when it is sent, `disk_lost` what a disk has lost that lies, and
    `noted` each note.
    """

    def __init__(
        self,
        topology: Topology | Mapping[str, str | None],
        ontology: Ontology | None = None,
        seed: int = 0,
        *,
        faults: Faults | None = None,
        ticks: bool = False,
        disks: Callable[[str], Disk] = lambda broker: SimulatedDisk(),
        **options: Unpack[BrokerOptions],
    ) -> None:
        if not isinstance(topology, Topology):
            topology = Topology.hierarchy(topology)
        self.topology = topology
        self.rng = Random(seed)
        self.clients: dict[str, SimulatedClient] = {}
        self.broker_moves: list[tuple[str, str, str | None]] = []
        self.notes: list[tuple[str, notes.Note]] = []
        self.watch: Callable[[str, AnyMessage], None] = lambda client, message: None
        self.disk_lost: Callable[[Losses], None] = lambda losses: None
        self.noted: Callable[[str, notes.Note], None] = lambda broker, note: None
        self._timeline = Timeline()
        self._links = Links(self._timeline, self.rng, faults or Faults())
        self._ticks = ticks or not self._links.faults.is_reliable
        self._runs = count(1)
        common = replace(
            node_settings(topology.routing, options),
            ontology=ontology,
            retransmit_s=RETRANSMIT_S if self._ticks else None,
        )
        token, self._by_address = common.token, options.get("by_address", False)
        self._places = {name: Place.of(name, common, disks(name)) for name in topology.brokers}
        for name, place in self._places.items():
            links = tuple(self._links_of(name, token))
            place.settings = replace(place.settings, links=links)
        observers = Observers(
            self._noted, lambda *sent: self.watch(*sent), lambda losses: self.disk_lost(losses)
        )
        self._node_shell = NodeShell(
            self._places, self._timeline, self._links, observers, ticks=self._ticks
        )
        self._client_shell = ClientShell(
            self.clients, self._timeline, self._links, self.knows, self._node_shell.accept
        )
        for name in topology.brokers:
            if name not in options.get("down", ()):
                self.restart(name)

    def _links_of(self, name: str, token: str) -> list[LinkTo]:
        """The links that a broker dials: of a child and its parent, the child dials.

        Of two peers the first one dials; of two general peers both do.
        """
        role: Role = "parent" if self.topology.routing == "hierarchical" else "peer"
        both = self._ticks and self.topology.routing == "general"
        found = [other for one, other in self.topology.links if one == name]
        found += [one for one, other in self.topology.links if other == name and both]
        named = not self._by_address
        return [LinkTo(other, role, token, other if named else "") for other in found]

    # Nodes.

    def broker(self, name: str) -> Broker:
        """A running broker."""
        return self._running(name).broker

    def knows(self, name: str) -> bool:
        """Whether a broker has that name, running or not."""
        return name in self._places

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
        key: str | None = None,
    ) -> SimulatedClient:
        """Attach a new client to a broker; under another `key`, one with the name of another."""
        self._place(at)
        settings = ClientSettings(
            durable=durable,
            window=window,
            when_slow=when_slow,
            token=token,
            with_path=with_path,
            retransmit_s=RETRANSMIT_S if self._ticks else None,
        )
        return self._attach(name, at, settings, key or name)

    def _attach(self, name: str, at: str, settings: ClientSettings, key: str) -> SimulatedClient:
        epoch = next(self._runs)
        core = ClientCore(name, at, epoch, settings)
        client = self.clients[key] = SimulatedClient(self, core, key, epoch, settings)
        client.lines[at] = Line(at)
        self._client_shell.connect(client, client.lines[at])
        if self._ticks:
            self._client_shell.tick(client)
        return client

    def give_token(self, key: str, token: str) -> None:
        """Let a client show another token, where it is not connected at once."""
        client = self.clients[key]
        client.core.use_token(token)
        for line in client.lines.values():
            line.attempts = 0
            if line.connection is None:
                self._client_shell.connect_soon(client, line)

    def access_changed(self) -> None:
        """Tell all brokers that the authorizer decides by other rules from now on."""
        for name in self.brokers:
            self._node_shell.tell(name, node_events.AccessChanged())

    def client_again(self, ended: SimulatedClient, at: str, token: str) -> SimulatedClient:
        """Another process of a client that has ended, with the same settings but for the token."""
        settings = replace(ended.settings, token=token)
        return self._attach(ended.name, at, settings, ended.key)

    def crash_client(self, key: str, *, vanishes: bool = False) -> SimulatedClient:
        """End the process of a client at once; its machine closes the connections.

        A machine that `vanishes` closes nothing, and answers nothing that is sent to it.
        """
        client = self.clients.pop(key)
        for line in client.lines.values():
            if line.connection is not None and line.end is not None:
                line.end.is_open, line.end.answers = False, not vanishes
                if not vanishes:
                    self._links.close_other(line.connection, line.end)
        return client

    def detach(self, name: str) -> None:
        """Remove a client without telling its broker."""
        client = self.clients.pop(name)
        for line in client.lines.values():
            if line.connection is None or line.end is None:
                continue
            line.end.is_open = False
            if not self._ticks:
                self._links.close_other(line.connection, line.end)

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
        self._node_shell.tell(name, request)

    def use_ontology(
        self, name: str, ontology: Ontology | None, digest: str, table: RoutingTable | None = None
    ) -> None:
        """Give a broker another ontology."""
        place = self._place(name)
        place.settings = replace(place.settings, ontology=ontology, ontology_digest=digest)
        if place.node is not None:
            self._node_shell.tell(name, node_events.UseOntology(ontology, digest, table))

    # Disturbances.

    def set_faults(self, faults: Faults, one: str | None = None, other: str | None = None) -> None:
        """Set how links behave from now on: all of them, or the one between two brokers."""
        assert self._ticks or faults.is_reliable, "give faults to the network when it is made"
        if one is None or other is None:
            self._links.set_faults(faults)
        else:
            self._links.set_faults_between(broker_pair(one, other), faults)

    def cut(self, one: str, other: str) -> None:
        """Let nothing pass between two brokers from now on."""
        self._links.cut(broker_pair(one, other))

    def mend(self, one: str, other: str) -> None:
        """Undo `cut`."""
        self._links.mend(broker_pair(one, other))

    def reset(self, one: str, other: str) -> None:
        """Break the connections between two brokers; both notice at once."""
        pair = broker_pair(one, other)
        for connection, _ in list(self._places[one].ends.values()):
            if connection.pair == pair:
                self._links.close(connection.dialler)
                self._links.close(connection.acceptor)

    def cut_one_way(self, sender: Peer, receiver: Peer) -> None:
        """Let nothing pass from the one to the other; what the other sends still arrives."""
        self._links.cut_one_way(sender, receiver)

    def mend_between(self, one: Peer, other: Peer) -> None:
        """Undo cuts between a client and a broker, or between two brokers."""
        self._links.mend(frozenset((one, other)))

    def crash(self, name: str) -> None:
        """Stop a broker at once: what is not in its store is lost."""
        self._place(name)
        self._node_shell.stop(name)

    def restart(self, name: str) -> None:
        """Start a broker from what its store has kept; not while its disk fails."""
        if self._place(name).node is not None:
            raise InvalidInputError(f"broker {name!r} is running")
        self._node_shell.start(name, self.rng.random)
        for client in self.clients.values():
            line = client.lines.get(name)
            if line is not None and line.connection is None:
                self._client_shell.connect_soon(client, line)

    def slow_down(self, name: str, turn_s: float) -> None:
        """Let each turn of a broker take so long from now on; 0: no time."""
        self._place(name).turn_s = turn_s

    def set_clock(self, name: str, ahead_s: float) -> None:
        """Set the clock of a broker's machine: it is so far ahead when the broker starts again.

        A running broker does not notice: over TCP it reads the wall clock only when it starts.
        """
        self._place(name).set_clock(ahead_s)

    def fail_disk(self, name: str) -> None:
        """Let the disk of a broker fail from now on."""
        self._place(name).store.fails = True

    def let_disk_lie(self, name: str) -> None:
        """What the broker stores from now on is lost when it crashes."""
        self._place(name).store.begin_lying()

    def spoil_disk(self, name: str, rng: Random) -> list[Spoilt]:
        """Make rows of the disk of a broker unreadable that does not run; which."""
        place = self._place(name)
        return [] if place.node is not None else place.store.spoil(rng)

    def unacked_for(self, by: str, to: str) -> dict[NotificationId, int]:
        """What a broker keeps for another that has not acknowledged it; the sequences."""
        return self._place(by).unacked_for(to)

    def mend_disk(self, name: str) -> None:
        """Undo both; what was stored is safe."""
        self._place(name).store.mend()

    def heal(self) -> None:
        """Make everything work again: links are perfect and up, brokers run."""
        self._links.heal()
        for name, place in self._places.items():
            place.store.mend()
            place.turn_s = 0.0
            if place.node is None:
                self.restart(name)

    # Time.

    @property
    def now(self) -> float:
        """The simulated time, in seconds."""
        return self._timeline.now

    @property
    def messages(self) -> int:
        """How many messages were sent so far."""
        return self._links.messages

    def run(self, events_max: int = 100_000_000) -> None:
        """Run until no message is on its way; only if no clock ticks."""
        assert not self._ticks, "the clock ticks on and on: use run_for or run_until"
        for _ in range(events_max):
            if not self._timeline.step():
                return
        raise KbnError(f"the network is not quiet after {events_max} events")

    def run_for(self, seconds: float) -> None:
        """Let this much simulated time pass."""
        self._timeline.run_for(seconds)

    def run_until(self, condition: Callable[[], bool], at_most_s: float) -> bool:
        """Run until the condition holds; False when it does not within this time."""
        return self._timeline.run_until(condition, at_most_s)

    def at(self, time: float, action: Callable[[], None]) -> None:
        """Do something at a simulated time."""
        self._timeline.at(time, action)

    def _noted(self, name: str, note: notes.Note) -> None:
        self.notes.append((name, note))
        self.noted(name, note)
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

    # Clients.

    def carry_out(self, client: SimulatedClient, effects: list[Effect]) -> None:
        """Do what a client's core asks for."""
        self._client_shell.carry_out(client, effects)

    def _place(self, name: str) -> Place:
        place = self._places.get(name)
        if place is None:
            raise InvalidInputError(f"no broker is called {name!r}: {', '.join(self._places)}")
        return place

    def _running(self, name: str) -> Node:
        node = self._place(name).node
        if node is None:
            raise InvalidInputError(f"broker {name!r} is down: restart it first")
        return node
