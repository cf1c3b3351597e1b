"""delay-trees: how many delay bounds does a dissemination tree keep, and as often as it promises?

Peers lie on a square map, 50 ms from side to side; a link takes its distance and 2 ms, with a
standard deviation of a fifth of that. Each peer feeds up to five others, drawn evenly from none to
five (the source: ten), and wants what it gets within its bound with a probability of 95 %.

- *The upper bound* gives everybody the shortest way there is, as if all could feed any number. No
  tree keeps more bounds, and with few slots none may keep as many.
- *A step of churn*: a tenth of the peers leave and as many others come, one after the other, in
  turn. Once the tree is left as that makes it; once the late are placed anew after each step.
- *Reliability*: notifications go down the tree with delays drawn for each link, from distributions
  with the measured mean and variance. Those of a notification are drawn once for each link: peers
  below the same link are late together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbn.lab.experiment import Experiment, Parameters, Progress, Scale, Table

if TYPE_CHECKING:
    import numpy as np

    from kbn.grouping import Delays, DelayTree

MAP_MS, HOP_MS, DEVIATION = 50.0, 2.0, 0.2
SLOTS_MAX, SLOTS_OF_SOURCE = 5, 10
PROBABILITY = 0.95
CHURN = 0.1
BOUNDS_MS = {"tight": (30.0, 100.0), "loose": (60.0, 200.0)}
REPAIRED = {False: "as it is", True: "repaired"}


@dataclass(frozen=True)
class World:
    """Peers that may be in a tree: one in eleven is outside it at any time."""

    delays: Delays
    bounds: np.ndarray[Any, Any]
    slots: np.ndarray[Any, Any]
    members: int

    def grown(self) -> DelayTree:
        """A tree of the first members."""
        from kbn.grouping import DelayTree

        tree = DelayTree(self.delays, self.bounds, self.slots, PROBABILITY)
        tree.join_all(range(1, self.members + 1))
        return tree


def drawn(members: int, bounds_ms: tuple[float, float], seed: int) -> World:
    """A world from a seed; the same places and slots for any bounds."""
    import numpy as np

    from kbn.grouping import Delays

    size = 1 + members + round(CHURN * members)
    rng = np.random.default_rng(seed)
    # Single precision: ten thousand peers have a hundred million links.
    x, y = (MAP_MS * rng.random((2, size))).astype(np.float32)
    mean = np.hypot(np.subtract.outer(x, x), np.subtract.outer(y, y))
    mean += np.float32(HOP_MS)
    np.fill_diagonal(mean, 0)
    slots = rng.integers(0, SLOTS_MAX + 1, size)
    slots[0] = SLOTS_OF_SOURCE
    delays = Delays(mean, np.square(np.float32(DEVIATION) * mean))
    return World(delays, rng.uniform(*bounds_ms, size), slots, members)


def run(parameters: Parameters, seed: int, progress: Progress) -> list[Table]:
    import pyarrow as pa

    cases = list(product(parameters["sizes"], BOUNDS_MS))
    steps: list[dict[str, Any]] = []
    reliability: list[dict[str, Any]] = []
    for done, (size, name) in enumerate(cases):
        world = drawn(size, BOUNDS_MS[name], seed)
        for is_repaired, said in REPAIRED.items():
            now = len(REPAIRED) * done + is_repaired
            progress(f"{size} peers, {name} bounds, {said}", now, len(REPAIRED) * len(cases))
            case = {"peers": size, "bounds": name, "tree": said}
            _churned(world, is_repaired, parameters, seed, case, steps, reliability)
    made = pa.Table.from_pylist
    return [
        Table("bounds", made(steps), "Bounds kept, as peers come and go", _BOUNDS_NOTES),
        Table("reliability", made(reliability), "Promises kept", _RELIABILITY_NOTES),
    ]


def _churned(
    world: World,
    is_repaired: bool,
    parameters: Parameters,
    seed: int,
    case: dict[str, Any],
    steps: list[dict[str, Any]],
    reliability: list[dict[str, Any]],
) -> None:
    """Grow a tree and have peers come and go; rows for each step, and of the first and last."""
    from time import perf_counter

    import numpy as np

    rng = np.random.default_rng([seed, 1])
    started = perf_counter()
    tree = world.grown()
    growing_s = taken_s = perf_counter() - started
    for step in range(parameters["steps"] + 1):
        if step:
            started = perf_counter()
            churn(tree, world, rng)
            if is_repaired:
                tree.repair()
            taken_s = perf_counter() - started
        steps.append(case | {"step": step} | _kept(tree, taken_s, growing_s))
        # At first both trees are the same.
        if step == parameters["steps"] or (step == 0 and not is_repaired):
            reliability += _reliability(tree, world, case | {"step": step}, parameters, rng)


def churn(tree: DelayTree, world: World, rng: np.random.Generator) -> None:
    """One step: those outside come, and as many of those inside leave."""
    everybody = range(1, len(world.delays))
    outside = [peer for peer in everybody if peer not in tree]
    inside = [peer for peer in everybody if peer in tree]
    leaving = rng.choice(inside, len(outside), replace=False).tolist()
    for gone, come in zip(leaving, outside, strict=True):
        tree.leave(gone)
        tree.join(come)


def _kept(tree: DelayTree, taken_s: float, growing_s: float) -> dict[str, Any]:
    found = tree.satisfaction()
    return {
        "kept": found.fraction,
        "upper bound": found.upper_bound / found.subscribers,
        "of the upper bound": found.satisfied / found.upper_bound,
        "deepest": max(depths(tree)),
        "s": taken_s,
        "against growing": taken_s / growing_s,
    }


def depths(tree: DelayTree) -> list[int]:
    """How many links each peer is from the source."""
    found = {0: 0}
    for parent, child in tree.edges():
        found[child] = found[parent] + 1
    return list(found.values())


def _reliability(
    tree: DelayTree,
    world: World,
    case: dict[str, Any],
    parameters: Parameters,
    rng: np.random.Generator,
) -> list[dict[str, Any]]:
    """Of those whose bounds hold by the tree's word: how often they hold."""
    import numpy as np

    peers = [peer for _, peer in tree.edges() if tree.is_satisfied(peer)]
    bounds = world.bounds[peers][:, None]
    promises = np.array([tree.promised(peer) for peer in peers])[:, None]
    rows = []
    for name in ("gamma", "lognormal"):
        times = arrivals(tree, name, parameters["notifications"], rng)[peers]
        of_each = (times <= bounds).mean(axis=1)
        rows.append(
            case
            | {
                "delays": name,
                "satisfied peers": len(peers),
                "within the bound": float(of_each.mean()),
                "worst hundredth": float(np.quantile(of_each, 0.01)),
                "within the promise": float((times <= promises).mean()),
                "asked for": PROBABILITY,
            }
        )
    return rows


