"""delay-trees: how many delay bounds does a dissemination tree keep, and as often as it promises?

The worlds are those of `delay_world`: peers on a map, skewed delays of links, of which a tree knows
a hundred measurements each. A peer feeds up to five others, drawn evenly from none to five (the
source: ten), and wants what it gets within its bound with a probability of 95 %.

- *The upper bound*: what no tree can exceed; see `at_most_kept`.
- *Churned*: in each step a tenth of the peers leave and as many others come, one after the
  other, in turn; then the tree is repaired, and grown anew if that keeps a fiftieth of the bounds
  more.
- *Reliability*: notifications go down the tree with fresh delays drawn for each link. Peers below
  the same link are late together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbn.lab.delay_world import BOUNDS_MS, PROBABILITY, SHAPES, World, arrivals, at_most_kept, drawn
from kbn.lab.experiment import Experiment, Parameters, Progress, Scale, Table

if TYPE_CHECKING:
    import numpy as np

    from kbn.grouping import DelayTree

CHURN = 0.1
WORTH_GROWING_ANEW = 0.02
FRESH, CHURNED = "fresh", "churned"


def run(parameters: Parameters, seed: int, progress: Progress) -> list[Table]:
    import pyarrow as pa

    sizes, seeds = parameters["sizes"], parameters["seeds"]
    cases = list(product(sizes, SHAPES, BOUNDS_MS))
    bounds: list[dict[str, Any]] = []
    reliability: list[dict[str, Any]] = []
    for done, (size, shape, name) in enumerate(cases):
        found: dict[str, list[dict[str, float]]] = {}
        for number in range(seeds):
            said = f"{size} peers, {shape} delays, {name} bounds"
            progress(said, done * seeds + number, len(cases) * seeds)
            for tree, row in _one_world(size, shape, name, parameters, seed + number):
                found.setdefault(tree, []).append(row)
        for tree, rows in found.items():
            case = {"peers": size, "delays": shape, "bounds": name, "tree": tree}
            bounds.append(case | _of_bounds(rows))
            reliability.append(case | _of_reliability(rows))
    made = pa.Table.from_pylist
    return [
        Table("bounds", made(bounds), "Bounds kept", _BOUNDS_NOTES),
        Table("reliability", made(reliability), "Promises kept", _RELIABILITY_NOTES),
    ]


def _one_world(
    size: int, shape: str, name: str, parameters: Parameters, seed: int
) -> Iterator[tuple[str, dict[str, float]]]:
    """The tree as it was grown, and after all steps of churn."""
    from time import perf_counter

    import numpy as np

    world = drawn(size, shape, BOUNDS_MS[name], CHURN, seed)
    rng = np.random.default_rng([seed, 2])
    started = perf_counter()
    tree = world.grown()
    taken_s = perf_counter() - started
    yield FRESH, _measured(tree, world, parameters, rng) | {"ms": taken_s / size * 1000}
    taken_s = 0.0
    for _ in range(parameters["steps"]):
        started = perf_counter()
        changes = churn(tree, world, rng)
        taken_s += (perf_counter() - started) / changes / parameters["steps"]
        tree.repair()
        tree.rebalance(gain_min=round(WORTH_GROWING_ANEW * size))
    yield CHURNED, _measured(tree, world, parameters, rng) | {"ms": taken_s * 1000}


def churn(tree: DelayTree, world: World, rng: np.random.Generator) -> int:
    """One step: those outside come, and as many of those inside leave; how many changes."""
    everybody = range(1, len(world.links))
    outside = [peer for peer in everybody if peer not in tree]
    inside = [peer for peer in everybody if peer in tree]
    leaving = rng.choice(inside, len(outside), replace=False).tolist()
    for gone, come in zip(leaving, outside, strict=True):
        tree.leave(gone)
        tree.join(*world.wanted(come))
    return 2 * len(outside)


def _measured(
    tree: DelayTree, world: World, parameters: Parameters, rng: np.random.Generator
) -> dict[str, float]:
    import numpy as np

    found = tree.satisfaction()
    at_most = at_most_kept(tree, world)
    assert found.satisfied <= at_most
    shares = [
        float((times <= world.bounds[peer]).mean())
        for peer, times in arrivals(tree, world, parameters["notifications"], rng)
        if tree.is_satisfied(peer)
    ]
    return {
        "kept": found.fraction,
        "upper bound": at_most / found.subscribers,
        "deepest": max(tree.depth_of(peer) for _, peer in tree.edges()),
        "in time": float(np.mean(shares)),
        "worst hundredth": float(np.quantile(shares, 0.01)),
        "under": float(np.mean(np.array(shares) < PROBABILITY)),
    }


def _of_bounds(rows: list[dict[str, float]]) -> dict[str, Any]:
    import numpy as np

    kept, most, deepest, ms = (
        np.array([row[name] for row in rows]) for name in ("kept", "upper bound", "deepest", "ms")
    )
    return {
        "kept": float(kept.mean()),
        "upper bound": float(most.mean()),
        "points under it": float(100 * (most - kept).mean()),
        "at most": float(100 * (most - kept).max()),
        "deepest": int(deepest.max()),
        "ms a change": float(ms.mean()),
    }


def _of_reliability(rows: list[dict[str, float]]) -> dict[str, Any]:
    import numpy as np

    in_time = np.array([row["in time"] for row in rows])
    return {
        "asked for": PROBABILITY,
        "in time": float(in_time.mean()),
        "worst seed": float(in_time.min()),
        "worst hundredth of peers": min(row["worst hundredth"] for row in rows),
        "peers under": float(np.mean([row["under"] for row in rows])),
    }


_BOUNDS_NOTES = (
    "Means over all seeds. Bounds are drawn evenly, tight ones from 30 to 100 ms and loose ones "
    "from 60 to 200 ms.",
    "The upper bound gives each peer a straight way of equal links, as many as suit it best, and "
    "each level the room it has if those with most slots come first.",
    "At most: the seed with the largest distance to the upper bound.",
    "A change is a peer that comes (in the fresh tree all at once) or goes.",
)
_RELIABILITY_NOTES = (
    "Of peers whose bounds the tree says hold: the share of notifications within the bound.",
    "The worst hundredth: one satisfied peer in a hundred has a smaller share than that, in the "
    "worst of the seeds; peers under: the share of peers below what they asked for. Both include "
    "the chance of the draw.",
)


def plot(tables: Sequence[Table], folder: Path) -> list[Path]:
    from kbn.pages import plots

    rows = tables[0].data.to_pylist()
    series: dict[str, list[tuple[float, float]]] = {}
    for row in (row for row in rows if row["bounds"] == "tight"):
        for what in ("kept", "upper bound"):
            curve = f"{row['delays']}, {row['tree']}, {what}"
            series.setdefault(curve, []).append((row["peers"], row[what]))
    path = folder / "bounds.svg"
    title = "Tight delay bounds kept"
    return [plots.lines(path, series, title=title, x="peers", y="fraction")]


EXPERIMENT = Experiment(
    name="delay-trees",
    source="Stuttgart thesis (Biliniewicz), delay bounds of subscribers; the trees are ours",
    question="how many delay bounds does a tree keep as peers come and go, and how reliably?",
    scales={
        Scale.SMALL: {"sizes": [120], "seeds": 2, "steps": 2, "notifications": 300},
        Scale.PAPER: {"sizes": [1_000], "seeds": 20, "steps": 3, "notifications": 400},
        Scale.BEYOND: {"sizes": [10_000], "seeds": 20, "steps": 1, "notifications": 200},
    },
    run=run,
    plot=plot,
)
