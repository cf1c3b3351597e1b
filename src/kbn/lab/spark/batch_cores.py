"""What `kbn bench spark` measures on so many cores: one process, pinned to so many CPUs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from kbn.errors import InvalidInputError
from kbn.lab.measuring import EnginesDisagreeError
from kbn.lab.spark import relational
from kbn.lab.spark.process_tree import Spent, TreeClock, worker_memory
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
    why: bool = False
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
    """One measurement: so many things in so much time, the mean of some rounds."""

    what: str
    cores: int
    count: int
    wall_s: float
    cpu_s: float
    wall_spread_s: float
    """The slowest round less the fastest."""
    cpu_spread_s: float
    rounds: int

    @property
    def per_core_second(self) -> float:
        return self.count / self.cpu_s

    @property
    def per_second(self) -> float:
        return self.count / self.wall_s

    def as_json(self) -> dict[str, Any]:
        rates = {"per_core_second": self.per_core_second, "per_second": self.per_second}
        return {**asdict(self), **rates}

    @classmethod
    def of(cls, what: str, cores: int, count: int, rounds: list[Spent]) -> Row:
        """The mean of rounds and how far they lie apart."""
        wall, cpu = [r.wall_s for r in rounds], [r.cpu_s for r in rounds]
        spreads = max(wall) - min(wall), max(cpu) - min(cpu)
        return cls(what, cores, count, mean(wall), mean(cpu), *spreads, len(rounds))


def cpus() -> list[int]:
    """The CPUs that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux has it
    return sorted(affinity(0)) if affinity else list(range(os.cpu_count() or 1))


def measure(settings: Settings, place: Path, cores: int) -> tuple[list[Row], dict[str, Any]]:
    """Pin this process and all it will start, and measure; call it in a process of its own."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cpus()[:cores])
    small = {"spark.driver.memory": settings.memory, "spark.sql.shuffle.partitions": "2"}
    spark = session(f"local[{cores}]", app="kbn bench", settings=small)
    try:
        return _OnCores(settings, place, cores, spark).measured()
    finally:
        spark.stop()


class _OnCores:
    def __init__(self, settings: Settings, place: Path, cores: int, spark: SparkSession) -> None:
        self.settings = settings
        self.place = place
        self.cores = cores
        self.spark = spark
        self.clock = TreeClock()
        self.ontology = Podcast().ontology
        self.rows: list[Row] = []
        self.facts: dict[str, Any] = {"answers": {}}

    def measured(self) -> tuple[list[Row], dict[str, Any]]:
        is_first = self.cores == self.settings.cores[0]
        self._compile_distinct()
        if is_first:
            self._compile()
        self._match()
        if is_first and self.settings.relational:
            self._relational()
        return self.rows, self.facts

    def _compile_distinct(self) -> None:
        table = self.spark.read.parquet(str(self.place / "distinct.parquet"))
        place = self.place / "distinct"

        def work() -> int:
            shutil.rmtree(place, ignore_errors=True)
            store = compile_subscriptions(table, self.ontology, place, shards=self.cores)
            return sum(shard.group_count for shard in store.at().shards.values())

        # The first loads the kernels into the workers.
        self._measure("compile, all distinct", self.settings.subscriptions, work)

    def _compile(self) -> None:
        table = self.spark.read.parquet(str(self.place / "subscriptions.parquet"))
        shards = self.settings.shards
        took, store = self.clock.spent(
            lambda: compile_subscriptions(table, self.ontology, self.place / "store", shards=shards)
        )
        self._add("compile", self.settings.subscriptions, [took])
        opening, view = self.clock.spent(lambda: SubscriptionStore.open(store.directory).at())
        files = [f for f in store.directory.rglob("*") if f.is_file()]
        self.facts["store"] = {
            "bytes": sum(file.stat().st_size for file in files),
            "groups": sum(s.group_count for s in view.shards.values()),
            "open_s": opening.wall_s,
        }

    def _match(self) -> None:
        store = SubscriptionStore.open(self.place / "store")
        for form in ("columns", "json"):
            table = self.spark.read.parquet(str(self.place / form))
            terms = TERMS if form == "columns" else None
            counted = match(table, store, terms=terms, expand=False)
            self._measure(f"counted, {form}", self.settings.notifications, _counts(counted))
        some = self.spark.read.parquet(str(self.place / "columns")).where(
            F.col("id") < self.settings.pairs
        )
        pairs = match(some.repartition(4 * self.cores), store, terms=TERMS)
        self._measure("pairs", None, _pairs(pairs))
        if self.settings.why:
            explained = match(some.repartition(4 * self.cores), store, terms=TERMS, why=True)
            self._measure("pairs, why", None, _explained(explained))
        self.facts[f"workers on {self.cores}"] = worker_memory(str(self.place / "store"))

    def _relational(self) -> None:
        assert self.ontology is not None
        some = self.spark.read.parquet(str(self.place / "columns"))
        some = some.where(F.col("id") < self.settings.relational).repartition(self.cores).cache()
        count = some.count()
        ours = match(some, SubscriptionStore.open(self.place / "store"), terms=TERMS, expand=False)
        expected = _counts(ours)()
        filters = self.spark.read.parquet(str(self.place / "filters.parquet"))
        plans = {"predicate": relational.predicate, "counting": relational.counting}
        for name, plan in plans.items():
            work = _counts(plan(some, filters, self.ontology))
            work()  # the first run is compilation
            took, total = self.clock.spent(work)
            if total != expected:
                raise EnginesDisagreeError(f"SQL ({name}) counts {total} matches, we {expected}")
            self._add(f"SQL, {name}", count, [took])
        some.unpersist()

    def _measure(self, what: str, count: int | None, work: Callable[[], int]) -> None:
        rounds: list[Spent] = []
        for _ in range(ROUNDS + 1):
            took, answer = self.clock.spent(work)
            rounds.append(took)
        self.facts["answers"][what] = answer
        self._add(what, answer if count is None else count, rounds[1:])

    def _add(self, what: str, count: int, rounds: list[Spent]) -> None:
        self.rows.append(Row.of(what, self.cores, count, rounds))


def _counts(matched: DataFrame) -> Callable[[], int]:
    return lambda: int(matched.agg(F.sum("subscriptions")).collect()[0][0] or 0)


def _pairs(matched: DataFrame) -> Callable[[], int]:
    # Every row is built and looked at: the sum keeps Spark from taking a short cut. The query is
    # made anew each time, or Spark would use again what it shuffled the time before.
    def work() -> int:
        looked_at = matched.agg(F.count("*"), F.sum(F.col("subscriber") % 7))
        return int(looked_at.collect()[0][0])

    return work


def _explained(matched: DataFrame) -> Callable[[], int]:
    def work() -> int:
        looked_at = matched.agg(
            F.count("*"), F.sum(F.col("subscriber") % 7), F.sum(F.size("why"))
        ).collect()[0]
        assert looked_at[2] >= looked_at[0], "a pair without a reason"
        return int(looked_at[0])

    return work
