"""Assignments: which clusters each broker of an overlay holds, and where a client belongs."""

from __future__ import annotations

import json
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping
from math import inf
from typing import Any

import numpy as np

from kbn.errors import InvalidInputError
from kbn.ontology import Ontology
from kbn.placement import Distances, Plan, overlay_distances, plan, rate_plan

STABLE_FOR_S = 1.0
"""Brokers must be the same for so long before clusters are laid out for them."""
WORTH_IT = 0.9
"""A plan by traffic must pass at most this part of the hops of the one before."""
AWAY_AFTER_S = 100.0
"""A broker that was not heard of for so long has no clusters: it says every 30 s that it lives."""


class Assignments:
    """Lays the clusters of `ontology` over the brokers that are there.

    A `fixed` plan is used as it is. Spare brokers are there and have no clusters. Those that are
    `dead` keep theirs, and nobody is sent there: whoever belongs to one stays where it is. A plan
    without them would have everybody move, and moves wait for dead brokers. One that nobody has as
    a neighbour any more is retired: others get its clusters.
    """

    def __init__(self, ontology: Ontology, fixed: Plan | None = None) -> None:
        self.ontology = ontology
        self.is_fixed = fixed is not None
        self.plan = fixed
        self.spare: set[str] = set()
        self.dead: frozenset[str] = frozenset()
        self._links: dict[str, tuple[str, ...]] = {}
        self._parents: dict[str, str | None] = {}
        self._heard_at: dict[str, float] = {}
        self._awaited_since: dict[str, float] = {}
        self._changed_at: float | None = None
        self._brokers: tuple[str, ...] | None = None
        self._distances: Distances | None = None

    @property
    def clusters(self) -> int:
        """How many clusters there are."""
        return 0 if self.plan is None else len(self.plan.clusters)

    @property
    def brokers(self) -> tuple[str, ...]:
        """The brokers that are there, the top of the hierarchy first."""
        if self._brokers is None:
            self._brokers = tuple(_from_the_top(self._parents, self._links))
        return self._brokers

    @property
    def links(self) -> list[tuple[str, str]]:
        """The links between brokers that are there, each once."""
        known = self._links
        pairs = ((one, other) for one in known for other in known[one] if other in known)
        return sorted({(min(pair), max(pair)) for pair in pairs})

    @property
    def said_links(self) -> Mapping[str, tuple[str, ...]]:
        """For each broker that is there the names of its neighbours, as it has said.

        One that was not heard of, and that others name, has those as neighbours.
        """
        named = {name: self._naming(name) for name in self._unheard()}
        return {**named, **self._links}

    def _unheard(self) -> set[str]:
        return {name for links in self._links.values() for name in links} - self._links.keys()

    def _naming(self, broker: str) -> tuple[str, ...]:
        return tuple(name for name, links in self._links.items() if broker in links)

    @property
    def distances(self) -> Distances:
        """How many brokers are passed from one to another."""
        if self._distances is None:
            self._distances = overlay_distances(self.brokers, self.links)
        return self._distances

    def distances_among(self, brokers: Iterable[str]) -> Distances:
        """The same between some of them only; others may lie on the way."""
        named, known = tuple(brokers), self.distances
        at = [known.place(broker) for broker in named]
        return Distances(named, known.links[np.ix_(at, at)])

    def heard_of(self, broker: str, parent: str | None, links: Iterable[str], now: float) -> None:
        """A broker is there, with these links."""
        links = tuple(links)
        if (self._parents.get(broker, ""), self._links.get(broker)) != (parent, links):
            self._parents[broker], self._links[broker] = parent, links
            self._change(now)
        self._heard_at[broker] = now

    def listen_again(self, now: float) -> None:
        """Nobody could be heard until now: give each broker its time to say that it is there."""
        self._heard_at = dict.fromkeys(self._heard_at, now)

    def lost(self, broker: str, now: float) -> None:
        """A broker is not there any more."""
        if self._heard_at.pop(broker, None) is not None:
            del self._parents[broker], self._links[broker]
            self._awaited_since[broker] = -inf
            self._change(now)

    def set_spare(self, broker: str, now: float, *, is_spare: bool) -> None:
        """Have a broker hold no clusters, or hold some again."""
        if (broker in self.spare) is not is_spare:
            (self.spare.add if is_spare else self.spare.discard)(broker)
            self._change(now)

    def look(self, now: float) -> bool:
        """Drop brokers that are gone, and plan anew for those there; whether the plan changed."""
        for broker in [each for each in self._heard_at if self._is_gone(each, now)]:
            self.lost(broker, now)
        if self._changed_at is None or now - self._changed_at < STABLE_FOR_S:
            return False
        planned, used = set(() if self.plan is None else self.plan.brokers), set(self._used())
        if planned > used and planned <= used | self._awaited(now):
            return False  # and look again
        self._changed_at = None
        return planned != used and self.by_taxonomy()

    def _is_gone(self, broker: str, now: float) -> bool:
        if broker in self.dead:
            return not self._naming(broker)
        return now - self._heard_at[broker] > AWAY_AFTER_S

    def _awaited(self, now: float) -> set[str]:
        """Brokers that were not heard of since we began, and that others have as neighbours.

        They are dead, or have some time to say that they are there.
        """
        since = self._awaited_since
        since = self._awaited_since = {name: since.get(name, now) for name in self._unheard()}
        return {name for name, at in since.items() if name in self.dead or now - at <= AWAY_AFTER_S}

    def by_taxonomy(self) -> bool:
        """Lay the hierarchy of clusters over that of brokers; whether the plan changed."""
        used = self._used()
        return bool(used) and not self.is_fixed and self.use(plan(self.ontology, used))

    def by_planner(
        self,
        planner: str,
        deliveries: Mapping[tuple[str, str], float],
        clients: Mapping[str, float],
    ) -> bool:
        """Lay clusters as a planner of another system does; whether the plan changed."""
        used = self._used()
        if self.is_fixed or not used:
            return False
        known: dict[str, dict[str, Any]] = {
            "balanced": {"clients": clients}, "topic": {"deliveries": deliveries},
        }  # fmt: skip
        return self.use(plan(self.ontology, used, planner, **known.get(planner, {})))

    def by_traffic(
        self,
        deliveries: Mapping[tuple[str, str], float],
        clients: Mapping[str, float],
        load_max: float,
    ) -> bool:
        """Lay clusters so that what was delivered takes fewer hops; whether the plan changed.

        It changes for a clear gain only, because everybody has to move then.
        """
        used = self._used()
        if self.is_fixed or not used or not deliveries:
            return False
        new = plan(
            self.ontology, used, "traffic", links=_among(used, self.links),
            deliveries=deliveries, clients=clients, load_max=load_max,
        )  # fmt: skip
        if self.plan is not None and set(self.plan.brokers) == set(used):
            apart = self.distances_among(used)
            then = rate_plan(new, apart, deliveries, clients, load_max)
            now = rate_plan(self.plan, apart, deliveries, clients, load_max)
            if then.excess >= now.excess and then.hops > WORTH_IT * now.hops:
                return False
        return self.use(new)

    def text(self) -> str:
        """The plan and the spare brokers, to be kept or told; see `resume`."""
        known = self.plan
        clusters = () if known is None else known.clusters
        said = {
            "brokers": [] if known is None else known.brokers,
            "clusters": {each.key: [each.broker, *each.helpers] for each in clusters},
            "spare": sorted(self.spare),
        }
        return json.dumps(said)

    def resume(self, text: str) -> None:
        """Go by what `text` had said; InvalidInputError when it is for another ontology."""
        try:
            said = json.loads(text)
            assignments = {str(key): tuple(map(str, on)) for key, on in said["clusters"].items()}
            brokers, spare = [str(each) for each in said["brokers"]], set(map(str, said["spare"]))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise InvalidInputError(f"a plan that cannot be read: {error!r:.100}") from None
        if self.is_fixed:
            return
        self.spare = spare
        if brokers:
            self.plan = plan(self.ontology, brokers, lambda parts, brokers: assignments)

    def _used(self) -> list[str]:
        return [broker for broker in self.brokers if broker not in self.spare]

    def use(self, new: Plan) -> bool:
        """Go by another plan; whether it is another."""
        is_new = self.plan is None or self.plan.clusters != new.clusters
        self.plan = new
        return is_new

    def brokers_for(self, medoid: str | None) -> tuple[str, ...]:
        """The brokers of the cluster a medoid is in; none when it is in none."""
        return () if self.plan is None or medoid is None else self.plan.brokers_for(medoid)

    def broker_for(self, medoid: str | None, at: str | None, load: Counter[str]) -> str | None:
        """Where a client with that medoid belongs, who is at a broker now.

        Of several brokers of its cluster it is the one with the fewest clients, but one who is at
        one of them moves only when that has clearly more to do. While all of them are dead, it is
        where the client is, or the living broker nearest to them.
        """
        planned = self.brokers_for(medoid)
        brokers = [broker for broker in planned if broker not in self.dead]
        if not planned:
            return None
        if not brokers:
            return self._stand_in(planned[0], at, load)
        best = min(brokers, key=lambda broker: (load[broker], brokers.index(broker)))
        return at if at in brokers and load[at] <= load[best] + 1 else best

    def _stand_in(self, dead: str, at: str | None, load: Counter[str]) -> str | None:
        living = [each for each in self._used() if each not in self.dead]
        if at in living or not living:
            return at
        if dead not in self.brokers:  # a plan that is given names it, and it was never there
            return min(living, key=lambda each: load[each])
        hops = {each: self.distances.hops(dead, each) for each in living}
        return min(living, key=lambda each: (hops[each], load[each]))

    def _change(self, now: float) -> None:
        self._changed_at = now
        self._brokers, self._distances = None, None


