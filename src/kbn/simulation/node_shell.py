"""The shell of simulated nodes: gives them their turns, and performs what they ask for.

Over TCP `BrokerServer` does the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from math import inf

from kbn.broker import (
    AnyMessage,
    Node,
    Peer,
    StoreError,
    node_effects,
    node_events,
    notes,
)
from kbn.simulation.client_shell import TICK_S
from kbn.simulation.connection import End, SimulatedConnection
from kbn.simulation.disk import Losses
from kbn.simulation.links import Links, broker_pair
from kbn.simulation.place import Place
from kbn.simulation.timeline import Timeline

ROUNDED_S = 1e-4


@dataclass(frozen=True, slots=True)
class Observers:
    """Who is told what happens at nodes: what one notes, what a client is sent, when it is decided,
    and what a disk has lost that lies.
    """

    noted: Callable[[str, notes.Note], None]
    sent: Callable[[str, AnyMessage], None]
    disk_lost: Callable[[Losses], None]


class NodeShell:
    """Drives the nodes at `places`; where no clock `ticks`, nobody dials again and again."""

    def __init__(
        self,
        places: Mapping[str, Place],
        timeline: Timeline,
        links: Links,
        observers: Observers,
        *,
        ticks: bool,
    ) -> None:
        self._places = places
        self._timeline = timeline
        self._links = links
        self._observers = observers
        self._ticks = ticks
        self._connection_ids = count(1)
        self._parked: list[tuple[str, Node, node_effects.Dial]] = []

    def start(self, name: str, jitter: Callable[[], float]) -> None:
        """Start a node from what its store has kept; not while its disk fails."""
        place = self._places[name]
        try:
            effects = place.start(self._timeline.now, jitter)
        except StoreError as error:
            self._observers.noted(name, notes.StoreFailed(str(error)))
            self.stop(name)
            return
        self._perform(name, effects)
        if self._ticks and place.node is not None:
            self._tick_node(name, place.node)
        self._dial_parked(name)

    def stop(self, name: str) -> None:
        """Stop a node at once: what is not in its store is lost."""
        place = self._places[name]
        ends, place.ends = place.ends, {}
        for connection, end in ends.values():
            end.is_open = False
            self._links.close_other(connection, end)
        losses = place.stop()
        if losses is not None:
            self._observers.disk_lost(losses)

    def tell(self, name: str, event: node_events.Event) -> None:
        """Something has happened at a node."""
        place = self._places[name]
        if place.node is not None:
            place.happened(event)
            self._have_turn(name, place)

    def _have_turn(self, name: str, place: Place) -> None:
        """Let a node handle what has happened: now, or when it is done with its last turn."""
        if place.is_in_turn:
            return
        node = place.node
        try:
            effects = place.turn(self._timeline.now)
        except StoreError as error:
            self._observers.noted(name, notes.StoreFailed(str(error)))
            self.stop(name)
            return
        self._watch(place, effects)
        if not place.turn_s:
            self._perform(name, effects)
            return
        place.is_in_turn = True

        def end_turn() -> None:
            if place.node is node:
                place.is_in_turn = False
                self._perform(name, effects)
                if place.has_waiting:
                    self._have_turn(name, place)

        self._timeline.at(self._timeline.now + place.turn_s, end_turn)

    def _watch(self, place: Place, effects: list[node_effects.Effect]) -> None:
        """What is sent is looked at when it is decided; a slow node sends it later."""
        for effect in effects:
            if isinstance(effect, node_effects.Send) and effect.connection in place.ends:
                connection, end = place.ends[effect.connection]
                to = connection.other(end).peer
                for message in effect.messages if to.kind == "client" else ():
                    self._observers.sent(to.name, message)

    def _perform(self, name: str, effects: list[node_effects.Effect]) -> None:
        place = self._places[name]
        for effect in effects:
            match effect:
                case node_effects.Send():
                    self._send(name, place, effect)
                case node_effects.Close(id, _):
                    if id in place.ends:
                        self._links.close(place.ends[id][1])
                        self._links.close_other(*place.ends[id])
                case node_effects.Dial():
                    assert place.node is not None
                    self._dial_soon(name, place.node, effect)
                case node_effects.Note(note):
                    self._observers.noted(name, note)
                case _:
                    pass  # sockets have room here, and frames any length
        if place.node is not None and place.node.due_at < place.wakes_at:
            self._wake(name, place, place.node)
        if place.node is not None and place.node.has_more and not place.has_turn:
            self._go_on(name, place, place.node)

    def _send(self, name: str, place: Place, send: node_effects.Send) -> None:
        found = place.ends.get(send.connection)
        if found is None:
            return
        for message in send.messages:
            self._links.transmit(*found, message)
        if send.is_cut_short:
            self._timeline.at(
                self._timeline.now, lambda: self.tell(name, node_events.Writable(send.connection))
            )

    def _wake(self, name: str, place: Place, node: Node) -> None:
        place.wakes_at = node.due_at

        def wake() -> None:
            if place.node is node:
                place.wakes_at = inf
                self._have_turn(name, place)

        # Another clock rounds in another way: the node is not to wake just before it is due.
        late_s = ROUNDED_S if place.ahead_by_s else 0.0
        self._timeline.at(node.due_at - place.ahead_by_s + late_s, wake)

    def _go_on(self, name: str, place: Place, node: Node) -> None:
        """Give a node another turn, for what did not fit into this one."""
        place.has_turn = True

        def go_on() -> None:
            if place.node is node:
                place.has_turn = False
                self._have_turn(name, place)

        self._timeline.at(self._timeline.now, go_on)

    def _tick_node(self, name: str, node: Node) -> None:
        if self._places[name].node is node:
            self.tell(name, node_events.Tick())
            self._timeline.at(self._timeline.now + TICK_S, lambda: self._tick_node(name, node))

    # Connections.

    def _dial_soon(self, name: str, node: Node, dial: node_effects.Dial) -> None:
        self._timeline.at(self._timeline.now, lambda: self._dial(name, node, dial))

    def _dial(self, name: str, node: Node, dial: node_effects.Dial) -> None:
        """Connect one broker to another, if both run and can hear each other."""
        if self._places[name].node is not node:
            return
        target = self._places.get(dial.url)
        is_cut = self._links.is_cut(broker_pair(name, dial.url))
        if target is not None and target.node is not None and not is_cut:
            connection = self._join(self._end(name), self._end(dial.url))
            self.tell(dial.url, node_events.Opened(connection.id, name))
            self.tell(name, node_events.Opened(connection.id, dial.url, dial.link))
        elif self._ticks:
            self.tell(name, node_events.DialFailed(dial.link, f"{dial.url} does not answer"))
        else:
            self._parked.append((name, node, dial))

    def _dial_parked(self, target: str) -> None:
        """Where no clock ticks nobody tries again and again: dial when a broker is back."""
        parked = [each for each in self._parked if each[2].url == target]
        self._parked = [each for each in self._parked if each[2].url != target]
        for name, node, dial in parked:
            self._dial_soon(name, node, dial)

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
        end.received = lambda body: self.tell(name, node_events.Received(id, [body]))

        def closed() -> None:
            if place.ends.pop(id, None) is not None:
                self.tell(name, node_events.Closed(id))

        end.closed = closed

    def accept(self, end: End, broker: str) -> SimulatedConnection | None:
        """Connect the end of a client to a broker; None while the broker is down."""
        if self._places[broker].node is None:
            return None
        connection = self._join(end, self._end(broker))
        self.tell(broker, node_events.Opened(connection.id, end.peer.name))
        return connection
