"""tree-joins: what does it cost a coordinator that a peer joins a large delay tree?

A tree grows to its size one peer after the other. Each newcomer is told whom to measure (16 peers),
reports 32 measurements of each of these links and joins; all three count. Then so many more join:

- *usual*: with bounds of 60 to 200 ms, as those before them;
- *tight*: with bounds of 30 to 60 ms, which few places keep: most searches look at the places of
  others and find nothing;
- *full*: without slots, to a tree in which nearly all are taken: most have to wait.

The map and its delays are those of `delay_world`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbn.lab.delay_world import draw, drawn
from kbn.lab.experiment import Experiment, Parameters, Progress, Scale, Table

if TYPE_CHECKING:
    import numpy as np

    from kbn.grouping import DelayTree, MeasuredLinks
    from kbn.lab.delay_world import World

MEASURED, SAMPLES = 16, 32
USUAL_MS, TIGHT_MS = (60.0, 200.0), (30.0, 60.0)


def run(parameters: Parameters, seed: int, progress: Progress) -> list[Table]:
    import pyarrow as pa

    rows = []
    for done, size in enumerate(parameters["sizes"]):
        progress(f"{size} peers", done, len(parameters["sizes"]))
        rows += _joins(size, parameters["joins"], seed)
    return [Table("joins", pa.Table.from_pylist(rows), "Time of a join", _NOTES)]


def _joins(size: int, joins: int, seed: int) -> list[dict[str, Any]]:
    import numpy as np

    world = drawn(size + 2 * joins, "lognormal", USUAL_MS, 0.0, seed)
    rng = np.random.default_rng([seed, 3])
    slots = world.slots.tolist()
    tree, links = _grown(world, slots, size, rng)
    rows = []
    for first, name, bounds in (
        (size, "usual", USUAL_MS),
        (size + joins, "tight", TIGHT_MS),
    ):
        coming = range(first + 1, first + joins + 1)
        taken = [_join(tree, links, world, peer, bounds, slots[peer], rng) for peer in coming]
        rows.append({"peers": size, "newcomers": name} | _row(taken, tree))
    # As many slots as peers, so all are soon taken.
    slots = [slots[0], *(2 * (peer % 2) for peer in range(1, len(slots)))]
    tree, links = _grown(world, slots, size, rng)
    coming = range(size + 1, size + joins + 1)
    taken = [_join(tree, links, world, peer, USUAL_MS, 0, rng) for peer in coming]
    return [*rows, {"peers": size, "newcomers": "full"} | _row(taken, tree)]


def _grown(
    world: World, slots: list[int], size: int, rng: np.random.Generator
) -> tuple[DelayTree, MeasuredLinks]:
    from kbn.grouping import DelayTree, MeasuredLinks

    links = MeasuredLinks(value_max=10_000.0)
    tree = DelayTree(links, 0, slots[0])
    for peer in range(1, size + 1):
        _join(tree, links, world, peer, USUAL_MS, slots[peer], rng)
    return tree, links


def _row(taken_s: list[float], tree: DelayTree) -> dict[str, Any]:
    import numpy as np

    ms = 1000 * np.array(taken_s)
    return {
        "ms": float(ms.mean()),
        "99 of 100": float(np.quantile(ms, 0.99)),
        "worst": float(ms.max()),
        "a second": float(1000 / ms.mean()),
        "kept": tree.satisfaction().fraction,
        "waiting": len(tree.waiting),
    }


def _join(
    tree: DelayTree,
    links: MeasuredLinks,
    world: World,
    peer: Any,
    bounds: tuple[float, float],
    slots: int,
    rng: np.random.Generator,
) -> float:
    """One join, and how long it took, but not what a peer does by itself: measuring."""
    from time import perf_counter

    import numpy as np

    from kbn.grouping import Bound

    bound = Bound(float(rng.uniform(*bounds)))
    started = perf_counter()
    named = tree.candidates(MEASURED, bound)
    taken = perf_counter() - started
    means = world.links.means(np.array(named, int), peer)
    measured = (means[:, None] * draw(world.shape, (len(named), SAMPLES), rng)).tolist()
    started = perf_counter()
    for other, samples in zip(named, measured, strict=True):
        links.report(peer, other, samples)
    tree.join(peer, bound, slots)
    return taken + perf_counter() - started


_NOTES = (
    "Naming whom to measure, taking in what was measured, and joining, on one core; 16 links are "
    "measured for each newcomer, 32 times each.",
    "Kept: the share of all bounds in the tree that are kept after these joins. A newcomer knows "
    "16 links; a tree that knows all of them keeps more.",
)


def plot(tables: Sequence[Table], folder: Path) -> list[Path]:
    from kbn.pages import plots

    series: dict[str, list[tuple[float, float]]] = {}
    for row in tables[0].data.to_pylist():
        series.setdefault(row["newcomers"], []).append((row["peers"], row["ms"]))
    path = folder / "joins.svg"
    return [plots.lines(path, series, title="Time of a join", x="peers", y="ms")]


EXPERIMENT = Experiment(
    name="tree-joins",
    source="ours: a coordinator is to handle 200 joins a second at 10,000 peers",
    question="what does it cost that a peer joins a large delay tree?",
    scales={
        Scale.SMALL: {"sizes": [100], "joins": 20},
        Scale.PAPER: {"sizes": [1_000, 10_000], "joins": 1_000},
    },
    run=run,
    plot=plot,
)
