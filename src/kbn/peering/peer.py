"""A peer: a publisher, a subscriber or both, in the clusters that its coordinator says.

It opens no socket and reads no clock: connections, messages and the time go in, effects come out.
The coordinator decides who feeds whom; the peer links with its parents, feeds its children what
they want, hands on to the application what its own filters accept, and measures. Without a
coordinator it goes on as it is.

**Moves.** A new parent is attached before the old one is left; what comes from both counts once.
**Gaps.** Whoever attaches after it was fed before asks for what it may have missed, from a few
seconds back. The new parent gives what it has in its buffer, and where it was not fed all of that
itself, asks above. So it goes up to where everything passed, at most to the publishers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import assert_never

from kbn.broker import FrameError, content
from kbn.errors import InvalidInputError, KbnError
from kbn.filters import Filter, Notification, Subscription
from kbn.ontology import Ontology
from kbn.peering import effects, messages
from kbn.peering.buffer import Buffer
from kbn.peering.delays import ClockOffset
from kbn.peering.effects import Effect
from kbn.peering.limits import Bucket
from kbn.peering.membership import Child, Membership, Missed
from kbn.peering.messages import Item, Mark
from kbn.peering.neighbours import (
    MESSAGES_BURST,
    MESSAGES_RATE,
    PROBE_OFTEN_S,
    PROBE_S,
    PROBES,
    SILENT_S,
    Incoming,
    Outgoing,
    Times,
)
from kbn.peering.seen import Progress, Seen
from kbn.peering.summary import check_bounds, filter_text, read_filter, wants
from kbn.peering.wire import decode_between_peers, decode_link, decode_to_peer

COORDINATOR = ""
"""The key of the connection to the coordinator; peers have names."""
REPORT_S = 1.0
COORDINATOR_SILENT_S = 3.0
STRANGER_S = 5.0
AGAIN_S = 0.1
SUBSCRIPTIONS_MAX = 1000
FED_MAX = 10_000


@dataclass(frozen=True, slots=True)
class PeerSettings:
    """What a peer goes by. `epoch` is larger each time a process of that name starts."""

    name: str
    epoch: int
    coordinators: tuple[str, ...]
    token: str = ""
    slots: int = 4


@dataclass(slots=True)
class Subscribed:
    """One subscription of ours, and how it is served."""

    id: int
    subscription: Subscription
    within_s: float
    probability: float
    since: float
    delivered: int = 0
    in_time: int = 0


@dataclass(slots=True)
class Counts:
    """What happened so far."""

    published: int = 0
    received: int = 0
    delivered: int = 0
    unwanted: int = 0
    repeated: int = 0
    forwarded: int = 0
    refused: int = 0
    recovered: int = 0


@dataclass(slots=True)
class _ToCoordinator:
    """The connection to a coordinator."""

    place: int = 0
    connection: int | None = None
    is_joined: bool = False
    is_dialling: bool = False
    dial_at: float = 0.0
    heard_at: float = 0.0
    probe_at: float = 0.0
    report_at: float = 0.0
    attempts: int = 0
    standbys: tuple[str, ...] = field(default=())


class Peer:
    """One peer; see the module."""

    def __init__(
        self, settings: PeerSettings, now: float, ontology: Ontology | None = None
    ) -> None:
        if not settings.coordinators:
            raise InvalidInputError("a peer needs the URL of a coordinator")
        if not 0 <= settings.slots <= messages.SLOTS_MAX:
            raise InvalidInputError(
                f"the slots of a peer are from 0 to {messages.SLOTS_MAX}, not {settings.slots}"
            )
        self.settings = settings
        self.name = settings.name
        self.url = ""
        self.key = ""
        self.counts = Counts()
        self.ontology = ontology
        self.clusters: dict[int, Membership] = {}
        self.sending: frozenset[int] = frozenset()
        self.arrived = 0
        self._clock = ClockOffset()
        self._coordinator = _ToCoordinator()
        self._outgoing: dict[str, Outgoing] = {}
        self._by_connection: dict[int, Outgoing] = {}
        self._incoming: dict[int, Incoming] = {}
        self._times = Times()
        self._advertised: tuple[frozenset[str], int | None] | None = None
        self._subscribed: dict[int, Subscribed] = {}
        self._source_children: dict[int, dict[int, str]] = {}
        self._published = Buffer()
        self._delivered = Seen()
        self._progress = Progress()
        self._fed: set[Filter] = set()  # by which we were placed somewhere
        self._numbers = count(1)
        self._ids = count(1)
        self._now = now
        self._out: list[Effect] = []

    # What the application asks for.

    def advertise(
        self, attributes: Iterable[str], connections: int | None, now: float
    ) -> list[Effect]:
        """Say what we publish; again, to change it."""
        names = frozenset(attributes)
        if connections is not None and connections < 1:
            raise InvalidInputError(
                f"a publisher needs at least one connection, not {connections}; leave the limit "
                "out for as many as it takes"
            )
        if len(names) > messages.ATTRIBUTES_MAX:
            raise InvalidInputError(
                f"{len(names)} attributes; a publisher advertises at most {messages.ATTRIBUTES_MAX}"
            )
        self._advertised = (names, connections)
        return self._do(now, self._send_advertisement)

    def subscribe(
        self,
        subscription: Subscription,
        now: float,
        within_s: float | None = None,
        probability: float = 0.95,
    ) -> tuple[int, list[Effect]]:
        """Ask for what a subscription accepts, within a bound; its number."""
        check_bounds(within_s, probability)
        if len(self._subscribed) >= SUBSCRIPTIONS_MAX:
            raise InvalidInputError(f"a peer has at most {SUBSCRIPTIONS_MAX} subscriptions")
        for each in subscription.filters:
            if not len(each):
                raise InvalidInputError(
                    "a subscription to everything belongs to no cluster: name an attribute, "
                    "as in 'price any'"
                )
        id = next(self._ids)
        made = Subscribed(id, subscription, within_s or 0.0, probability, now + self._clock.seconds)
        self._subscribed[id] = made
        return id, self._do(now, lambda: self._send_want(made))

    def unsubscribe(self, id: int, now: float) -> list[Effect]:
        if self._subscribed.pop(id, None) is None:
            return []
        return self._do(now, lambda: self._tell(messages.Unwant(id)))

    def publish(self, attributes: Mapping[str, object], now: float) -> list[Effect]:
        """Send a notification to all clusters that may want it."""
        notification = (
            attributes if isinstance(attributes, Notification) else Notification(attributes)
        )
        advertised = frozenset() if self._advertised is None else self._advertised[0]
        unknown = sorted(notification.attributes.keys() - advertised)
        if unknown or not advertised:
            raise InvalidInputError(
                f"{unknown[0]!r} is not advertised; you advertise "
                f"{', '.join(sorted(advertised)) or 'nothing'}"
                if unknown
                else "advertise the attributes you publish first"
            )
        return self._do(now, lambda: self._publish(notification))

    def ask_facts(self, now: float) -> list[Effect]:
        """Ask the coordinator for the state of the group; the answer is a `Facts`."""
        return self._do(now, lambda: self._tell(messages.GetFacts()))

    def leave(self, now: float) -> list[Effect]:
        """Take leave, so that nobody waits for us."""
        return self._do(now, lambda: self._tell(messages.Leave()))

    # What happens.

    def start(self, url: str, now: float) -> list[Effect]:
        """We listen at a URL."""
        self.url = url
        return self.tick(now)

    def opened(
        self, connection: int, key: str | None, now: float, certificate: str | None = None
    ) -> list[Effect]:
        """A connection is there: one that was dialled under `key`, or somebody's.

        `certificate` is the name in the certificate that was shown, if that was checked.
        """
        return self._do(now, lambda: self._opened(connection, key, certificate))

    def received(self, connection: int, bodies: list[bytes], now: float) -> list[Effect]:
        """Messages came."""

        def handle() -> None:
            for body in bodies:
                self._received(connection, body)

        return self._do(now, handle)

    def closed(self, connection: int, now: float) -> list[Effect]:
        """A connection is gone."""
        return self._do(now, lambda: self._closed(connection))

    def dial_failed(self, key: str, reason: str, now: float) -> list[Effect]:
        """A connection could not be made."""
        return self._do(now, lambda: self._dial_failed(key, reason))

    def tick(self, now: float) -> list[Effect]:
        """Time passes."""
        return self._do(now, self._tick)

    @property
    def is_joined(self) -> bool:
        """Whether a coordinator has taken us in."""
        return self._coordinator.is_joined

    @property
    def has_listeners(self) -> bool:
        """Whether a root of a cluster that we send to listens."""
        return any(
            self._source_children.get(cluster) or self._is_own_root(cluster)
            for cluster in self.sending
        )

    def _is_own_root(self, cluster: int) -> bool:
        membership = self.clusters.get(cluster)
        return membership is not None and membership.from_source and self.name in membership.parents

    @property
    def group_time(self) -> float:
        return self._now + self._clock.seconds

    def _do(self, now: float, act: Callable[[], None]) -> list[Effect]:
        self._now = now
        act()
        done, self._out = self._out, []
        return done

    def _send(self, connection: int, message: messages.Message) -> None:
        self._out.append(effects.Send(connection, message))

    def _tell(self, message: messages.Message) -> None:
        """Say something to the coordinator, if there is one; all that matters is said again."""
        to = self._coordinator
        if to.connection is not None and to.is_joined:
            self._send(to.connection, message)

    # Connections.

    def _opened(self, connection: int, key: str | None, certificate: str | None) -> None:
        if key is None:
            bucket = Bucket(MESSAGES_RATE, MESSAGES_BURST, self._now)
            self._incoming[connection] = Incoming(connection, bucket, "", self._now, certificate)
        elif key == COORDINATOR:
            to = self._coordinator
            to.connection, to.is_dialling, to.heard_at = connection, False, self._now
            known = self.settings
            self._send(
                connection,
                messages.Join(
                    messages.VERSION, self.name, known.token, self.url, known.slots, known.epoch,
                    self.key,
                ),
            )  # fmt: skip
        elif (link := self._outgoing.get(key)) is not None:
            link.connection, link.is_dialling, link.heard_at = connection, False, self._now
            self._by_connection[connection] = link
            self._send(connection, messages.Link(messages.VERSION, self.name, self.key))
        else:
            self._out.append(effects.Close(connection))

    def _closed(self, connection: int) -> None:
        if connection == self._coordinator.connection:
            self._coordinator_lost()
        elif (link := self._by_connection.pop(connection, None)) is not None:
            self._link_lost(link)
        elif self._incoming.pop(connection, None) is not None:
            for children in self._source_children.values():
                children.pop(connection, None)
            for membership in self.clusters.values():
                if membership.children.pop(connection, None) is not None:
                    self._interest_changed(membership)

    def _dial_failed(self, key: str, reason: str) -> None:
        if key == COORDINATOR:
            self._out.append(effects.Note(reason))
            self._coordinator_lost()
        elif (link := self._outgoing.get(key)) is not None:
            link.failed(self._now)
            self._say_lost(link.name)

    def _drop(self, connection: int, reason: str) -> None:
        """Have nothing more to do with somebody."""
        self._out.append(effects.Note(f"{self.name}: closed a connection: {reason}", True))
        self._out.append(effects.Close(connection))
        self.counts.refused += 1
        self._closed(connection)

    def _coordinator_lost(self) -> None:
        to = self._coordinator
        to.connection, to.is_joined, to.is_dialling = None, False, False
        to.place += 1
        to.attempts += 1
        round_trip = to.attempts // max(1, len(self._coordinators()))
        to.dial_at = self._now + min(2.0, 0.05 * 2.0 ** min(round_trip, 6))

    def _coordinators(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.settings.coordinators, *self._coordinator.standbys)))

    def _link_lost(self, link: Outgoing) -> None:
        link.failed(self._now)
        self._say_lost(link.name)

    def _say_lost(self, name: str) -> None:
        for membership in self.clusters.values():
            membership.attached.pop(name, None)
            membership.asked_at.pop(name, None)
            if name in membership.parents:
                self._tell(messages.Lost(membership.cluster, name))

    # Time.

    def _tick(self) -> None:
        self._tend_coordinator()
        self._tend_links()
        self._progress.tick(self._now)
        for membership in self.clusters.values():
            membership.progress.tick(self._now)
            self._attach_again(membership)
        for each in [*self._incoming.values()]:
            if not each.name and self._now - each.opened_at > STRANGER_S:
                self._drop(each.connection, "it did not say who it is")

    def _tend_coordinator(self) -> None:
        to = self._coordinator
        if to.connection is None:
            if not to.is_dialling and self._now >= to.dial_at:
                known = self._coordinators()
                to.is_dialling = True
                self._out.append(effects.Dial(COORDINATOR, known[to.place % len(known)]))
            return
        if self._now - to.heard_at > COORDINATOR_SILENT_S:
            self._out.append(effects.Close(to.connection))
            self._coordinator_lost()
            return
        if self._now >= to.probe_at:
            to.probe_at = self._now + PROBE_S
            if to.is_joined:
                self._send(to.connection, messages.Probe(0, self._now))
        if to.is_joined and self._now >= to.report_at:
            to.report_at = self._now + REPORT_S
            self._report()

    def _tend_links(self) -> None:
        needed = {
            name for each in self.clusters.values() for name in (*each.parents, *each.attached)
        }
        for link in [*self._outgoing.values()]:
            is_parent = link.name in needed
            if link.connection is None:
                if not is_parent and (link.attempts > 1 or not link.probes_left):
                    del self._outgoing[link.name]
                elif not link.is_dialling and self._now >= link.dial_at:
                    link.is_dialling = True
                    self._out.append(effects.Dial(link.name, link.url))
            elif self._now - link.heard_at > SILENT_S:
                self._by_connection.pop(link.connection, None)
                self._out.append(effects.Close(link.connection))
                self._link_lost(link)
            elif not is_parent and not link.probes_left:
                self._by_connection.pop(link.connection, None)
                self._out.append(effects.Close(link.connection))
                del self._outgoing[link.name]
            elif link.is_ready and self._now >= link.probe_at:
                often = link.probes_left > 0
                link.probe_at = self._now + (PROBE_OFTEN_S if often else PROBE_S)
                link.probes_left = max(0, link.probes_left - 1)
                self._send(link.connection, messages.Probe(0, self.group_time))

    def _link_to(self, name: str, url: str, probes: int = 0) -> Outgoing:
        link = self._outgoing.get(name)
        if link is None:
            link = self._outgoing[name] = Outgoing(name, url)
        if link.url != url:
            link.url = url
            link.dial_at = self._now
        link.probes_left = max(link.probes_left, probes)
        return link

    def _report(self) -> None:
        kept = tuple(
            messages.Kept(each.id, each.delivered, each.in_time)
            for each in self._subscribed.values()
            if each.delivered
        )
        for each in self._subscribed.values():
            each.delivered = each.in_time = 0
        heard: list[messages.Heard] = []
        for membership in self.clusters.values():
            for attributes, number in membership.heard.items():
                if (
                    len(attributes) <= messages.ATTRIBUTES_MAX
                    and len(heard) < messages.CLUSTERS_MAX
                ):
                    heard.append(
                        messages.Heard(membership.cluster, tuple(sorted(attributes)), number)
                    )
            membership.heard.clear()
        links = tuple(self._times.reports())
        counts = self.counts
        self._tell(
            messages.Report(
                links, kept, tuple(heard), counts.received, counts.unwanted, counts.recovered
            )
        )

    # Messages.

    def _received(self, connection: int, body: bytes) -> None:
        try:
            if connection == self._coordinator.connection:
                self._coordinator.heard_at = self._now
                self._heed(decode_to_peer(body))
            elif (link := self._by_connection.get(connection)) is not None:
                link.heard_at = self._now
                self._from_parent(link, connection, decode_between_peers(body))
            elif (caller := self._incoming.get(connection)) is not None:
                if not caller.bucket.takes(self._now):
                    self._drop(connection, f"{caller.name or 'a stranger'} sends too much")
                elif caller.name:
                    self._from_child(caller, decode_between_peers(body))
                else:
                    self._introduced(caller, decode_link(body))
        except FrameError as error:
            self._drop(connection, str(error))

    def _introduced(self, caller: Incoming, link: messages.Link) -> None:
        is_known = link.version == messages.VERSION and self.key and link.key == self.key
        if not is_known or caller.certificate not in (None, link.name):
            reason = "not the key of this group, or not your name"
            self._send(caller.connection, messages.Refused(reason))
            self._drop(caller.connection, reason)
            return
        caller.name = link.name
        self._send(caller.connection, messages.Linked(self.name))

    # The coordinator's word.

    def _heed(self, message: messages.ToPeer) -> None:
        match message:
            case messages.Joined():
                self._joined(message)
            case messages.Refused(reason, about, id):
                if about == "want":
                    self._subscribed.pop(id, None)
                self._out.append(effects.Failed(about, id, reason))
            case messages.StandingBy():
                assert self._coordinator.connection is not None
                self._out.append(effects.Close(self._coordinator.connection))
                self._coordinator_lost()
            case messages.Place():
                self._placed(message)
            case messages.Sending(clusters, arrived):
                self.sending, self.arrived = frozenset(clusters), arrived
                for cluster in self._source_children.keys() - self.sending:
                    del self._source_children[cluster]
            case messages.Promise():
                if message.id in self._subscribed:
                    self._out.append(effects.Told(message))
            case messages.Measure(peers):
                for each in peers:
                    if each.name != self.name:
                        self._link_to(each.name, each.url, PROBES)
            case messages.Standbys(urls):
                self._coordinator.standbys = urls
            case messages.Facts(json):
                self._out.append(effects.Facts(json))
            case messages.Probe(number, sent_at):
                assert self._coordinator.connection is not None
                echo = messages.Echo(number, sent_at, self.group_time)
                self._send(self._coordinator.connection, echo)
            case messages.Echo(_, probed_at, at):
                self._clock.add(probed_at, at, self._now)
            case _:
                assert_never(message)

    def _joined(self, message: messages.Joined) -> None:
        to = self._coordinator
        to.is_joined, to.attempts, to.standbys = True, 0, message.standbys
        self.key = message.key
        held = tuple(each.held() for each in self.clusters.values())
        self._tell(messages.Holding(held[: messages.CLUSTERS_MAX], self.arrived))
        self._send_advertisement()
        for each in self._subscribed.values():
            self._send_want(each)

    def _send_advertisement(self) -> None:
        if self._advertised is not None:
            names, connections = self._advertised
            self._tell(messages.Advertise(tuple(sorted(names)), connections))

    def _send_want(self, wanted: Subscribed) -> None:
        texts = tuple(map(filter_text, wanted.subscription.filters))
        self._tell(messages.Want(wanted.id, texts, wanted.within_s, wanted.probability))

    def _placed(self, place: messages.Place) -> None:
        membership = self.clusters.get(place.cluster)
        if not place.parents:
            if membership is not None:
                del self.clusters[place.cluster]
                self._leave_parents(membership, [*membership.attached])
            return
        try:
            filters = tuple(read_filter(text) for text in place.filters)
        except KbnError as error:
            self._out.append(effects.Note(f"a place that cannot be read: {error}", True))
            return
        if membership is None:
            membership = Membership(place.cluster, self.ontology)
            self.clusters[place.cluster] = membership
            if not self._fed.isdisjoint(filters):  # we are moved, and may miss something
                membership.had_parent = True
                membership.progress = self._progress.copy()
        if len(self._fed) > FED_MAX:
            self._fed.clear()
        self._fed.update(filters)
        membership.filters, membership.attributes = filters, place.attributes
        membership.from_source = place.from_source
        membership.parents = {each.name: each.url for each in place.parents}
        for each in place.parents:
            if each.name != self.name:
                self._link_to(each.name, each.url)
        membership.asked_at.clear()
        self._interest_changed(membership)
        self._attach_again(membership)
        self._leave_old_parents(membership)

    # Upwards: those who feed us.

    def _attach_again(self, membership: Membership) -> None:
        """Ask those parents to feed us who do not yet."""
        for name in membership.parents:
            if membership.attached.get(name) is membership.from_source:
                continue
            if name == self.name:
                membership.attached[name] = membership.from_source
                membership.had_parent = True
                continue
            link = self._outgoing.get(name) or self._link_to(name, membership.parents[name])
            asked = membership.asked_at.get(name)
            if (
                link.is_ready
                and link.connection is not None
                and (asked is None or self._now >= asked)
            ):
                membership.asked_at[name] = self._now + 5 * AGAIN_S
                self._send(link.connection, membership.attach())

    def _attached(self, membership: Membership, name: str, from_source: bool) -> None:
        if membership.parents.get(name) is None or from_source is not membership.from_source:
            return
        membership.attached[name] = from_source
        membership.had_parent = True
        membership.missed.clear()
        self._leave_old_parents(membership)

    def _leave_old_parents(self, membership: Membership) -> None:
        """Once the new ones feed us, leave those that are no longer ours."""
        if all(
            membership.attached.get(name) is membership.from_source for name in membership.parents
        ):
            self._leave_parents(
                membership, [name for name in membership.attached if name not in membership.parents]
            )

    def _leave_parents(self, membership: Membership, names: Iterable[str]) -> None:
        for name in names:
            from_source = membership.attached.pop(name)
            link = self._outgoing.get(name)
            if link is not None and link.connection is not None:
                self._send(link.connection, messages.Detach(membership.cluster, from_source))

    def _interest_changed(self, membership: Membership, missed: Missed | None = None) -> None:
        """Tell above what is wanted here and below now, and what of it was missed."""
        is_new = membership.summarise()
        if missed is not None and not any(membership.attached):
            membership.missed.append(missed)  # told when there is somebody to tell it to
            return
        if membership.from_source and missed is None:
            return  # of a source we get everything
        if not is_new and missed is None:
            return
        message = messages.Attach(
            membership.cluster,
            membership.from_source,
            tuple(map(filter_text, membership.summary)),
            () if missed is None else tuple(map(filter_text, missed.filters)),
            () if missed is None else missed.marks,
        )
        for name, from_source in membership.attached.items():
            link = self._outgoing.get(name)
            if from_source is membership.from_source and link and link.connection is not None:
                self._send(link.connection, message)

    def _from_parent(self, link: Outgoing, connection: int, message: messages.BetweenPeers) -> None:
        match message:
            case messages.Item():
                self._from_above(link, message)
            case messages.Probe(number, sent_at):
                self._times.add(link.name, self.group_time - sent_at)
                self._send(connection, messages.Echo(number, sent_at, self.group_time))
            case messages.Echo(_, _, at):
                self._times.add(link.name, self.group_time - at)
            case messages.Linked(name):
                if name != link.name:
                    self._drop(connection, f"{link.url} is {name!r}, not {link.name!r}")
                    return
                link.is_ready, link.attempts = True, 0
                for membership in self.clusters.values():
                    self._attach_again(membership)
            case messages.Feeding(cluster, from_source):
                if cluster in self.clusters:
                    self._attached(self.clusters[cluster], link.name, from_source)
            case messages.Full(cluster):
                if cluster in self.clusters:
                    self.clusters[cluster].asked_at[link.name] = self._now + AGAIN_S
            case messages.Refused(reason):
                self._drop(connection, f"{link.name} refuses: {reason}")
            case messages.Attach() | messages.Detach():
                self._drop(connection, f"{link.name} is no child of ours")
            case _:
                assert_never(message)

    def _from_above(self, link: Outgoing, item: Item) -> None:
        membership = self.clusters.get(item.cluster)
        if membership is None or (
            link.name not in membership.attached and link.name not in membership.parents
        ):
            return
        is_source = membership.attached.get(link.name) is not False
        if membership.from_source and is_source and item.publisher != link.name:
            return  # a publisher speaks for itself
        self._times.add(link.name, self.group_time - item.sent_at)
        self._take(membership, item)

    # Notifications.

    def _publish(self, notification: Notification) -> None:
        encoded = content.encode(notification)
        at = self.group_time
        epoch, number = self.settings.epoch, next(self._numbers)
        item = Item(0, self.name, epoch, number, at, at, encoded)
        self.counts.published += 1
        self._published.add(item, notification)
        for cluster in self.sending:
            self._send_from_source(cluster, item, self._source_children.get(cluster, ()))

    def _send_from_source(self, cluster: int, item: Item, to: Iterable[int]) -> None:
        sent = _passed(item, cluster, self.group_time)
        for connection in to:
            self._send(connection, sent)
        if self._is_own_root(cluster):
            self._take(self.clusters[cluster], sent)

    def _take(self, membership: Membership, item: Item) -> None:
        """Handle a notification that came to a cluster: once, and pass it on."""
        source = (item.publisher, item.epoch)
        if not membership.seen.add(source, item.number):
            self.counts.repeated += 1
            return
        membership.progress.note(source, item.number)
        self._progress.note(source, item.number)
        self.counts.received += 1
        try:
            notification = content.decode(item.content, publisher=item.publisher)
        except KbnError as error:
            self._out.append(effects.Note(f"of {item.publisher}: {error}", True))
            return
        if membership.from_source:
            membership.count_heard(frozenset(notification.attributes))
        membership.buffer.add(item, notification)
        self._pass_on(membership, item, notification)
        self._deliver(source, item, notification)

    def _pass_on(self, membership: Membership, item: Item, notification: Notification) -> None:
        sent: Item | None = None
        for connection, child in membership.children.items():
            if wants(child.filters, notification, self.ontology):
                if sent is None:
                    sent = _passed(item, item.cluster, self.group_time)
                self._send(connection, sent)
                self.counts.forwarded += 1

    def _deliver(self, source: tuple[str, int], item: Item, notification: Notification) -> None:
        wanting = [
            each
            for each in self._subscribed.values()
            if item.published_at >= each.since
            and each.subscription.matches(notification, self.ontology)
        ]
        if not wanting:
            self.counts.unwanted += 1
            return
        if not self._delivered.add(source, item.number):
            return
        delay_s = max(0.0, self.group_time - item.published_at)
        for each in wanting:
            each.delivered += 1
            each.in_time += not each.within_s or delay_s <= each.within_s
        self.counts.delivered += 1
        ids = tuple(each.id for each in wanting)
        self._out.append(effects.Deliver(ids, notification, item.number, delay_s))

    # Downwards: those whom we feed.

    def _from_child(self, caller: Incoming, message: messages.BetweenPeers) -> None:
        match message:
            case messages.Attach():
                self._attach(caller, message)
            case messages.Detach(cluster, from_source):
                self._detach(caller, cluster, from_source)
            case messages.Probe(number, sent_at):
                self._times.add(caller.name, self.group_time - sent_at)
                self._send(caller.connection, messages.Echo(number, sent_at, self.group_time))
            case messages.Echo():
                pass
            case _:
                self._drop(caller.connection, f"{caller.name} is no parent of ours")

    def _attach(self, caller: Incoming, message: messages.Attach) -> None:
        try:
            filters = tuple(read_filter(text) for text in message.filters)
            missed = tuple(read_filter(text) for text in message.missed)
        except KbnError as error:
            self._drop(caller.connection, f"{caller.name}: {error}")
            return
        if message.from_source:
            self._attach_to_source(caller, message)
            return
        membership = self.clusters.get(message.cluster)
        if membership is None or not self._has_slot(membership, caller.connection):
            self._send(caller.connection, messages.Full(message.cluster))
            return
        was_fed = membership.covers(missed)
        membership.children[caller.connection] = Child(caller.name, filters)
        self._repeat(caller.connection, message.cluster, membership.buffer, missed, message.marks)
        self._send(caller.connection, messages.Feeding(message.cluster))
        asked = Missed(missed, message.marks) if missed and not was_fed else None
        self._interest_changed(membership, asked)

    def _attach_to_source(self, caller: Incoming, message: messages.Attach) -> None:
        if message.cluster not in self.sending:
            self._send(caller.connection, messages.Full(message.cluster, True))
            return
        self._source_children.setdefault(message.cluster, {})[caller.connection] = caller.name
        if message.missed:
            everything = (Filter(()),)
            self._repeat(
                caller.connection, message.cluster, self._published, everything, message.marks
            )
        self._send(caller.connection, messages.Feeding(message.cluster, True))

    def _repeat(
        self,
        connection: int,
        cluster: int,
        buffer: Buffer,
        missed: tuple[Filter, ...],
        marks: tuple[Mark, ...],
    ) -> None:
        """Send once more what a child has missed, as far as it is kept."""
        if not missed:
            return
        for item, notification in buffer.after(marks):
            if wants(missed, notification, self.ontology):
                self._send(connection, _passed(item, cluster, self.group_time))
                self.counts.recovered += 1

    def _has_slot(self, membership: Membership, connection: int) -> bool:
        used = sum(len(each.children) for each in self.clusters.values())
        return connection in membership.children or used < self.settings.slots

    def _detach(self, caller: Incoming, cluster: int, from_source: bool) -> None:
        if from_source:
            self._source_children.get(cluster, {}).pop(caller.connection, None)
            return
        membership = self.clusters.get(cluster)
        child = None if membership is None else membership.children.pop(caller.connection, None)
        if membership is not None and child is not None:
            self._interest_changed(membership)


def _passed(item: Item, cluster: int, at: float) -> Item:
    return Item(
        cluster, item.publisher, item.epoch, item.number, item.published_at, at, item.content
    )
