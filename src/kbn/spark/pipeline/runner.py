"""Runs a pipeline: each stage that has to run, in order; what is done is written down at once."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from kbn.errors import KbnError
from kbn.ontology import Ontology
from kbn.spark.pipeline.config import PipelineConfig, load_config
from kbn.spark.pipeline.deciding import STAGES, Action, Decision, Found, Past, decide
from kbn.spark.pipeline.report import write_report
from kbn.spark.pipeline.stages import BY_RUN, WORK, Job, tables_of
from kbn.spark.pipeline.state import StageState, State, now
from kbn.spark.pipeline.tables import Tables

Progress = Callable[[str, int, int], None]
Session = SparkSession | Callable[[], SparkSession]

SETTINGS = {
    # A run names its files one by one; Spark would start a job to look at more than 32 of them.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    "spark.sql.shuffle.partitions": "8",
}
"""What suits a session of our own for a pipeline."""


@dataclass(frozen=True)
class Outcome:
    """What became of one stage."""

    stage: str
    action: Action
    why: str
    rows: dict[str, int]
    seconds: float
    new: dict[str, int] = field(default_factory=dict)
    """Of these rows, those that this run wrote."""
    told: tuple[str, ...] = ()
    """What it has to say beside: that nothing could be read, or is wrong with notifications."""

    def as_json(self) -> dict[str, Any]:
        """The same for programs."""
        return asdict(self)


def plan(
    config: PipelineConfig | str | Path, ontology: Ontology | None = None, *, full: bool = False
) -> list[Decision]:
    """What `run` would do about each stage now, and why; needs no Spark and changes nothing.

    ```python
    for decision in plan("pets.yaml"):
        print(decision.stage, decision.action, decision.why)
    ```
    """
    declared = _declared(config)
    state = State() if full else State.read(declared.output)
    return _planned(declared, ontology or declared.ontology.load(), state, full)


def run(
    config: PipelineConfig | str | Path,
    spark: Session,
    *,
    full: bool = False,
    until: str = STAGES[-1],
    progress: Progress | None = None,
) -> list[Outcome]:
    """Bring the output folder up to date; what became of each stage.

    The file, the paths it names and the ontology are checked first. `spark` is a session, or a
    function that starts one when it is needed. With `full` everything is done again. Stages after
    `until` are left alone.

    ```python
    for outcome in run("pets.yaml", kbn.spark.session):
        print(outcome.stage, outcome.action, outcome.rows)
    ```
    """
    declared = _declared(config)
    ontology = declared.ontology.load()
    with _alone(declared.output):
        state = State() if full else State.read(declared.output)
        decisions = _planned(declared, ontology, state, full)
        wanted = [one for one in decisions if STAGES.index(one.stage) <= STAGES.index(until)]
        state.name = declared.name
        work = _Run(declared, ontology, spark, state, progress or _silent)
        return work.through(wanted)


def table(spark: SparkSession, config: PipelineConfig, name: str) -> DataFrame:
    """A table that a pipeline made, all runs together.

    ```python
    counts = table(spark, load_config("pets.yaml"), "counts")
    ```
    """
    return Tables(config.output / "tables").read(spark, name)


def head(config: PipelineConfig, name: str, limit: int = 20) -> tuple[list[dict[str, Any]], int]:
    """The first rows of a table that a pipeline made, and how many it has; needs no Spark.

    ```python
    rows, total = head(load_config("pets.yaml"), "quarantine")
    ```
    """
    return Tables(config.output / "tables").head(name, limit)


def _declared(config: PipelineConfig | str | Path) -> PipelineConfig:
    return config if isinstance(config, PipelineConfig) else load_config(config)


def _silent(stage: str, done: int, total: int) -> None:
    """Progress that nobody watches."""


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Keep other runs out of an output folder; the lock goes with the process that holds it."""
    out.mkdir(parents=True, exist_ok=True)
    with (out / ".lock").open("w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise KbnError(f"{out}: another run is at work here; wait for it to end") from None
        yield


class _Run:
    """One run of a pipeline: Spark starts with the first stage that has something to do."""

    def __init__(
        self,
        config: PipelineConfig,
        ontology: Ontology,
        spark: Session,
        state: State,
        say: Progress,
    ) -> None:
        self.config = config
        self.ontology = ontology
        self.spark = spark
        self.state = state
        self.say = say

    def through(self, decisions: list[Decision]) -> list[Outcome]:
        """Do what was decided."""
        total = sum(decision.action != "skip" for decision in decisions)
        job: Job | None = None
        done = 0
        outcomes = []
        for decision in decisions:
            seconds = 0.0
            if decision.action != "skip":
                self.say(decision.stage, done, total)
                job = job or self._begun(total)
                seconds = _do(job, decision, self.state)
                done += 1
            rows = dict(self.state.stages[decision.stage].rows)
            new = {} if job is None or decision.action == "skip" else _written(job, decision, rows)
            told = () if job is None else tuple(job.told)
            if job is not None:
                job.told.clear()
            made = Outcome(decision.stage, decision.action, decision.why, rows, seconds, new, told)
            outcomes.append(made)
        return outcomes

    def _begun(self, total: int) -> Job:
        tables = Tables(self.config.output / "tables")
        tables.clear_unfinished()
        _forget_what_is_not_declared(self.config, self.state, tables)
        self.say("starting Spark", 0, total)
        session = self.spark() if callable(self.spark) else self.spark
        return Job(self.config, self.ontology, tables, session)


def _do(job: Job, decision: Decision, state: State) -> float:
    """Do one stage and write down that it is done; the seconds it took."""
    before = time.perf_counter()
    names = tables_of(decision.stage, job.config)
    if decision.stage == "report":
        write_report(job, state)
    else:
        WORK[decision.stage](job, decision)
    for name in names:
        if name in BY_RUN:
            job.tables.keep_runs(name, decision.runs)
    rows = {name: job.tables.rows(name) for name in names}
    seconds = time.perf_counter() - before
    state.stages[decision.stage] = StageState(
        decision.inputs, decision.runs, rows, round(seconds, 3), now()
    )
    state.write(job.out)
    return seconds


def _written(job: Job, decision: Decision, rows: Mapping[str, int]) -> dict[str, int]:
    """How many rows of its tables a stage wrote in this run."""
    runs = (*decision.todo, *(decision.late if job.config.options.backfill else ()))
    return {
        name: sum(job.tables.rows(name, run) for run in runs) if name in BY_RUN else count
        for name, count in rows.items()
    }


def _planned(
    config: PipelineConfig, ontology: Ontology, state: State, full: bool
) -> list[Decision]:
    return decide(config, ontology, Found.of(config), _past(config, state, full))


def _past(config: PipelineConfig, state: State, full: bool) -> Past:
    """What the last runs left, as far as their tables are still there."""
    if full:
        return Past(again="--full: everything is done again")
    if state.is_outdated:
        return Past(again="another version of kbn made what is there")
    tables = Tables(config.output / "tables")
    there = {
        stage: known
        for stage, known in state.stages.items()
        if _outputs_are_there(stage, known, config, tables)
    }
    return Past(there, state.stages.keys() - there.keys())


def _outputs_are_there(
    stage: str, known: StageState, config: PipelineConfig, tables: Tables
) -> bool:
    if stage not in STAGES:
        return False
    if stage == "report" and not (config.output / "report.html").exists():
        return False
    if stage == "compile" and not (config.output / "store" / "store.json").exists():
        return False
    return all(tables.has(name, known.runs if name in BY_RUN else None) for name in known.rows)


def _forget_what_is_not_declared(config: PipelineConfig, state: State, tables: Tables) -> None:
    """Remove the tables of stages that the file declared once and does not declare now."""
    undeclared = [
        *(() if config.deliver else ("deliver",)),
        *(() if config.deliveries else ("hops",)),
        *(() if config.brokers else ("plan",)),
    ]
    for stage in undeclared:
        if state.stages.pop(stage, None) is not None:
            for name in tables_of(stage, config):
                tables.remove(name)
