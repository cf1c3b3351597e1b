"""reactive-splitting: does following what is really sent lower false positives as traffic drifts?

Publishers with 3 or 4 of 10 attributes and 6 to 10 connections each, grouped by strategy 4, and
subscribers of combinations on offer. In each step a tenth of the publishers are busy and send fifty
times as much as the others; some of the busy are others in each step, and a tenth of the
subscribers want something else. What arrives in vain is counted:

- *as they came*: groups as strategy 4 made them, which counts each publisher alike;
- *reacting*: after each step, `SplittingPolicy` has seen what was sent in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from kbn.lab.experiment import Experiment, Parameters, Progress, Scale, Table

if TYPE_CHECKING:
    from kbn.grouping import Groups

NAMES = tuple("ABCDEFGHIJ")
CONNECTIONS = (6, 10)
BUSY, BUSY_SENDS, CALM_SENDS = 0.1, 50, 1
DRIFT = 0.2
WAYS = ("as they came", "reacting")


def run(parameters: Parameters, seed: int, progress: Progress) -> list[Table]:
    import pyarrow as pa

    rows: list[dict[str, Any]] = []
    for done, way in enumerate(WAYS):
        progress(way, done, len(WAYS))
        rows += _steps(way, parameters, seed)
    both = {way: [row for row in rows if row["groups"] == way] for way in WAYS}
    table = [
        {
            "step": calm["step"],
            "received": calm["received"],
            "rate as they came": calm["rate"],
            "rate reacting": reacting["rate"],
            "false positives against": reacting["in vain"] / max(1, calm["in vain"]),
            "moved": reacting["moved"],
        }
        for calm, reacting in zip(both[WAYS[0]], both[WAYS[1]], strict=True)
    ]
    data = pa.Table.from_pylist(table)
    return [Table("drift", data, "False positives as traffic drifts", _NOTES)]


def _steps(way: str, parameters: Parameters, seed: int) -> list[dict[str, Any]]:
    from kbn.grouping import SplittingPolicy

    rng = Random(f"{seed} drift")
    groups = _grown(parameters, rng)
    advertised = sorted((c for each in groups.clusters for c in each.combinations), key=sorted)
    for subscriber in range(parameters["subscribers"]):
        groups.subscribe(subscriber, rng.choice(advertised))
    policy = SplittingPolicy(rate_max=0.05)
    everybody = list(groups.connections)
    busy = rng.sample(everybody, round(BUSY * len(everybody)))
    rows = []
    for step in range(parameters["steps"]):
        sent = {each: BUSY_SENDS if each in busy else CALM_SENDS for each in everybody}
        arrived = groups.deliveries(groups.wanted, sent)
        moved = 0
        if way == WAYS[1]:
            policy.observe(sent)
            moved = len(policy.react(groups))
        row = {"groups": way, "step": step, "received": arrived.received, "rate": arrived.rate}
        rows.append(row | {"in vain": arrived.false_positives, "moved": moved})
        for place in rng.sample(range(len(busy)), max(1, round(DRIFT * len(busy)))):
            busy[place] = rng.choice([each for each in everybody if each not in busy])
        for subscriber in rng.sample(
            range(parameters["subscribers"]), parameters["subscribers"] // 10
        ):
            groups.unsubscribe(subscriber)
            groups.subscribe(subscriber, rng.choice(advertised))
    groups.check_invariants()
    return rows


def _grown(parameters: Parameters, rng: Random) -> Groups:
    from kbn.grouping import Groups

    groups = Groups(NAMES, strategy="4")
    for publisher in range(parameters["publishers"]):
        attributes = rng.sample(NAMES, rng.randint(3, 4))
        groups.arrive(publisher, attributes, rng.randint(*CONNECTIONS))
    groups.reorder()
    return groups


_NOTES = (
    "In step 0 the groups are the same; each step counts what arrives before the groups react to "
    "it, so they always react to what was, not to what comes.",
    "Moved: combinations that are in another cluster after the step.",
)


def plot(tables: Sequence[Table], folder: Path) -> list[Path]:
    from kbn.pages import plots

    series: dict[str, list[tuple[float, float]]] = {}
    for row in tables[0].data.to_pylist():
        for way in WAYS:
            series.setdefault(way, []).append((row["step"], row[f"rate {way}"]))
    path = folder / "drift.svg"
    title = "False positives as traffic drifts"
    return [plots.lines(path, series, title=title, x="step", y="rate")]


EXPERIMENT = Experiment(
    name="reactive-splitting",
    source="Stuttgart thesis (Biliniewicz), 4.4.2, which suggests it",
    question="does splitting by observed false positives lower them as traffic drifts?",
    scales={
        Scale.SMALL: {"publishers": 60, "subscribers": 100, "steps": 6},
        Scale.PAPER: {"publishers": 300, "subscribers": 1000, "steps": 20},
    },
    run=run,
    plot=plot,
)
