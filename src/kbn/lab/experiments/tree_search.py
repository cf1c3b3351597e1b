"""tree-search: how does matching grow with the subscribers, with and without semantics?

The thesis (6.3.2, Table 16, Figure 22) lets 1000 to 6000 subscribers ask for
`ontClass @> Contribution and ontInstance @= Paper and notificationNumber = n`, and, without
semantics, for the number alone. A publication has a class, an individual, a number and a time
stamp. 500 are published and engineered so that 300 of them meet the one subscription with their
number. No filter covers another, so a tree of filters by covering is one long list of roots, and
walking it looks at every filter: the source found growth faster than linear with semantics, and
linear without.

Measured here: our index, the plain scan, and a walk of the covering poset as the source's system
does it. The two slow ones answer the first few publications only; all three must agree on those.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbn.lab.experiment import Experiment, Parameters, Progress, Scale, Table

if TYPE_CHECKING:
    from kbn.filters import Notification, Subscription
    from kbn.lab.siena import SienaPoset
    from kbn.matching import LinearScan, Matcher
    from kbn.ontology import Ontology

PUBLICATIONS, MATCHING = 500, 300


@dataclass(frozen=True, slots=True)
class Engines:
    """The three of them, holding the same subscriptions."""

    index: Matcher
    scan: LinearScan
    poset: SienaPoset

    def add(self, subscription: Subscription, number: int) -> None:
        for engine in (self.index, self.scan, self.poset):
            engine.add(subscription, number)


def subscription(number: int, *, semantic: bool) -> Subscription:
    """What subscriber `number` asks for."""
    from kbn import data
    from kbn.filters import Constraint, Filter, Subscription
    from kbn.ontology import Class

    here = data.namespace("conference")
    constraints = [Constraint("notificationNumber", "=", number)]
    if semantic:
        constraints.append(Constraint("ontClass", "@>", Class(here + "Contribution")))
        constraints.append(Constraint("ontInstance", "@=", Class(here + "Paper")))
    return Subscription(Filter(constraints))


def publications(size: int, seed: int, *, semantic: bool) -> list[Notification]:
    """500 publications in random order, 300 of them with the number of a subscriber."""
    from random import Random

    from kbn import data
    from kbn.filters import Notification
    from kbn.ontology import Class, Individual

    here = data.namespace("conference")
    rng = Random(seed)
    numbers = rng.choices(range(size), k=MATCHING)
    numbers += range(size, size + PUBLICATIONS - MATCHING)
    rng.shuffle(numbers)
    meaning = {"ontClass": Class(here + "Paper"), "ontInstance": Individual(here + "Paper_17")}
    return [
        Notification({**(meaning if semantic else {}), "notificationNumber": n, "pubTime": at})
        for at, n in enumerate(numbers)
    ]


def run(parameters: Parameters, seed: int, progress: Progress) -> list[Table]:
    import pyarrow as pa

    from kbn import data
    from kbn.ontology import Ontology

    ontology = Ontology.load(data.path("conference"))
    rows: list[dict[str, Any]] = []
    for semantic in (True, False):
        rows += _grow(ontology, parameters, seed, semantic, progress)
    _against_the_smallest(rows)
    notes = (
        "µs per publication: the median of one call each, keys included; × smallest: the ratio to "
        "the same engine and filters at the fewest subscribers.",
        "The source's figure is an image; in words: both grow with the subscribers, semantic "
        "faster than linearly, non-semantic linearly.",
    )
    theirs = pa.table(
        {
            "filters": ["semantic", "not semantic"],
            "growth with subscribers": ["faster than linear", "linear"],
        }
    )
    grown = Table("growth", pa.Table.from_pylist(rows), "Time per publication", notes, theirs)
    passed = _end_to_end(parameters, seed, progress)
    if not passed:
        return [grown]
    title = "End to end, from publishing to delivery"
    return [grown, Table("end-to-end", pa.Table.from_pylist(passed), title, _END_NOTES)]


_END_NOTES = (
    "ms: from the publisher's socket to the subscriber's through a broker process, one at a time; "
    "mean and deviation of the 300 deliveries. × smallest: against the fewest subscribers.",
)


def _end_to_end(parameters: Parameters, seed: int, progress: Progress) -> list[dict[str, Any]]:
    from kbn import data
    from kbn.lab.overlay.end_to_end import end_to_end

    rows: list[dict[str, Any]] = []
    sizes = parameters["end to end"]
    for semantic in (True, False):
        base = 0.0
        for size in sizes:
            progress(f"end to end, {size} subscribers", len(rows), 2 * len(sizes))
            sent = publications(size, seed, semantic=semantic)
            wanted = [(each, each["notificationNumber"] < size) for each in sent]
            held = [subscription(number, semantic=semantic) for number in range(size)]
            found = end_to_end(held, wanted, str(data.path("conference")))
            assert found.delivered == MATCHING, f"{found.delivered} of {MATCHING} arrived"
            base = base or found.mean_ms
            rows.append(
                {
                    "filters": "semantic" if semantic else "not semantic",
                    "subscribers": size,
                    "delivered": found.delivered,
                    "ms": found.mean_ms,
                    "sd": found.sd_ms,
                    "× smallest": found.mean_ms / base,
                }
            )
    return rows


def plot(tables: Sequence[Table], folder: Path) -> list[Path]:
    from kbn.pages import plots

    series: dict[str, list[tuple[float, float]]] = {}
    for row in tables[0].data.to_pylist():
        for engine in ("index", "scan", "poset"):
            points = series.setdefault(f"{engine}, {row['filters']}", [])
            points.append((row["subscribers"], row[f"{engine} µs"]))
    path = folder / "growth.svg"
    return [
        plots.lines(
            path,
            series,
            title="Time per publication",
            x="subscribers",
            y="time (µs)",
            log_y=True,
        )
    ]


def _grow(
    ontology: Ontology, parameters: Parameters, seed: int, semantic: bool, progress: Progress
) -> list[dict[str, Any]]:
    """One set of engines that grows from size to size, measured at each."""
    from kbn.lab.engines import quick_scan
    from kbn.lab.siena import SienaPoset
    from kbn.matching import Matcher

    engines = Engines(Matcher(ontology), quick_scan(ontology), SienaPoset(ontology))
    rows = []
    total = max(parameters["sizes"])
    filters = "semantic" if semantic else "not semantic"
    for size in sorted(parameters["sizes"]):
        for number in range(len(engines.scan), size):
            engines.add(subscription(number, semantic=semantic), number)
            if number % 100 == 0:
                progress(f"adding, {filters}", number, total)
        row = _measure(engines, publications(size, seed, semantic=semantic), parameters["slow"])
        rows.append({"filters": filters, "subscribers": size, **row})
    return rows


def _measure(engines: Engines, sent: list[Notification], slow: int) -> dict[str, Any]:
    from kbn.lab.measuring import quantile, timed, undisturbed

    few = sent[:slow]
    for notification in few:
        found = {frozenset(engine.match(notification)) for engine in _each(engines)}
        assert len(found) == 1, f"the engines disagree on {notification}"
    row: dict[str, Any] = {}
    with undisturbed():
        for name, engine, asked in (
            ("index", engines.index, sent),
            ("scan", engines.scan, few),
            ("poset", engines.poset, few),
        ):
            calls = [timed(_keys, engine, notification) for notification in asked]
            row[f"{name} µs"] = quantile((seconds for seconds, _ in calls), 0.5) * 1e6
            if name == "index":
                row["delivered"] = sum(len(keys) for _, keys in calls)
    return {"delivered": row.pop("delivered"), "roots": len(engines.poset.roots), **row}


def _keys(engine: Any, notification: Notification) -> list[Any]:
    return list(engine.match(notification))


def _each(engines: Engines) -> tuple[Any, ...]:
    return engines.index, engines.scan, engines.poset


def _against_the_smallest(rows: list[dict[str, Any]]) -> None:
    smallest = {row["filters"]: row for row in reversed(rows)}
    for row in rows:
        for engine in ("index", "scan", "poset"):
            base = smallest[row["filters"]][f"{engine} µs"]
            row[f"{engine} × smallest"] = row[f"{engine} µs"] / base


EXPERIMENT = Experiment(
    name="tree-search",
    source="thesis, 6.3.2, Table 16 and Figure 22",
    question="how does matching grow with the subscribers, with and without semantics?",
    scales={
        Scale.SMALL: {"sizes": [100, 200, 300], "slow": 5, "end to end": []},
        Scale.PAPER: {
            **{"sizes": [1000, 2000, 3000, 4000, 5000, 6000], "slow": 20},
            "end to end": [1000, 2000, 3000, 4000, 5000, 6000],
        },
        Scale.BEYOND: {
            **{"sizes": [1000, 2000, 4000, 8000, 16_000], "slow": 10},
            "end to end": [16_000, 64_000],
        },
    },
    run=run,
    plot=plot,
)
