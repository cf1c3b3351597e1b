"""`kbn bench spark`: podcasts from Parquet to matches, beside Spark SQL in the same run.

1. The workload is written to Parquet (not timed).
2. The subscriptions are compiled into a store, on one core; opening it in a worker is told apart.
3. Notifications are read and matched, counted by group, from both forms they can have; a part of
   them is expanded to pairs. On one core, then on two: the second session uses the same JVM, and
   each measurement has warm-up runs before it, because the first run of anything is compilation.
4. The relational plans get a few notifications: they are slow. Their totals must be ours.

CPU is that of the whole process tree: driver, JVM with its collector and compiler, Python workers.
The least of the rounds counts. Rates are per core-second of CPU; the wall clock stands beside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from kbn.errors import InvalidInputError
from kbn.lab.experiment import Progress, silent
from kbn.lab.measuring import EnginesDisagreeError, versions
from kbn.lab.spark import data, relational
from kbn.lab.spark.process_tree import Spent, spent, worker_memory
from kbn.lab.workloads.podcast import Podcast
from kbn.matching import SubscriptionStore
from kbn.spark import compile_subscriptions, match, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROUNDS = 3
TERMS = {"category": "class"}


@dataclass(frozen=True, slots=True)
class Settings:
    """How large a run is; `pairs` are the notifications that are expanded."""

    subscriptions: int = 100_000
    notifications: int = 100_000
    pairs: int = 500
    relational: int = 100
    cores: tuple[int, ...] = (1, 2)
    shards: int = 1
    seed: int = 0
    memory: str = "2g"

    def __post_init__(self) -> None:
        for name in ("subscriptions", "notifications", "pairs", "shards"):
            if getattr(self, name) < 1:
                raise InvalidInputError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not self.cores or min(self.cores) < 1:
            raise InvalidInputError(f"cores are numbers from 1, not {self.cores}")


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement: so many things in so much time."""

    what: str
    cores: int
    count: int
    wall_s: float
    cpu_s: float

    @property
    def per_core_second(self) -> float:
        return self.count / self.cpu_s

    @property
    def per_second(self) -> float:
        return self.count / self.wall_s

    def as_json(self) -> dict[str, Any]:
        rates = {"per_core_second": self.per_core_second, "per_second": self.per_second}
        return {**asdict(self), **rates}


@dataclass(frozen=True, slots=True)
class Report:
    """A whole run."""

    settings: Settings
    rows: tuple[Row, ...]
    facts: dict[str, Any]
    machine: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        return {
            "settings": asdict(self.settings),
            "rows": [row.as_json() for row in self.rows],
            **self.facts,
            "machine": self.machine,
        }


def run(settings: Settings, progress: Progress = silent) -> Report:
    """Measure; EnginesDisagreeError when the relational plans count otherwise than we do."""
    with TemporaryDirectory(prefix="kbn-bench-", ignore_cleanup_errors=True) as place:
        return _Run(settings, Path(place), progress).report()