def _among(used: Iterable[str], links: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The links between some brokers; who is linked by way of another is linked by a shorter one.

    The planner wants to know how far its brokers are apart, and a spare one between two counts for
    nothing there: it makes the way one longer than it thinks.
    """
    kept = {frozenset(link) for link in links}
    for spare in sorted({name for link in kept for name in link} - set(used)):
        near = sorted(name for link in kept if spare in link for name in link - {spare})
        kept = {link for link in kept if spare not in link}
        kept |= {frozenset((near[0], other)) for other in near[1:]}
    return sorted((min(link), max(link)) for link in kept)


def _from_the_top(
    parents: Mapping[str, str | None], links: Mapping[str, tuple[str, ...]]
) -> Iterable[str]:
    """Brokers level by level, those of one level by name.

    Roots are those below nobody that is there; among equals, where everybody is, the broker that
    the others are nearest to.
    """
    if any(parent in parents for parent in parents.values()):
        roots = sorted(name for name, parent in parents.items() if parent not in parents)
    else:
        roots = sorted(parents, key=lambda name: (_farthest(name, links), name))[:1]
    listed = dict.fromkeys(roots)
    beside = _beside(parents, links)
    waiting = deque(roots)
    while waiting:
        for name in sorted(beside[waiting.popleft()]):
            if name not in listed:
                listed[name] = None
                waiting.append(name)
    return [*listed, *sorted(parents.keys() - listed.keys())]


def _beside(names: Iterable[str], links: Mapping[str, tuple[str, ...]]) -> dict[str, set[str]]:
    beside: dict[str, set[str]] = defaultdict(set)
    known = set(names)
    for one, others in links.items():
        for other in known.intersection(others):
            beside[one].add(other)
            beside[other].add(one)
    return beside


def _farthest(start: str, links: Mapping[str, tuple[str, ...]]) -> int:
    """How many links it is to the farthest broker; one that is not reached is farther than any."""
    beside = _beside(links, links)
    depth = {start: 0}
    waiting = deque([start])
    while waiting:
        one = waiting.popleft()
        for other in beside[one] - depth.keys():
            depth[other] = depth[one] + 1
            waiting.append(other)
    return max(depth.values()) if len(depth) == len(links) else len(links)
