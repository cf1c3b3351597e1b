"""Interests: what clients and neighbours want and advertise, and what neighbours are told of it.

The routing table has the subscriptions of clients and the announcements of neighbours; the register
beside it has their advertisements, where those are used. Each change makes announcements, which go
to the neighbours that have to know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import chain, count

from kbn.broker.announcements import Announcements
from kbn.broker.limits import BrokerLimits
from kbn.broker.messages import Announce, Peer
from kbn.broker.neighbour import Neighbour
from kbn.broker.routing_table import Register, RoutingTable
from kbn.broker.subscription_reader import SubscriptionReader
from kbn.broker.wanted import Key
from kbn.broker.work import CHANGED, CHARACTERS_READ, COMPARED, RECONSIDERED, STEPPED, Work
from kbn.errors import KbnError
from kbn.filters import Subscription, may_intersect
from kbn.ontology import Ontology, suggesting_among

COMPARED_MAX = 128
"""With so many filters that a neighbour's side advertises one that is wanted is compared."""


class Interests:
    """Who wants and who advertises what.

    `send` is given the name of a neighbour and what to tell it; `find` knows neighbours by name.
    With `gated` a neighbour is told only of what its side advertises. `start` does something in
    steps, while the peer waits for whom it is done.
    """

    def __init__(
        self,
        table: RoutingTable,
        send: Callable[[str, Announce], None],
        find: Callable[[str], Neighbour | None],
        work: Work,
        *,
        gated: bool,
    ) -> None:
        self.table = table
        self.advertisements = Register()
        self._send = send
        self._find = find
        self._work = work
        self._gated = gated
        self.announced_max = BrokerLimits().neighbour_filters
        self._reader = SubscriptionReader()
        self._keys = count(1)  # for what neighbours announce
        self._telling: set[tuple[Register, Peer]] = set()
        self._finishing: set[tuple[Register, Peer | None]] = set()
        self._renewing: set[Register] = set()
        self.start: Callable[[Iterator[None], Peer | None], None] = _at_once

    def read(self, text: str, *, is_text: bool, tokens_max: int | None = None) -> Subscription:
        """The subscription (or advertisement) in a text, or in JSON."""
        ontology = self.table.ontology
        return self._reader.read(text, ontology, is_text=is_text, tokens_max=tokens_max)

    # What clients want and advertise.

    def subscribe(self, key: Key, subscription: Subscription) -> None:
        """A client wants something; a KbnError changes nothing."""
        self._work.done += self.table.cost_of(subscription)
        self.table.add(key, subscription)
        self._tell_of(self.table, key[0])

    def unsubscribe(self, key: Key) -> None:
        self.table.remove(key)
        self._tell_of(self.table, key[0])

    def advertise(self, key: Key, advertisement: Subscription) -> None:
        """A client may publish something; where advertisements are not used, nobody is told."""
        if self._gated:
            self.advertisements.add(key, advertisement)
            self._tell_of(self.advertisements, key[0])

    def unadvertise(self, key: Key) -> None:
        self.advertisements.remove(key)
        self._tell_of(self.advertisements, key[0])

    def tidy(self, start: Callable[[Iterator[None]], None]) -> None:
        """Begin to make the table anew when too much of it is left of removed subscriptions."""
        if self.table.is_littered:
            start(self._making_anew(self.table))

    def _making_anew(self, table: RoutingTable) -> Iterator[None]:
        for units in table.making_anew():
            self._work.done += units
            yield

    # What neighbours announce.

    def announced(self, announce: Announce, neighbour: Neighbour) -> Iterator[None]:
        """A neighbour says what its side wants or advertises; taken in step by step.

        The rest is left when its session ends: it says everything again in the next.
        """
        channel = neighbour.link.channel
        is_advertised = announce.what == "advertisement"
        for number, text in announce.add:
            # An error: its ontology has a term that ours has not. While they differ it is sent
            # everything anyway, and when they agree again it announces anew.
            advertised = None
            with suppress(KbnError), suggesting_among(0):
                advertised = self._add(announce, number, text, neighbour)
            yield from self._taken_in(neighbour, advertised)
            if neighbour.link.channel is not channel:
                return
        for number in announce.drop:
            advertised = self._drop(announce, number, neighbour)
            yield from self._taken_in(neighbour, advertised)
            if neighbour.link.channel is not channel:
                return
        if is_advertised and not neighbour.announced.is_complete:
            yield from self._let_through(neighbour)

    def _let_through(self, neighbour: Neighbour) -> Iterator[None]:
        """Tell a neighbour everything, once, until it has said everything itself."""
        announced = neighbour.announced
        if not announced.lets_through:
            announced.lets_through = True
            yield from self.reconsidering(neighbour)

    def _is_enough(self) -> bool:
        """Count a change of the table; whether the turn has done enough."""
        self._work.done += CHANGED
        return self._work.is_spent

    def _taken_in(self, neighbour: Neighbour, advertised: Subscription | None) -> Iterator[None]:
        """Something was taken in, perhaps an advertisement that has come or gone."""
        # Before all of them have come, everything is let through.
        if advertised is not None and neighbour.announced.is_complete:
            yield from self.reconsidering(neighbour, advertised)
        if self._is_enough():
            yield

    def _add(
        self, announce: Announce, number: int, text: str, neighbour: Neighbour
    ) -> Subscription | None:
        """Enter what a neighbour announces; what its side advertises anew, if anything."""
        announced = neighbour.announced
        known = announced.subscriptions if announce.what == "interest" else announced.advertisements
        if number in known:
            return None  # it was told as a change, and again with everything
        if len(known) >= self.announced_max:
            announced.is_overfull, announced.is_complete = True, False
            return None
        key = (neighbour.peer, next(self._keys))
        self._work.done += len(text) // CHARACTERS_READ
        subscription = self.read(text, is_text=False)
        if announce.what == "interest":
            self.subscribe(key, subscription)
            neighbour.announced.subscriptions[number] = key
            return None
        else:
            self.advertisements.add(key, subscription)
            self._tell_of(self.advertisements, key[0])
            neighbour.announced.advertisements[number] = (key, subscription)
            announced.advertised.add(key, subscription)
            return subscription

    def _drop(self, announce: Announce, number: int, neighbour: Neighbour) -> Subscription | None:
        """Forget what a neighbour announced; what its side advertises no longer, if anything."""
        announced = neighbour.announced
        if announce.what == "interest":
            if (dropped := announced.subscriptions.pop(number, None)) is not None:
                self.unsubscribe(dropped)
        elif (advertised := announced.advertisements.pop(number, None)) is not None:
            announced.advertised.remove(*advertised)
            self.unadvertise(advertised[0])
            return advertised[1]
        return None

    def completed(self, is_complete: bool, neighbour: Neighbour) -> Iterator[None]:
        """A neighbour says whether it has announced everything."""
        is_complete = is_complete and not neighbour.announced.is_overfull
        neighbour.announced.is_complete = is_complete
        stale = self._forget_stale(neighbour) if is_complete else iter(())
        return chain(stale, self.reconsidering(neighbour))

    def forget(self, neighbour: Neighbour) -> Iterator[None]:
        """Forget all that a neighbour wanted and advertised; its session is over."""
        neighbour.begin_session()
        neighbour.link.channel = None
        return self._forget_stale(neighbour)

    def _forget_stale(self, neighbour: Neighbour) -> Iterator[None]:
        """Forget step by step; what is still there is sent to nobody, or in vain."""
        subscriptions, advertisements = neighbour.announced.take_stale()
        return self._forgetting(subscriptions, advertisements)

    def _forgetting(self, subscriptions: list[Key], advertisements: list[Key]) -> Iterator[None]:
        for key in subscriptions:
            self.unsubscribe(key)
            if self._is_enough():
                yield
        for key in advertisements:
            self.unadvertise(key)
            if self._is_enough():
                yield

    # What neighbours are told.

    def join(self, neighbour: Neighbour) -> Iterator[None]:
        """Work out what a neighbour is to be told, from the beginning, step by step."""
        ontology = self.table.ontology
        if neighbour.role != "child":
            told = neighbour.told.subscriptions = self._announcements_for(neighbour.name, ontology)
            yield from self._joining(self.table, neighbour.name, told)
        if self._gated:
            told = neighbour.told.advertisements = Announcements(ontology, "advertisement")
            yield from self._joining(self.advertisements, neighbour.name, told)

    def _joining(self, register: Register, name: str, told: Announcements) -> Iterator[None]:
        for to_tell in register.joining(name, told):
            if to_tell is not None:
                self._send(*to_tell)
            self._finish_later(register, None)
            if self._is_enough():
                yield

    def leave(self, neighbour: Neighbour) -> Iterator[None]:
        """A neighbour is one no longer."""
        self.table.leave(neighbour.name)
        self.advertisements.leave(neighbour.name)
        return self.forget(neighbour)

    def keep_apart(self, names: frozenset[str]) -> None:
        """Tell none of these neighbours what another of them wants (see `broker_move.py`)."""
        self.table.apart = self.advertisements.apart = names

    def everything_for(self, neighbour: Neighbour) -> Iterator[Announce]:
        """All that a neighbour must be told when a session begins, in parts."""
        told = (neighbour.told.subscriptions, neighbour.told.advertisements)
        return chain.from_iterable(each.everything() for each in told if each is not None)

    def reconsidering(
        self, neighbour: Neighbour, changed: Subscription | None = None
    ) -> Iterator[None]:
        """Tell a neighbour what has become, or is no longer, worth telling it; in steps.

        If one advertisement has changed, only what may intersect it is looked at.
        """
        if not self._gated:
            return
        for to_tell in self.table.reconsidering(neighbour.name, changed):
            self._work.done += RECONSIDERED
            if to_tell is not None:
                self._send(*to_tell)
            self._finish_later(self.table, None)
            if self._work.is_spent:
                yield

    def _announcements_for(self, name: str, ontology: Ontology | None) -> Announcements:
        gate = partial(self._may_be_published, name) if self._gated else None
        return Announcements(ontology, "interest", gate)

    def _may_be_published(self, name: str, subscription: Subscription) -> bool:
        """Whether the neighbour's side may publish what the subscription wants."""
        neighbour = self._find(name)
        if neighbour is None or not neighbour.announced.is_complete:
            return True
        advertised_index = neighbour.announced.advertised
        pairs = (
            (wanted, advertised)
            for wanted in subscription.filters
            for _, advertised in advertised_index.candidates(wanted)
        )
        for asked, (wanted, advertised) in enumerate(pairs):
            self._work.done += COMPARED
            # After so many it may as well be told: that costs traffic, and nothing is lost.
            if asked == COMPARED_MAX or may_intersect(wanted, advertised, self.table.ontology):
                return True
        return False

    def _tell_of(self, register: Register, peer: Peer) -> None:
        """Tell neighbours of what has changed, in steps; meanwhile the peer whose it is waits."""
        if register.has_untold(peer) and (register, peer) not in self._telling:
            self._telling.add((register, peer))
            self.start(self._telling_of(register, peer), peer)
        self._finish_later(register, peer)

    def _telling_of(self, register: Register, peer: Peer) -> Iterator[None]:
        while register.has_untold(peer) and self._is_ours(register):
            to_tell = register.tell_next(peer)
            self._work.done += register.take_spent()
            if to_tell is not None:
                self._send(*to_tell)
            self._finish_later(register, peer)
            yield
        self._telling.discard((register, peer))

    def _is_ours(self, register: Register) -> bool:
        """Whether it is in use, and not of another ontology."""
        return register is self.table or register is self.advertisements

    def _finish_later(self, register: Register, peer: Peer | None) -> None:
        """Have a change finished in steps, if it is not; meanwhile the peer that made it waits.

        Nobody waits for an index that is made anew.
        """
        self._work.done += register.take_spent()
        if register.is_renewing and register not in self._renewing:
            self._renewing.add(register)
            self.start(self._renew(register), None)
        if register.has_more and (register, peer) not in self._finishing:
            self._finishing.add((register, peer))
            self.start(self._finish(register, peer), peer)

    def _finish(self, register: Register, peer: Peer | None) -> Iterator[None]:
        while register.has_more and self._is_ours(register):
            to_tell = register.go_on()
            self._work.done += STEPPED + register.take_spent()
            if to_tell is not None:
                self._send(*to_tell)
            yield
        self._finishing.discard((register, peer))

    def _renew(self, register: Register) -> Iterator[None]:
        while register.is_renewing and self._is_ours(register):
            self._work.done += max(register.renew(), STEPPED)
            yield
        self._renewing.discard(register)

    # Another ontology.

    def rebuilding(
        self,
        ontology: Ontology | None,
        wanted: Mapping[Key, Subscription],
        neighbours: Iterable[Neighbour],
    ) -> Callable[[], RoutingTable]:
        """A function, for any thread, that makes the table anew for another ontology.

        `wanted` is what clients want; what the ontology does not know is left out.
        """
        told = [each for each in neighbours if each.role != "child"]
        keeps_roots, gated = self.table.keeps_roots, self._gated

        def rebuild() -> RoutingTable:
            table = RoutingTable(ontology, keeps_roots=keeps_roots, by_equality=gated)
            for neighbour in told:  # who has to say everything again is told everything
                table.join(neighbour.name, Announcements(ontology))
            for key, subscription in wanted.items():
                with suppress(KbnError), suggesting_among(0):
                    table.add(key, subscription)
                    table.tell_all(key[0])
            return table

        return rebuild

    def use_table(
        self, table: RoutingTable, wanted: Mapping[Key, Subscription]
    ) -> list[tuple[Key, KbnError]]:
        """Go on with a table that was rebuilt, brought to what clients want now.

        Returns whose subscription its ontology does not know, and why.
        """
        self._reader.clear()
        table.apart = self.advertisements.apart
        for name in [each for each in table.told_names if self._find(each) is None]:
            table.leave(name)  # it went while the table was made
        self.table = table
        for key in [key for key in table.entries if key not in wanted]:
            table.remove(key)
            table.tell_all(key[0])  # nobody is told before the next session
        unknown = []
        for key, subscription in wanted.items():
            if key not in table:
                try:
                    with suggesting_among(0):
                        table.add(key, subscription)
                    table.tell_all(key[0])
                except KbnError as error:
                    unknown.append((key, error))
        for name in table.told_names:
            announcements = table.told(name)
            if announcements is not None and self._gated:
                announcements.gate = partial(self._may_be_published, name)
        return unknown

    def learn_again(self, neighbour: Neighbour) -> Iterator[None]:
        """After a change of the table: have a neighbour say everything again, and be told anew."""
        neighbour.announced.subscriptions = {}
        neighbour.announced.stale_subscriptions = []
        neighbour.announced.is_complete = neighbour.told.is_complete = False
        neighbour.announced.lets_through = True
        if neighbour.role != "child":
            neighbour.told.subscriptions = self.table.told(neighbour.name)
            if neighbour.told.subscriptions is None:
                return self.join(neighbour)
        return iter(())


def _at_once(steps: Iterator[None], peer: Peer | None) -> None:
    for _ in steps:
        pass
