"""Broker clustering: a broker's smaller group of clients goes elsewhere, or the broker does.

What had best be done `kbn.placement.broker_clustering` says; here it is made of what the MIB knows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from kbn.broker import administration
from kbn.errors import InvalidInputError
from kbn.management.action_log import Status
from kbn.management.assignments import Assignments
from kbn.management.client_counts import ClientCounts
from kbn.management.engine import Decision
from kbn.management.instructions import PlacementNote
from kbn.management.managed_object import ManagedObject
from kbn.management.mib import Mib
from kbn.management.outcomes import Instruct, Outcome, url_of
from kbn.management.reclustering import REASSIGNED
from kbn.placement import (
    NEIGHBOURS_MAX,
    BrokerMove,
    Group,
    SemanticMap,
    Split,
    apart_from,
    propose_move,
    propose_split,
)


class BrokerClustering:
    """Carries out `split-broker` and `cluster-brokers`; `semantic_map` makes the map when asked."""

    def __init__(
        self,
        mib: Mib,
        assignments: Assignments,
        counts: ClientCounts,
        load_max: float,
        semantic_map: Callable[[], SemanticMap],
    ) -> None:
        self._mib = mib
        self._assignments = assignments
        self._counts = counts
        self._load_max = load_max
        self._map = semantic_map

    # A group of clients goes elsewhere.

    def split(self, broker: ManagedObject, decision: Decision, now: float) -> Outcome:
        """Send the smaller of two groups that lie apart to the broker that suits it."""
        groups = [
            Group(each["medoid"], each["spread"], each["subscribers"]) for each in broker.groups
        ]
        medoids = {
            each.name: each.medoid
            for each in self._mib.objects("broker")
            if each.medoid and each.name != broker.name and self._is_open(each.name)
        }
        try:
            found = propose_split(groups, medoids, self._room(now), self._map())
        except InvalidInputError as error:  # a medoid of another ontology, for a moment
            return Outcome(decision, Status.UNCHANGED, str(error))
        if found is None:
            detail = "no group lies apart for which another broker with room suits better"
            return Outcome(decision, Status.UNCHANGED, detail)
        going = self._members(broker.name, found)
        if not going:
            return Outcome(decision, Status.UNCHANGED, "its clients are elsewhere by now")
        return self._send(broker, going, found, decision, now)

    def _is_open(self, broker: str) -> bool:
        is_used = broker not in self._assignments.spare and broker not in self._assignments.dead
        return is_used and broker in self._assignments.brokers

    def _room(self, now: float) -> dict[str, float]:
        load, brokers = self._counts.by_broker(now), self._assignments.brokers
        limit = self._load_max * load.total() / max(1, len(brokers))
        return {name: limit - load[name] for name in brokers}

    def _members(self, broker: str, split: Split) -> list[str]:
        """The subscribers of a broker that are nearer to the medoid of the group that goes."""
        here = [
            each
            for each in self._mib.objects("subscriber")
            if each.broker == broker and each.medoid and each.placed_on in ("", broker)
        ]
        medoids = sorted({each.medoid for each in here})
        ways = (apart_from(term, medoids, self._map()) for term in (split.medoid, split.rest))
        nearer = {m for m, one, other in zip(medoids, *ways, strict=True) if one < other}
        return [each.name for each in here if each.medoid in nearer]

    def _send(
        self, broker: ManagedObject, going: list[str], split: Split, decision: Decision, now: float
    ) -> Outcome:
        fits = int(self._room(now)[split.to])
        if len(going) > fits:  # more have come since the broker reported
            return Outcome(decision, Status.UNCHANGED, f"{split.to} has room for {fits} only")
        url = url_of(split.to, self._mib)
        move = administration.MoveClients(split.to, url, tuple(going))
        for name in going:
            self._counts.sent(broker.name, split.to)
            self._mib.placed("subscriber", name, split.to, now)
            self._mib.mark("subscriber", name, REASSIGNED)
        notes = tuple(
            PlacementNote("subscriber", name, split.to, is_reassigned=True, before=broker.name)
            for name in going
        )
        detail = f"{len(going)} about {split.medoid} from {broker.name} to {split.to}"
        instruct = Instruct(broker.name, url_of(broker.name, self._mib), move)
        return Outcome(decision, Status.DONE, detail, (instruct,), notes)

    # The broker goes elsewhere.

    def move(self, brokers: Iterable[ManagedObject], decision: Decision) -> Outcome:
        """Have the one of these brokers hang where its partners are that saves most hops so."""
        most = int(decision.parameters.get("neighbours_max", NEIGHBOURS_MAX))
        traffic = self._traffic()
        found = [
            (each.before - each.hops, broker.name, broker, each)
            for broker in brokers
            if (each := self._best_move(broker, traffic, most)) is not None
        ]
        if not found:
            detail = "no broker saves hops by hanging elsewhere"
            return Outcome(decision, Status.UNCHANGED, detail)
        _, _, broker, best = max(found, key=lambda each: each[:2])
        return self._hang(broker, best, decision)

    def _best_move(
        self, broker: ManagedObject, traffic: dict[tuple[str, str], float], most: int
    ) -> BrokerMove | None:
        known = self._assignments
        if broker.name not in known.brokers or broker.name in known.dead:
            return None
        hangs_on = [broker.parent] if broker.parent else list(broker.links)
        found = [
            propose_move(
                broker.name, leaving, known.distances, known.links, traffic,
                closed=known.dead, neighbours_max=most,
            )
            for leaving in hangs_on
            if (min(broker.name, leaving), max(broker.name, leaving)) in known.links
        ]  # fmt: skip
        better = (each for each in found if each is not None)
        return max(better, key=lambda each: each.before - each.hops, default=None)

    def _hang(self, broker: ManagedObject, best: BrokerMove, decision: Decision) -> Outcome:
        url = url_of(best.to, self._mib)
        request = administration.MoveBroker(url, None if broker.parent else best.leaving)
        instruct = Instruct(broker.name, url_of(broker.name, self._mib), request)
        way = f"{broker.name} from {best.leaving} to {best.to}"
        detail = f"{way}: {best.hops:g} hops for what took {best.before:g}"
        note = PlacementNote("broker", broker.name, best.to, before=best.leaving)
        return Outcome(decision, Status.DONE, detail, (instruct,), (note,))

    def _traffic(self) -> dict[tuple[str, str], float]:
        """What was delivered, by the broker of the publisher and that of the subscriber."""
        known = set(self._assignments.brokers)
        found: dict[tuple[str, str], float] = defaultdict(float)
        for recipient in self._mib.recipients():
            for name, count in recipient.publishers.items():
                publisher = self._mib.get("publisher", name)
                if publisher is not None and {publisher.broker, recipient.broker} <= known:
                    found[publisher.broker, recipient.broker] += count
        return found