class _Run:
    def __init__(self, settings: Settings, place: Path, progress: Progress) -> None:
        self.settings = settings
        self.place = place
        self.progress = progress
        self.workload = Podcast()
        self.rows: list[Row] = []
        self.facts: dict[str, Any] = {}

    def report(self) -> Report:
        settings = self.settings
        self.progress("writing the workload", 0, 0)
        data.write_subscriptions(self.workload, settings.subscriptions, settings.seed, self.place)
        data.write_notifications(
            self.workload, settings.notifications, settings.seed + 1, self.place
        )
        for place, cores in enumerate(settings.cores):
            spark = self._session(cores)
            try:
                if place == 0:
                    self._compile(spark)
                self._match(spark, cores)
                if place == 0:
                    self._relational(spark, cores)
            finally:
                spark.stop()
        self._ratios()
        return Report(settings, tuple(self.rows), self.facts, versions())

    def _session(self, cores: int) -> SparkSession:
        small = {"spark.driver.memory": self.settings.memory, "spark.sql.shuffle.partitions": "2"}
        return session(f"local[{cores}]", app="kbn bench", settings=small)

    def _compile(self, spark: SparkSession) -> None:
        self.progress("compiling the subscriptions", 0, 0)
        spark.range(1).mapInArrow(_nothing, "id long").count()
        table = spark.read.parquet(str(self.place / "subscriptions.parquet"))
        took, store = spent(
            lambda: compile_subscriptions(
                table, self.workload.ontology, self.place / "store", shards=self.settings.shards
            )
        )
        self._add("compile", self.settings.cores[0], self.settings.subscriptions, took)
        opening, view = spent(lambda: SubscriptionStore.open(store.directory).at())
        files = [f for f in store.directory.rglob("*") if f.is_file()]
        self.facts["store"] = {
            "bytes": sum(file.stat().st_size for file in files),
            "groups": sum(s.group_count for s in view.shards.values()),
            "open_s": opening.wall_s,
        }

    def _match(self, spark: SparkSession, cores: int) -> None:
        store = SubscriptionStore.open(self.place / "store")
        for form in ("columns", "json"):
            table = spark.read.parquet(str(self.place / form))
            terms = TERMS if form == "columns" else None
            counted = match(table, store, terms=terms, expand=False)
            self._measure(f"counted, {form}", cores, self.settings.notifications, _counts(counted))
        some = spark.read.parquet(str(self.place / "columns")).where(
            F.col("id") < self.settings.pairs
        )
        pairs = match(some.repartition(4 * cores), store, terms=TERMS)
        self._measure("pairs", cores, None, _pairs(pairs))
        self.facts[f"workers on {cores}"] = worker_memory(str(self.place / "store"))

    def _measure(self, what: str, cores: int, count: int | None, work: Callable[[], int]) -> None:
        best: Spent | None = None
        answer = 0
        for number in range(ROUNDS + 1):
            self.progress(f"{what} on {cores}", number, ROUNDS + 1)
            took, answer = spent(work)
            if number and (best is None or took.cpu_s < best.cpu_s):
                best = took
        assert best is not None
        self.facts.setdefault("answers", {})[what] = answer
        self._add(what, cores, answer if count is None else count, best)

    def _relational(self, spark: SparkSession, cores: int) -> None:
        if not self.settings.relational:
            return
        ontology = self.workload.ontology
        assert ontology is not None
        some = spark.read.parquet(str(self.place / "columns"))
        some = some.where(F.col("id") < self.settings.relational).repartition(cores).cache()
        count = some.count()
        ours = match(some, SubscriptionStore.open(self.place / "store"), terms=TERMS, expand=False)
        expected = _counts(ours)()
        filters = spark.read.parquet(str(self.place / "filters.parquet"))
        plans = {"predicate": relational.predicate, "counting": relational.counting}
        for name, plan in plans.items():
            self.progress(f"SQL, {name}", 0, 0)
            work = _counts(plan(some, filters, ontology))
            work()  # the first run is compilation
            took, total = spent(work)
            if total != expected:
                raise EnginesDisagreeError(f"SQL ({name}) counts {total} matches, we {expected}")
            self._add(f"SQL, {name}", cores, count, took)
        some.unpersist()

    def _ratios(self) -> None:
        by = {(row.what, row.cores): row for row in self.rows}
        one = self.settings.cores[0]
        ours = by["counted, columns", one]
        self.facts["times SQL"] = {
            row.what: ours.per_core_second / row.per_core_second
            for row in self.rows
            if row.what.startswith("SQL")
        }
        self.facts["efficiency"] = {
            f"{what}, {one} to {cores}": row.per_second / by[what, one].per_second / (cores / one)
            for (what, cores), row in by.items()
            if cores != one
        }

    def _add(self, what: str, cores: int, count: int, took: Spent) -> None:
        self.rows.append(Row(what, cores, count, took.wall_s, took.cpu_s))


def _counts(matched: DataFrame) -> Callable[[], int]:
    return lambda: int(matched.agg(F.sum("subscriptions")).collect()[0][0] or 0)


def _pairs(matched: DataFrame) -> Callable[[], int]:
    # Every row is built and looked at: the sum keeps Spark from taking a short cut. The query is
    # made anew each time, or Spark would use again what it shuffled the time before.
    def work() -> int:
        looked_at = matched.agg(F.count("*"), F.sum(F.col("subscriber") % 7))
        return int(looked_at.collect()[0][0])

    return work


def _nothing(batches: Any) -> Any:
    yield from batches
