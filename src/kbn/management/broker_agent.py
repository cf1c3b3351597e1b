"""A broker's agent: what the broker tells whoever manages it.

It keeps what a report needs while clients come and go: the medoid of each subscriber, worked out
when its subscriptions change, and sums from which the medoid of all of them can be read. So a
request costs a look, however many subscribers there are: the thesis' brokers worked everything out
anew for each, and were a hundred times slower for ten requests a minute.

The broker can be asked to `report` (see `_asked`); what there is to tell comes out of `reports`,
which its shell calls every now and then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import assert_never
from urllib.parse import urlsplit

from kbn.broker import Broker, ClientSession, administration
from kbn.filters import Subscription, terms_named_in
from kbn.management.liveness import SIGN_EVERY_S, BrokerSign
from kbn.management.reports import (
    BrokerInfo,
    BrokerMedoid,
    BrokerUtilisation,
    Departure,
    MedoidGroup,
    NotificationReport,
    Report,
    SubscriberInfo,
)
from kbn.placement import Medoid, RunningMedoid, SemanticMap
from kbn.placement import group_by_medoid as medoid_groups

AT_ONCE_MAX = 500
"""Clients looked at in one call, so that none takes long; the others wait for the next."""
INFO_EVERY_S = 30.0
"""A broker says that it is there this often."""
GROUPS = 2
GROUPS_EVERY_S = 10.0
"""Groups are the one thing that is worked out for a report: those told may be so old."""
TEXTS_MAX = 32 * 1024
"""Characters of subscriptions' texts in a report; those that do not fit are left out."""
MERGED_MAX = 32
"""Medoids that are merged in pairs when groups are made: the broker waits meanwhile."""


class _Schedule:
    """When something is told next, and how often from then on."""

    def __init__(self, every_s: float = 0.0) -> None:
        self._every_s = every_s
        self._at: float | None = 0.0

    def is_due(self, now: float) -> bool:
        """Whether it is time; if so, the next time is set."""
        if self._at is None or now < self._at:
            return False
        self._at = now + self._every_s if self._every_s else None
        return True


