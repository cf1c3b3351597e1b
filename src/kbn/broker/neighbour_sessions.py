"""Sessions with neighbours: links and their epochs, and what is sent over them.

A session has a *channel*, which brings frames once and in order, and beside it best-effort
notifications. Durable notifications wait in the store until the neighbour acknowledges them; they
and best-effort ones are sent so far ahead, and waves follow what was queued before them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Literal, NamedTuple

from msgspec import msgpack

from kbn.broker.broker_move import Newest
from kbn.broker.kept import ENVELOPES, Kept
from kbn.broker.messages import (
    Ack,
    BestEffort,
    Body,
    ByeCause,
    Complete,
    Echo,
    Envelope,
    Forward,
    Frame,
    Greet,
    Heard,
    NotificationId,
    Peer,
    Wave,
)
from kbn.broker.neighbour import Link, Neighbour, Role
from kbn.broker.outbox import Outbox
from kbn.broker.spanning import SpanningTree
from kbn.broker.store import Store
from kbn.broker.unacked import UnackedQueue
from kbn.errors import InvalidInputError

Routing = Literal["hierarchical", "acyclic", "general"]
FORWARDED_AHEAD_MAX = 512
"""So many durable notifications are sent ahead of what a neighbour has acknowledged."""

_PAST = msgpack.Decoder(Newest)
_ROLE_SEEN_FROM_THERE: dict[Role, Role] = {"peer": "peer", "parent": "child", "child": "parent"}


class Greeted(NamedTuple):
    """What a greeting changed."""

    is_new_epoch: bool
    has_new_tree: bool
    has_new_ontology: bool


class NeighbourSessions:
    """The neighbours of one broker; `tree` is what it knows of the whole network (general peers).

    `paused` names a neighbour whose notifications are put aside for now.
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
        self.tree = SpanningTree(name, epoch << 20)
        self.ontology = ""
        self.paused: str | None = None
        self._name = name
        self._is_general = routing == "general"
        self._routing = routing
        self._link_epoch = epoch << 20
        self._store = store
        self._outbox = outbox
        self._unacked_of = unacked_of

    # Who is one.

    def check_link(self, name: str, role: Role, moving_to: str | None) -> None:
        """Raise InvalidInputError when there can be no such neighbour."""
        if name == self._name:
            raise InvalidInputError(f"broker {name!r} cannot be its own neighbour")
        if (self._routing == "hierarchical") == (role == "peer"):
            raise InvalidInputError(
                f"a {self._routing} broker has no {role}: both sides must use the same routing"
            )
        others = (each for each in self.by_name.values() if each.name != name)
        if role == "parent" and name != moving_to and any(o.role == "parent" for o in others):
            raise InvalidInputError("a broker has one parent at most")

    def left(self, name: str) -> ByeCause | None:
        """Why we left a broker, if we did."""
        mark = self._store.marked(f"left/{name}")
        if mark is None:
            return None
        return "unlinked" if mark == b"unlinked" else "moved"

    def add(self, name: str, role: Role) -> Neighbour:
        """A new neighbour, with what the store has of it."""
        peer = Peer("broker", name)
        # It may not have heard that we left it, and be in a session with us: this is another.
        neighbour = Neighbour(peer, role, Link(self.next_epoch()), self._unacked_of(peer))
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
        """Remember that we left a neighbour. It may not hear of it, and greet on."""
        self._store.mark(f"left/{name}", cause.encode())

    def forget_leaving(self, name: str) -> None:
        self._store.unmark(f"left/{name}")

    def set_past(self, neighbour: Neighbour, newest: Newest) -> None:
        """Nothing up to here is new when the neighbour brings it."""
        neighbour.received.past = newest
        self._store.mark(f"past/{neighbour.name}", msgpack.encode(newest))

    @property
    def epoch(self) -> int:
        """Our newest epoch on any link."""
        return self._link_epoch

    def next_epoch(self) -> int:
        """For a link that begins anew: larger than all before."""
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
        return [neighbour.name for neighbour in self.in_tree()]

    # Greetings.

    def connected(self, neighbour: Neighbour) -> None:
        """The link works (again)."""
        link = neighbour.link
        link.is_connected = link.may_have_lost = True
        link.heard_at = self._outbox.now
        neighbour.best_effort.skip()
        self.greet(neighbour)

    def greet(self, neighbour: Neighbour) -> None:
        """Say who we are, in which epoch, and what we know."""
        link = neighbour.link
        view, states = (self.tree.view, self.tree.states) if self._is_general else ("", ())
        role = _ROLE_SEEN_FROM_THERE[neighbour.role]
        greet = Greet(
            self._name, link.our_epoch, link.epoch, role, self.ontology, view, states,
            token=neighbour.token,
        )  # fmt: skip
        self._outbox.send(neighbour.peer, greet)

    def greet_connected(self, but: Neighbour | None = None) -> None:
        for neighbour in self.by_name.values():
            if neighbour is not but and neighbour.link.is_connected:
                self.greet(neighbour)

    def greeted(self, greet: Greet, neighbour: Neighbour) -> Greeted | None:
        """Take in what a greeting says; None for one of an older epoch."""
        link = neighbour.link
        if greet.epoch < link.epoch:
            return None
        is_new_epoch = greet.epoch > link.epoch
        if is_new_epoch:
            link.epoch = greet.epoch
            link.channel = None
        has_new_tree = self._learn(greet, neighbour)
        has_new_ontology = link.ontology != greet.ontology
        link.ontology = greet.ontology
        link.agrees = greet.ontology == self.ontology
        return Greeted(is_new_epoch, has_new_tree, has_new_ontology)

    def answer_greeting(self, greet: Greet, neighbour: Neighbour, is_new_epoch: bool) -> bool:
        """Greet back where that is needed; whether a session may stand.

        It may when both have greeted the other's present epoch and believe in the same tree.
        """
        is_heard = greet.heard == neighbour.link.our_epoch
        if is_new_epoch or not is_heard:
            self.greet(neighbour)  # ahead of the session's frames: without it they are dropped
        view = self.tree.view if self._is_general else ""
        return is_heard and greet.view == view and self.is_in_tree(neighbour)

    def _learn(self, greet: Greet, neighbour: Neighbour) -> bool:
        """Take in what a neighbour knows of the network; whether that makes another tree."""
        if not self._is_general:
            return False
        changed = self.tree.set_link(neighbour.name, True)
        news, tree_changed = self.tree.learn(greet.states)
        if news and not changed and not tree_changed:
            self.greet_connected(but=neighbour)
        return changed or tree_changed

    def set_link(self, name: str, is_up: bool) -> bool:
        """Say how one of our links is; whether that makes another tree."""
        return self._is_general and self.tree.set_link(name, is_up)

    def remove_link(self, name: str) -> bool:
        """One of our links is gone for good; whether that makes another tree."""
        return self._is_general and self.tree.remove_link(name)

    def use_ontology(self, digest: str) -> None:
        """Reason with another ontology from now on; sessions begin anew."""
        self.ontology = digest
        epoch = self.next_epoch()
        for neighbour in self.by_name.values():
            neighbour.link.our_epoch, neighbour.link.channel = epoch, None
            neighbour.link.agrees = neighbour.link.ontology == digest

    def end_all(self) -> list[Envelope]:
        """End all sessions, for the tree is another; what no neighbour has acknowledged."""
        epoch = self.next_epoch()
        unacked: dict[NotificationId, Envelope] = {}
        for neighbour in self.by_name.values():
            neighbour.link.our_epoch, neighbour.link.channel = epoch, None
            for body in neighbour.unacked.take_all():
                envelope = ENVELOPES.decode(body)
                unacked[envelope.id] = envelope
            neighbour.announced.is_complete = neighbour.told.is_complete = False
        return list(unacked.values())

    # What is sent.

    def send(self, name: str, body: Body) -> None:
        """Send a frame, where a session stands."""
        neighbour = self.by_name.get(name)
        if neighbour is not None:
            self.send_to(neighbour, body)

    def send_to(self, neighbour: Neighbour, body: Body) -> None:
        channel = neighbour.link.channel
        if channel is not None:
            self._outbox.send(neighbour.peer, channel.send(body, self._outbox.now))

    def send_wave(self, name: str, body: Wave | Echo) -> None:
        """Send a wave or an echo, but not ahead of notifications that wait.

        What is put aside during a move of ours waits for the waves of that move. Those of a rival
        do not wait for it, or the two would wait for each other.
        """
        neighbour = self.by_name.get(name)
        if name == self.paused and body.kind == "move":
            self.send(name, body)
        elif neighbour is not None and neighbour.link.channel is not None:
            neighbour.put_behind(body)
            self._follow(neighbour)

    def pass_on(self, neighbour: Neighbour, kept: Kept) -> None:
        """Queue a notification for a neighbour, and send what can be sent."""
        if kept.envelope.durable:
            neighbour.unacked.push(kept.key(), b"", kept.body())
            self.forward(neighbour)
        else:
            neighbour.best_effort.push(kept.envelope)
            self.send_best_effort(neighbour)

    def forward(self, neighbour: Neighbour) -> None:
        """Send durable notifications, so far ahead of what the neighbour has acknowledged."""
        if self.paused is not None and neighbour.name == self.paused:
            return
        unacked, channel = neighbour.unacked, neighbour.link.channel
        while channel is not None and unacked.in_flight < FORWARDED_AHEAD_MAX:
            found = unacked.next()
            if found is None:
                break
            self.send_to(neighbour, Forward(found.sequence, ENVELOPES.decode(found.envelope)))
        self._follow(neighbour)

    def send_best_effort(self, neighbour: Neighbour) -> None:
        """Send best-effort notifications, so far ahead of what the neighbour has handled."""
        if self.paused is not None and neighbour.name == self.paused:
            return
        if neighbour.link.channel is not None:
            for message in neighbour.best_effort.sendable(neighbour.link.channel):
                self._outbox.send(neighbour.peer, message)
        self._follow(neighbour)

    def _follow(self, neighbour: Neighbour) -> None:
        if neighbour.behind:
            for body in neighbour.no_longer_behind():
                self.send_to(neighbour, body)

    def tell_complete(self, apart: frozenset[str], parents_tell: bool) -> None:
        """Tell each neighbour whether it has been told everything, where that has changed.

        Those that are `apart` are not told what the other of them wants, so neither waits for it.
        `parents_tell`: they advertise, so what they have not said counts, too.
        """
        neighbours = self.in_tree()
        unsure = [
            each.name
            for each in neighbours
            if not each.is_trusted and (each.role != "parent" or parents_tell)
        ]
        for neighbour in neighbours:
            other = apart if neighbour.name in apart else {neighbour.name}
            is_complete = all(name in other for name in unsure)
            if neighbour.link.channel is not None and neighbour.told.is_complete != is_complete:
                neighbour.told.is_complete = is_complete
                self.send_to(neighbour, Complete(is_complete))

    # What arrives.

    def receive_frame(self, frame: Frame, neighbour: Neighbour) -> Body | None:
        """The body of a frame, if it is the next of this session."""
        channel = neighbour.link.channel
        if channel is None or not channel.is_of(frame.sender_epoch, frame.receiver_epoch):
            return None
        return channel.receive(frame, self._outbox.now)

    def receive_best_effort(self, message: BestEffort, neighbour: Neighbour) -> bool:
        """Whether a best-effort notification is of this session and no repetition."""
        channel, received = neighbour.link.channel, neighbour.received
        if channel is None or not channel.is_of(message.sender_epoch, message.receiver_epoch):
            return False
        if message.number <= received.best_effort:
            return False
        received.best_effort = message.number
        return True

    def receive_forward(self, sequence: int, neighbour: Neighbour) -> bool:
        """Whether a durable notification is new; it is acknowledged in the end either way."""
        received = neighbour.received
        if sequence <= received.sequence:
            received.acked = 0  # say again how far we are
            return False
        received.sequence = sequence
        self._store.mark(f"received/{neighbour.name}", str(sequence).encode())
        return True

    def acked(self, sequence: int, neighbour: Neighbour) -> None:
        """A neighbour has stored everything up to this sequence."""
        neighbour.unacked.ack(sequence)
        self.forward(neighbour)

    def heard(self, heard: Heard, neighbour: Neighbour) -> None:
        """A neighbour says how far it is."""
        channel = neighbour.link.channel
        if channel is not None and heard.receiver_epoch == channel.sender_epoch:
            channel.hear(heard.number, self._outbox.now)
            neighbour.best_effort.heard(heard.best_effort)
            self.send_best_effort(neighbour)

    # By the clock, and at the end of a turn.

    def answer(self) -> None:
        """Acknowledge what has arrived, to all."""
        for neighbour in self.by_name.values():
            channel, received = neighbour.link.channel, neighbour.received
            if channel is None:
                continue
            if received.acked < received.sequence:
                received.acked = received.sequence
                self.send_to(neighbour, Ack(received.sequence))
            if channel.owes_answer or received.has_much_to_report:
                received.reported = received.best_effort
                self._outbox.send(neighbour.peer, channel.answer(received.best_effort))

    def repeat_overdue(self, after_s: float) -> None:
        """Repeat frames that were not heard for so long."""
        now = self._outbox.now
        for neighbour in self.by_name.values():
            if neighbour.link.channel is not None:
                for frame in neighbour.link.channel.overdue(now, after_s):
                    self._outbox.send(neighbour.peer, frame)

    def repeat_unheard(self, neighbour: Neighbour) -> None:
        """After a reconnection within a session: what was not heard may be lost."""
        channel = neighbour.link.channel
        if channel is not None and neighbour.link.may_have_lost:
            neighbour.link.may_have_lost = False
            for frame in channel.repeated(at_most=channel.unheard):
                self._outbox.send(neighbour.peer, frame)

    def beat(self, may_lose: bool) -> None:
        """Greet those that are connected, and have them answered.

        When all best-effort ones on a link that `may_lose` are lost, nobody says how far it is: go
        on after a while.
        """
        for neighbour in self.by_name.values():
            if not neighbour.link.is_connected:
                continue
            self.greet(neighbour)
            if neighbour.link.channel is not None:
                neighbour.link.channel.owes_answer = True
            if may_lose and neighbour.best_effort.waiting:
                neighbour.best_effort.skip()
                self.send_best_effort(neighbour)

    def silent(self, since: float) -> list[str]:
        """Who is connected and was not heard since then."""
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
            "queued": len(neighbour.best_effort.waiting),
            "dropped": neighbour.best_effort.dropped,
        }
