"""A coordinator: admits peers, keeps the arrangement of the group, and tells each what is its part.

It opens no socket and reads no clock: connections, messages and the time go in, effects come out.
It may restart: peers go on without it, and tell it where they stand when they find it again; so for
a moment after the start it listens and moves nobody.

**Who is dead.** A peer whose connection is lost may come back. It is taken for dead when a child of
it says that it is lost, too, or after `GONE_S`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import assert_never

from kbn.broker import AllowAll, Authorizer, FrameError, NotAllowedError, Permission
from kbn.errors import InvalidInputError, KbnError
from kbn.filters import Subscription
from kbn.peering import effects, messages
from kbn.peering.arrangement import Arrangement, Wanted, bound_of
from kbn.peering.cluster import SOURCE
from kbn.peering.effects import Effect
from kbn.peering.limits import Bucket
from kbn.peering.summary import filter_text, read_filter
from kbn.peering.wire import decode_first, decode_to_coordinator

GONE_S = 3.0
SILENT_S = 3.0
STRANGER_S = 5.0
LEARN_S = 1.5
REPAIR_S = 2.0
UNREACHABLE_S = 1.0
TAKEOVER_S = 1.0
STANDBYS_MAX = 16
PRIMARY = "primary"
PROBE_S = 0.5
MESSAGES_RATE, MESSAGES_BURST = 200.0, 2000.0
PEERS_MAX = 100_000
HEARD_MAX = 10_000


@dataclass(frozen=True, slots=True)
class CoordinatorSettings:
    """What a coordinator goes by; `new_key` makes the key of the group, when there is none yet.

    A standby waits until the coordinator at `standby_of` is gone. `url` is where peers then find
    it, `token` says there who it is.
    """

    name: str
    new_key: Callable[[], str]
    strategy: str = "4"
    connections: int | None = None
    authorizer: Authorizer = field(default_factory=AllowAll)
    checks_certificates: bool = False
    learn_s: float = LEARN_S
    url: str = ""
    standby_of: str = ""
    token: str = ""


@dataclass(slots=True)
class Known:
    """A peer that has joined."""

    name: str
    epoch: int
    url: str
    slots: int
    permission: Permission
    connection: int | None
    heard_at: float
    away_since: float | None = None
    is_out: bool = False  # taken for dead: its place in trees is given to others
    lost_since: dict[tuple[int, str], float] = field(default_factory=dict)
    received: int = 0
    unwanted: int = 0
    told_places: dict[int, messages.Place] = field(default_factory=dict)
    told_sending: tuple[int, ...] | None = None


@dataclass(slots=True)
class _Caller:
    """A connection; its peer is known once it has joined."""

    connection: int
    bucket: Bucket
    opened_at: float
    certificate: str | None = None
    peer: str = ""
    standby: str = ""


@dataclass(slots=True)
class _Primary:
    """The coordinator that a standby waits for."""

    lost_at: float
    connection: int | None = None
    is_dialling: bool = False
    heard_at: float = 0.0


class Coordinator:
    """One coordinator; see the module."""

    def __init__(self, settings: CoordinatorSettings, now: float) -> None:
        if settings.connections is not None and settings.connections < 1:
            raise InvalidInputError(
                f"a publisher needs at least one connection, not {settings.connections}"
            )
        self.settings = settings
        self.arrangement = Arrangement(settings.strategy)
        self.peers: dict[str, Known] = {}
        self.heard: Counter[tuple[int, frozenset[str]]] = Counter()
        self.counts: Counter[str] = Counter()
        self.key = ""
        self.standbys: tuple[str, ...] = ()
        self._callers: dict[int, _Caller] = {}
        self._primary: _Primary | None = None
        self._learning_until: float | None = None
        self._held: dict[str, messages.Holding] = {}
        self._waiting: list[tuple[str, messages.Advertise | messages.Want]] = []
        self._repair_at = now
        self._now = now
        self._out: list[Effect] = []

    # What happens.

    def start(self, now: float) -> list[Effect]:
        """Begin: listen first to those who may know a former coordinator's arrangement."""
        self._now = now
        if self.settings.standby_of:
            self._primary = _Primary(now)
        else:
            self._learning_until = now + self.settings.learn_s
        return self.tick(now)

    def opened(
        self, connection: int, key: str | None, now: float, certificate: str | None = None
    ) -> list[Effect]:
        if key is not None:
            return self._do(now, lambda: self._reached_primary(connection))
        bucket = Bucket(MESSAGES_RATE, MESSAGES_BURST, now)
        self._callers[connection] = _Caller(connection, bucket, now, certificate)
        return []

    def received(self, connection: int, bodies: list[bytes], now: float) -> list[Effect]:
        def handle() -> None:
            for body in bodies:
                self._received(connection, body)

        return self._do(now, handle)

    def closed(self, connection: int, now: float) -> list[Effect]:
        return self._do(now, lambda: self._closed(connection))

    def dial_failed(self, key: str, reason: str, now: float) -> list[Effect]:
        if self._primary is not None:
            self._primary.is_dialling = False
        return []

    def tick(self, now: float) -> list[Effect]:
        return self._do(now, self._tick)

    @property
    def is_learning(self) -> bool:
        """Whether it still listens only, or stands by."""
        return self._learning_until is not None or self._primary is not None

    def _do(self, now: float, act: Callable[[], None]) -> list[Effect]:
        self._now = self.arrangement.now = now
        act()
        self._tell_changes()
        done, self._out = self._out, []
        return done

    def _send(self, peer: Known, message: messages.Message) -> None:
        if peer.connection is not None:
            self._out.append(effects.Send(peer.connection, message))

    def _note(self, text: str, is_trouble: bool = False) -> None:
        self._out.append(effects.Note(text, is_trouble))

    # Connections.

    def _received(self, connection: int, body: bytes) -> None:
        caller = self._callers.get(connection)
        if caller is None:
            if self._primary is not None and connection == self._primary.connection:
                self._primary.heard_at = self._now
            return
        if not caller.bucket.takes(self._now):
            self._refuse(caller, "you send too much: fewer messages a second")
            return
        try:
            if caller.standby:
                self._echo_standby(caller, decode_to_coordinator(body))
                return
            if not caller.peer:
                self._introduced(caller, decode_first(body))
                return
            peer = self.peers[caller.peer]
            peer.heard_at = self._now
            self._heed(caller, peer, decode_to_coordinator(body))
        except FrameError as error:
            self._refuse(caller, str(error))

    def _refuse(self, caller: _Caller, reason: str) -> None:
        """Have nothing more to do with somebody, and say why."""
        self.counts["refused"] += 1
        self._note(f"refused {caller.peer or 'a stranger'}: {reason}", True)
        self._out.append(effects.Send(caller.connection, messages.Refused(reason)))
        self._out.append(effects.Close(caller.connection))
        self._closed(caller.connection)

    def _closed(self, connection: int) -> None:
        if self._primary is not None and connection == self._primary.connection:
            self._primary.connection, self._primary.lost_at = None, self._now
            return
        caller = self._callers.pop(connection, None)
        if caller is not None and caller.standby:
            self._standbys_changed()
            return
        peer = None if caller is None else self.peers.get(caller.peer)
        if peer is not None and peer.connection == connection:
            peer.connection = None
            peer.away_since = self._now
            if any(
                (peer.name == parent)
                for each in self.peers.values()
                for _, parent in each.lost_since
            ):
                self._crashed(peer)

    def _introduced(self, caller: _Caller, first: messages.FirstToCoordinator) -> None:
        match first:
            case messages.Join():
                self._join(caller, first)
            case messages.Mirror():
                self._mirror(caller, first)
            case _:
                assert_never(first)

    def _mirror(self, caller: _Caller, mirror: messages.Mirror) -> None:
        """A standby reports."""
        permission = self.settings.authorizer.admit(mirror.name, mirror.token)
        if permission is None or not permission.manage:
            self._refuse(caller, f"{mirror.name!r} may not stand by: it takes the right `manage`")
            return
        if self.settings.checks_certificates and caller.certificate != mirror.name:
            self._refuse(caller, f"your certificate is not that of {mirror.name!r}")
            return
        caller.standby = mirror.url
        self._standbys_changed()

    def _standbys_changed(self) -> None:
        found = dict.fromkeys(each.standby for each in self._callers.values() if each.standby)
        self.standbys = tuple(found)[:STANDBYS_MAX]
        for peer in self.peers.values():
            self._send(peer, messages.Standbys(self.standbys))

    def _join(self, caller: _Caller, join: messages.Join) -> None:
        if self._primary is not None:
            self._out.append(
                effects.Send(caller.connection, messages.StandingBy(self.settings.standby_of))
            )
            return
        if join.version != messages.VERSION:
            self._refuse(
                caller, f"version {join.version} of the protocol; ours is {messages.VERSION}"
            )
            return
        if self.settings.checks_certificates and caller.certificate != join.name:
            self._refuse(caller, f"your certificate is not that of {join.name!r}")
            return
        permission = self.settings.authorizer.admit(join.name, join.token)
        if permission is None:
            self._refuse(caller, f"{join.name!r} is not admitted with that token")
            return
        known = self.peers.get(join.name)
        if known is not None and known.epoch > join.epoch:
            self._refuse(caller, f"a newer process is {join.name!r}")
            return
        if known is None and len(self.peers) >= PEERS_MAX:
            self._refuse(caller, f"{PEERS_MAX} peers are here: no more fit")
            return
        if known is not None and known.epoch < join.epoch:
            self._remove(known)  # another process: what the former one said is void
            known = None
        if known is not None and known.connection is not None:
            self._out.append(effects.Close(known.connection))
            self._callers.pop(known.connection, None)
        if known is None:
            known = self.peers[join.name] = Known(
                join.name, join.epoch, join.url, join.slots, permission, None, self._now
            )
            self.counts["joined"] += 1
        caller.peer = join.name
        known.connection, known.away_since, known.heard_at = caller.connection, None, self._now
        known.url, known.permission = join.url, permission
        known.told_places.clear()
        known.told_sending = None
        self.key = self.key or join.key or self.settings.new_key()
        self._send(known, messages.Joined(self.settings.name, join.epoch, self.key, self.standbys))
        if known.is_out:
            known.is_out = False
            self.arrangement.come_back(known.name)

    def _remove(self, peer: Known) -> None:
        """A peer is gone for good."""
        if self.peers.get(peer.name) is peer:
            del self.peers[peer.name]
        self._held.pop(peer.name, None)
        for each in self.peers.values():
            for key in [key for key in each.lost_since if key[1] == peer.name]:
                del each.lost_since[key]
        if not self.is_learning:
            self.arrangement.remove(peer.name)

    def _crashed(self, peer: Known) -> None:
        """Others take its place in the trees; it may come back."""
        if not peer.is_out and not self.is_learning:
            peer.is_out = True
            self.counts["crashed"] += 1
            self._note(f"{peer.name} is lost: its children are adopted", True)
            self.arrangement.crash(peer.name)

    # Messages.

    def _heed(self, caller: _Caller, peer: Known, message: messages.ToCoordinator) -> None:
        match message:
            case messages.Report():
                self._report(peer, message)
            case messages.Probe(number, sent_at):
                self._send(peer, messages.Echo(number, sent_at, self._now))
            case messages.Echo():
                pass
            case messages.Advertise() | messages.Want():
                if self.is_learning:
                    self._waiting.append((peer.name, message))
                else:
                    self._asked(peer, message)
            case messages.Unwant(id):
                self.arrangement.unwant(peer.name, id)
            case messages.Holding():
                if self.is_learning:
                    self._held[peer.name] = message
            case messages.Lost(number, parent):
                self._lost(peer, number, parent)
            case messages.Leave():
                self._callers.pop(caller.connection, None)
                self._out.append(effects.Close(caller.connection))
                self.counts["left"] += 1
                self._remove(peer)
            case messages.GetFacts():
                self._tell_facts(peer)
            case _:
                assert_never(message)

    def _asked(self, peer: Known, message: messages.Advertise | messages.Want) -> None:
        try:
            if isinstance(message, messages.Advertise):
                peer.permission.check_publish(message.attributes)
                limit = message.connections or self.settings.connections
                if message.connections == 0:
                    raise InvalidInputError("a publisher needs at least one connection, not 0")
                held = self._held.get(peer.name)
                arrived = 0 if held is None else held.arrived
                self.arrangement.advertise(peer.name, message.attributes, limit, arrived)
            else:
                filters = tuple(read_filter(text) for text in message.filters)
                peer.permission.check_subscribe(Subscription(filters))
                if not all(len(each) for each in filters):
                    raise InvalidInputError("a filter without an attribute belongs to no cluster")
                bound = bound_of(message.within_s, message.probability)
                self.arrangement.want(peer.name, peer.slots, Wanted(message.id, filters, bound))
        except (KbnError, NotAllowedError) as error:
            about = "advertise" if isinstance(message, messages.Advertise) else "want"
            id = 0 if isinstance(message, messages.Advertise) else message.id
            self.counts["refused"] += 1
            self._send(peer, messages.Refused(str(error)[:4000], about, id))

    def _report(self, peer: Known, report: messages.Report) -> None:
        peer.received, peer.unwanted = report.received, report.unwanted
        try:
            self.arrangement.measured(
                peer.name, [(each.peer, each.samples) for each in report.links]
            )
        except InvalidInputError as error:
            self._note(f"{peer.name}: {error}", True)
        subscriber = self.arrangement.subscribers.get(peer.name)
        for each in report.kept:
            wanted = None if subscriber is None else subscriber.wanted.get(each.id)
            if wanted is not None and each.in_time <= each.delivered:
                wanted.count(each.delivered, each.in_time)
        for heard in report.heard:
            key = (heard.cluster, frozenset(heard.attributes))
            if key in self.heard or len(self.heard) < HEARD_MAX:
                self.heard[key] += heard.count

    def _lost(self, peer: Known, number: int, parent: str) -> None:
        """A parent that its child hears nothing of: dead, or out of its reach."""
        cluster = self.arrangement.clusters.get(number)
        if cluster is None or parent not in cluster.parents_of_or_none(peer.name):
            return
        known = self.peers.get(parent)
        if known is None or known.connection is None:
            if known is not None:
                self._crashed(known)
            return
        peer.lost_since.setdefault((number, parent), self._now)

    # Standing by.

    def _reached_primary(self, connection: int) -> None:
        if self._primary is None:
            self._out.append(effects.Close(connection))
            return
        self._primary.connection, self._primary.is_dialling = connection, False
        self._primary.heard_at = self._now
        known = self.settings
        mirror = messages.Mirror(messages.VERSION, known.name, known.token, known.url)
        self._out.append(effects.Send(connection, mirror))

    def _echo_standby(self, caller: _Caller, message: messages.ToCoordinator) -> None:
        if isinstance(message, messages.Probe):
            echo = messages.Echo(message.number, message.sent_at, self._now)
            self._out.append(effects.Send(caller.connection, echo))

    def _stand_by(self, primary: _Primary) -> None:
        """Ask whether the other is there; take over when it is not for long enough."""
        if primary.connection is not None:
            if self._now - primary.heard_at > SILENT_S:
                self._out.append(effects.Close(primary.connection))
                primary.connection, primary.lost_at = None, self._now
            elif self._now >= self._repair_at:
                self._repair_at = self._now + PROBE_S
                self._out.append(effects.Send(primary.connection, messages.Probe(0, self._now)))
        elif self._now - primary.lost_at > TAKEOVER_S:
            self._note(f"{self.settings.standby_of} is gone: {self.settings.name} takes over", True)
            self._primary = None
            self._learning_until = self._now + self.settings.learn_s
        elif not primary.is_dialling:
            primary.is_dialling = True
            self._out.append(effects.Dial(PRIMARY, self.settings.standby_of))

    # Time.

    def _tick(self) -> None:
        if self._primary is not None:
            self._stand_by(self._primary)
            return
        if self._learning_until is not None:
            if self._now < self._learning_until:
                return
            self._learn()
        self.arrangement.tick()
        for peer in [*self.peers.values()]:
            if peer.connection is None:
                if peer.away_since is not None and self._now - peer.away_since > GONE_S:
                    self._remove(peer)
            elif self._now - peer.heard_at > SILENT_S:
                self._out.append(effects.Close(peer.connection))
                self._closed(peer.connection)
            else:
                self._move_from_unreachable(peer)
        for caller in [*self._callers.values()]:
            if not caller.peer and not caller.standby and self._now - caller.opened_at > STRANGER_S:
                self._refuse(caller, "you did not say who you are")
        if self._now >= self._repair_at:
            self._repair_at = self._now + REPAIR_S
            self.arrangement.repair()
            self._judge()

    def _move_from_unreachable(self, peer: Known) -> None:
        for (number, parent), since in [*peer.lost_since.items()]:
            if self._now - since > UNREACHABLE_S:
                del peer.lost_since[number, parent]
                known = self.peers.get(parent)
                if known is None or known.connection is None:
                    continue
                self.arrangement.avoid(peer.name, parent, number)

    def _judge(self) -> None:
        """Tell those whose bounds are no longer kept, or are again."""
        for name, subscriber in self.arrangement.subscribers.items():
            for wanted in subscriber.wanted.values():
                self._tell_promise(name, wanted)

    def _learn(self) -> None:
        """Take over what a former coordinator arranged, as far as its peers know."""
        self._learning_until = None
        publishers = [
            (name, message)
            for name, message in self._waiting
            if isinstance(message, messages.Advertise)
        ]
        publishers.sort(key=lambda each: self._held_arrival(each[0]))
        wants = [
            (name, message) for name, message in self._waiting if isinstance(message, messages.Want)
        ]
        self._waiting = []
        for name, advertised in publishers:
            if name in self.peers:
                self._asked(self.peers[name], advertised)
        self.arrangement.restore_numbers(self._held_combinations(wants))
        self.arrangement.held = {
            (name, each.cluster): SOURCE if each.from_source else each.parents[0]
            for name, holding in self._held.items()
            for each in holding.held
            if each.parents
        }
        for name, wanted in wants:
            if name in self.peers:
                self._asked(self.peers[name], wanted)
        self.arrangement.restore_places()
        for name, holding in self._held.items():
            self._take_from_others(name, holding)
        self._held.clear()

    def _held_combinations(
        self, wants: list[tuple[str, messages.Want]]
    ) -> Iterator[tuple[frozenset[str], int]]:
        """What subscribers ask for, each with the cluster where its peer says it gets it."""
        for name, message in wants:
            holding = self._held.get(name)
            for text in message.filters if holding is not None else ():
                with suppress(KbnError):
                    combination = frozenset(each.attribute for each in read_filter(text))
                    for held in holding.held if holding is not None else ():
                        if combination <= frozenset(held.attributes):
                            yield combination, held.cluster

    def _take_from_others(self, name: str, holding: messages.Holding) -> None:
        """Take a peer from clusters where it is and does not belong."""
        subscriber = self.arrangement.subscribers.get(name)
        belongs = {} if subscriber is None else subscriber.clusters
        for each in holding.held:
            if each.cluster not in belongs and name in self.peers:
                self._send(self.peers[name], messages.Place(each.cluster, ()))

    def _held_arrival(self, name: str) -> float:
        held = self._held.get(name)
        return held.arrived if held is not None and held.arrived else float("inf")

    # What peers are told.

    def _tell_changes(self) -> None:
        changes = self.arrangement.take_changes()
        for name in changes.sending:
            peer = self.peers.get(name)
            if peer is not None:
                numbers = self.arrangement.sending.get(name, ())
                arrived = self.arrangement.arrivals.get(name, 0)
                if peer.told_sending != numbers:
                    peer.told_sending = numbers
                    self._send(peer, messages.Sending(numbers, arrived))
        for name, number in changes.placed:
            self._tell_place(name, number)
        for name, others in changes.measure.items():
            peer = self.peers.get(name)
            contacts = tuple(self._contacts(others))[: messages.MEASURED_MAX]
            if peer is not None and contacts:
                self._send(peer, messages.Measure(contacts))
        for name in changes.promised:
            subscriber = self.arrangement.subscribers.get(name)
            for wanted in () if subscriber is None else subscriber.wanted.values():
                self._tell_promise(name, wanted)

    def _contacts(self, names: object) -> list[messages.Contact]:
        assert isinstance(names, tuple | dict | list)
        return [
            messages.Contact(name, self.peers[name].url)
            for name in names
            if name in self.peers and self.peers[name].connection is not None
        ]

    def _tell_place(self, name: str, number: int) -> None:
        peer = self.peers.get(name)
        if peer is None:
            return
        cluster = self.arrangement.clusters.get(number)
        is_there = cluster is not None and name in cluster.tree
        if cluster is None or not is_there:
            if peer.told_places.pop(number, None) is not None:
                self._send(peer, messages.Place(number, ()))
            return
        filters = self.arrangement.filters_of(name, number)
        attributes = sorted({constraint.attribute for each in filters for constraint in each})
        place = messages.Place(
            number,
            tuple(self._contacts(cluster.parents_of(name))),
            cluster.is_root(name),
            tuple(map(filter_text, filters[: messages.SUMMARY_MAX])),
            tuple(attributes[: messages.ATTRIBUTES_MAX]),
        )
        if peer.told_places.get(number) != place:
            for key in [key for key in peer.lost_since if key[0] == number]:
                del peer.lost_since[key]
            peer.told_places[number] = place
            self._send(peer, place)

    def _tell_promise(self, name: str, wanted: Wanted) -> None:
        promise = self.arrangement.promise(name, wanted)
        before, peer = wanted.told, self.peers.get(name)
        if peer is not None and (
            before is None or (before.state, before.reason) != (promise.state, promise.reason)
        ):
            wanted.told = promise
            self._send(peer, promise)

    def _tell_facts(self, peer: Known) -> None:
        from kbn.peering.facts import facts_json

        try:
            peer.permission.check_manage()
        except NotAllowedError as error:
            self._send(peer, messages.Refused(str(error), "facts"))
            return
        self._send(peer, messages.Facts(facts_json(self)))
