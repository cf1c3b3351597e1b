"""Links: the neighbours of a broker, what they want and what they are told."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal, assert_never

from msgspec import msgpack

from kbn.broker.announcements import Announcements
from kbn.broker.client_session import ENVELOPES
from kbn.broker.messages import (
    Ack,
    Announce,
    BestEffort,
    BetweenBrokers,
    Bye,
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
)  # fmt: skip
from kbn.broker.neighbour import FIRED_AHEAD_MAX, Neighbour, Newest, Role
from kbn.broker.rehoming import Rehoming
from kbn.broker.routing import Kept, Router
from kbn.broker.unacked import UnackedQueue
from kbn.errors import InvalidInputError, KbnError
from kbn.filters import Subscription, may_intersect
from kbn.ontology import Ontology

PAST = msgpack.Decoder(Newest)
ByeCause = Literal["refused", "moved", "unlinked"]
ROLE_SEEN_FROM_THERE: dict[Role, Role] = {"peer": "peer", "parent": "child", "child": "parent"}


class Links(Router):
    """Keeps sessions with neighbours, and tells them what they must know."""

    def _from_neighbour(self, message: BetweenBrokers, name: str) -> None:
        neighbour = self._neighbours.get(name)
        if neighbour is None:
            if not isinstance(message, Greet):
                return
            neighbour = self._stranger(message, name)
            if neighbour is None:
                return
        neighbour.heard_at = self._now
        match message:
            case Frame():
                self._framed(message, neighbour)
            case BestEffort():
                self._fired(message, neighbour)
            case Heard():
                self._heard(message, neighbour)
            case Greet():
                self._greeted(message, neighbour)
            case Bye():
                self._left_by(message, neighbour)
            case _:
                assert_never(message)

    def _stranger(self, greet: Greet, name: str) -> Neighbour | None:
        """A broker nobody told us of greets: take it in, or tell it why not."""
        left = self._store.marked(f"left/{name}")
        if greet.heard and left is not None:
            # It does not know that we have left it; one that comes anew is welcome.
            cause: ByeCause = "unlinked" if left == b"unlinked" else "moved"
            self._send(Peer("broker", name), self._bye("this broker has left you", cause))
            return None
        try:
            self._check_link(name, greet.role)
            self._store.unmark(f"left/{name}")
            if self._authorizer.admit(name, greet.token) is None:
                raise InvalidInputError(f"broker {name!r} is not admitted: check its token")
        except KbnError as error:
            self._send(Peer("broker", name), self._bye(str(error), "refused"))
            return None
        neighbour = self._add_neighbour(name, greet.role)
        neighbour.is_connected = True
        return neighbour

    def _part_with(self, name: str, reason: str) -> None:
        """Leave a neighbour. It may not hear of it, and greet on: then it is told again."""
        cause: ByeCause = "unlinked" if reason == "unlinked" else "moved"
        self._send(Peer("broker", name), self._bye(reason, cause))
        self._store.mark(f"left/{name}", cause.encode())
        self._remove_neighbour(name)

    def _left_by(self, bye: Bye, neighbour: Neighbour) -> None:
        if bye.epoch < neighbour.epoch:
            return
        if self._rehoming is not None and neighbour.name == self._rehoming.new:
            self._give_up_move(f"{neighbour.name!r} refuses: {bye.reason}")
        else:
            self._remove_neighbour(neighbour.name)

    def _bye(self, reason: str, cause: ByeCause) -> Bye:
        return Bye(self.name, self._link_epoch, reason, cause)

    def _check_link(self, name: str, role: Role) -> None:
        if name == self.name:
            raise InvalidInputError(f"broker {name!r} cannot be its own neighbour")
        if (self.routing == "hierarchical") == (role == "peer"):
            raise InvalidInputError(
                f"a {self.routing} broker has no {role}: both sides must use the same routing"
            )
        moves_to_it = self._rehoming is not None and name == self._rehoming.new
        if (
            role == "parent"
            and not moves_to_it
            and any(n.role == "parent" and n.name != name for n in self._neighbours.values())
        ):
            raise InvalidInputError("a broker has one parent at most")

    def _add_neighbour(self, name: str, role: Role) -> Neighbour:
        known = self._neighbours.get(name)
        if known is not None:
            return known
        peer = Peer("broker", name)
        neighbour = Neighbour(peer, role, UnackedQueue(self._store, peer, self._sequences))
        # It may not have heard that we left it, and be in a session with us: this is another.
        neighbour.our_epoch = self._next_link_epoch()
        neighbour.taken = neighbour.took = int(self._store.marked(f"taken/{name}") or 0)
        if (past := self._store.marked(f"past/{name}")) is not None:
            neighbour.past = PAST.decode(past)
        self._neighbours[name] = neighbour
        self._tell_of_others(neighbour)
        if self.routing == "general" and self._tree.set_link(name, False):
            self._new_view()
        self._tell_complete()
        return neighbour

    def _tell_of_others(self, neighbour: Neighbour) -> None:
        """Work out what a neighbour is to be told, from the beginning."""
        ontology = self.table.ontology
        if neighbour.role != "child":
            neighbour.announcements = self._announcements_for(neighbour.name, ontology)
            self.table.join(neighbour.name, neighbour.announcements)
        if self._advertises:
            neighbour.offers = Announcements(ontology, "advertisement")
            self.offers.join(neighbour.name, neighbour.offers)

    def _announcements_for(self, name: str, ontology: Ontology | None) -> Announcements:
        """For telling a neighbour what others want: where advertisements are used, what it may
        publish.
        """
        gate = partial(self._may_be_published, name) if self._advertises else None
        return Announcements(ontology, "interest", gate)

    def _may_be_published(self, name: str, subscription: Subscription) -> bool:
        """Whether the neighbour's side may publish what the subscription wants."""
        neighbour = self._neighbours.get(name)
        if neighbour is None or not neighbour.is_complete:
            return True
        return any(
            may_intersect(wanted, offered, self.table.ontology)
            for _, advertisement in neighbour.all_advertised()
            for offered in advertisement.filters
            for wanted in subscription.filters
        )

    def _remove_neighbour(self, name: str) -> None:
        neighbour = self._neighbours.pop(name, None)
        if neighbour is None:
            return
        self._store.unmark(f"past/{name}")
        self.table.leave(name)
        self.offers.leave(name)
        neighbour.channel = None
        self._forget_said(neighbour)
        unacked = neighbour.unacked.take_all()
        if self.routing == "general" and self._tree.remove_link(name):
            self._new_view()
            for body in unacked:
                self._route_again(ENVELOPES.decode(body))
        self._waves.gone(name, self._wave_targets())
        self._own_waves.gone(name, [])
        self._tell_complete()

    def _greet(self, neighbour: Neighbour) -> None:
        self._send(
            neighbour.peer,
            Greet(
                self.name,
                neighbour.our_epoch,
                neighbour.epoch,
                ROLE_SEEN_FROM_THERE[neighbour.role],
                self._ontology_digest,
                self._tree.view if self.routing == "general" else "",
                self._tree.states if self.routing == "general" else (),
                token=neighbour.token,
            ),
        )

    def _greeted(self, greet: Greet, neighbour: Neighbour) -> None:
        if greet.epoch < neighbour.epoch:
            return
        is_new_epoch = greet.epoch > neighbour.epoch
        if is_new_epoch:
            neighbour.epoch = greet.epoch
            neighbour.channel = None
        self._learn(greet, neighbour)
        if neighbour.ontology != greet.ontology:
            neighbour.ontology = greet.ontology
            self._tell_complete()
        is_heard = greet.heard == neighbour.our_epoch
        if is_new_epoch or not is_heard:
            self._greet(neighbour)  # ahead of the session's frames: without it they are dropped
        view = self._tree.view if self.routing == "general" else ""
        if is_heard and greet.view == view and self._is_in_tree(neighbour):
            if neighbour.channel is None:
                self._begin_session(neighbour)
            elif not is_new_epoch:
                self._say_again(neighbour)

    def _learn(self, greet: Greet, neighbour: Neighbour) -> None:
        """Take in what a neighbour knows of the network; tell the others when it is news."""
        if self.routing != "general":
            return
        changed = self._tree.set_link(neighbour.name, True)
        news, tree_changed = self._tree.learn(greet.states)
        if changed or tree_changed:
            self._new_view()
        elif news:
            for other in self._neighbours.values():
                if other is not neighbour and other.is_connected:
                    self._greet(other)

    def _say_link(self, name: str, is_up: bool) -> None:
        if self.routing == "general" and self._tree.set_link(name, is_up):
            self._new_view()

    def _new_view(self) -> None:
        """The tree is another: begin all sessions anew, and route again what is still unacked."""
        epoch = self._next_link_epoch()
        unacked: dict[NotificationId, Envelope] = {}
        for neighbour in self._neighbours.values():
            neighbour.our_epoch, neighbour.channel = epoch, None
            for body in neighbour.unacked.take_all():
                envelope = ENVELOPES.decode(body)
                unacked[envelope.id] = envelope
            if not self._is_in_tree(neighbour):
                self._forget_said(neighbour)
                neighbour.fire_queue.clear()
            neighbour.is_complete = neighbour.told_complete = False
        self._waves.begin_anew(self._wave_targets())
        for envelope in unacked.values():
            self._route_again(envelope)
        for neighbour in self._neighbours.values():
            if neighbour.is_connected:
                self._greet(neighbour)

    def _forget_said(self, neighbour: Neighbour) -> None:
        """Forget all a neighbour wanted and advertised."""
        neighbour.begin_session()
        neighbour.channel = None
        self._forget_stale(neighbour)

    def _forget_stale(self, neighbour: Neighbour) -> None:
        stale, neighbour.stale_wants = neighbour.stale_wants, []
        for key in stale:
            self._tell_interest(self.table.remove(key))
        offered, neighbour.stale_advertises = neighbour.stale_advertises, []
        for key, _ in offered:
            self._tell_offer(self.offers.remove(key))

    def _begin_session(self, neighbour: Neighbour) -> None:
        neighbour.begin_session()
        if self._advertises:
            self.table.reconsider(neighbour.name)
        for announcements in (neighbour.announcements, neighbour.offers):
            if announcements is not None and announcements.filters:
                self._send_body(neighbour.name, announcements.everything())
        self._tell_complete()
        self._carry(neighbour)
        self._fire(neighbour)
        self._waves.started_again(neighbour.name)
        self._own_waves.started_again(neighbour.name)

    def _say_again(self, neighbour: Neighbour) -> None:
        """After a reconnection within a session: what was not heard may be lost."""
        if neighbour.channel is not None and neighbour.may_have_lost:
            neighbour.may_have_lost = False
            for frame in neighbour.channel.repeated(at_most=neighbour.channel.unheard):
                self._send(neighbour.peer, frame)

    def _framed(self, frame: Frame, neighbour: Neighbour) -> None:
        channel = neighbour.channel
        if channel is None or (frame.sender_epoch, frame.receiver_epoch) != (
            channel.receiver_epoch,
            channel.sender_epoch,
        ):
            return
        body = channel.receive(frame, self._now)
        if body is None:
            return
        match body:
            case Forward(sequence, envelope):
                if not self._holds_back(body, neighbour):
                    self._carried(sequence, envelope, neighbour)
            case Ack(sequence):
                neighbour.unacked.ack(sequence)
                self._carry(neighbour)
            case Announce():
                self._announced(body, neighbour)
            case Complete(is_complete):
                self._completed(is_complete, neighbour)
            case Wave():
                self._waved(body, neighbour)
            case Echo(origin, kind=kind):
                is_own = origin == self.name and kind == "move"
                waves = self._own_waves if is_own else self._waves
                waves.echoed(body, neighbour.name, [] if is_own else self._wave_targets())
            case _:
                assert_never(body)

    def _carried(self, sequence: int, envelope: Envelope, neighbour: Neighbour) -> None:
        if sequence <= neighbour.taken:
            neighbour.took = 0  # say again that it was taken
            return
        neighbour.taken = sequence
        self._store.mark(f"taken/{neighbour.name}", str(sequence).encode())
        self._arrived(envelope, neighbour)

    def _holds_back(self, message: Forward | BestEffort, neighbour: Neighbour) -> bool:
        """Whether it must wait until a move of ours is over."""
        move = self._rehoming
        if move is None or neighbour.name != move.new or move.drops(neighbour.name):
            return False
        move.held.append(message)
        return True

    def _fired(self, fire: BestEffort, neighbour: Neighbour) -> None:
        channel = neighbour.channel
        if channel is None or (fire.sender_epoch, fire.receiver_epoch) != (
            channel.receiver_epoch,
            channel.sender_epoch,
        ):
            return
        if fire.number > neighbour.last_fired:
            neighbour.last_fired = fire.number
            if not self._holds_back(fire, neighbour):
                self._arrived(fire.envelope, neighbour)

    def _arrived(self, envelope: Envelope, neighbour: Neighbour) -> None:
        self.counts["received"] += 1
        if self._rehoming is not None and self._rehoming.drops(neighbour.name):
            return
        if neighbour.past and neighbour.is_past(envelope):
            return
        try:
            notification = self._read_content(envelope.content)
        except KbnError:
            self.counts["dropped"] += 1  # its first broker has checked it: this is not one of us
            return
        self._route(envelope, notification, neighbour)

    def _heard(self, heard: Heard, neighbour: Neighbour) -> None:
        channel = neighbour.channel
        if channel is not None and heard.receiver_epoch == channel.sender_epoch:
            channel.hear(heard.number, self._now)
            neighbour.fired_heard = max(neighbour.fired_heard, heard.best_effort)
            self._fire(neighbour)

    def _announced(self, announce: Announce, neighbour: Neighbour) -> None:
        for number, text in announce.add:
            self._next_key += 1
            key = (neighbour.peer, self._next_key)
            try:
                subscription = self._parsed(text, is_text=False)
                if announce.what == "interest":
                    self._tell_interest(self.table.add(key, subscription))
                    neighbour.wants[number] = key
                else:
                    self._tell_offer(self.offers.add(key, subscription))
                    neighbour.advertises[number] = (key, subscription)
            except KbnError:
                # Its ontology has a term that ours has not. While they differ it is sent
                # everything anyway, and when they agree again it announces anew.
                neighbour.unread.add(number)
        for number in announce.drop:
            neighbour.unread.discard(number)
            if announce.what == "interest":
                if (dropped := neighbour.wants.pop(number, None)) is not None:
                    self._tell_interest(self.table.remove(dropped))
            elif (offered := neighbour.advertises.pop(number, None)) is not None:
                self._tell_offer(self.offers.remove(offered[0]))
        if announce.what == "advertisement":
            self._reconsider(neighbour)

    def _reconsider(self, neighbour: Neighbour) -> None:
        for announce in self.table.reconsider(neighbour.name):
            self._send_body(neighbour.name, announce)

    def _completed(self, is_complete: bool, neighbour: Neighbour) -> None:
        neighbour.is_complete = is_complete
        if is_complete:
            self._forget_stale(neighbour)
        self._tell_complete()
        if self._advertises:
            self._reconsider(neighbour)

    def _tell_complete(self) -> None:
        """Tell each neighbour whether it has been told everything, where that has changed."""
        neighbours = self._tree_neighbours()
        unsure = [n.name for n in neighbours if not self._is_trusted(n) and self._tells_us(n)]
        apart = frozenset() if self._rehoming is None else self._rehoming.both
        for neighbour in neighbours:
            other = apart if neighbour.name in apart else {neighbour.name}
            is_complete = all(name in other for name in unsure)
            if neighbour.channel is not None and neighbour.told_complete != is_complete:
                neighbour.told_complete = is_complete
                self._send_body(neighbour.name, Complete(is_complete))

    def _tells_us(self, neighbour: Neighbour) -> bool:
        return neighbour.role != "parent" or self._advertises

    def _waved(self, wave: Wave, neighbour: Neighbour) -> None:
        move = self._rehoming
        if move is not None and wave.origin == self.name:
            self._came_round(wave, neighbour, move)
        elif move is not None and neighbour.name in move.both:
            self._waved_while_moving(wave, neighbour, move)
        elif move is not None and wave.kind == "move" and move.phase == "draining":
            move.waves.append((wave, neighbour))
        else:
            if move is not None and wave.kind == "move":
                self._give_up_move(f"{wave.origin!r} moves behind {self.name!r}: try again later")
            self._waves.pass_on(wave, neighbour.name, self._wave_targets())

    def _came_round(self, wave: Wave, neighbour: Neighbour, move: Rehoming) -> None:
        # Not behind what is put aside: that waits for this wave.
        self._send_body(neighbour.name, Echo(wave.origin, wave.epoch, wave.number, wave.kind))
        if wave == self._own_waves.newest:
            move.came_round(neighbour.name)
        if move.came_by_old:
            unsure, move.unsure = move.unsure, []
            for other, source in unsure:
                self._waved_while_moving(other, source, move)

    def _waved_while_moving(self, wave: Wave, neighbour: Neighbour, move: Rehoming) -> None:
        """A wave from one of the two sides reaches the other by itself, unless the new one is
        behind us: until we know, it waits, or visits both when it is another mover's.
        """
        targets = self._wave_targets()
        if neighbour.name == move.old or move.came_by_old:
            targets = [name for name in targets if name not in move.both]
        elif wave.kind != "move":
            move.unsure.append((wave, neighbour))
            return
        self._waves.pass_on(wave, neighbour.name, targets)

    def _give_up_move(self, reason: str) -> None:
        """Stay where we are; what was put aside for the new neighbour goes by way of the old."""
        move, self._rehoming = self._rehoming, None
        assert move is not None
        self._own_waves.forget()
        self.table.apart = self.offers.apart = frozenset()
        self._store.unmark("rehoming")
        new, old = self._neighbours[move.new], self._neighbours.get(move.old)
        if old is not None:
            for body in new.unacked.take_all():
                self._pass_on(old, Kept(self._store, ENVELOPES.decode(body)))
            for envelope in new.fire_queue:
                self._pass_on(old, Kept(self._store, envelope))
        self._part_with(move.new, "not moving here after all")
        for wave, neighbour in move.waves:
            self._waved(wave, neighbour)
        move.done(reason)

    def _unstick(self, neighbour: Neighbour) -> None:
        """When all that was fired is lost nobody says how far it is: go on after a while."""
        if neighbour.channel is not None:
            neighbour.channel.owes_answer = True
        if self._retransmit_s is not None and neighbour.fire_queue:
            neighbour.fired_heard = neighbour.fired
            self._fire(neighbour)

    def _repeat(self, neighbour: Neighbour, after_s: float) -> None:
        if neighbour.channel is not None:
            for frame in neighbour.channel.overdue(self._now, after_s):
                self._send(neighbour.peer, frame)

    def _answer_neighbour(self, neighbour: Neighbour) -> None:
        channel = neighbour.channel
        if channel is None:
            return
        if neighbour.took < neighbour.taken:
            neighbour.took = neighbour.taken
            self._send_body(neighbour.name, Ack(neighbour.taken))
        fired_much = neighbour.last_fired - neighbour.answered_fired >= FIRED_AHEAD_MAX // 8
        if channel.owes_answer or fired_much:
            neighbour.answered_fired = neighbour.last_fired
            self._send(neighbour.peer, channel.answer(neighbour.last_fired))

    def _link_status(self, neighbour: Neighbour) -> dict[str, Any]:
        told = neighbour.announcements
        return {
            "broker": neighbour.name,
            "role": neighbour.role,
            "connected": neighbour.is_connected,
            "in_session": neighbour.channel is not None,
            "complete": self._is_trusted(neighbour),
            "in_tree": self._is_in_tree(neighbour),
            "wants": len(neighbour.wants),
            "told": 0 if told is None else len(told.filters),
            "unacked": len(neighbour.unacked),
            "queued": len(neighbour.fire_queue),
            "dropped": neighbour.fire_dropped,
        }
