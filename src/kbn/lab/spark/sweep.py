"""Many settings of publishers at once, spread over the tasks of Spark.

A task has some settings with some seeds: it grows a system of groups for each, checks it and
returns a row of facts. Nothing is shared between tasks, so cores do not wait for each other. Rows
come back in the order of the settings, and are those that growing the systems one by one gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import count, product
from typing import TYPE_CHECKING, Any

from kbn.errors import InvalidInputError, KbnError
from kbn.lab.experiment import Progress, silent
from kbn.lab.publishers import Setting, facts, grown

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

Run = tuple[Setting, int]

POLL_S = 0.2
# A worker may have to import all we need first, which takes as long as growing dozens of systems;
# but settings differ in cost, and whoever is done should find something left to do.
TASKS_PER_CORE = 8
NAMING = ("setting", "strategy", "order", "publishers", "omega", "seed")  # the others are facts
COLUMNS = {
    **dict.fromkeys(("setting", "strategy", "order", "trouble"), "string"),
    **dict.fromkeys(("run", "publishers", "omega", "seed", "clusters", "largest"), "long"),
    **dict.fromkeys(("connections", "rate", "rate per cluster", "sd per cluster"), "double"),
}
_NUMBERS = count(1)


class SweepError(KbnError):
    """A setting could not be run; `setting` says which."""

    def __init__(self, failed: Sequence[tuple[str, int, str]], runs: int) -> None:
        self.setting, self.seed, reason = failed[0]
        super().__init__(
            f"{len(failed)} of {runs} runs failed, first that of {self.setting}, "
            f"seed {self.seed}: {reason}"
        )


def sweep(
    settings: Sequence[Setting],
    seeds: Iterable[int],
    *,
    cores: int = 2,
    spark: SparkSession | None = None,
    progress: Progress = silent,
) -> pa.Table:
    """One row for each setting with each seed: what the thesis reports of a system.

    Without a session, one with so many cores is made and stopped again.
    """
    runs = list(product(settings, seeds))
    if not runs:
        raise InvalidInputError("a sweep needs a setting and a seed at least")
    with spark_session(spark, cores) as used:
        table = watched(
            used, len(runs), lambda own, tasks: _run(own, runs, tasks), progress, "systems grown"
        )
    table = table.sort_by("run")
    failed = [
        (each["setting"], each["seed"], each["trouble"])
        for each in table.to_pylist()
        if each["trouble"] is not None
    ]
    if failed:
        raise SweepError(failed, len(runs))
    return table.drop_columns(["run", "trouble"])


def row(setting: Setting, seed: int) -> dict[str, Any]:
    """What one run gives: the setting, the seed and the facts of the groups, which are checked."""
    groups = grown(setting, seed)
    groups.check_invariants()
    return _named(setting, seed) | facts(groups)


def _named(setting: Setting, seed: int) -> dict[str, Any]:
    values = (setting.label, setting.strategy, setting.order, setting.publishers, setting.omega)
    return dict(zip(NAMING, (*values, seed), strict=True))


def watched(
    spark: SparkSession,
    total: int,
    job: Callable[[SparkSession, int], pa.Table],
    progress: Progress,
    what: str,
) -> pa.Table:
    """Have a job of so many cases run in a thread of its own; tell how many have ended.

    The job is given the session and the number of tasks to divide its cases into.
    """
    group = f"kbn sweep {next(_NUMBERS)}"
    of = _tasks(spark, total)

    def grouped() -> pa.Table:
        spark.sparkContext.setJobGroup(group, f"a sweep: {what}")
        return job(spark, of)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(grouped)
        try:
            for done in _ended(spark, group, running):
                progress(what, min(total, done * total // of), total)
        except BaseException:  # an interrupt: do not wait for hundreds of systems
            spark.sparkContext.cancelJobGroup(group)
            raise
        table = _result(running)
    progress(what, total, total)
    return table


def _result(running: Future[pa.Table]) -> pa.Table:
    try:
        return running.result()
    except Exception as error:  # py4j and Spark each have their own
        raise KbnError(f"Spark did not finish the sweep: {error}") from error


def _ended(spark: SparkSession, group: str, running: Future[pa.Table]) -> Iterator[int]:
    """How many tasks have ended, each time it is more."""
    tracker = spark.sparkContext.statusTracker()
    told = -1
    while not wait([running], timeout=POLL_S).done:
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
        stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
        done = sum(stage.numCompletedTasks for stage in stages if stage)
        if done > told:
            told = done
            yield done


def _run(spark: SparkSession, runs: Sequence[Run], tasks: int) -> pa.Table:
    listed = list(runs)

    def grow_some(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from _grown_batches(batch.column(0).to_pylist(), listed)

    schema = ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS.items())
    numbers = spark.range(0, len(listed), 1, tasks)
    return numbers.mapInArrow(grow_some, schema).toArrow()


def _tasks(spark: SparkSession, runs: int) -> int:
    return min(runs, TASKS_PER_CORE * spark.sparkContext.defaultParallelism)


def _grown_batches(numbers: Iterable[int], runs: Sequence[Run]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    kinds = {"string": pa.string(), "long": pa.int64(), "double": pa.float64()}
    schema = pa.schema([(name, kinds[kind]) for name, kind in COLUMNS.items()])
    empty = dict.fromkeys(COLUMNS)
    for number in numbers:
        setting, seed = runs[number]
        found: dict[str, Any]
        try:
            found = row(setting, seed)
        except Exception as error:  # told with the setting's name when all have ended
            found = _named(setting, seed) | {"trouble": f"{type(error).__name__}: {error}"}
        yield pa.RecordBatch.from_pylist([empty | {"run": number} | found], schema=schema)


@contextmanager
def spark_session(spark: SparkSession | None, cores: int) -> Iterator[SparkSession]:
    """The session given, or one with so many cores that is stopped at the end."""
    if spark is not None:
        yield spark
        return
    from kbn.spark import session

    made = session(f"local[{cores}]", app="kbn sweep")
    try:
        yield made
    finally:
        made.stop()