class BrokerAgent:
    """Watches one broker, which listens at `address`.

    Without a semantic map subscribers have no medoid, and are told of all the same.
    """

    def __init__(
        self,
        broker: Broker,
        address: str,
        semantic_map: SemanticMap | None = None,
        *,
        groups_every_s: float = GROUPS_EVERY_S,
    ) -> None:
        self._broker = broker
        self._address = address
        self._port = _port_of(address)
        self._with_texts = False
        self._schedules: dict[str, _Schedule] = {"info": _Schedule(INFO_EVERY_S)}
        self._groups = GROUPS
        self._groups_every_s = groups_every_s
        self._told: BrokerInfo | None = None
        self._signs = _Schedule(SIGN_EVERY_S)
        self._signed: BrokerSign | None = None
        broker.changes.are_watched = True
        broker.reporter = self._asked
        self.use_map(semantic_map)

    def use_map(self, semantic_map: SemanticMap | None) -> None:
        """Work out medoids on this map from now on, and tell of every subscriber again."""
        self._map = semantic_map
        self._terms: dict[str, list[str]] = {}
        self._medoids: dict[str, Medoid] = {}
        self._centre = None if semantic_map is None else RunningMedoid(semantic_map)
        self._grouped: tuple[MedoidGroup, ...] | None = None
        self._grouped_at = 0.0
        self._has_changed = False
        self._tell_of_all()

    def reports(self, now: float, *, load: float = 0.0, memory: int = 0) -> list[Report]:
        """What there is to tell: what changed, what was asked for, and what is due."""
        found: list[Report] = [*self._info(now), *self._subscribers(), *self._hops()]
        if self._is_due("medoids", now):
            found.append(self._medoid(now))
        if self._is_due("utilisation", now):
            found.append(self._utilisation(load, memory))
        return found

    def sign(self, now: float) -> BrokerSign | None:
        """That the broker lives, and whom it does not reach; None while there is no need to say."""
        sign = BrokerSign(self._broker.name, self._broker.unreached())
        if not self._signs.is_due(now) and sign == self._signed:
            return None
        self._signed = sign
        return sign

    # What the broker is asked.

    def _asked(self, request: administration.Report) -> administration.Reporting:
        what, every_s = request.what, request.every_s
        match what:
            case "hops":
                self._broker.administer(administration.CollectHops(every_s, request.clients))
            case "subscribers":
                self._with_texts = self._with_texts if request.texts is None else request.texts
                self._asked_for_subscribers(request.clients)
            case "medoids":
                self._put_in_groups(request.groups or self._groups)
                self._schedules[what] = _Schedule(every_s)
            case "info":  # also its sign of life, which nobody can ask away
                self._schedules[what] = _Schedule(min(every_s or INFO_EVERY_S, INFO_EVERY_S))
            case "utilisation":
                self._schedules[what] = _Schedule(every_s)
            case _:
                assert_never(what)
        return administration.Reporting(what)

    def _asked_for_subscribers(self, names: Iterable[str] | None) -> None:
        if names is None:
            self._tell_of_all()
            return
        for name in names:
            self._broker.changes.of_subscriptions(name)

    def _put_in_groups(self, groups: int) -> None:
        if groups != self._groups:
            self._groups, self._grouped = groups, None

    def _tell_of_all(self) -> None:
        for name, session in self._broker.clients.items():
            if session.subscriptions:
                self._broker.changes.of_subscriptions(name)

    # What it tells.

    def _is_due(self, what: str, now: float) -> bool:
        schedule = self._schedules.get(what)
        return schedule is not None and schedule.is_due(now)

    def _parent(self) -> str | None:
        neighbours = self._broker.neighbours.values()
        return next((each.name for each in neighbours if each.role == "parent"), None)

    def _info(self, now: float) -> Iterator[BrokerInfo]:
        links = tuple(sorted(each.name for each in self._broker.neighbours.values()))
        info = BrokerInfo(self._broker.name, self._address, self._parent(), links, self._port)
        if self._is_due("info", now) or info != self._told:
            self._told = info
            yield info

    def _subscribers(self) -> Iterator[Report]:
        changed: list[str] = []
        for name in self._broker.changes.take_subscriptions(AT_ONCE_MAX):
            session = self._broker.clients.get(name)
            if session is None or not session.subscriptions:
                # Also one who came and went between two looks: others may await it here.
                self._forget(name)
                yield Departure("subscriber", name, self._broker.name)
            else:
                self._look_at(session)
                changed.append(name)
        yield from self._told_of(changed)

    def _look_at(self, session: ClientSession) -> None:
        """Take in what a subscriber wants now, in place of what it wanted."""
        name = session.peer.name
        self._forget(name)
        self._terms[name] = [
            term.iri
            for subscription in session.subscriptions.values()
            for term in terms_named_in(subscription)
        ]
        if self._centre is not None:
            self._centre.add(self._terms[name])

    def _told_of(self, names: list[str]) -> Iterator[SubscriberInfo]:
        if self._map is not None:
            found = self._map.medoids([self._terms[name] for name in names])
            self._medoids.update(zip(names, found, strict=True))
        for name in names:
            medoid = self._medoids.get(name, Medoid(None))
            wanted = self._broker.clients[name].subscriptions
            about = (medoid.term, medoid.spread, len(wanted))
            texts = tuple(_texts(wanted.values())) if self._with_texts else ()
            yield SubscriberInfo(name, self._broker.name, *about, texts)

    def _forget(self, name: str) -> None:
        self._has_changed = True
        terms = self._terms.pop(name, None)
        self._medoids.pop(name, None)
        if terms is not None and self._centre is not None:
            self._centre.remove(terms)

    def _hops(self) -> Iterator[NotificationReport]:
        for name in self._broker.changes.take_hops(AT_ONCE_MAX):
            session = self._broker.clients.get(name)
            # One who wants nothing any more is no subscriber; it was told to be gone.
            if session is not None and session.subscriptions and session.hops is not None:
                counts, publishers = dict(session.hops.counts), dict(session.hops.publishers)
                yield NotificationReport.of(name, self._broker.name, counts, publishers)

    def _medoid(self, now: float) -> BrokerMedoid:
        centre = Medoid(None) if self._centre is None else self._centre.medoid()
        is_old = self._has_changed and now - self._grouped_at >= self._groups_every_s
        if self._grouped is None or is_old:
            self._grouped, self._grouped_at, self._has_changed = self._in_groups(), now, False
        about = (centre.term, centre.spread, len(self._terms), self._grouped)
        where = (self._address, self._port, self._parent())
        return BrokerMedoid(self._broker.name, *about, *where)

    def _in_groups(self) -> tuple[MedoidGroup, ...]:
        if self._map is None:
            return ()
        counts = Counter(each.term for each in self._medoids.values() if each.term is not None)
        found = medoid_groups(counts, self._map, self._groups, MERGED_MAX)
        return tuple(MedoidGroup(each.medoid, each.spread, each.clients) for each in found)

    def _utilisation(self, load: float, memory: int) -> BrokerUtilisation:
        broker = self._broker
        counts = broker.counts
        return BrokerUtilisation(
            broker.name,
            len(self._terms),
            len(broker.table),
            counts["published"],
            counts["delivered"],
            load,
            memory,
        )


def _texts(subscriptions: Iterable[Subscription]) -> Iterator[str]:
    """The texts of as many subscriptions as a report has room for."""
    room = TEXTS_MAX
    for subscription in subscriptions:
        text = str(subscription)
        if len(text) <= room:
            room -= len(text)
            yield text


def _port_of(address: str) -> int:
    try:
        return urlsplit(address).port or 0
    except ValueError:
        return 0
