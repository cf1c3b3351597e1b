"""planners: which way of putting clusters on brokers gives few hops, even load and few moves?

The thesis (4.3.2) says that its way of creating clusters is replaceable, and describes others:
topics with the same subscribers together (Tamara), at a broker found by a hash (Scribe), a
rendezvous broker for each type (Hermes), brokers that relink towards those they exchange most with
(Baldoni). Here they are planners over the same clusters, in the worlds of `dynamic-clustering`: 11
brokers, clients with random interests in the conference ontology.

Everybody is placed by the plan; who hears whom is matched once, and hops follow from the tree.
`traffic`, `topic`, `balanced` and `relinking` are given what was heard and who is there, so they
know the past. *Fresh* hops are those of other notifications on the same subjects, which they do
not know. *Moves* are the clients that have another broker when a broker at the edge goes and the
plan is made anew, as a share of all who were not on that broker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbn.lab.experiment import Experiment, Parameters, Progress, Scale, Table
from kbn.lab.experiments.dynamic_clustering import ATTRIBUTES_MAX, PARENTS, World, drawn

if TYPE_CHECKING:
    from kbn.filters import Notification
    from kbn.placement import Distances, Plan

LEAVING = "b8"  # a leaf: the others stay connected
RELINKING = "relinking"
NAMES = ("taxonomic", "balanced", "topic", "rendezvous", "traffic", RELINKING)
Pairs = Counter[tuple[str, str]]
Row = dict[str, Any]


def heard(world: World, notifications: Mapping[str, Notification]) -> Pairs:
    """Who has how many notifications of whom."""
    from kbn.matching import Matcher

    matcher = Matcher(world.ontology)
    for name, subscription in world.subscriptions.items():
        matcher.add(subscription, name)
    return Counter(
        (publisher, str(subscriber))
        for publisher, notification in notifications.items()
        for subscriber in matcher.match(notification)
    )


def planned(world: World, planner: str, brokers: Sequence[str], pairs: Pairs) -> Plan:
    """The plan of a planner that knows who hears whom."""
    from kbn.placement import plan

    of = world.medoids
    deliveries = Counter[tuple[str, str]]()
    for (one, other), count in pairs.items():
        if one in of and other in of:
            deliveries[of[one], of[other]] += count
    clients = Counter(of.values())
    links = [(name, up) for name, up in PARENTS.items() if name in brokers and up]
    options: dict[str, dict[str, Any]] = {
        "balanced": {"clients": clients},
        "topic": {"deliveries": deliveries},
        "traffic": {"deliveries": deliveries, "clients": clients, "links": links},
    }
    name = "taxonomic" if planner == RELINKING else planner
    return plan(world.ontology, brokers, name, **options.get(name, {}))


def placed(world: World, made: Plan) -> dict[str, str]:
    """Each client's broker: of its medoid, the least loaded of several, or where it began."""
    loads: Counter[str] = Counter()
    found = {}
    for name, began in world.began.items():
        brokers = made.brokers_for(world.medoids.get(name))
        found[name] = min(brokers, key=lambda broker: loads[broker]) if brokers else began
        loads[found[name]] += 1
    return found


def mean_hops(pairs: Pairs, at: Mapping[str, str], apart: Distances) -> float:
    total = sum(count * apart.hops(at[one], at[other]) for (one, other), count in pairs.items())
    return total / max(1, pairs.total())


def one_world(world: World) -> list[Row]:
    """A row for each planner."""
    pairs = heard(world, world.notifications)
    fresh = heard(world, world.fresh["on the same subjects"])
    rows = []
    for name in NAMES:
        at = placed(world, planned(world, name, list(PARENTS), pairs))
        links = _links(name, pairs, at)
        apart = _distances(links)
        loads = Counter(at.values())
        rows.append(
            {
                "planner": name,
                "mean hops": mean_hops(pairs, at, apart),
                "fresh hops": mean_hops(fresh, at, apart),
                "largest load": max(loads.values()) * len(PARENTS) / len(at),
                "moves": _moves(world, name, pairs, at),
                "links changed": len({*map(frozenset, links)} - {*map(frozenset, _tree())}),
            }
        )
    return rows


def _tree() -> list[tuple[str, str]]:
    return [(name, up) for name, up in PARENTS.items() if up]


def _links(planner: str, pairs: Pairs, at: Mapping[str, str]) -> list[tuple[str, str]]:
    from kbn.placement import brokers_traffic, relink

    if planner != RELINKING:
        return _tree()
    return relink(list(PARENTS), _tree(), brokers_traffic(pairs, at))


def _distances(links: list[tuple[str, str]]) -> Distances:
    from kbn.placement import overlay_distances

    return overlay_distances(list(PARENTS), links)


def _moves(world: World, planner: str, pairs: Pairs, at: Mapping[str, str]) -> float:
    """The share of clients that move when a broker goes, of those who were not on it."""
    left = [name for name in PARENTS if name != LEAVING]
    then = placed(world, planned(world, planner, left, pairs))
    others = [name for name in at if at[name] != LEAVING]
    return sum(then[name] != at[name] for name in others) / max(1, len(others))


def run(parameters: Parameters, seed: int, progress: Progress) -> list[Table]:
    from random import Random

    import pyarrow as pa

    rows: list[Row] = []
    for number in range(parameters["seeds"]):
        bounds = (parameters["least attributes"], ATTRIBUTES_MAX)
        rows += one_world(drawn(parameters, bounds, Random(seed + number)))
        progress("worlds", number + 1, parameters["seeds"])
    table = pa.Table.from_pylist([_summary(name, rows) for name in NAMES])
    return [Table("planners", table, "Hops, load and moves by planner", _NOTES)]


def _summary(planner: str, rows: Sequence[Row]) -> Row:
    from statistics import fmean, pstdev

    mine = [row for row in rows if row["planner"] == planner]
    found: Row = {"planner": planner}
    for name in ("mean hops", "fresh hops", "largest load", "moves", "links changed"):
        values = [row[name] for row in mine]
        found |= {name: fmean(values), f"{name} ±": pstdev(values)}
    return found


_NOTES = (
    "Means over seeds, and ± their standard deviation. A hop is a broker passed, the first too.",
    "Largest load: clients of the fullest broker, in fair shares. traffic keeps it under 2; the "
    "others know no limit.",
    f"Moves: clients with another broker when {LEAVING} goes, of those who were not there.",
)


def plot(tables: Sequence[Table], folder: Path) -> list[Path]:
    from kbn.pages import plots

    rows = tables[0].data.to_pylist()
    series = {
        name: {row["planner"]: row[name] for row in rows} for name in ("mean hops", "fresh hops")
    }
    path = folder / "hops.svg"
    return [plots.bars(path, series, title="Hops by planner", x="planner", y="mean hops")]


EXPERIMENT = Experiment(
    name="planners",
    source="thesis, 4.3.2 and 3.1 to 3.3: ways to create clusters",
    question="which way of putting clusters on brokers gives few hops, even load and few moves?",
    scales={
        Scale.SMALL: {"subscribers": 40, "publishers": 100, "seeds": 2, "least attributes": 1},
        Scale.PAPER: {"subscribers": 250, "publishers": 1000, "seeds": 20, "least attributes": 1},
        Scale.BEYOND: {"subscribers": 2000, "publishers": 8000, "seeds": 5, "least attributes": 1},
    },
    run=run,
    plot=plot,
)
