"""Actions: what policies decide, turned into instructions for brokers and publishers.

Placing a client asks `Assignments` where its medoid is at home. Those whom a policy finds misplaced
are gathered for a moment and looked at together (`flush`), because two can exchange places where
each alone would find no room.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from kbn.broker import administration
from kbn.errors import InvalidInputError, KbnError
from kbn.filters import Notification
from kbn.management import instructions
from kbn.management.action_log import Status
from kbn.management.assignments import Assignments
from kbn.management.engine import Decision
from kbn.management.instructions import (
    PlacementNote,
    PlacePublisher,
    RequestPublisherMedoids,
)
from kbn.management.managed_object import ManagedObject
from kbn.management.mib import Mib, Recipient
from kbn.management.reports import Kind
from kbn.placement import (
    MEAN_HOPS_MAX,
    Assignment,
    Distances,
    Move,
    balance_plan,
    mean_hops,
    propose_moves,
)

CLIENTS: tuple[Kind, ...] = ("subscriber", "publisher")
LOAD_MAX = 2.0
"""A broker has at most so many times a fair share of the clients, where nothing else is said."""
LOOK_EVERY_S = 1.0
"""How often clients are counted anew; between, those that are sent somewhere are added."""
FLUSH_EVERY_S = 2.0
TOGETHER_MAX = 2000
"""So many clients are looked at together; of more, only those that were found misplaced."""
ARRIVE_S = 10.0
"""One who was told to go elsewhere less than this ago counts as being there."""
REASSIGNED = "reassigned"
"""The mark of clients who sit near their partners rather than where their medoid is at home."""

_GOES_BY_ITSELF = "its broker is dead: it goes elsewhere by itself"

REQUESTS: dict[str, administration.ReportKind] = {
    "request-notification-reports": "hops",
    "request-broker-medoids": "medoids",
    "request-utilisation": "utilisation",
}


class Instruct(NamedTuple):
    """Tell a broker, which listens at `url`, to do something."""

    broker: str
    url: str
    request: administration.MoveClients | administration.MoveBroker | administration.Report

    @property
    def what(self) -> str:
        """The kind of the request, for people."""
        return str(self.request.__struct_config__.tag)


class Announce(NamedTuple):
    """Publish at the trigger broker."""

    notification: Notification


Effect: TypeAlias = Instruct | Announce


class Outcome(NamedTuple):
    """What came of a decision, what is to be done for it, and who was placed where.

    `detail` says it in words, for people.
    """

    decision: Decision
    status: Status
    detail: str = ""
    effects: tuple[Effect, ...] = ()
    placed: PlacementNote | None = None


class Actions:
    """Carries decisions out, as far as that can be done without talking to anybody."""

    def __init__(self, mib: Mib, assignments: Assignments, load_max: float = LOAD_MAX) -> None:
        self._mib = mib
        self._assignments = assignments
        self._load_max = load_max
        self._load: Counter[str] = Counter()
        self._counted_at: float | None = None
        self._misplaced: dict[tuple[Kind, str], Decision] = {}
        self._flushed_at = 0.0
        self.plan_changed = False
        self._known: dict[str, Callable[[Decision, float], Outcome]] = {
            "place-subscriber": self._place_subscriber,
            "place-publisher": self._place_publisher,
            "recluster": self._recluster,
            **dict.fromkeys(REQUESTS, self._request),
            "request-publisher-medoids": self._request_publisher_medoids,
            "move-broker": self._move_broker,
            "balance-load": self._balance_load,
            "replan": self._replan,
            "add-broker": self._add_broker,
            "retire-broker": self._retire_broker,
        }

    def carry_out(self, decision: Decision, now: float) -> Outcome:
        """What comes of a decision; one that cannot be carried out says why."""
        act = self._known.get(decision.action)
        if act is None:
            return Outcome(decision, Status.DONE)  # the engine has marked or logged it
        try:
            return act(decision, now)
        except KbnError as error:
            return Outcome(decision, Status.FAILED, str(error))

    def flush(self, now: float) -> Iterator[Outcome]:
        """What comes of those found misplaced, when it is time to look at them together."""
        if not self._misplaced or now - self._flushed_at < FLUSH_EVERY_S:
            return
        self._flushed_at = now
        # Publishers first, and subscribers when these have arrived: gains suppose that those at the
        # other end stay, and subscribers that hear from everywhere would all meet in the middle.
        has_publishers = any(of == "publisher" for of, _ in self._misplaced)
        kind: Kind = "publisher" if has_publishers else "subscriber"
        named = {name: each for (of, name), each in self._misplaced.items() if of == kind}
        for name in named:
            del self._misplaced[kind, name]
        try:
            yield from self._reassign(kind, named, now)
        except KbnError as error:
            yield from (Outcome(each, Status.FAILED, str(error)) for each in named.values())

    # Placing.

    def _place_subscriber(self, decision: Decision, now: float) -> Outcome:
        found = self._object(decision)
        if found.broker in self._assignments.dead:
            return Outcome(decision, Status.UNCHANGED, _GOES_BY_ITSELF)
        assignment = self._assigned(found, now)
        if assignment is None or not found.broker:
            return Outcome(decision, Status.UNCHANGED, "no cluster has its medoid")
        old, stays = found.broker, assignment == found.broker
        send = () if stays else (self._send(found, assignment),)
        self._mib.placed("subscriber", found.name, assignment, now)
        self._mib.unmark("subscriber", found.name, REASSIGNED)
        note = PlacementNote("subscriber", found.name, assignment)
        if stays:
            return Outcome(decision, Status.UNCHANGED, f"at {assignment} already", send, note)
        return Outcome(decision, Status.DONE, f"from {old} to {assignment}", send, note)

    def _place_publisher(self, decision: Decision, now: float) -> Outcome:
        found = self._object(decision)
        if found.broker in self._assignments.dead:
            return Outcome(decision, Status.UNCHANGED, _GOES_BY_ITSELF)
        assignment = self._assigned(found, now)
        if assignment is None:
            return Outcome(decision, Status.UNCHANGED, "no cluster has its medoid")
        send = self._send(found, assignment)
        self._mib.placed("publisher", found.name, assignment, now)
        self._mib.unmark("publisher", found.name, REASSIGNED)
        note = PlacementNote("publisher", found.name, assignment)
        return Outcome(decision, Status.DONE, f"to {assignment}", (send,), note)

    def _assigned(self, found: ManagedObject, now: float) -> str | None:
        """Where a client belongs; it is counted there at once."""
        load = self._load_now(now)
        assignment = self._assignments.broker_for(found.medoid or None, found.broker, load)
        if assignment is not None and assignment != found.broker:
            load[assignment] += 1
            load[found.broker] -= 1
        return assignment

    def _send(self, found: ManagedObject, to: str) -> Effect:
        url = self._url(to)
        if found.kind == "publisher":
            order = PlacePublisher(found.name, to, url)
            return Announce(instructions.to_notification(order))
        return Instruct(
            found.broker,
            self._url(found.broker),
            administration.MoveClients(to, url, (found.name,)),
        )

    def _load_now(self, now: float) -> Counter[str]:
        """How many clients each broker has, subscribers and publishers alike."""
        if self._counted_at is None or not 0 <= now - self._counted_at < LOOK_EVERY_S:
            self._counted_at = now
            self._load = self._count_by("broker")
        return self._load

    def _count_by(self, field: str) -> Counter[str]:
        counts = (self._mib.count_by(kind, field) for kind in CLIENTS)
        return sum(map(Counter, counts), Counter())

    # Re-clustering.

    def _recluster(self, decision: Decision, now: float) -> Outcome:
        """Have it looked at with others soon; a subscriber's medoid is asked for again."""
        found = self._object(decision)
        self._misplaced[found.kind, found.name] = decision
        is_away = not found.broker or found.broker in self._assignments.dead
        if found.kind == "publisher" or is_away:
            return Outcome(decision, Status.DECIDED)
        report = administration.Report("subscribers", clients=(found.name,))
        ask = Instruct(found.broker, self._url(found.broker), report)
        return Outcome(decision, Status.DECIDED, effects=(ask,))

    def _reassign(self, kind: Kind, named: Mapping[str, Decision], now: float) -> Iterator[Outcome]:
        if not named:
            return
        if not self._assignments.brokers:
            detail = "no broker is known yet"
            yield from (Outcome(each, Status.UNCHANGED, detail) for each in named.values())
            return
        # With all of them, as long as they are few: one who sits well may make room for another.
        few = self._mib.count(kind) <= TOGETHER_MAX
        names = [each.name for each in self._mib.objects(kind)] if few else list(named)
        assignments = list(self._client_assignments(kind, names, now))
        load = Counter(self._load_now(now))
        load.subtract(assignment.broker for assignment in assignments)
        others = {name: float(n) for name, n in load.items() if n > 0 and self._is_there(name)}
        found = propose_moves(
            assignments, self._assignments.distances, self._load_max, others=others
        )
        going = {move.client for move in found}
        for assignment in assignments:
            if (
                assignment.client in named
                and assignment.client not in going
                and _is_misplaced(assignment, self._assignments.distances)
            ):
                detail = "no broker with room is nearer to its partners"
                yield Outcome(named[assignment.client], Status.UNCHANGED, detail)
        first = next(iter(named.values()))
        for move in found:
            decision = named.get(move.client) or replace(first, name=move.client)
            yield self._moved(kind, move, decision, now)

    def _moved(self, kind: Kind, move: Move, decision: Decision, now: float) -> Outcome:
        found = self._mib.get(kind, move.client)
        if found is None or found.broker != move.old:
            return Outcome(decision, Status.UNCHANGED, "it is somewhere else by now")
        if {move.old, move.new} & self._assignments.dead:
            return Outcome(decision, Status.UNCHANGED, "a broker is dead")
        if move.new in self._assignments.spare:
            detail = f"{move.new} is nearer to its partners, and spare"
            return Outcome(decision, Status.UNCHANGED, detail)
        try:
            send = self._send(found, move.new)
        except KbnError as error:
            return Outcome(decision, Status.FAILED, str(error))
        self._load[move.new] += 1
        self._load[move.old] -= 1
        self._mib.placed(kind, move.client, move.new, now)
        self._mib.mark(kind, move.client, REASSIGNED)
        text = f"from {move.old} to {move.new}, {move.gain:g} hops nearer to its partners"
        note = PlacementNote(kind, move.client, move.new, is_reassigned=True)
        return Outcome(decision, Status.DONE, text, (send,), note)

    def failed(self, instruct: Instruct) -> None:
        """An instruction did not reach its broker, or was refused: who was to move may be told
        again.
        """
        if isinstance(instruct.request, administration.MoveClients):
            for name in instruct.request.clients or ():
                self._mib.not_placed("subscriber", name)

    def _client_assignments(
        self, kind: Kind, names: Iterable[str], now: float
    ) -> Iterator[Assignment]:
        heard = self._heard_by_publisher(now) if kind == "publisher" else None
        for name in names:
            found = self._mib.get(kind, name)
            if found is None or not self._is_there(found.broker):
                continue
            if _whereabouts(found, now) != found.broker:
                continue  # it is on its way
            mine = self._heard(found, now) if heard is None else heard.get(name, {})
            yield Assignment(name, found.broker, mine)

    # Partners count where they will be: two who moved towards each other would exchange places.

    def _heard(self, subscriber: ManagedObject, now: float) -> dict[str, float]:
        """A subscriber's notifications, by the broker of who published them."""
        heard: dict[str, float] = defaultdict(float)
        for name, count in subscriber.publishers.items():
            publisher = self._mib.get("publisher", name)
            at = "" if publisher is None else _whereabouts(publisher, now)
            if self._is_there(at):
                heard[at] += count
        return heard

    def _heard_by_publisher(self, now: float) -> dict[str, dict[str, float]]:
        """Each publisher's notifications, by the broker of who had them."""
        heard: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        for recipient in self._mib.recipients():
            at = _whereabouts(recipient, now)
            if self._is_there(at):
                for name, count in recipient.publishers.items():
                    heard[name][at] += count
        return heard

    # Requests.

    def _request(self, decision: Decision, now: float) -> Outcome:
        interval, groups = (decision.parameters.get(name) for name in ("interval", "groups"))
        report = administration.Report(REQUESTS[decision.action], interval or 0.0, groups)
        named = [decision.name] if decision.kind == "broker" and decision.name else None
        asked = tuple(
            Instruct(each.name, each.address, report)
            for each in self._mib.objects("broker")
            if each.address
            and (named is None or each.name in named)
            and each.name not in self._assignments.dead
        )
        return Outcome(decision, Status.DONE, f"brokers asked: {len(asked)}", asked)

    def _request_publisher_medoids(self, decision: Decision, now: float) -> Outcome:
        ask = instructions.to_notification(RequestPublisherMedoids())
        return Outcome(decision, Status.DONE, "asked all publishers", (Announce(ask),))

    # Brokers and the plan.

    def _move_broker(self, decision: Decision, now: float) -> Outcome:
        found = self._object(decision)
        to = str(decision.parameters["to"])
        if to == found.name:
            raise InvalidInputError(f"{to} cannot move below itself")
        if to == found.parent:
            return Outcome(decision, Status.UNCHANGED, f"below {to} already")
        move = Instruct(found.name, found.address, administration.MoveBroker(self._url(to)))
        return Outcome(decision, Status.DONE, f"from {found.parent or 'nobody'} to {to}", (move,))

    def _balance_load(self, decision: Decision, now: float) -> Outcome:
        plan = self._assignments.plan
        if plan is None:
            return Outcome(decision, Status.FAILED, "no plan is made yet")
        if self._assignments.is_fixed:
            return Outcome(decision, Status.FAILED, "the plan is given, and stays")
        loads: Counter[str] = Counter()
        for medoid, count in self._count_by("medoid").items():
            key = plan.cluster_for(medoid)
            if key is not None:
                loads[key] += count
        load_max = float(decision.parameters.get("load_max", self._load_max))
        # Among those that hold clusters: a spare broker does not help before it is added.
        apart = self._assignments.distances_among(plan.brokers)
        new = balance_plan(plan, loads, load_max, apart)
        return self._use(decision, self._assignments.use(new), "clusters share brokers anew")

    def _replan(self, decision: Decision, now: float) -> Outcome:
        planner = str(decision.parameters.get("planner", "traffic"))
        if planner == "taxonomic":
            changed = self._assignments.by_taxonomy()
        else:
            clients = self._count_by("medoid")
            changed = self._assignments.by_traffic(self._deliveries(), clients, self._load_max)
        if changed:  # the plan is by what was delivered: everybody goes by it first
            for kind in CLIENTS:
                self._mib.unmark_all(kind, REASSIGNED)
        return self._use(decision, changed, "clusters live on other brokers")

    def _use(self, decision: Decision, changed: bool, text: str) -> Outcome:
        self.plan_changed |= changed
        if not changed:
            return Outcome(decision, Status.UNCHANGED, "the plan stays as it is")
        return Outcome(decision, Status.DONE, text)

    def _deliveries(self) -> dict[tuple[str, str], float]:
        """How many notifications went from publishers to subscribers, by their medoids."""
        found: dict[tuple[str, str], float] = defaultdict(float)
        for recipient in self._mib.recipients():
            if not recipient.medoid:
                continue
            for name, count in recipient.publishers.items():
                publisher = self._mib.get("publisher", name)
                if publisher is not None and publisher.medoid:
                    found[publisher.medoid, recipient.medoid] += count
        return found

    def _add_broker(self, decision: Decision, now: float) -> Outcome:
        spare = [name for name in self._assignments.brokers if name in self._assignments.spare]
        if not spare:
            return Outcome(decision, Status.FAILED, "no broker is spare")
        self._assignments.set_spare(spare[0], now, is_spare=False)
        return Outcome(decision, Status.DONE, f"{spare[0]} holds clusters from now on")

    def _retire_broker(self, decision: Decision, now: float) -> Outcome:
        found = self._object(decision)
        self._assignments.set_spare(found.name, now, is_spare=True)
        return Outcome(decision, Status.DONE, f"{found.name} holds no clusters from now on")

    # Who is who.

    def _object(self, decision: Decision) -> ManagedObject:
        found = None if decision.name is None else self._mib.get(decision.kind, decision.name)
        if found is None:
            raise InvalidInputError(f"there is no {decision.kind} {decision.name!r} any more")
        return found

    def _url(self, broker: str) -> str:
        found = self._mib.get("broker", broker)
        if found is None or not found.address:
            raise InvalidInputError(f"the broker {broker!r} has not said where it listens")
        return str(found.address)

    def _is_there(self, broker: str) -> bool:
        return broker in self._assignments.brokers


def _whereabouts(client: ManagedObject | Recipient, now: float) -> str:
    """The broker where a client is, or where it goes if it was told to a moment ago."""
    is_told = client.placed_on and 0 <= now - client.placed_at < ARRIVE_S
    return str(client.placed_on if is_told else client.broker)


def _is_misplaced(assignment: Assignment, distances: Distances) -> bool:
    mean = mean_hops(assignment, distances)
    return mean is not None and mean > MEAN_HOPS_MAX
