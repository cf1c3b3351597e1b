"""publisher-groups: how many clusters, connections and false positives has each strategy?

The Stuttgart thesis (D. Biliniewicz, Studienarbeit 2240), figures 5.2 to 5.20; figure 5.1 is a
drawing of its program. Strategy 4 is ours and stands beside. What the thesis leaves open:

- *Its curves* are drawings; where its text gives a number, that stands beside ours.
- *The rate* is false positives over notifications received, as its definition says and as its
  remarks on large clusters need.
- *Ties* in the descending order go to the older cluster; chance visits only what is touched, which
  has the same odds.
- *Connections* end when a publisher shares nothing with a cluster any more, as its model says.
- *How many notifications* its subscribers got is told once, 4.8 million for 30,000 of them; here
  it is the same for every curve of rates.

Each curve is one system, made from the seed, as in the thesis; table `means` has many. With
`cores` (scale beyond) those are spread over Spark, which needs Java; the figures are the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbn.lab.experiment import Experiment, Parameters, Progress, Scale, Table
from kbn.lab.publishers import Setting, facts, grow, grown, mean_connections, served

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kbn.grouping import Groups
    from kbn.lab.baselines.cells import SubscriptionClusters

Facts = dict[str, Any]

LIMITS = ((11, 15), (13, 15), (14, 15), (15, 15))
STRATEGIES = (
    ("1", "descending"),
    ("2", "descending"),
    ("3", "descending"),
    ("3", "random"),
    ("3.1", "descending"),
    ("3.1", "random"),
    ("4", "descending"),
)
PAIRS = (
    ("3 random", "3 descending"),
    ("3.1 random", "3.1 descending"),
    ("2 descending", "3 descending"),
    ("3 descending", "3.1 descending"),
    ("3.1 descending", "4 descending"),
)
BINS = 10  # of rates, in the histograms
BASELINE_CLUSTERS = (10, 50, 150)  # the most each baseline may make


def figures(parameters: Parameters) -> dict[str, list[Setting]]:
    """The curves of each figure; figures of the same curves are named together."""
    few, some, most = parameters["few"], parameters["some"], parameters["most"]
    limited = parameters["limited"]
    sizes = [(10, (3, 4)), (10, (9, 9)), (10, (10, 10)), (5, (3, 4)), (5, (2, 3))]
    more = [(10, (3, 4)), (10, (9, 9)), (10, (10, 10)), (5, (3, 4)), (10, (2, 2)), (10, (7, 7))]
    narrow = Setting("3", limited, connections=(13, 15))
    wide = Setting("3", limited, connections=(11, 15))
    return {
        "5.2 5.4": [Setting("1", few, n, m) for n, m in [*sizes, (10, (3, 6))]],
        "5.3": [Setting("1", most)],
        "5.5 5.7 5.8": [Setting("2", some, n, m) for n, m in [*more, (5, (2, 2))]],
        "5.6": [Setting("2", most)],
        "5.11 5.12": [
            Setting("1", limited),
            Setting("2", limited),
            *(Setting("3", limited, connections=(least, 15)) for least in (13, 14, 15)),
            *(Setting("4", limited, connections=(least, 15)) for least in (13, 14)),
        ],
        "5.13 5.14 5.15 5.16": [narrow, narrow.by("3", "random"), narrow.by("4")],
        "5.17 5.18 5.19 5.20": [
            wide,
            wide.by("3.1"),
            wide.by("3.1", "random"),
            wide.by("4"),
        ],
        "5.9": [Setting("2", some, 10, (7, 7))],
        "5.10": [Setting("2", some, 5, (2, 2))],
    }


OF_RATES = ("5.8", "5.12", "5.14", "5.18")
OF_SIZES = ("5.9", "5.10", "5.19")
OF_CLUSTER_RATES = ("5.15", "5.20")


def run(parameters: Parameters, seed: int, progress: Progress) -> list[Table]:
    curves = [(name, each) for name, list_ in figures(parameters).items() for each in list_]
    steps = len(curves) + parameters["seeds"] + len(parameters["many"]) + 1
    growth: list[dict[str, Any]] = []
    rates: list[dict[str, Any]] = []
    histograms: list[dict[str, Any]] = []
    for done, (figure, setting) in enumerate(curves):
        progress(f"figure {figure.split()[0]}, {setting.label}", done, steps)
        groups = _growth(figure, setting, seed, growth)
        histograms += _histograms(figure, setting, groups)
        if any(name in figure.split() for name in OF_RATES):
            rates += _rates(figure, setting, groups, parameters, seed)
    means, paired = _means(parameters, seed, progress, len(curves), steps)
    work = _work(parameters, seed, progress, len(curves) + parameters["seeds"], steps)
    progress("subscription clustering", steps - 1, steps)
    suits = _suits(parameters, seed)
    told = _told(growth, rates, histograms, means, paired)
    return _tables(told, means, paired, suits, growth, rates, histograms, work)


def _growth(figure: str, setting: Setting, seed: int, rows: list[dict[str, Any]]) -> Groups:
    for publishers, groups in grow(setting, seed):
        rows.append(
            {
                "figure": figure,
                "curve": setting.label,
                "publishers": publishers,
                "clusters": len(groups.clusters),
                "connections": mean_connections(groups),
            }
        )
    return groups


def _rates(
    figure: str, setting: Setting, groups: Groups, parameters: Parameters, seed: int
) -> list[dict[str, Any]]:
    told = served(groups, parameters["subscribers"], parameters["deliveries"], seed)
    return [
        {
            "figure": figure,
            "curve": setting.label,
            "subscribers": there,
            "received": received,
            "rate": in_vain / received,
        }
        for there, received, in_vain in told
    ]


def _histograms(figure: str, setting: Setting, groups: Groups) -> list[dict[str, Any]]:
    """How many clusters have how many combinations, and which rates."""
    from collections import Counter

    clusters = groups.clusters
    named = set(figure.split())
    found = []
    if named & set(OF_SIZES):
        sizes = Counter(len(cluster.combinations) for cluster in clusters)
        found += [("combinations", float(size), count) for size, count in sizes.items()]
    if named & set(OF_CLUSTER_RATES):
        binned = Counter(min(BINS - 1, int(c.false_positive_rate * BINS)) for c in clusters)
        found += [("rate from", place / BINS, count) for place, count in binned.items()]
    return [
        {"figure": figure, "curve": setting.label, "what": what, "value": value, "clusters": count}
        for what, value, count in sorted(found)
    ]


def _means(
    parameters: Parameters,
    seed: int,
    progress: Progress,
    done: int,
    steps: int,
    spark: SparkSession | None = None,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Means over seeds of all strategies at the thesis' limits, and differences in pairs."""
    from statistics import fmean, pstdev

    settings = [
        Setting("3", parameters["limited"], connections=limits).by(strategy, order)
        for limits in LIMITS
        for strategy, order in STRATEGIES
    ]
    seeds = range(seed, seed + parameters["seeds"])

    def tell(what: str, number: int, of: int) -> None:
        progress(f"means over seeds, {what}", done + number * len(seeds) // of, steps)

    if "cores" in parameters:
        found = _spread(settings, seeds, parameters["cores"], spark, tell)
    else:
        found = _one_by_one(settings, seeds, tell)
    rows = []
    for setting, runs in zip(settings, found, strict=True):
        least, most = setting.connections or (0, 0)
        row: dict[str, Any] = {
            "connections": f"{least}-{most}",
            "strategy": f"{setting.strategy} {setting.order}",
        }
        row |= {name: fmean(run[name] for run in runs) for name in runs[0] if name != "connections"}
        row["sd of the clusters"] = pstdev(run["clusters"] for run in runs)
        row["sd of the rate"] = pstdev(run["rate"] for run in runs)
        row["mean connections"] = fmean(run["connections"] for run in runs)
        rows.append(row)
    for row in rows:
        row["under the best of 3 and 3.1"] = _gain(row, rows)
    return rows, _paired(dict(zip(settings, found, strict=True)))


def _paired(found: Mapping[Setting, list[Facts]]) -> list[dict[str, Any]]:
    """Differences between two strategies with the same publishers, seed by seed."""
    from statistics import fmean, pstdev

    by = {(each.connections, f"{each.strategy} {each.order}"): runs for each, runs in found.items()}
    rows = []
    for (limits, one), (_, other) in (
        ((limits, one), (limits, other)) for limits in LIMITS for one, other in PAIRS
    ):
        row: dict[str, Any] = {
            "connections": "{}-{}".format(*limits),
            "first": one,
            "second": other,
            "seeds": len(by[limits, one]),
        }
        for what in ("rate", "clusters"):
            apart = [
                a[what] - b[what] for a, b in zip(by[limits, one], by[limits, other], strict=True)
            ]
            row |= {
                what: fmean(apart),
                f"{what} sd": pstdev(apart),
                f"{what} least": min(apart),
                f"{what} most": max(apart),
                f"{what} above 0": sum(each > 0 for each in apart) / len(apart),
            }
        rows.append(row)
    return rows


def _one_by_one(settings: list[Setting], seeds: range, tell: Progress) -> list[list[Facts]]:
    """The facts of each setting with each seed."""
    found: list[list[Facts]] = [[] for _ in settings]
    for number, seed in enumerate(seeds):
        tell(f"seed {seed}", number, len(seeds))
        for runs, setting in zip(found, settings, strict=True):
            groups = grown(setting, seed)
            groups.check_invariants()
            runs.append(facts(groups))
    return found


def _spread(
    settings: list[Setting], seeds: range, cores: int, spark: SparkSession | None, tell: Progress
) -> list[list[Facts]]:
    """The same, from tasks of Spark."""
    from kbn.lab.spark.sweep import NAMING, sweep

    table = sweep(settings, seeds, cores=cores, spark=spark, progress=tell)
    rows = table.drop_columns(list(NAMING)).to_pylist()
    return [rows[at : at + len(seeds)] for at in range(0, len(rows), len(seeds))]


def _gain(row: dict[str, Any], rows: list[dict[str, Any]]) -> float | None:
    """By which share strategy 4 has a lower rate than the best of 3 and 3.1."""
    same = [each for each in rows if each["connections"] == row["connections"]]
    best = min(each["rate"] for each in same if each["strategy"].startswith("3"))
    if not row["strategy"].startswith("4") or best == 0:
        return None
    return 1 - float(row["rate"]) / float(best)


def _suits(parameters: Parameters, seed: int) -> list[dict[str, Any]]:
    """Strategies and baselines for the same publishers, with a subscriber for each combination."""
    from kbn.lab.baselines.subscription_clusters import BASELINES

    setting = Setting("4", parameters["limited"], connections=LIMITS[0])
    rows = [
        _suit(f"strategy {strategy} {order}", None, grown(setting.by(strategy, order), seed), 1, 0)
        for strategy, order in STRATEGIES
    ]
    sets = [attributes for attributes, _ in setting.drawn(seed)]
    for most in BASELINE_CLUSTERS:
        for name, form in BASELINES.items():
            made = form(sets, most)
            made.check_invariants()
            joined = [len(numbers) for numbers in made.memberships.values()]
            alone = made.unicast_deliveries() / made.deliveries().received
            rows.append(_suit(name, most, made, sum(joined) / len(joined), alone))
    return rows


def _suit(
    name: str, most: int | None, made: Groups | SubscriptionClusters, joined: float, alone: float
) -> dict[str, Any]:
    used = [len(numbers) for numbers in made.connections.values()]
    return {
        "by": name,
        "at most": most,
        "clusters": len(made.clusters),
        "rate": made.false_positive_rate(),
        "mean connections": sum(used) / len(used),
        "most connections": max(used),
        "clusters of a subscriber": float(joined),
        "by unicast": float(alone),
    }


def _work(
    parameters: Parameters, seed: int, progress: Progress, done: int, steps: int
) -> list[dict[str, Any]]:
    """The time of arrivals, and of subscribers and deliveries, as multiples of strategy 1's."""
    from time import perf_counter

    rows = []
    for number, (publishers, omega) in enumerate(parameters["many"]):
        progress(f"{publishers} publishers, {omega} attributes", done + number, steps)
        base = 0.0
        for strategy in ("1", "2", "3", "3.1", "4"):
            setting = Setting(strategy, publishers, omega, connections=(11, 15))
            started = perf_counter()
            groups = grown(setting, seed)
            arriving = perf_counter() - started
            for _ in served(groups, parameters["subscribers"], parameters["deliveries"], seed):
                pass
            serving = perf_counter() - started - arriving
            base = base or arriving
            rows.append(
                {
                    "publishers": publishers,
                    "attributes": omega,
                    "strategy": strategy,
                    "arrivals s": arriving,
                    "against strategy 1": arriving / base,
                    "subscribers and deliveries s": serving,
                    "rate": groups.false_positive_rate(),
                }
            )
    return rows


# What the thesis says in words: figure, what, its number.
THEIRS: tuple[tuple[str, str, float], ...] = (
    ("5.2", "clusters, strategy 1, 3-4 of 10", 116),
    ("5.2", "clusters, strategy 1, 9-9 of 10", 1022),
    ("5.2", "clusters, strategy 1, 10-10 of 10", 1),
    ("5.2", "clusters, strategy 1, 3-4 of 5", 30),
    ("5.2", "clusters, strategy 1, 2-3 of 5", 24),
    ("5.3", "clusters, strategy 1, 3-4 of 10, many", 385),
    ("5.4", "connections, strategy 1, 9-9 of 10", 511),
    ("5.5", "clusters, strategy 2, 9-9 of 10", 10),
    ("5.5", "clusters, strategy 2, 3-4 of 5", 5),
    ("5.5", "clusters, strategy 2, 10-10 of 10", 1),
    ("5.6", "clusters, strategy 2, 3-4 of 10, many", 210),
    ("5.7", "connections, strategy 2, 7-7 of 10", 14),
    ("5.8", "rate, strategy 2, 2-2 of 5", 0.40),
    ("5.8", "rate, strategy 2, 10-10 of 10", 0.0),
    ("5.9", "largest cluster, strategy 2, 7-7 of 10", 96),
    ("5.10", "largest cluster, strategy 2, 2-2 of 5", 3),
    ("5.12", "rate, strategy 3 descending, 14-15 connections, 3-4 of 10", 0.45),
    ("5.12", "rate, strategy 3 descending, 15-15 connections, 3-4 of 10", 0.0),
    ("5.12", "rate under strategy 2, at 13-15 connections", 0.10),
    ("5.13", "share of seeds with more clusters descending, strategy 3, 13-15", 1.0),
    ("5.14", "rate of random over descending, strategy 3, 13-15", 0.10),
    ("5.17", "clusters, strategy 3.1 descending, 11-15 connections, 3-4 of 10", 155),
    ("5.17", "clusters, strategy 3.1 random, 11-15 connections, 3-4 of 10", 215),
    ("5.18", "share of seeds in which 3.1 has a lower rate than 3, 11-15", 1.0),
    ("5.18", "share of seeds with a higher rate at random, strategy 3.1, 11-15", 1.0),
    ("5.19", "largest cluster, strategy 3.1 descending, 11-15 connections, 3-4 of 10", 10),
    ("5.20", "rate per cluster, strategy 3.1 random, 11-15", 0.159),
    ("5.20", "sd per cluster, strategy 3.1 random, 11-15", 0.258),
)


def _told(
    growth: list[dict[str, Any]],
    rates: list[dict[str, Any]],
    histograms: list[dict[str, Any]],
    means: list[dict[str, Any]],
    paired: list[dict[str, Any]],
) -> list[dict[str, Any]]:
    """Our number for each the thesis tells: of the seed's system, and the mean over seeds."""
    ours: dict[tuple[str, str], float] = {}
    for row in growth:
        for figure in row["figure"].split():
            many = ", many" if figure in ("5.3", "5.6") else ""
            ours[figure, f"clusters, {row['curve']}{many}"] = row["clusters"]
            ours[figure, f"connections, {row['curve']}"] = row["connections"]
    for row in rates:
        for figure in row["figure"].split():
            ours[figure, f"rate, {row['curve']}"] = row["rate"]
    for row in histograms:
        if row["what"] == "combinations":
            for figure in row["figure"].split():
                ours[figure, f"largest cluster, {row['curve']}"] = row["value"]
    mean = {(row["strategy"], row["connections"]): row for row in means}
    wide = mean["3.1 random", "11-15"]
    ours["5.20", "rate per cluster, strategy 3.1 random, 11-15"] = wide["rate per cluster"]
    ours["5.20", "sd per cluster, strategy 3.1 random, 11-15"] = wide["sd per cluster"]
    narrow = mean["3 descending", "13-15"]["rate"]
    ours["5.12", "rate under strategy 2, at 13-15 connections"] = (
        mean["2 descending", "13-15"]["rate"] - narrow
    )
    ours["5.14", "rate of random over descending, strategy 3, 13-15"] = (
        mean["3 random", "13-15"]["rate"] - narrow
    )
    apart = {(row["first"], row["connections"]): row for row in paired}
    fewer, wide_3 = apart["3 random", "13-15"], apart["3 descending", "11-15"]
    ours["5.13", "share of seeds with more clusters descending, strategy 3, 13-15"] = (
        1 - fewer["clusters above 0"]
    )
    ours["5.18", "share of seeds in which 3.1 has a lower rate than 3, 11-15"] = wide_3[
        "rate above 0"
    ]
    ours["5.18", "share of seeds with a higher rate at random, strategy 3.1, 11-15"] = apart[
        "3.1 random", "11-15"
    ]["rate above 0"]
    return [
        {"figure": figure, "what": what, "ours": float(ours[figure, what]), "thesis": theirs}
        for figure, what, theirs in THEIRS
    ]


def _tables(
    told: list[dict[str, Any]],
    means: list[dict[str, Any]],
    paired: list[dict[str, Any]],
    suits: list[dict[str, Any]],
    growth: list[dict[str, Any]],
    rates: list[dict[str, Any]],
    histograms: list[dict[str, Any]],
    work: list[dict[str, Any]],
) -> list[Table]:
    import pyarrow as pa

    theirs = pa.table(
        {"figure": [f for f, _, _ in THEIRS], "thesis": [number for _, _, number in THEIRS]}
    )
    made = pa.Table.from_pylist
    return [
        Table("told", made(told), "What the thesis tells in numbers", _TOLD_NOTES, theirs),
        Table("means", made(means), "Means over seeds at the limits of the thesis", _MEANS_NOTES),
        Table("paired", made(paired), "Differences with the same publishers", _PAIRED_NOTES),
        Table("suits", made(suits), "Which suits: strategies and baselines", _SUITS_NOTES),
        Table("growth", made(growth), "Clusters and connections as publishers arrive"),
        Table("rates", made(rates), "False positives as subscribers arrive"),
        Table("histograms", made(histograms), "Clusters by size and by rate"),
        Table("work", made(work), "Time", ("Strategies 1 and 2 keep no limits.",)),
    ]


_TOLD_NOTES = (
    "The differences of 5.12 and 5.14 and the numbers of 5.20 are means over seeds; the others are "
    "of one system, as in the thesis.",
    "Clusters of 5.2 depend on which 50 publishers came: 1022, 30 and 25 are the most there can "
    "be. 5.9: the thesis names 96 as an example of a large one.",
    "The thesis has one run of each, and runs differ: see the deviations in the table of means. "
    "What it says of one run in words (5.13, 5.18) is 1 there, a share of seeds here.",
)
_MEANS_NOTES = (
    "Every run's clusters were checked: no combination in two, nobody over their limit.",
    "The rate is exact: one subscriber for each combination, one notification of each publisher.",
)
_PAIRED_NOTES = (
    "First less second, of the same publishers, over the seeds: mean, standard deviation, least, "
    "most, and the share of seeds in which it is above 0.",
)
_SUITS_NOTES = (
    "One system, one subscriber for each combination; publishers may have 11 to 15 connections, "
    "which strategies 1 and 2 and the baselines do not keep.",
    "k-means, pairwise and spanning tree give a publisher one connection and a subscriber many; "
    "strategies and channels the other way round.",
    "No-Loss reaches by unicast whom its clusters do not serve. Channels are no more than the "
    "combinations nothing else covers: here the single attributes.",
    "The baselines must know all subscribers beforehand; the strategies follow arrivals.",
)


def plot(tables: Sequence[Table], folder: Path) -> list[Path]:
    from kbn.pages import plots

    found = {table.name: table.data.to_pylist() for table in tables}
    drawn = []
    for y, names in (
        ("clusters", ("5.2", "5.3", "5.5", "5.6", "5.11", "5.13", "5.17")),
        ("connections", ("5.4", "5.7")),
    ):
        for name in names:
            series = _series(found["growth"], name, "publishers", y)
            path = folder / f"figure-{name}.svg"
            is_steep = name in ("5.2", "5.4")
            drawn.append(
                plots.lines(
                    path, series, title=f"Figure {name}", x="publishers", y=y, log_y=is_steep
                )
            )
    for name in OF_RATES:
        series = _series(found["rates"], name, "subscribers", "rate")
        path = folder / f"figure-{name}.svg"
        drawn.append(
            plots.lines(path, series, title=f"Figure {name}", x="subscribers", y="false positives")
        )
    return drawn + _draw_histograms(found["histograms"], folder)


def _series(
    rows: list[dict[str, Any]], figure: str, x: str, y: str
) -> dict[str, list[tuple[float, float]]]:
    series: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if figure in row["figure"].split():
            series.setdefault(row["curve"], []).append((row[x], row[y]))
    return series


def _draw_histograms(rows: list[dict[str, Any]], folder: Path) -> list[Path]:
    from kbn.pages import plots

    drawn = []
    for name in (*OF_SIZES, *OF_CLUSTER_RATES):
        what = "combinations" if name in OF_SIZES else "rate from"
        chosen = [r for r in rows if name in r["figure"].split() and r["what"] == what]
        values = sorted({row["value"] for row in chosen})
        series: dict[str, dict[str, float]] = {}
        for row in chosen:
            empty = {f"{value:g}": 0.0 for value in values}
            series.setdefault(row["curve"], empty)[f"{row['value']:g}"] = row["clusters"]
        x = "combinations" if name in OF_SIZES else "false positive rate"
        title = f"Figure {name}: clusters by {x}"
        path = folder / f"figure-{name}.svg"
        drawn.append(plots.bars(path, series, title=title, x=x, y="clusters"))
    return drawn


EXPERIMENT = Experiment(
    name="publisher-groups",
    source="Stuttgart thesis (Biliniewicz), chapter 5",
    question="how many clusters, connections and false positives has each clustering strategy?",
    scales={
        Scale.SMALL: {
            "few": 50,
            "some": 60,
            "most": 300,
            "limited": 100,
            "subscribers": 1_000,
            "deliveries": 50_000,
            "seeds": 1,
            "many": [(200, 10)],
        },
        Scale.PAPER: {
            "few": 50,
            "some": 200,
            "most": 3_000,
            "limited": 1_000,
            "subscribers": 30_000,
            "deliveries": 4_800_000,
            "seeds": 200,
            "cores": 2,
            "many": [(1_000, 10)],
        },
        Scale.BEYOND: {
            "few": 50,
            "some": 1_000,
            "most": 10_000,
            "limited": 10_000,
            "subscribers": 300_000,
            "deliveries": 100_000_000,
            "seeds": 20,
            "cores": 2,
            "many": [(1_000, 10), (100_000, 10), (20_000, 16)],
        },
    },
    run=run,
    plot=plot,
)
