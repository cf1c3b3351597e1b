"""Runs a pipeline: each stage that has to run, in order; what is done is remembered at once."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from kbn.errors import KbnError
from kbn.ontology import Ontology
from kbn.spark.pipeline.config import PipelineConfig, load_config
from kbn.spark.pipeline.deciding import STAGES, Decision, Found, decide
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
    action: str
    why: str
    rows: dict[str, int]
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """The same for programs."""
        return asdict(self)


def plan(
    config: PipelineConfig | str | Path, ontology: Ontology | None = None, *, full: bool = False
) -> list[Decision]:
    """What `run` would do about each stage now, and why; needs no Spark and changes nothing."""
    declared = config if isinstance(config, PipelineConfig) else load_config(config)
    state = State() if full else State.read(declared.output)
    known = _still_there(declared, state)
    loaded = ontology if ontology is not None else declared.ontology.load()
    return decide(declared, loaded, Found.of(declared), known, full=full)


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
    function that starts one when it turns out to be needed. With `full` everything is done again.
    Stages after `until` are left alone.
    """
    say = progress or (lambda stage, done, total: None)
    declared = config if isinstance(config, PipelineConfig) else load_config(config)
    ontology = declared.ontology.load()
    with _alone(declared.output):
        return _run(declared, ontology, spark, full, STAGES.index(until), say)


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


def _run(
    declared: PipelineConfig,
    ontology: Ontology,
    spark: Session,
    full: bool,
    last: int,
    say: Progress,
) -> list[Outcome]:
    wanted = plan(declared, ontology, full=full)
    decisions = [one for one in wanted if STAGES.index(one.stage) <= last]
    todo = [decision for decision in decisions if decision.action != "skip"]
    state = State() if full else State.read(declared.output)
    state.name = declared.name
    job = None
    done = 0
    outcomes = []
    for decision in decisions:
        before = time.perf_counter()
        if decision.action != "skip":
            say(decision.stage, done, len(todo))
            if job is None:
                job = _begun(declared, ontology, spark, state, say, len(todo))
                before = time.perf_counter()
            _do(job, decision, state)
            done += 1
        known = state.stages[decision.stage]
        seconds = 0.0 if decision.action == "skip" else time.perf_counter() - before
        outcomes.append(
            Outcome(decision.stage, decision.action, decision.why, dict(known.rows), seconds)
        )
    return outcomes


def table(spark: SparkSession, config: PipelineConfig, name: str) -> DataFrame:
    """A table that a pipeline made, all runs together."""
    return Tables(config.output / "tables").read(spark, name)


def _begun(
    config: PipelineConfig,
    ontology: Ontology,
    spark: Session,
    state: State,
    say: Progress,
    total: int,
) -> Job:
    tables = Tables(config.output / "tables")
    tables.clear_unfinished()
    _forget_what_is_not_declared(config, state, tables)
    say("starting Spark", 0, total)
    session = spark() if callable(spark) else spark
    return Job(config, ontology, tables, session)


def _do(job: Job, decision: Decision, state: State) -> None:
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


def _still_there(config: PipelineConfig, state: State) -> dict[str, StageState]:
    """The stages whose tables have not been removed since."""
    tables = Tables(config.output / "tables")
    return {
        stage: known
        for stage, known in state.stages.items()
        if _outputs_are_there(stage, known, config, tables)
    }


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
    """Tables of stages that the file declared once and does not any more."""
    declared: Sequence[str] = [
        *(() if config.deliveries else ("hops",)),
        *(() if config.brokers else ("plan",)),
    ]
    for stage in declared:
        if state.stages.pop(stage, None) is not None:
            for name in tables_of(stage, config):
                tables.remove(name)
