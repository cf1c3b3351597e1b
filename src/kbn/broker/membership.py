"""Membership: who is a neighbour of a broker, from its first greeting to its bye.

Whoever comes, begins a session anew or goes changes what others are told: the routing table, the
tree of general peers, the waves under way and a move of the broker itself. All of that follows
here, in order.

**What a neighbour has not said.** A neighbour whose announcements are not complete, or who reasons
with another ontology, is sent everything. We are complete towards it once everybody else is towards
us; so completeness spreads from the leaves of the tree, and until then nothing is lost, only sent
in vain.

**Views.** Between general peers a session belongs to one tree (its *view*): when the tree changes,
all sessions begin anew, and what neighbours have not acknowledged is routed again on the new tree,
where its id tells repetitions. Within a view everybody who acknowledged it had the same tree, so it
has reached all of that tree; and brokers that cannot be reached are in the tree all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kbn.broker.access import admits_broker
from kbn.broker.client_requests import ClientRequests
from kbn.broker.fields import shortened
from kbn.broker.messages import REFUGES_MAX, Bye, ByeCause, Envelope, Greet, Peer
from kbn.broker.mover import Mover
from kbn.broker.neighbour import EPOCH_UNKNOWN, Neighbour
from kbn.broker.parts import Parts
from kbn.broker.topology import Role
from kbn.broker.work import CHARACTERS_READ, SENT
from kbn.errors import InvalidInputError, KbnError


class Membership:
    """The coming and going of one broker's neighbours.

    The broker sets `mover`, which moves it between two of them, and `release_held`, to be called
    when one that went has left room for what others bring.
    """

    mover: Mover
    release_held: Callable[[], None]

    def __init__(self, parts: Parts, requests: ClientRequests) -> None:
        self._name = parts.name
        self._settings = parts.settings
        self._outbox = parts.outbox
        self._neighbours = parts.neighbours
        self._interests = parts.interests
        self._waves = parts.waves
        self._router = parts.router
        self._room = parts.room
        self._shape = parts.shape
        self._requests = requests

    # Who comes.

    def link(self, name: str, role: Role, token: str, url: str, *, again: bool) -> None:
        """Have a neighbour, which was expected at a url (or nowhere).

        One that we had before a restart is greeted `again`: it may have left us meanwhile.
        """
        self._neighbours.check_link(name, role)
        self._neighbours.forget_leaving(name)
        late = self._meet(url, name)
        neighbour = self.add(name, role)
        neighbour.token = token
        if again:
            neighbour.link.epoch = max(neighbour.link.epoch, EPOCH_UNKNOWN)
        for envelope in late:
            self._router.route_late(envelope, neighbour)
        self.tell_complete()

    def _meet(self, url: str, name: str) -> list[Envelope]:
        """Whoever was expected at a url has a name, and goes on with its queue; what it cannot
        take over like that, because it is a neighbour already or the tree decides.
        """
        queue = self._neighbours.unmet.met(url)
        if queue is None:
            return []
        self._waves.renamed(url, name)
        if self._neighbours.routing != "general" and name not in self._neighbours.by_name:
            self._neighbours.unmet.take_over(url, name)
            return []
        known = self._neighbours.by_name.get(name)
        # What came since it is a neighbour is in its own queue, as far as it wants it.
        return queue.take_all() if known is None else queue.take_up_to(known.since)

    def admit(self, greet: Greet, name: str) -> Neighbour | None:
        """A broker nobody told us of greets: take it in, or tell it why not."""
        left = self._neighbours.left(name)
        if greet.heard and left is not None:
            # It was our neighbour, and does not know that we have left it; one that comes anew is
            # welcome.
            self.say_bye(name, "this broker has left you", left)
            return None
        try:
            self._shape.look_at(greet)
            self._neighbours.check_link(name, greet.role)
            self._neighbours.forget_leaving(name)
            if not admits_broker(self._settings.authorizer, name, greet.token):
                raise InvalidInputError(f"broker {name!r} is not admitted: check its token")
        except KbnError as error:
            self.say_bye(name, str(error), "refused")
            return None
        neighbour = self.add(name, greet.role)
        neighbour.link.is_connected = True
        return neighbour

    def add(self, name: str, role: Role) -> Neighbour:
        """Have a neighbour; one that is known stays as it is."""
        known = self._neighbours.by_name.get(name)
        if known is not None:
            return known
        neighbour = self._neighbours.add(name, role)
        self.tell(self._interests.join(neighbour), neighbour)
        if self._neighbours.set_link(name, False):
            self._begin_new_view()
        self.tell_complete()
        return neighbour

    def move(self, old: str, new: str, *, token: str, done: Callable[[str | None], None]) -> None:
        """Begin to move from one neighbour to another; `done` gets the reason when we stay."""
        known = self._neighbours.by_name.get(old)
        is_known = new in self._neighbours.by_name or new == self._name
        if known is None or is_known or self._neighbours.move is not None:
            raise InvalidInputError(
                f"{self._name!r} cannot move from {old!r} to {new!r}: the first must be a "
                "neighbour and the second none, and one move must be over before the next"
            )
        if self._neighbours.routing == "general":
            raise InvalidInputError("general peers do not move: link the new one, unlink the old")
        self.mover.prepare(old, new, done)
        self.add(new, known.role).token = token
        self.mover.join()

    # Sessions.

    def greeted(self, greet: Greet, neighbour: Neighbour) -> None:
        """A neighbour says which epoch, tree and ontology it has."""
        greeted = self._neighbours.greetings.greeted(greet, neighbour)
        if greeted is None:
            return
        self._waves.is_up(neighbour.name)
        if greeted.is_new_epoch:
            self._tell_refuges()
        if greeted.has_new_tree:
            self._begin_new_view()
        if greeted.has_new_ontology:
            self.tell_complete()
        if self._neighbours.greetings.answer_greeting(greet, neighbour, greeted.is_new_epoch):
            if neighbour.link.channel is None:
                self._begin_session(neighbour)
            elif not greeted.is_new_epoch:
                self._neighbours.traffic.repeat_unheard(neighbour)

    def _begin_session(self, neighbour: Neighbour) -> None:
        neighbour.begin_session()
        self.tell(self._everything_for(neighbour), neighbour)
        self.tell_complete()
        self._neighbours.traffic.forward(neighbour)
        self._neighbours.traffic.send_best_effort(neighbour)
        self._waves.started_again(neighbour.name)
        self.mover.session_began(neighbour.name)

    def _everything_for(self, neighbour: Neighbour) -> Iterator[None]:
        """Tell a neighbour all there is, in parts, as long as the session lasts."""
        channel = neighbour.link.channel
        for _ in self._interests.reconsidering(neighbour):
            yield
            if neighbour.link.channel is not channel:
                return
        for announce in self._interests.everything_for(neighbour):
            characters = sum(len(text) for _, text in announce.add)
            self._outbox.work.done += SENT * len(announce.add) + characters // CHARACTERS_READ
            self._neighbours.traffic.send_to(neighbour, announce)
            yield
            if neighbour.link.channel is not channel:
                return

    def tell(self, steps: Iterator[None], neighbour: Neighbour) -> None:
        """Tell a neighbour something in steps, now as far as the turn goes."""
        self._router.chores.start(self._telling(steps, neighbour))

    def _telling(self, steps: Iterator[None], neighbour: Neighbour) -> Iterator[None]:
        """While a neighbour is being told, it has not been told everything."""
        neighbour.told.pending += 1
        yield from steps
        neighbour.told.pending -= 1
        self._neighbours.traffic.was_told(neighbour)
        self.tell_complete()

    def tell_complete(self) -> None:
        """Tell neighbours whether they know everything, as far as that has changed."""
        self._neighbours.tell_complete(parents_tell=self._settings.advertisements)

    def link_is_down(self, name: str) -> None:
        """A neighbour cannot be reached on its link."""
        if self._neighbours.set_link(name, False):
            self._begin_new_view()
        self._waves.is_down(name, self._neighbours.names_in_tree())

    def unmet_are_down(self) -> None:
        """Those that are expected at a url, and were not met, cannot be reached."""
        for url in self._neighbours.unmet:
            self._waves.is_down(url, self._neighbours.names_in_tree())

    def _begin_new_view(self) -> None:
        """The tree is another: begin all sessions anew, and route again what is unacked."""
        unacked = self._neighbours.end_all()
        for neighbour in self._neighbours.by_name.values():
            self._room.gone(neighbour.name)
            if not self._neighbours.is_in_tree(neighbour):
                self._router.chores.start(self._interests.forget(neighbour))
                neighbour.best_effort.clear()
        self._waves.begin_anew(self._neighbours.names_in_tree())
        for envelope in unacked:
            self._router.route_again(envelope)
        self._neighbours.greetings.greet_connected()

    def _tell_refuges(self) -> None:
        """Tell clients where to go when we are away: to our neighbours."""
        links = ((each.name, each.link) for each in self._neighbours.by_name.values())
        known = sorted((not link.is_connected, name, link.url) for name, link in links if link.url)
        found = tuple((name, url) for _, name, url in known[:REFUGES_MAX])
        if found and found != self._requests.refuges:
            self._requests.use_refuges(found)

    # Who goes.

    def part_with(self, name: str, reason: str, cause: ByeCause) -> None:
        """Leave a neighbour. It may not hear of it, and greet on: then it is told again."""
        self.say_bye(name, reason, cause)
        self._neighbours.leave(name, cause)
        self.remove(name)

    def say_bye(self, name: str, reason: str, cause: ByeCause) -> None:
        """Tell a neighbour that it is one no longer."""
        bye = Bye(self._name, self._neighbours.epoch, shortened(reason), cause)
        self._outbox.send(Peer("broker", name), bye)

    def left_by(self, bye: Bye, neighbour: Neighbour) -> None:
        """A neighbour has left us."""
        if bye.epoch < neighbour.link.epoch:
            return
        if neighbour.name == self._neighbours.moving_to:
            self.mover.refused(f"{neighbour.name!r} refuses: {bye.reason}")
        else:
            self.remove(neighbour.name)

    def remove(self, name: str) -> None:
        """Have a neighbour no longer; what it wanted and has not acknowledged is forgotten."""
        neighbour = self._neighbours.remove(name)
        if neighbour is None:
            return
        self._router.chores.start(self._interests.leave(neighbour))
        unacked = neighbour.unacked.take_all()
        if self._room.gone(name):
            self.release_held()
        self._neighbours.unmet.forget_queue(name)
        if self._neighbours.remove_link(name):
            self._begin_new_view()
            for envelope in unacked:
                self._router.route_again(envelope)
        self._waves.gone(name, self._neighbours.names_in_tree())
        self.mover.lost(name)
        self.tell_complete()
        self._tell_refuges()

    def give_up(self, url: str) -> None:
        """Expect nobody at a url any more; what was kept for it is forgotten."""
        queue = self._neighbours.unmet.met(url)
        if queue is not None:
            queue.take_all()
            self._waves.gone(url, self._neighbours.names_in_tree())
            self.tell_complete()