def arrivals(
    tree: DelayTree, delays: str, notifications: int, rng: np.random.Generator
) -> np.ndarray[Any, Any]:
    """When each peer (row) gets each notification (column), the links' delays being drawn."""
    import numpy as np

    edges = tree.edges()
    parents, children = np.array(edges).T
    mean = tree.delays.mean[parents, children].astype(float)[:, None]
    variance = tree.delays.variance[parents, children].astype(float)[:, None]
    shape = (len(edges), notifications)
    if delays == "gamma":
        samples = rng.gamma(mean**2 / variance, variance / mean, shape)
    else:
        squared = np.log1p(variance / mean**2)
        samples = rng.lognormal(np.log(mean) - squared / 2, np.sqrt(squared), shape)
    found = np.zeros((len(tree.delays), notifications))
    for (parent, child), taken in zip(edges, samples, strict=True):
        found[child] = found[parent] + taken
    return found


_BOUNDS_NOTES = (
    "Step 0 is the tree as it was grown. Bounds are drawn evenly, tight ones from 30 to 100 ms and "
    "loose ones from 60 to 200 ms.",
    "The upper bound lets everybody feed any number; five slots at most are not any number.",
    "The time of step 0 is that of growing the tree; of the others, that of leaving, joining and "
    "repairing.",
)
_RELIABILITY_NOTES = (
    "Of peers whose bounds the tree says hold. A promise is never later than the bound, so bounds "
    "are kept more often than promises; those are what the 95 % are about.",
    "Promises take sums of delays for normally distributed. Delays are skewed, so about one in a "
    "hundred more is late than asked for.",
    "The worst hundredth: one satisfied peer in a hundred gets a smaller share in time than that. "
    "It includes the chance of the draw.",
)


def plot(tables: Sequence[Table], folder: Path) -> list[Path]:
    from kbn.pages import plots

    rows = tables[0].data.to_pylist()
    paths = []
    for name in BOUNDS_MS:
        series: dict[str, list[tuple[float, float]]] = {}
        for row in (row for row in rows if row["bounds"] == name):
            curve = f"{row['peers']} peers, {row['tree']}"
            series.setdefault(curve, []).append((row["step"], row["kept"]))
            if row["tree"] == REPAIRED[True]:
                curve = f"{row['peers']} peers, upper bound"
                series.setdefault(curve, []).append((row["step"], row["upper bound"]))
        title = f"Delay bounds kept, {name} bounds"
        path = folder / f"bounds-{name}.svg"
        x = "steps of 10 % churn"
        paths.append(plots.lines(path, series, title=title, x=x, y="fraction kept"))
    return paths


EXPERIMENT = Experiment(
    name="delay-trees",
    source="Stuttgart thesis (Biliniewicz), delay bounds of subscribers; the trees are ours",
    question="how many delay bounds does a tree keep as peers come and go, and how reliably?",
    scales={
        Scale.SMALL: {"sizes": [200], "steps": 3, "notifications": 400},
        Scale.PAPER: {"sizes": [1_000, 3_000], "steps": 5, "notifications": 400},
        Scale.BEYOND: {"sizes": [10_000], "steps": 5, "notifications": 400},
    },
    run=run,
    plot=plot,
)
