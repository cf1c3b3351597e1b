"""clustering-draws: is the source's one run of dynamic clustering an ordinary draw?

The thesis (6.5, Figure 34) has one run: 3.99 hops unclustered, 2.06 clustered. Table 26 says two
filters a client, section 5.4.4 that the medoid is that of the first subscription, and the shares of
Figure 35 fit 14 subscribers that were reached. So the same set-up is drawn here very often, in
three readings (two filters of 1 to 6 or of 2 to 6 attributes, one of 2 to 6), with both rules for
ties and on two trees, and the source's figure is shown beside the whole distribution.

*The trees.* `ours` is that of `dynamic-clustering`, chosen by its mean. `fitted` is, of all 235
trees of 11 brokers, the one nearest to the source's mean, deviation, share within 4 hops and share
at 6 or 7 hops together, where clients are spread evenly. None has them all: the mean needs long
ways, which the share at 6 or 7 forbids; so the source's clients were not spread evenly, and with 14
subscribers they cannot be.

Nothing is simulated here: who hears whom is matched once, and hops follow from the tree. That
`dynamic-clustering` gives the same with a network is a test.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from kbn.lab.experiment import Experiment, Parameters, Progress, Scale, Table
from kbn.lab.experiments.dynamic_clustering import ATTRIBUTES_MAX, HOPS_MAX, PARENTS, drawn
from kbn.lab.experiments.planners import Pairs, heard, placed

Row = dict[str, Any]

FITTED: dict[str, str | None] = {
    "b1": None,
    **dict.fromkeys(("b2", "b3", "b4", "b5"), "b1"),
    **{"b6": "b2", "b7": "b3", "b8": "b6", "b9": "b6", "b10": "b7", "b11": "b7"},
}
TREES = {"ours": PARENTS, "fitted": FITTED}
READINGS = ((2, 1), (2, 2), (1, 2))
"""Filters of a client, and their least number of attributes."""
SOURCE = {"unclustered": (3.99, 1.57, 0.60, 0.04), "taxonomic": (2.06, 1.80, 0.91, 0.08)}
BY = ("filters", "attributes", "ties", "tree", "variant")


def run(parameters: Parameters, seed: int, progress: Progress) -> list[Table]:
    import pyarrow as pa

    cases = [
        (dict(parameters), filters, least, ties, seed + number)
        for filters, least in READINGS
        for ties in ("individual-first", "class-first")
        for number in range(parameters["seeds"])
    ]
    rows = [row for found in _worked(cases, parameters, progress) for row in found]
    made = pa.Table.from_pylist
    theirs = pa.table(
        {
            "variant": list(SOURCE),
            **{
                name: [figures[place] for figures in SOURCE.values()]
                for place, name in enumerate(("mean hops", "sd", "within 4", "at 6-7"))
            },
        }
    )
    return [
        Table("draws", made(_summaries(rows)), "Draws of the one run", _NOTES, theirs),
        Table("trees", made([_tree(name) for name in TREES]), "Hops between even places"),
        Table("histogram", made(_histogram(rows)), "Seeds by their mean hops, one filter"),
    ]


def _worked(
    cases: Sequence[tuple[dict[str, Any], int, int, str, int]],
    parameters: Parameters,
    progress: Progress,
) -> list[list[Row]]:
    if "cores" in parameters:
        from kbn.lab.spark.spread import spread

        return spread(one_case, cases, cores=parameters["cores"], progress=progress)
    found = []
    for done, case in enumerate(cases):
        found.append(one_case(case))
        progress("worlds", done + 1, len(cases))
    return found


def one_case(case: tuple[dict[str, Any], int, int, str, int]) -> list[Row]:
    """One world, unclustered and placed by `taxonomic`, on both trees."""
    from random import Random

    from kbn.placement import plan

    parameters, filters, least, ties, seed = case
    bounds = (least, ATTRIBUTES_MAX)
    world = drawn(parameters, bounds, Random(seed), ties, filters)
    pairs = heard(world, world.notifications)
    if not pairs:  # nothing is delivered in this world, so there are no hops
        return []
    made = placed(world, plan(world.ontology, list(PARENTS)))
    setup = {"filters": filters, "attributes": f"{least}-{ATTRIBUTES_MAX}", "ties": ties}
    return [
        {**setup, "tree": tree, "variant": variant, "seed": seed, **_figures(pairs, at, parents)}
        for tree, parents in TREES.items()
        for variant, at in (("unclustered", dict(world.began)), ("taxonomic", made))
    ]


def _figures(pairs: Pairs, at: Mapping[str, str], parents: Mapping[str, str | None]) -> Row:
    from kbn.placement import overlay_distances

    links = [(name, up) for name, up in parents.items() if up]
    apart = overlay_distances(list(parents), links)
    hops = [
        int(apart.hops(at[one], at[other]))
        for (one, other), count in pairs.items()
        for _ in range(count)
    ]
    return {**_shape(hops), "deliveries": len(hops), "reached": len({s for _, s in pairs})}


def _shape(hops: Sequence[int]) -> Row:
    return {
        "mean hops": fmean(hops),
        "sd": pstdev(hops),
        "within 4": sum(each <= 4 for each in hops) / len(hops),
        "at 6-7": sum(6 <= each <= HOPS_MAX for each in hops) / len(hops),
    }


def _tree(name: str) -> Row:
    from kbn.placement import overlay_distances

    parents = TREES[name]
    links = [(child, up) for child, up in parents.items() if up]
    apart = overlay_distances(list(parents), links)
    return {"tree": name, **_shape([int(apart.hops(a, b)) for a in parents for b in parents])}


def _summaries(rows: Sequence[Row]) -> list[Row]:
    from kbn.lab.measuring import quantile

    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in BY), []).append(row)
    found = []
    for key, group in groups.items():
        means = [row["mean hops"] for row in group]
        source = SOURCE[key[-1]][0]
        row = dict(zip(BY, key, strict=True)) | {"seeds": len(group), "mean hops": fmean(means)}
        row |= {f"{int(q * 100)} %": quantile(means, q) for q in (0.1, 0.5, 0.9)}
        row |= {"least": min(means), "most": max(means)}
        row["at most the source's"] = sum(mean <= source for mean in means) / len(means)
        names = ("sd", "within 4", "at 6-7", "deliveries", "reached")
        found.append(row | {name: fmean(each[name] for each in group) for name in names})
    return found


def _histogram(rows: Sequence[Row]) -> list[Row]:
    """How many seeds have which mean, in quarters of a hop; one filter, individuals first."""
    from collections import Counter

    counted: dict[str, Counter[float]] = {}
    for row in rows:
        if row["filters"] == 1 and row["ties"] == "individual-first":
            name = f"{row['variant']}, {row['tree']}"
            counted.setdefault(name, Counter())[int(row["mean hops"] * 4) / 4] += 1
    bins = sorted({value for counts in counted.values() for value in counts})
    return [{"from": each, **{name: counts[each] for name, counts in counted.items()}}
            for each in bins]  # fmt: skip


_NOTES = (
    "Each seed is one run like the source's; the columns in per cent are quantiles of the seeds' "
    "mean hops. At most the source's: the share of seeds whose mean is 3.99 or less unclustered, "
    "2.06 or less clustered.",
    "Worlds in which nothing is delivered have no row. reached: subscribers that heard anything; "
    "the shares of the source's Figure 35 fit 14.",
)


def plot(tables: Sequence[Table], folder: Path) -> list[Path]:
    from kbn.pages import plots

    rows = tables[2].data.to_pylist()
    series = {
        name: {f"{row['from']:g}": float(row[name]) for row in rows}
        for name in rows[0]
        if name != "from"
    }
    title = "Seeds by mean hops, one filter (the source: 3.99 and 2.06)"
    path = folder / "draws.svg"
    return [plots.bars(path, series, title=title, x="mean hops from", y="seeds")]


EXPERIMENT = Experiment(
    name="clustering-draws",
    source="thesis, 6.5, Figures 32, 34 and 35",
    question="is the source's one run of dynamic clustering an ordinary draw?",
    scales={
        Scale.SMALL: {"subscribers": 80, "publishers": 300, "seeds": 3},
        Scale.PAPER: {"subscribers": 250, "publishers": 1000, "seeds": 200, "cores": 2},
        Scale.BEYOND: {"subscribers": 250, "publishers": 1000, "seeds": 2000, "cores": 2},
    },
    run=run,
    plot=plot,
)
