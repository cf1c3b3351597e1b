"""Sessions with neighbours: who is a neighbour, in which epoch, and which lie in the tree.

`greetings` begins and renews a session; `traffic` is what flows over it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from msgspec import msgpack

from kbn.broker.best_effort import BestEffortQueue
from kbn.broker.broker_move import BrokerMove, Newest
from kbn.broker.greetings import Greetings
from kbn.broker.limits import BrokerLimits
from kbn.broker.messages import ByeCause, Complete, Envelope, NotificationId, Peer
from kbn.broker.neighbour import Link, Neighbour
from kbn.broker.neighbour_traffic import NeighbourTraffic
from kbn.broker.outbox import Outbox
from kbn.broker.spanning import SpanningTree
from kbn.broker.store import Store
from kbn.broker.topology import Role, Routing
from kbn.broker.unacked import UnackedQueue
from kbn.broker.unmet import UnmetPeers, queue_of
from kbn.errors import InvalidInputError

_PAST = msgpack.Decoder(Newest)


class NeighbourSessions:
    """The neighbours of one broker, by name.

    `tree` is what the broker knows of the whole network; only general peers use it. `greetings` and
    `traffic` say and hear what belongs to the links. `unmet` are those to come. `move` is the
    broker's move from one of them to another, while there is one.
    """

    def __init__(
        self,
        name: str,
        epoch: int,
        routing: Routing,
        store: Store,
        outbox: Outbox,
        unacked_of: Callable[[Peer], UnackedQueue],
    ) -> None:
        self.by_name: dict[str, Neighbour] = {}
        self.move: BrokerMove | None = None
        self.queue_bytes = BrokerLimits().neighbour_queue_bytes
        self.tree = SpanningTree(name, epoch << 20)
        self.traffic = NeighbourTraffic(self.by_name, store, outbox)
        self.unmet = UnmetPeers(store, unacked_of)
        self._name = name
        self._link_epoch = epoch << 20
        self._store = store
        self._unacked_of = unacked_of
        self.greetings = Greetings(name, self.by_name, None, outbox)
        self.take_shape(routing)

    def take_shape(self, routing: Routing) -> None:
        """Be a broker of this shape from now on; only while there are no neighbours."""
        self.routing = routing
        self._is_general = routing == "general"
        self.greetings.tree = self.tree if self._is_general else None

    # Who is one.

    @property
    def moving_to(self) -> str | None:
        """The neighbour that the broker is moving to."""
        return None if self.move is None else self.move.new

    def check_link(self, name: str, role: Role) -> None:
        """Raise InvalidInputError when there can be no such neighbour."""
        if name == self._name:
            raise InvalidInputError(f"broker {name!r} cannot be its own neighbour")
        if (self.routing == "hierarchical") == (role == "peer"):
            raise InvalidInputError(
                f"a {self.routing} broker has no {role}: both sides must use the same routing"
            )
        others = (each for each in self.by_name.values() if each.name != name)
        if role == "parent" and name != self.moving_to and any(o.role == "parent" for o in others):
            raise InvalidInputError("a broker has one parent at most")

    def left(self, name: str) -> ByeCause | None:
        """Why we left a broker; None when we did not."""
        mark = self._store.marked(f"left/{name}")
        if mark is None:
            return None
        return "unlinked" if mark == b"unlinked" else "moved"

    def add(self, name: str, role: Role) -> Neighbour:
        """A new neighbour, with what the store has of it."""
        peer = Peer("broker", name)
        # It may not have heard that we left it, and be in a session with us: this is another.
        unacked = self._unacked_of(queue_of(self._store, name))
        link, best_effort = Link(self.next_epoch()), BestEffortQueue(self.queue_bytes)
        neighbour = Neighbour(peer, role, link, unacked, best_effort, since=unacked.last)
        received = neighbour.received
        received.sequence = received.acked = int(self._store.marked(f"received/{name}") or 0)
        if (past := self._store.marked(f"past/{name}")) is not None:
            received.past = _PAST.decode(past)
        self.by_name[name] = neighbour
        return neighbour

    def remove(self, name: str) -> Neighbour | None:
        """Forget a neighbour; its announcements and its unacked queue are the caller's to clear."""
        neighbour = self.by_name.pop(name, None)
        if neighbour is not None:
            self._store.unmark(f"past/{name}")
        return neighbour

    def leave(self, name: str, cause: ByeCause) -> None:
        """Remember that we left a neighbour, which may not hear of it and go on greeting us."""
        self._store.mark(f"left/{name}", cause.encode())

    def forget_leaving(self, name: str) -> None:
        self._store.unmark(f"left/{name}")

    def set_past(self, neighbour: Neighbour, newest: Newest) -> None:
        """Remember up to where nothing that this neighbour brings is new."""
        neighbour.received.past = newest
        self._store.mark(f"past/{neighbour.name}", msgpack.encode(newest))

    @property
    def epoch(self) -> int:
        """Our newest epoch on any link."""
        return self._link_epoch

    def next_epoch(self) -> int:
        """The epoch of a link that begins anew: larger than all before."""
        self._link_epoch += 1
        return self._link_epoch

    def in_tree(self) -> Collection[Neighbour]:
        """The neighbours that notifications go to."""
        if not self._is_general:
            return self.by_name.values()
        return [each for each in self.by_name.values() if each.name in self.tree.neighbours]

    def is_in_tree(self, neighbour: Neighbour) -> bool:
        return not self._is_general or neighbour.name in self.tree.neighbours

    def names_in_tree(self) -> list[str]:
        """Whom waves go to; for one that was never met they wait, under its url."""
        return [*(neighbour.name for neighbour in self.in_tree()), *self.unmet]

    def set_link(self, name: str, is_up: bool) -> bool:
        """Record whether one of our links is up; returns whether the tree is another now."""
        return self._is_general and self.tree.set_link(name, is_up)

    def remove_link(self, name: str) -> bool:
        """Record that one of our links is gone; returns whether the tree is another now."""
        return self._is_general and self.tree.remove_link(name)

    def use_ontology(self, digest: str) -> None:
        """Reason with another ontology from now on; sessions begin anew."""
        self.greetings.ontology = digest
        epoch = self.next_epoch()
        for neighbour in self.by_name.values():
            neighbour.link.our_epoch, neighbour.link.channel = epoch, None
            neighbour.link.agrees = neighbour.link.ontology == digest

    def end(self, neighbour: Neighbour) -> None:
        """End a session; a new one begins with what there is to say then."""
        neighbour.link.our_epoch, neighbour.link.channel = self.next_epoch(), None
        neighbour.held.clear()
        if neighbour.link.is_connected:
            self.greetings.greet(neighbour)

    def end_overfull(self) -> None:
        """End the sessions in which too much was not heard: it is not kept for ever."""
        for name in self.traffic.overfull:
            self.end(self.by_name[name])
        self.traffic.overfull.clear()

    def end_all(self) -> list[Envelope]:
        """End all sessions, because the tree is another; returns what is not acknowledged."""
        epoch = self.next_epoch()
        unacked: dict[NotificationId, Envelope] = {}
        for neighbour in self.by_name.values():
            neighbour.link.our_epoch, neighbour.link.channel = epoch, None
            for envelope in neighbour.unacked.take_all():
                unacked[envelope.id] = envelope
            neighbour.announced.is_complete = neighbour.told.is_complete = False
        return list(unacked.values())

    def tell_complete(self, parents_tell: bool) -> None:
        """Tell each neighbour whether it has been told everything, if that has changed.

        The two of a move are not told what the other wants, so neither waits for the other. With
        `parents_tell`, parents advertise: what they have not said counts too.
        """
        apart = frozenset[str]() if self.move is None else self.move.both
        neighbours = self.in_tree()
        is_unmet = self.unmet.may_subscribe(parents_count=parents_tell)
        unsure = [
            each.name
            for each in neighbours
            if not each.is_trusted and (each.role != "parent" or parents_tell)
        ]
        for neighbour in neighbours:
            other = apart if neighbour.name in apart else {neighbour.name}
            is_told = not is_unmet and not neighbour.told.pending
            is_complete = is_told and all(name in other for name in unsure)
            if neighbour.link.channel is not None and neighbour.told.is_complete != is_complete:
                neighbour.told.is_complete = is_complete
                self.traffic.send_to(neighbour, Complete(is_complete))

    def beat(self, may_lose: bool) -> None:
        """Greet the neighbours that are connected, and answer them.

        A neighbour that lost every best-effort notification in flight does not say how far it is.
        So on links that `may_lose`, count these as lost and send the next.
        """
        for neighbour in self.by_name.values():
            if not neighbour.link.is_connected:
                continue
            self.greetings.greet(neighbour)
            if neighbour.link.channel is not None:
                neighbour.link.channel.owes_answer = True
            if may_lose and neighbour.best_effort.waiting:
                neighbour.best_effort.skip()
                self.traffic.send_best_effort(neighbour)

    def unreached(self, since: float) -> list[str]:
        """The neighbours that are not connected, or were not heard since then."""
        links = ((each.name, each.link) for each in self.by_name.values())
        return [name for name, link in links if not link.is_connected or link.heard_at < since]

    def silent(self, since: float) -> list[str]:
        """The neighbours that are connected and were not heard since then."""
        links = ((each.name, each.link) for each in self.by_name.values())
        return [name for name, link in links if link.is_connected and link.heard_at < since]

    def status(self, neighbour: Neighbour) -> dict[str, Any]:
        """What a person wants to know of a neighbour."""
        told = neighbour.told.subscriptions
        return {
            "broker": neighbour.name,
            "role": neighbour.role,
            "connected": neighbour.is_connected,
            "in_session": neighbour.is_in_session,
            "complete": neighbour.is_trusted,
            "in_tree": self.is_in_tree(neighbour),
            "wants": len(neighbour.announced.subscriptions),
            "told": 0 if told is None else len(told.filters),
            "unacked": len(neighbour.unacked),
            "unacked_bytes": neighbour.unacked.size,
            "queued": len(neighbour.best_effort.waiting),
            "queued_bytes": neighbour.best_effort.size,
            "held": len(neighbour.held),
            "dropped": neighbour.best_effort.dropped,
        }
