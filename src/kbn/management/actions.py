"""Actions: what policies decide, turned into instructions for brokers and publishers.

A client is placed where its medoid is at home, which `Assignments` knows; one that a policy finds
misplaced is looked at with others (`reclustering.py`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import cache

from kbn.broker import administration
from kbn.errors import InvalidInputError, KbnError
from kbn.management.action_log import Status
from kbn.management.assignments import Assignments
from kbn.management.broker_clustering import BrokerClustering
from kbn.management.client_counts import CLIENTS, ClientCounts
from kbn.management.engine import Decision
from kbn.management.instructions import PlacementNote, Recluster, RequestPublisherMedoids
from kbn.management.managed_object import ManagedObject
from kbn.management.mib import Mib
from kbn.management.outcomes import Announce, Instruct, Outcome, send_client, url_of
from kbn.management.reclustering import REASSIGNED, Reclustering
from kbn.placement import MapSettings, balance_plan

LOAD_MAX = 2.0
"""A broker has at most so many times a fair share of the clients, where nothing else is said."""

_GOES_BY_ITSELF = "its broker is dead: it goes elsewhere by itself"

REQUESTS: dict[str, administration.ReportKind] = {
    "request-notification-reports": "hops",
    "request-broker-medoids": "medoids",
    "request-utilisation": "utilisation",
    "request-subscriptions": "subscribers",
}


class Actions:
    """Carries decisions out, as far as that can be done without talking to anybody."""

    def __init__(
        self,
        mib: Mib,
        assignments: Assignments,
        load_max: float = LOAD_MAX,
        settings: MapSettings | None = None,
    ) -> None:
        self._mib = mib
        self._assignments = assignments
        self._load_max = load_max
        self._counts = ClientCounts(mib)
        self._reclustering = Reclustering(mib, assignments, self._counts, load_max)
        # Made when it is first asked for: most policies need no map.
        semantic_map = cache(lambda: (settings or MapSettings()).map_of(assignments.ontology))
        self._brokers = BrokerClustering(mib, assignments, self._counts, load_max, semantic_map)
        self.plan_changed = False
        self._known: dict[str, Callable[[Decision, float], Outcome]] = {
            "place-subscriber": self._place_subscriber,
            "place-publisher": self._place_publisher,
            "recluster": self._recluster,
            **dict.fromkeys(REQUESTS, self._request),
            "request-publisher-medoids": self._request_publisher_medoids,
            "move-broker": self._move_broker,
            "split-broker": self._split_broker,
            "cluster-brokers": self._cluster_brokers,
            "balance-load": self._balance_load,
            "replan": self._replan,
            "add-broker": self._add_broker,
            "retire-broker": self._retire_broker,
        }

    def carry_out(self, decision: Decision, now: float) -> Outcome:
        """What comes of a decision; one that cannot be carried out says why."""
        try:
            return self._known[decision.action](decision, now)
        except KbnError as error:
            return Outcome(decision, Status.FAILED, str(error))

    def flush(self, now: float) -> Iterator[Outcome]:
        """What comes of those found misplaced, when it is time to look at them together."""
        return self._reclustering.flush(now)

    def failed(self, instruct: Instruct) -> None:
        """An instruction did not reach its broker, or was refused: clients may be told again."""
        if isinstance(instruct.request, administration.MoveClients):
            for name in instruct.request.clients or ():
                self._mib.not_placed("subscriber", name)

    # Placing.

    def _place_subscriber(self, decision: Decision, now: float) -> Outcome:
        return self._place(decision, now, told_if_there=False)

    def _place_publisher(self, decision: Decision, now: float) -> Outcome:
        # A publisher may not be where it was told to be, so it is told again.
        return self._place(decision, now, told_if_there=True)

    def _place(self, decision: Decision, now: float, *, told_if_there: bool) -> Outcome:
        client = self._object(decision)
        old = client.broker
        if old in self._assignments.dead:
            return Outcome(decision, Status.UNCHANGED, _GOES_BY_ITSELF)
        home = self._home_of(client, now)
        if home is None or not (old or told_if_there):
            return Outcome(decision, Status.UNCHANGED, "no cluster has its medoid")
        stays = home == old and not told_if_there
        send = () if stays else (send_client(client, home, self._mib),)
        self._mib.placed(client.kind, client.name, home, now)
        self._mib.unmark(client.kind, client.name, REASSIGNED)
        note = PlacementNote(client.kind, client.name, home, before=old or None)
        if stays:
            return Outcome(decision, Status.UNCHANGED, f"at {home} already", send, (note,))
        way = f"to {home}" if told_if_there else f"from {old} to {home}"
        return Outcome(decision, Status.DONE, way, send, (note,))

    def _home_of(self, client: ManagedObject, now: float) -> str | None:
        """The broker where a client belongs; it is counted there at once."""
        load = self._counts.by_broker(now)
        home = self._assignments.broker_for(client.medoid or None, client.broker, load)
        if home is not None and home != client.broker:
            self._counts.sent(client.broker, home)
        return home

    def _recluster(self, decision: Decision, now: float) -> Outcome:
        """Have it looked at with others soon; a subscriber's medoid is asked for again."""
        client = self._object(decision)
        self._reclustering.add(client, decision)
        is_away = not client.broker or client.broker in self._assignments.dead
        if client.kind == "publisher" or is_away:
            return Outcome(decision, Status.DECIDED)
        report = administration.Report("subscribers", clients=(client.name,))
        ask = Instruct(client.broker, url_of(client.broker, self._mib), report)
        return Outcome(decision, Status.DECIDED, effects=(ask, Announce(Recluster(client.name))))

    # Requests.

    def _request(self, decision: Decision, now: float) -> Outcome:
        interval, groups = (decision.parameters.get(name) for name in ("interval", "groups"))
        texts = decision.parameters.get("texts", decision.action == "request-subscriptions" or None)
        what = REQUESTS[decision.action]
        report = administration.Report(what, interval or 0.0, groups, texts=texts)
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
        ask = Announce(RequestPublisherMedoids())
        return Outcome(decision, Status.DONE, "asked all publishers", (ask,))

    # Brokers and the plan.

    def _move_broker(self, decision: Decision, now: float) -> Outcome:
        found = self._object(decision)
        to = str(decision.parameters["to"])
        if to == found.name:
            raise InvalidInputError(f"{to} cannot move below itself")
        if to == found.parent:
            return Outcome(decision, Status.UNCHANGED, f"below {to} already")
        move = Instruct(found.name, found.address, administration.MoveBroker(url_of(to, self._mib)))
        note = PlacementNote("broker", found.name, to, before=found.parent or None)
        way = f"from {found.parent or 'nobody'} to {to}"
        return Outcome(decision, Status.DONE, way, (move,), (note,))

    def _split_broker(self, decision: Decision, now: float) -> Outcome:
        return self._brokers.split(self._object(decision), decision, now)

    def _cluster_brokers(self, decision: Decision, now: float) -> Outcome:
        one = decision.name is not None
        brokers = [self._object(decision)] if one else list(self._mib.objects("broker"))
        return self._brokers.move(brokers, decision)

    def _balance_load(self, decision: Decision, now: float) -> Outcome:
        plan = self._assignments.plan
        if plan is None:
            return Outcome(decision, Status.FAILED, "no plan is made yet")
        if self._assignments.is_fixed:
            return Outcome(decision, Status.FAILED, "the plan is given, and stays")
        loads: Counter[str] = Counter()
        for medoid, count in self._counts.by_medoid().items():
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
            clients, deliveries = self._counts.by_medoid(), self._deliveries()
            changed = (
                self._assignments.by_traffic(deliveries, clients, self._load_max)
                if planner == "traffic"
                else self._assignments.by_planner(planner, deliveries, clients)
            )
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

    def _object(self, decision: Decision) -> ManagedObject:
        found = None if decision.name is None else self._mib.get(decision.kind, decision.name)
        if found is None:
            raise InvalidInputError(f"there is no {decision.kind} {decision.name!r} any more")
        return found
