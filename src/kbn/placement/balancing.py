"""Load balancing: a cluster that draws too much load gets more brokers, and gives them back.

A cluster lives on its main broker and on its *helpers*; together they are its brokers. Its clients
go to whichever of them has least to do, so its load spreads over them like water: `spread` says
what every broker then has. A broker may have `load_max` times a fair share, that is the load of all
divided by the number of brokers.

`balance_plan` looks for brokers over that limit and gives the heaviest cluster on one a helper: of
the brokers that take most of what is over the limit the nearest, as long as that is anything. A
helper is given back, the farthest first, when without it the brokers concerned would have no more
than `CALM` of the limit. Between `CALM` and the limit nothing happens, so a load that goes up and
down a little moves nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kbn.errors import InvalidInputError
from kbn.placement.distances import Distances

if TYPE_CHECKING:
    from kbn.placement.plans import Plan

CALM = 0.8
"""A helper goes when the others would have at most this part of the limit without it."""
ROUNDS_MAX = 10
TOLERANCE = 1e-9

Assignments = Mapping[str, Sequence[str]]
"""Cluster -> its brokers, the main one first."""
Loads = Mapping[str, float]


def load_limit(load_max: float, total: float, brokers: int) -> float:
    """What one broker may have: `load_max` times a fair share of the total load."""
    if not load_max >= 1:
        raise InvalidInputError(
            f"load_max is in fair shares and at least 1, not {load_max}: somebody has to do it"
        )
    return load_max * total / brokers


def spread(assignments: Assignments, loads: Loads, brokers: Iterable[str]) -> dict[str, float]:
    """The load of each broker when every cluster fills its least loaded assignments first.

    Clusters with one assignment come first, the others in the order given.

    >>> spread({"a": ["x"], "b": ["x", "y"]}, {"a": 1.0, "b": 4.0}, ["x", "y"])
    {'x': 2.5, 'y': 2.5}
    """
    found = dict.fromkeys(brokers, 0.0)
    for key, share in shares(assignments, loads, found).items():
        for broker, part in share.items():
            found[broker] += loads.get(key, 0.0) * part
    return found


def shares(
    assignments: Assignments, loads: Loads, brokers: Iterable[str]
) -> dict[str, dict[str, float]]:
    """Which part of each cluster's load is on which of its assignments."""
    found = dict.fromkeys(brokers, 0.0)
    parts: dict[str, dict[str, float]] = {}
    for key in sorted(assignments, key=lambda key: len(assignments[key]) > 1):
        load, on = loads.get(key, 0.0), assignments[key]
        level = _level([found[broker] for broker in on], load)
        taken = {broker: max(0.0, level - found[broker]) for broker in on}
        parts[key] = {broker: (t / load if load else 1 / len(on)) for broker, t in taken.items()}
        for broker, part in taken.items():
            found[broker] += part
    return parts


def _level(filled: Sequence[float], more: float) -> float:
    """How high the water stands when `more` is poured over what is `filled`."""
    below = sorted(filled)
    poured = more
    for count, low in enumerate(below, start=1):
        high = below[count] if count < len(below) else float("inf")
        if poured <= count * (high - low):
            return low + poured / count
        poured -= count * (high - low)
    raise AssertionError("the last assignment has no rim")


def excess(on_brokers: Loads, limit: float) -> float:
    """How much load is over the limit, over all brokers."""
    return sum(max(0.0, load - limit) for load in on_brokers.values())


def balance_plan(
    plan: Plan, loads: Loads, load_max: float, distances: Distances, *, calm: float = CALM
) -> Plan:
    """The plan with helpers where clusters draw too much, and without those nobody needs.

    `loads` is what each cluster draws, by its key. A plan that needs nothing comes back as it is,
    and what comes back needs nothing more.

    >>> from kbn.placement import overlay_distances, plan
    >>> from kbn.data import namespace, path
    >>> from kbn.ontology import Ontology
    >>> animals, cats = Ontology.load(path("animals")), namespace("animals") + "Cats"
    >>> brokers, links = ["top", "left", "right"], [("left", "top"), ("right", "top")]
    >>> made = plan(animals, brokers)
    >>> crowded = balance_plan(made, {cats: 90}, 2.0, overlay_distances(brokers, links))
    >>> crowded.brokers_of(cats)
    ('right', 'top')
    >>> calmer = {cats: 30, namespace("animals") + "Food": 30}
    >>> balance_plan(crowded, calmer, 2.0, overlay_distances(brokers, links)) == made
    True
    """
    limit = load_limit(load_max, sum(loads.values()), len(plan.brokers))
    for key in loads:
        plan.brokers_of(key)
    for _ in range(ROUNDS_MAX):
        before = plan
        plan = _relieved(plan, loads, limit, distances, calm)
        assignments = helped(_assignments(plan), loads, limit, distances)
        for key, on in assignments.items():
            for broker in on[len(plan.brokers_of(key)) :]:
                plan = plan.helped(key, broker)
        if plan == before:
            break
    return plan


def helped(
    assignments: Assignments, loads: Loads, limit: float, distances: Distances
) -> dict[str, tuple[str, ...]]:
    """The assignments with helpers added until no broker is over its limit, or none can help."""
    found = {key: tuple(on) for key, on in assignments.items()}
    for _ in range(len(found) * len(distances.brokers)):
        added = _first_help(found, loads, limit, distances)
        if added is None:
            break
        found[added[0]] = (*found[added[0]], added[1])
    return found


def _first_help(
    assignments: dict[str, tuple[str, ...]], loads: Loads, limit: float, distances: Distances
) -> tuple[str, str] | None:
    """Whom to help and who does: the fullest broker first, and the heaviest cluster on it."""
    now = spread(assignments, loads, distances.brokers)
    over = excess(now, limit) - TOLERANCE * max(1.0, limit)
    full = [broker for broker in now if now[broker] > limit + TOLERANCE]
    for broker in sorted(full, key=lambda broker: -now[broker]):
        on_it = [key for key, on in assignments.items() if broker in on and loads.get(key, 0.0) > 0]
        for key in sorted(on_it, key=lambda key: -loads[key]):
            left = {
                helper: excess(
                    spread(
                        {**assignments, key: (*assignments[key], helper)}, loads, distances.brokers
                    ),
                    limit,
                )
                for helper in distances.nearest(assignments[key][0])
                if helper not in assignments[key] and now[helper] < limit
            }
            # Of those that help most the nearest, which comes first.
            best = min(left, key=lambda helper: round(left[helper], 6), default=None)
            if best is not None and left[best] < over:
                return key, best
    return None


def _relieved(plan: Plan, loads: Loads, limit: float, distances: Distances, calm: float) -> Plan:
    """The plan without the helpers that are not needed, clusters in order of rank."""
    for cluster in plan.clusters:
        far_first = sorted(
            cluster.helpers, key=lambda helper: -distances.hops(cluster.broker, helper)
        )
        for helper in far_first:
            without = plan.relieved(cluster.key, helper)
            if _is_calm(plan, without, loads, calm * limit):
                plan = without
    return plan


def _is_calm(plan: Plan, without: Plan, loads: Loads, bound: float) -> bool:
    """Whether no broker that gets more by the change gets more than the bound."""
    now, then = (spread(_assignments(one), loads, plan.brokers) for one in (plan, without))
    return all(then[b] <= max(now[b], bound) + TOLERANCE for b in plan.brokers)


def _assignments(plan: Plan) -> dict[str, tuple[str, ...]]:
    return {cluster.key: plan.brokers_of(cluster.key) for cluster in plan.clusters}
