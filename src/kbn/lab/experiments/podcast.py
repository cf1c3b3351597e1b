"""podcast: how do the tables of brokers grow over a year of podcasts, clustered or not?

SAC'08 (section 4 and 5, Figures 4 to 10) and the thesis (6.2, Figures 18 to 20) let a year of
podcast subscriptions arrive at 37 brokers, spread at random or over two or three clusters by
category, and look at the number of filters in a broker's table and at how many of them are roots.
They stopped at about 850 simulated hours for want of memory. Their curves are pictures without
figures; what they say of them in words is beside our figures.

The workload, the overlay and what is chosen where the sources are silent: `kbn.lab.podcast_year`.
`beyond` runs the whole year: about 5.5 million subscriptions, three times.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kbn.lab.experiment import Experiment, Parameters, Progress, Scale, Table

# SAC'08's figures: what is drawn, at which level.
FIGURES = {
    4: ("filters", 3, "Table size at level 3"),
    5: ("roots", 2, "Root filters at level 2"),
    6: ("roots", 3, "Root filters at level 3"),
    7: ("roots", 4, "Root filters at level 4"),
    8: ("roots", 5, "Root filters at level 5"),
    9: ("roots", 1, "Root filters at the parent"),
    10: ("filters", 1, "Table size at the parent"),
}
THEIRS = {
    4: "smaller with 2 and 3 clusters for as many subscriptions; begins to level out",
    5: "fewer with clusters",
    6: "fewer with clusters",
    7: "fewer with clusters",
    8: "fewer with clusters, most clearly near the bottom",
    9: "fewer with clusters, and converging sooner",
    10: "smaller with clusters; close to the number of roots; reaches its most and stops",
}


def run(parameters: Parameters, seed: int, progress: Progress) -> list[Table]:
    import pyarrow as pa

    hours = sample_hours(parameters["hours"], parameters["every_hours"])
    found = _run_all(parameters, seed, hours, progress)
    rows = {what: [row for one in found for row in one[what]] for what in found[0]}
    notes = (
        "Means over the brokers of a level. filters: the distinct filters in the table; roots: "
        "those that no other covers, which is what the parent is told; received: subscriptions of "
        "clients and roots of children that ever came.",
        "The source's Figures 4 to 10 are pictures; in words they say what stands beside.",
        "The parent's roots are the widest of all filters in the network, wherever they came in: "
        "with complete covering they cannot depend on clusters, as the source's do. Its table can.",
    )
    levels = Table(
        "levels", pa.Table.from_pylist(rows["tables"]), "Tables over time", notes, _their_table()
    )
    most = Table(
        "convergence",
        pa.Table.from_pylist(_convergence(rows["tables"])),
        "Roots: the most there were, and since when as few as at the end",
        ("Seen at the sampled hours.",),
    )
    passages = Table(
        "notifications",
        pa.Table.from_pylist(rows["passages"]),
        "What became of sampled notifications",
        ("A broker passes every notification to its parent, and to the children that want it.",),
    )
    runs = Table("runs", pa.Table.from_pylist(rows["summary"]), "The runs", (_RUN_NOTE,))
    return [levels, most, passages, runs]


_RUN_NOTE = (
    "µs per subscription: processor time of a run, all 37 brokers, notifications included. The "
    "source ran 77 machines and gave up after about 850 to 1000 simulated hours."
)


def plot(tables: Sequence[Table], folder: Path) -> list[Path]:
    from kbn.pages import plots

    rows = tables[0].data.to_pylist()
    drawn = []
    for figure, (what, level, title) in FIGURES.items():
        series: dict[str, list[tuple[float, float]]] = {}
        for row in rows:
            if row["level"] == level:
                name = "1 cluster" if row["clusters"] == 1 else f"{row['clusters']} clusters"
                series.setdefault(name, []).append((row["hour"], row[what]))
        path = folder / f"figure-{figure:02d}.svg"
        # The roots come and go in the first days: a logarithmic axis gives them their room.
        early = what == "roots" or level == 1
        drawn.append(
            plots.lines(path, series, title=title, x="simulated hours", y=what, log_x=early)
        )
    return drawn


def sample_hours(hours: float, every: float) -> list[float]:
    """When to look: often at first, where the roots come and go, then at equal distances.

    >>> sample_hours(12, 4)
    [0.5, 1.0, 2.0, 4.0, 8.0, 12.0]
    """
    early = [every / 8, every / 4, every / 2] if every <= 10 else [1, 2, 4, 8, 16, 24, 32, 48]
    steps = round(hours / every)
    return [*early, *(float(every * step) for step in range(1, steps + 1))]


def _run_all(
    parameters: Parameters, seed: int, hours: list[float], progress: Progress
) -> list[dict[str, list[dict[str, Any]]]]:
    """One run for each number of clusters, in processes of their own where several are allowed."""
    from kbn.lab.podcast_year import run_year

    several = parameters["clusters"]
    given = [(clusters, seed, hours, parameters["notifications"]) for clusters in several]
    if parameters["processes"] == 1:
        found: list[dict[str, list[dict[str, Any]]]] = []
        for one in given:
            progress("clusters", len(found), len(given))
            found.append(run_year(*one))
        return found
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from multiprocessing import get_context

    # Not forked: the parent may hold threads, and each run starts with no memory but its own.
    with ProcessPoolExecutor(
        parameters["processes"], get_context("spawn"), max_tasks_per_child=1
    ) as pool:
        running = [pool.submit(run_year, *one) for one in given]
        for done, _ in enumerate(as_completed(running), 1):
            progress("runs", done, len(running))
        return [each.result() for each in running]


def _convergence(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for clusters, level in dict.fromkeys((row["clusters"], row["level"]) for row in rows):
        mine = [row for row in rows if (row["clusters"], row["level"]) == (clusters, level)]
        last = mine[-1]
        since = last["hour"]
        for row in reversed(mine):
            if row["roots"] != last["roots"]:
                break
            since = row["hour"]
        most = max(mine, key=lambda row: float(row["roots"]))
        found.append(
            {
                "clusters": clusters,
                "level": level,
                "most roots": most["roots"],
                "at hour": most["hour"],
                "roots at the end": last["roots"],
                "since hour": since,
                "filters at the end": last["filters"],
            }
        )
    return found


def _their_table() -> Any:
    import pyarrow as pa

    return pa.Table.from_pylist(
        [
            {"figure": figure, "shows": FIGURES[figure][2], "in words": words}
            for figure, words in THEIRS.items()
        ]
    )


_ALL: dict[str, Any] = {"clusters": [1, 2, 3]}

EXPERIMENT = Experiment(
    name="podcast",
    source="SAC'08, Figures 4 to 10; thesis, 6.2, Figures 18 to 20",
    question="how do the tables of brokers grow over a year of podcasts, clustered or not?",
    scales={
        Scale.SMALL: {
            **_ALL, "hours": 48, "every_hours": 8, "notifications": 5, "processes": 1
        },
        Scale.PAPER: {
            **_ALL, "hours": 850, "every_hours": 10, "notifications": 10, "processes": 2
        },
        Scale.BEYOND: {
            **_ALL, "hours": 8760, "every_hours": 60, "notifications": 20, "processes": 2
        },
    },
    run=run,
    plot=plot,
)  # fmt: skip
