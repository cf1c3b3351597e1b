"""The arrangement of a group: clusters of publishers, and in each the tree of its subscribers.

Publishers and subscriptions come and go, delays are reported, peers crash: each is a method. What
changes for whom is collected and taken by the coordinator, which tells the peers. Nothing here
knows of connections.

A subscription is one filter or several. The attributes of a filter are its combination, and the
cluster that holds the combination is where its peer becomes a member, once for all its filters
there. The bound of a member is the tightest of its subscriptions. A newcomer first measures some
members of the tree; then it joins it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import ceil, sqrt

from kbn.errors import InvalidInputError
from kbn.filters import Constraint, Filter
from kbn.grouping import Bound, Combination, Groups, MeasuredLinks, Moves
from kbn.peering.cluster import PUBLISHERS_MEASURED, SOURCE, Cluster, Joining
from kbn.peering.messages import DELAY_MAX_S, Promise, State

MEASURE_S = 5.0
SAMPLES_MIN = 48
"""With fewer measurements of a link nothing near 95 % can be promised."""
CANDIDATES = 8
RECENT_MAX = 4000
JUDGED_MIN = 200
TOLERANCE_SIGMAS = 3.3


@dataclass(slots=True)
class Wanted:
    """One subscription of a peer, and how it is kept."""

    id: int
    filters: tuple[Filter, ...]
    bound: Bound | None
    combinations: frozenset[Combination] = frozenset()
    delivered: int = 0
    in_time: int = 0
    recent: int = 0
    recent_in_time: int = 0
    told: Promise | None = None

    def count(self, delivered: int, in_time: int) -> None:
        self.delivered += delivered
        self.in_time += in_time
        self.recent += delivered
        self.recent_in_time += in_time
        if self.recent > RECENT_MAX:  # what was long ago says little of now
            self.recent //= 2
            self.recent_in_time //= 2

    @property
    def is_broken(self) -> bool:
        """Whether the bound is kept less often than promised, and not by mere chance."""
        if self.bound is None or self.recent < JUDGED_MIN:
            return False
        p = self.bound.probability
        chance = TOLERANCE_SIGMAS * sqrt(p * (1 - p) / self.recent)
        return self.recent_in_time / self.recent < p - chance

    def judge_anew(self) -> None:
        self.recent = self.recent_in_time = 0


@dataclass(slots=True)
class Subscriber:
    """A peer that wants something; `slots` are for all its clusters together."""

    name: str
    slots: int
    wanted: dict[int, Wanted] = field(default_factory=dict)
    clusters: dict[int, int] = field(default_factory=dict)  # with the slots given to each


@dataclass(slots=True)
class Changes:
    """Who is to be told something: members, publishers, subscribers; and what to measure."""

    placed: dict[tuple[str, int], None] = field(default_factory=dict)
    sending: set[str] = field(default_factory=set)
    promised: dict[str, None] = field(default_factory=dict)
    measure: dict[str, dict[str, None]] = field(default_factory=dict)


class Arrangement:
    """Who is in which cluster, and who feeds whom."""

    def __init__(self, strategy: str = "4") -> None:
        self.groups = Groups(strategy=strategy)
        self.links = MeasuredLinks(value_max=DELAY_MAX_S)
        self.clusters: dict[int, Cluster] = {}
        self.subscribers: dict[str, Subscriber] = {}
        self.arrivals: dict[str, int] = {}
        self.sending: dict[str, tuple[int, ...]] = {}
        self._wanting: dict[Combination, dict[tuple[str, int], None]] = {}
        self._cluster_of: dict[Combination, int | None] = {}
        self._arrived = 0
        self._known_as: dict[int, int] = {}
        self._to_restore: dict[int, list[tuple[str, str, Bound | None, int]]] = {}
        self.held: dict[tuple[str, int], str] = {}  # peer and cluster: its parent, as it says
        self._changes = Changes()
        self.now = 0.0  # whoever calls us says what time it is

    def take_changes(self) -> Changes:
        """What has changed since the last time."""
        taken, self._changes = self._changes, Changes()
        return taken

    # Publishers.

    def advertise(
        self, name: str, attributes: Iterable[str], connections: int | None, arrived: int = 0
    ) -> None:
        """A publisher comes, or publishes something else from now on."""
        names = frozenset(attributes)
        if name in self.arrivals:
            if not names:
                self.stop_publishing(name)
                return
            known = (self.groups.attributes_of(name), self.groups.limits[name])
            if known == (names, connections):
                return
            self.groups.change(name, names, connections)
        elif names:
            self.groups.arrive(name, names, connections)
            self._arrived = max(self._arrived + 1, arrived)
            self.arrivals[name] = arrived or self._arrived
        self._regroup()
        self._changes.sending.add(name)

    def stop_publishing(self, name: str) -> None:
        if self.arrivals.pop(name, None) is None:
            return
        self.groups.depart(name)
        self.sending.pop(name, None)
        self._regroup()
        self._changes.sending.add(name)

    # Subscribers.

    def want(self, name: str, slots: int, wanted: Wanted) -> None:
        """A peer subscribes; again under the same number, to something else."""
        subscriber = self.subscribers.get(name)
        if subscriber is None:
            subscriber = self.subscribers[name] = Subscriber(name, slots)
        if wanted.id in subscriber.wanted:
            known = subscriber.wanted[wanted.id]
            if (known.filters, known.bound) == (wanted.filters, wanted.bound):
                self._changes.promised[name] = None
                known.told = None
                return
            self.unwant(name, wanted.id)
            subscriber = self.subscribers.setdefault(name, subscriber)
        wanted.combinations = frozenset(
            frozenset(constraint.attribute for constraint in each) for each in wanted.filters
        )
        for combination in wanted.combinations:
            self.groups.subscribe((name, wanted.id, combination), combination)
            self._wanting.setdefault(combination, {})[name, wanted.id] = None
        subscriber.wanted[wanted.id] = wanted
        self._regroup()
        self._join_clusters(subscriber)
        self._changes.promised[name] = None

    def unwant(self, name: str, id: int) -> None:
        subscriber = self.subscribers.get(name)
        wanted = None if subscriber is None else subscriber.wanted.pop(id, None)
        if subscriber is None or wanted is None:
            return
        for combination in wanted.combinations:
            self.groups.unsubscribe((name, id, combination))
            wanting = self._wanting[combination]
            wanting.pop((name, id), None)
            if not wanting:
                del self._wanting[combination]
                self._cluster_of.pop(combination, None)
        self._regroup()
        self._join_clusters(subscriber)
        if not subscriber.wanted:
            self.subscribers.pop(name, None)

    def remove(self, name: str) -> None:
        """A peer is gone, for good or by a crash: its children are adopted."""
        self.crash(name)
        subscriber = self.subscribers.get(name)
        if subscriber is not None:
            for id in [*subscriber.wanted]:
                self.unwant(name, id)
        self.stop_publishing(name)
        self.links.forget(name)

    def crash(self, name: str) -> None:
        """A member feeds nobody any more: others do that. It may come back and join again."""
        subscriber = self.subscribers.get(name)
        if subscriber is not None:
            for number in [*subscriber.clusters]:
                self._leave(subscriber, number)

    def _leave(self, subscriber: Subscriber, number: int) -> None:
        name, cluster = subscriber.name, self.clusters[number]
        subscriber.clusters.pop(number, None)
        cluster.joining.pop(name, None)
        cluster.parents_told.pop(name, None)
        self._changes.placed[name, number] = None
        if name in cluster.tree:
            self._moved(cluster, cluster.tree.crash(name))
            self._adopt(cluster)
        cluster.links.forget(name)
        if not len(cluster.tree) and not cluster.joining:
            del self.clusters[number]

    def come_back(self, name: str) -> None:
        """A member that was taken for dead joins again where it belongs."""
        subscriber = self.subscribers.get(name)
        if subscriber is not None:
            self._join_clusters(subscriber)

    # Clusters and their members.

    def _regroup(self) -> None:
        """Follow the clusters: combinations may be in others now, publishers send to others."""
        moved = False
        for combination in self._wanting:
            number = self._number_of(combination)
            if combination not in self._cluster_of or self._cluster_of[combination] != number:
                self._cluster_of[combination] = number
                moved = True
        for name, used in self.groups.connections.items():
            numbers = tuple(self._public(number) for number in used)
            if self.sending.get(str(name)) != numbers:
                self.sending[str(name)] = numbers
                self._changes.sending.add(str(name))
                moved = True
        if not moved:
            return
        for cluster in [*self.clusters.values()]:
            self._set_publishers(cluster)
        for subscriber in [*self.subscribers.values()]:
            if self._clusters_for(subscriber).keys() != subscriber.clusters.keys():
                self._join_clusters(subscriber)

    def _number_of(self, combination: Combination) -> int | None:
        number = self.groups.cluster_of(combination)
        return None if number is None else self._public(number)

    def _public(self, number: int) -> int:
        """The number that peers know a cluster by: another, if a former coordinator made it."""
        if number not in self._known_as:
            taken = set(self._known_as.values())
            self._known_as[number] = number if number not in taken else max(taken) + 1
        return self._known_as[number]

    def restore_numbers(self, held: Iterable[tuple[Combination, int]]) -> None:
        """Call clusters by the numbers under which peers are in them."""
        votes: dict[int, Counter[int]] = {}
        for combination, known_as in held:
            number = self.groups.cluster_of(combination)
            if number is not None:
                votes.setdefault(number, Counter())[known_as] += 1
        self._known_as = {}
        taken: set[int] = set()
        for number, counts in sorted(votes.items(), key=lambda each: -each[1].total()):
            free = [known_as for known_as, _ in counts.most_common() if known_as not in taken]
            if free:
                self._known_as[number] = free[0]
                taken.add(free[0])
        self._regroup()

    def restore_places(self) -> None:
        """Have those be where they say they are who came since `held` was set."""
        to_restore, self._to_restore, self.held = self._to_restore, {}, {}
        for number, told in to_restore.items():
            cluster = self.clusters[number]
            for peer, parent, _, _ in told:
                cluster.links.assume(peer, [parent])
            cluster.tree.restore(told)
            self._moved(cluster, cluster.tree.attach_waiting())
            self._adopt(cluster)
            for peer, _, _, _ in told:
                self._changes.placed[peer, number] = None
                self._changes.promised[peer] = None
                others = [str(cluster.tree.parent_of(peer))]
                if cluster.is_root(peer):
                    others = self._publishers_to_measure(cluster)
                self._ask_to_measure(cluster, peer, others)

    def _set_publishers(self, cluster: Cluster) -> None:
        there = tuple(name for name, numbers in self.sending.items() if cluster.number in numbers)
        if there == cluster.links.publishers:
            return
        cluster.links.publishers = there
        cluster.links.changed()
        roots = [str(each) for each in cluster.tree.children_of(SOURCE)]
        for root in roots:
            self._changes.placed[root, cluster.number] = None
            self._ask_to_measure(cluster, root, self._publishers_to_measure(cluster))
            cluster.links.assume(root, [SOURCE])
        cluster.tree.measured_again(roots)

    def _clusters_for(self, subscriber: Subscriber) -> dict[int, list[Filter]]:
        """The clusters a peer belongs to, and by which of its filters."""
        found: dict[int, list[Filter]] = {}
        for wanted in subscriber.wanted.values():
            for each in wanted.filters:
                combination = frozenset(constraint.attribute for constraint in each)
                number = self._cluster_of.get(combination)
                if number is not None:
                    found.setdefault(number, []).append(each)
        return found

    def filters_of(self, name: str, number: int) -> list[Filter]:
        """The filters by which a peer is in a cluster."""
        subscriber = self.subscribers.get(name)
        return [] if subscriber is None else self._clusters_for(subscriber).get(number, [])

    def _join_clusters(self, subscriber: Subscriber) -> None:
        """Have a peer be in the clusters it belongs to, and in no others."""
        belongs = self._clusters_for(subscriber)
        old = [number for number in subscriber.clusters if number not in belongs]
        for number in old:
            self._leave(subscriber, number)
        new = [number for number in belongs if number not in subscriber.clusters]
        for place, number in enumerate(new):
            left = subscriber.slots - sum(subscriber.clusters.values())
            subscriber.clusters[number] = ceil(left / (len(new) - place))
            # Who is moved goes on hearing: a place at once, and measurements afterwards.
            self._begin_joining(subscriber, number, at_once=bool(old))
        for number in belongs:
            if number not in new:
                self._changes.placed[subscriber.name, number] = None  # other filters, perhaps
                self._bound_changed(subscriber, number)
        self._changes.promised[subscriber.name] = None

    def _bound_changed(self, subscriber: Subscriber, number: int) -> None:
        cluster, bound = self.clusters[number], self._bound_in(subscriber, number)
        if subscriber.name in cluster.joining:
            cluster.joining[subscriber.name].bound = bound
        elif subscriber.name in cluster.tree and cluster.tree.bound_of(subscriber.name) != bound:
            slots = subscriber.clusters[number]
            self._moved(cluster, cluster.tree.leave(subscriber.name))
            self._moved(cluster, cluster.tree.join(subscriber.name, bound, slots).moves)
            self._adopt(cluster)

    def _bound_in(self, subscriber: Subscriber, number: int) -> Bound | None:
        """The tightest bound of those subscriptions of a peer that lead it to a cluster."""
        bounds = [
            wanted.bound
            for wanted in subscriber.wanted.values()
            if wanted.bound is not None
            and any(self._cluster_of.get(each) == number for each in wanted.combinations)
        ]
        if not bounds:
            return None
        return Bound(min(each.within for each in bounds), max(each.probability for each in bounds))

    def _begin_joining(self, subscriber: Subscriber, number: int, at_once: bool) -> None:
        cluster = self.clusters.get(number)
        if cluster is None:
            cluster = self.clusters[number] = Cluster.empty(number, self.links)
            self._set_publishers(cluster)
        name, bound = subscriber.name, self._bound_in(subscriber, number)
        held = self.held.get((name, number))
        if held is not None:
            told = (name, held, bound, subscriber.clusters[number])
            self._to_restore.setdefault(number, []).append(told)
            return
        wanted = self._to_measure(cluster, name, bound)
        joining = Joining(bound, subscriber.clusters[number], self.now + MEASURE_S, tuple(wanted))
        if not wanted or at_once:
            self._join(cluster, name, joining)
            self._ask_to_measure(cluster, name, wanted)
            return
        cluster.joining[name] = joining
        self._ask_to_measure(cluster, name, wanted)

    def _to_measure(self, cluster: Cluster, name: str, bound: Bound | None) -> list[str]:
        """Whom a newcomer should measure and has not: some members, and publishers."""
        members = [str(each) for each in cluster.tree.candidates(CANDIDATES, bound)]
        others = [each for each in members if each not in (SOURCE, name)]
        others += self._publishers_to_measure(cluster)
        return cluster.links.unmeasured(name, dict.fromkeys(others))

    def _publishers_to_measure(self, cluster: Cluster) -> list[str]:
        return list(cluster.links.publishers[:PUBLISHERS_MEASURED])

    def _ask_to_measure(self, cluster: Cluster, name: str, others: Iterable[str]) -> None:
        for other in cluster.links.unmeasured(name, others):
            self._changes.measure.setdefault(name, {})[other] = None

    def _join(self, cluster: Cluster, name: str, joining: Joining) -> None:
        if len(cluster.links.publishers) > PUBLISHERS_MEASURED or not len(cluster.tree):
            cluster.links.assume(name, [SOURCE])
        self._moved(cluster, cluster.tree.join(name, joining.bound, joining.slots).moves)
        self._adopt(cluster)

    def _adopt(self, cluster: Cluster) -> None:
        """Give those a place who have none, and have them measure it afterwards."""
        moves = cluster.adopt_waiting()
        self._moved(cluster, moves)
        for peer, parent in moves.items():
            others = self._publishers_to_measure(cluster) if parent == SOURCE else [str(parent)]
            self._ask_to_measure(cluster, str(peer), others)

    def _moved(self, cluster: Cluster, moves: Moves) -> None:
        for peer in moves:
            name = str(peer)
            self._changes.placed[name, cluster.number] = None
            self._changes.promised[name] = None
            for wanted in self._wanted_of(name):
                wanted.judge_anew()

    def _wanted_of(self, name: str) -> Iterable[Wanted]:
        subscriber = self.subscribers.get(name)
        return () if subscriber is None else subscriber.wanted.values()

    # Measurements, and what follows from them.

    def measured(self, name: str, links: Iterable[tuple[str, tuple[float, ...]]]) -> None:
        """A peer reports delays from others to it; InvalidInputError for impossible ones."""
        counted = []
        for other, samples in links:
            if other != name:
                self.links.report(name, other, samples)
                counted.append((other, len(samples)))
        if not counted:
            return
        for cluster in self.clusters.values():
            if name in cluster.tree or name in cluster.joining:
                cluster.links.changed([name])
                if name in cluster.tree:
                    cluster.tree.measured_again([name])
                    self._changes.promised[name] = None
            if name in cluster.joining:
                cluster.joining[name].samples.update(dict(counted))
                self._join_if_measured(cluster, name)

    def _join_if_measured(self, cluster: Cluster, name: str) -> None:
        joining = cluster.joining[name]
        if all(joining.samples[other] >= SAMPLES_MIN for other in joining.candidates):
            del cluster.joining[name]
            cluster.links.changed([name])
            self._join(cluster, name, joining)

    def avoid(self, name: str, parent: str, number: int) -> None:
        """A member cannot reach its parent: it gets another, whatever was measured."""
        cluster = self.clusters.get(number)
        if cluster is None or name not in cluster.tree or parent not in cluster.parents_of(name):
            return
        self.links.report(name, parent, [DELAY_MAX_S] * 64)
        cluster.links.changed([name])
        subscriber = self.subscribers[name]
        bound, slots = cluster.tree.bound_of(name), subscriber.clusters[number]
        self._moved(cluster, cluster.tree.leave(name))
        self._moved(cluster, cluster.tree.join(name, bound, slots).moves)
        self._adopt(cluster)

    def tick(self) -> None:
        """Have those join who measured long enough."""
        for cluster in [*self.clusters.values()]:
            late = [name for name, each in cluster.joining.items() if self.now >= each.until]
            for name in late:
                joining = cluster.joining.pop(name)
                self._join(cluster, name, joining)

    def repair(self) -> None:
        """Look after bounds that are not kept: other places, and more candidates to measure."""
        for cluster in self.clusters.values():
            moves = cluster.tree.repair(tries=100)
            self._moved(cluster, moves)
            self._adopt(cluster)
            for _, child in cluster.tree.edges():
                name = str(child)
                if not cluster.tree.is_satisfied(name):
                    bound = cluster.tree.bound_of(name)
                    self._ask_to_measure(cluster, name, self._to_measure(cluster, name, bound))

    def wanted_in(self, number: int) -> dict[Combination, int]:
        """How many subscriptions there are in a cluster, by what they ask for."""
        return {
            combination: len(wanting)
            for combination, wanting in self._wanting.items()
            if self._cluster_of.get(combination) == number
        }

    def clusters_of(self, wanted: Wanted) -> set[int]:
        """The clusters that a subscription leads to."""
        found = (self._cluster_of.get(each) for each in wanted.combinations)
        return {number for number in found if number is not None}

    # What is promised.

    def promise(self, name: str, wanted: Wanted) -> Promise:
        """How a subscription stands."""
        numbers = {self._cluster_of.get(each) for each in wanted.combinations}
        if None in numbers:
            return _promise(wanted, "waiting", 0.0, 0.0, "nobody advertises these attributes yet")
        clusters = [self.clusters.get(number) for number in numbers if number is not None]
        arrivals = [
            cluster.tree.arrival(name) if cluster is not None and name in cluster.tree else None
            for cluster in clusters
        ]
        if any(cluster is None or name in cluster.joining for cluster in clusters):
            return _promise(wanted, "waiting", 0.0, 0.0, "its delays are being measured")
        found = [each for each in arrivals if each is not None]
        if len(found) < len(arrivals):
            reason = "no peer has a free slot: more slots are needed (--slots)"
            return _promise(wanted, "waiting", 0.0, 0.0, reason)
        if wanted.bound is None:
            return _promise(wanted, "best effort", 0.0, 0.0, "no bound was asked for")
        if not all(cluster.is_measured(name) for cluster in clusters if cluster is not None):
            return _promise(wanted, "waiting", 0.0, 0.0, "its delays are being measured")
        within, probability = wanted.bound.within, wanted.bound.probability
        predicted = min(each.within(within) for each in found)
        best = max(each.quantile(probability) for each in found)
        if predicted < probability - 1e-9:
            reason = f"within {within:g} s only {predicted:.1%} are expected, on the best way found"
            return _promise(wanted, "best effort", predicted, best, reason)
        if wanted.is_broken:
            share = wanted.recent_in_time / wanted.recent
            reason = f"of the last {wanted.recent} only {share:.1%} came within {within:g} s"
            return _promise(wanted, "best effort", predicted, best, reason)
        return _promise(wanted, "admitted", predicted, best)


def _promise(
    wanted: Wanted, state: State, predicted: float, best_s: float, reason: str = ""
) -> Promise:
    return Promise(
        wanted.id, state, min(1.0, max(0.0, predicted)), min(best_s, DELAY_MAX_S), reason
    )


def warm_up() -> None:
    """Arrange a small group, so that all kernels are compiled before anybody waits for them."""
    arrangement = Arrangement()
    arrangement.advertise("sender", ["x"], 1)
    wanted = Filter([Constraint("x", "any")])
    for name in ("one", "other"):
        arrangement.want(name, 1, Wanted(1, (wanted,), Bound(1.0)))
        links = [(each, (0.01, 0.02) * 32) for each in ("sender", "one", "other") if each != name]
        arrangement.measured(name, links)
    arrangement.now = 2 * MEASURE_S
    arrangement.tick()
    arrangement.repair()


def bound_of(within_s: float, probability: float) -> Bound | None:
    """The bound in a message; None when there is none."""
    if not within_s:
        return None
    if not 0.5 <= probability < 1:
        raise InvalidInputError(f"a probability is from 0.5 to under 1, not {probability:g}")
    return Bound(within_s, probability)
