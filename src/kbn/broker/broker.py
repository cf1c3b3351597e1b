"""The broker: messages and the time go in, messages to send come out.

It opens no socket, reads no clock and rolls no rng, so the same object epochs over TCP, in the
simulator and in a unit test. What it must not lose is in its store: whoever epochs it commits the
store before sending what came out.

**Routing.** A subscription becomes an entry of the table; every neighbour is told the uncovered
filters of all but its own (`announcements.py`). A notification goes to the clients that want it and
to the neighbours that announced a filter for it, never back to where it came from. In a hierarchy
only parents are told, and are sent every notification. Between general peers this happens on the
edges of a spanning tree (`spanning.py`).

**What a neighbour has not said.** A neighbour whose announcements are not complete, or who reasons
with another ontology, is sent everything. We are complete towards it once everybody else is towards
us; so completeness spreads from the leaves of the tree, and until then nothing is lost, only sent
in vain.

**What must not be lost.** The store keeps a durable notification for every next hop until that one
acknowledges it, which it does once it has stored it for its own next hops. Sequences increase, so
the last sequence received tells repetitions. Between general peers a session belongs to one tree
(its *view*): when the tree changes, all sessions begin anew, and what neighbours have not
acknowledged is routed again on the new tree, where its id tells repetitions. Within a view
everybody who acknowledged it had the same tree, so it has reached all of that tree; and brokers
that cannot be reached are in the tree all the same.

**What must have arrived.** `waves.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Unpack

from msgspec import msgpack

from kbn.broker.client_session import ClientSession
from kbn.broker.core import Routing, Settings
from kbn.broker.messages import (
    AnyMessage,
    Forward,
    NewOntology,
    Peer,
    Send,
    Subscribe,
)  # fmt: skip
from kbn.broker.neighbour import Neighbour, Role
from kbn.broker.rehoming import Rehoming
from kbn.broker.service import Service
from kbn.broker.table import RoutingTable
from kbn.errors import InvalidInputError, KbnError
from kbn.ontology import Ontology

__all__ = ["Broker", "Routing"]


class Broker(Service):
    """One node of the overlay.

    `keeps` is False where the store does not outlive the process: durable requests are refused
    then. `now` is any clock that does not run backwards, in seconds; `retransmit_s` is None on
    links that neither lose nor reorder.
    """

    def __init__(self, name: str, **settings: Unpack[Settings]) -> None:
        super().__init__(name, **settings)
        self.answers = {
            "status": lambda about: self.status(),
            "move": self._move_clients,
            "report-hops": self._report_hops,
        }
        self._stay()
        self._restore()

    def link(self, name: str, role: Role = "peer", token: str = "") -> list[Send]:
        """Have a neighbour; `role` is what it is to us."""
        self._check_link(name, role)
        self._store.unmark(f"left/{name}")
        self._add_neighbour(name, role).token = token
        return self._finish()

    def unlink(self, name: str) -> list[Send]:
        """Have it no longer; what it wanted is forgotten, and what it has not acknowledged."""
        if self._rehoming is not None and name == self._rehoming.new:
            self._give_up_move("unlinked")
        elif name in self._neighbours:
            self._part_with(name, "unlinked")
        return self._finish()

    def rehome(
        self,
        old: str,
        new: str,
        now: float,
        *,
        token: str = "",
        done: Callable[[str | None], None] = lambda trouble: None,
    ) -> list[Send]:
        """Move from one neighbour to another, with all clients and brokers behind us.

        The shell connects to `new` as to any neighbour. `done` is called in the end, with the
        reason when the move was given up.
        """
        self._now = now
        known = self._neighbours.get(old)
        is_known = new in self._neighbours or new == self.name
        if known is None or is_known or self._rehoming is not None:
            raise InvalidInputError(
                f"{self.name!r} cannot move from {old!r} to {new!r}: the first must be a neighbour "
                "and the second none, and one move must be over before the next"
            )
        if self.routing == "general":
            raise InvalidInputError("general peers do not move: link the new one, unlink the old")
        self._rehoming = Rehoming(old, new, done)
        self.table.apart = self.offers.apart = self._rehoming.both
        # Should we stop in the middle, we start again at the old place: the new one must know.
        self._store.mark(f"left/{new}", b"")
        self._store.mark("rehoming", msgpack.encode((old, new)))
        self._add_neighbour(new, known.role).token = token
        self._waves.pass_on_to(new, old)
        self._own_waves.begin(self._joined, [new])
        return self._finish()

    def connected(self, peer: Peer, now: float) -> list[Send]:
        """A link to a neighbour works (again)."""
        self._now = now
        neighbour = self._neighbours.get(peer.name)
        if peer.kind == "broker" and neighbour is not None:
            neighbour.is_connected = True
            neighbour.may_have_lost = True
            neighbour.heard_at = now
            neighbour.fired_heard = (
                neighbour.fired
            )  # what was under way is lost: do not wait for it
            self._greet(neighbour)
        return self._finish()

    def disconnected(self, peer: Peer, now: float) -> list[Send]:
        """A link is broken: a client or a neighbour cannot be reached that way."""
        self._now = now
        if peer.kind == "client":
            session = self._clients.get(peer.name)
            if session is not None:
                self._detach(session)
        elif peer.name in self._neighbours:
            self._neighbours[peer.name].is_connected = False
            self._say_link(peer.name, is_up=False)
        return self._finish()

    def receive(self, message: AnyMessage, sender: Peer, now: float) -> list[Send]:
        """Handle one message."""
        return self.receive_many([(message, sender)], now)

    def receive_many(self, arrived: Iterable[tuple[AnyMessage, Peer]], now: float) -> list[Send]:
        """Handle messages in the order they came; answers are gathered at the end."""
        self._now = now
        for message, sender in arrived:
            if sender.kind == "client":
                self._from_client(message, sender)  # type: ignore[arg-type]
            else:
                self._from_neighbour(message, sender.name)  # type: ignore[arg-type]
        return self._finish()

    def tick(self, now: float) -> list[Send]:
        """Do what is due by the clock: greet, repeat, give up on the silent."""
        self._now = now
        if self._retransmit_s is not None:
            for neighbour in self._neighbours.values():
                self._repeat(neighbour, self._retransmit_s)
            for session in self._clients.values():
                self._deliver_again(session, self._retransmit_s)
        since = now - self._beat_at
        if since >= self._heartbeat_s:
            self._beat_at = now
            # After a long turn of our own nobody is called silent: it was us who did not listen.
            self._beat(judges=since < 2 * self._heartbeat_s)
        return self._finish()

    def rebuilding(self, ontology: Ontology | None) -> Callable[[], RoutingTable]:
        """A function that makes the table anew for another ontology.

        It may run in another thread while this broker goes on; `use_ontology` makes up for what
        has changed meanwhile.
        """
        clients = [
            ((session.peer, id), subscription)
            for session in self._clients.values()
            for id, subscription in session.subscriptions.items()
        ]
        told = [n.name for n in self._neighbours.values() if n.role != "child"]

        def rebuild() -> RoutingTable:
            table = RoutingTable(ontology, keeps_roots=self.table.keeps_roots)
            for name in told:
                table.join(name, self._announcements_for(name, ontology))
            for key, subscription in clients:
                with suppress(KbnError):  # `use_ontology` tells whose it is
                    table.add(key, subscription)
            return table

        return rebuild

    def use_ontology(
        self,
        ontology: Ontology | None,
        digest: str,
        now: float,
        table: RoutingTable | None = None,
    ) -> list[Send]:
        """Reason with another ontology from now on, and tell clients and neighbours.

        `table` is what `rebuilding` made for it, if there was time. Subscriptions with terms that
        the ontology does not know are kept, and served again by one that does; whose they are is
        told.
        """
        self._now = now
        self._read.clear()
        self.table = self.rebuilding(ontology)() if table is None else table
        self.table.apart = self.offers.apart
        self._prematched.clear()
        self._ontology_digest = digest
        for session in self._clients.values():
            self._send(session.peer, NewOntology(digest))
        self._catch_up()
        epoch = self._next_link_epoch()
        for neighbour in self._neighbours.values():
            neighbour.our_epoch = epoch
            self._relearn(neighbour)
        self._waves.begin_anew(self._wave_targets())
        return self._finish()

    def _catch_up(self) -> None:
        """Bring a new table to what clients want now."""
        wanted = {
            (session.peer, id): subscription
            for session in self._clients.values()
            for id, subscription in session.subscriptions.items()
        }
        for key in [key for key in self.table.entries if key not in wanted]:
            self.table.remove(key)
        for key, subscription in wanted.items():
            if key not in self.table:
                try:
                    self.table.add(key, subscription)
                except KbnError as error:
                    self._refuse(key[0], Subscribe(key[1], ""), error)

    def _relearn(self, neighbour: Neighbour) -> None:
        """Have a neighbour say everything again, and say everything again to it."""
        neighbour.channel = None
        neighbour.wants, neighbour.stale_wants = {}, []
        neighbour.is_complete = neighbour.told_complete = False
        if neighbour.role != "child":
            neighbour.announcements = self.table.told(neighbour.name)
            if neighbour.announcements is None:
                self._tell_of_others(neighbour)
        if neighbour.is_connected:
            self._greet(neighbour)

    @property
    def neighbours(self) -> dict[str, Neighbour]:
        return self._neighbours

    @property
    def clients(self) -> dict[str, ClientSession]:
        return self._clients

    @property
    def is_complete(self) -> bool:
        """Whether every neighbour has said all it has to say."""
        return all(self._is_trusted(n) for n in self._tree_neighbours() if n.role != "parent")

    def status(self) -> dict[str, Any]:
        """What a person wants to know of this broker."""
        roots = self.table.roots
        return {
            "broker": self.name,
            "epoch": self.epoch,
            "routing": self.routing,
            "ontology": self._ontology_digest,
            "subscriptions": len(self.table),
            "filters": self.table.filter_count,
            "roots": None if roots is None else len(roots),
            "advertisements": len(self.offers),
            "counts": dict(self.counts),
            "clients": [self._client_status(each) for each in self._clients.values()],
            "neighbours": [self._link_status(each) for each in self._neighbours.values()],
        }

    def _stay(self) -> None:
        """A move was not finished when we stopped: what was put aside for the new neighbour goes by
        way of the old one.
        """
        move = self._store.marked("rehoming")
        if move is None:
            return
        old, new = (Peer("broker", name) for name in msgpack.decode(move, type=tuple[str, str]))
        for each in self._store.unacked(new, 0, self._store.unacked_count(new)):
            self._store.push(old, next(self._sequences), self._store.keep(each.envelope))
        self._store.forget_unacked(new)
        self._store.unmark("rehoming")

    def _joined(self) -> None:
        """The whole network knows what we want from the new side."""
        move = self._rehoming
        assert move is not None
        if not move.came_by_old:
            self._give_up_move(
                f"{move.new!r} hangs below {self.name!r}, or is not connected to {move.old!r}"
            )
            return
        behind = [name for name in self._wave_targets() if name not in move.both]
        self._own_waves.begin(self._answered_old, behind)

    def _answered_old(self) -> None:
        """Others' waves that will not come by way of the new neighbour are answered: drain."""
        move = self._rehoming
        assert move is not None
        move.phase = "draining"
        self._own_waves.begin(self._rehomed, [move.old])

    def _rehomed(self) -> None:
        """The old side is drained: leave it, and go on at the new one."""
        move = self._rehoming
        assert move is not None
        if not move.came_by_new and move.old in self._neighbours:
            self._give_up_move(f"{move.new!r} has forgotten {self.name!r}")
            return
        self._rehoming = None
        self.table.apart = self.offers.apart = frozenset()
        self._store.unmark(f"left/{move.new}")
        self._store.unmark("rehoming")
        self._part_with(move.old, "moved")
        new = self._neighbours[move.new]
        new.past = move.newest
        self._store.mark(f"past/{move.new}", msgpack.encode(move.newest))
        for message in move.held:
            if isinstance(message, Forward):
                self._carried(message.sequence, message.envelope, new)
            else:
                self._arrived(message.envelope, new)
        self._tell_complete()
        self._carry(new)
        self._fire(new)
        for wave, neighbour in move.waves:
            self._waved(wave, neighbour)
        move.done(None)

    def _beat(self, judges: bool) -> None:
        for neighbour in list(self._neighbours.values()) if judges else []:
            if neighbour.is_connected and self._now - neighbour.heard_at > self._dead_after_s:
                self._say_link(neighbour.name, is_up=False)
        for neighbour in self._neighbours.values():
            if neighbour.is_connected:
                self._greet(neighbour)
                self._unstick(neighbour)
        if judges and self._retransmit_s is not None:
            silent = self._now - self._dead_after_s
            for session in list(self._clients.values()):
                if session.is_connected and session.heard_at < silent:
                    self._detach(session)

    def _finish(self) -> list[Send]:
        """Gather what is to be sent: deliveries and answers last."""
        to_pump, self._to_pump = self._to_pump, {}
        for session in to_pump.values():
            self._pump(session)
        for neighbour in self._neighbours.values():
            self._answer_neighbour(neighbour)
        out, self._out = self._out, []
        return out
