"""`kbn pipeline`: run a declared pipeline on Spark, say what a run would do, what is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kbn.cli.output import (
    AsJson,
    local_time,
    print_json,
    print_json_line,
    print_table,
    progress,
    remark,
    remark_on_compiling,
)
from kbn.wording import counted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kbn.spark.pipeline import Outcome, PipelineConfig

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Run a declared pipeline on Spark."
)

File = Annotated[
    Path, typer.Argument(metavar="FILE", help="The YAML file that declares the pipeline.")
]
SparkMaster = Annotated[
    str | None,
    typer.Option(
        "--spark-master",
        metavar="URL",
        help="Where Spark runs: local[N], spark://… or sc://… (Spark Connect).",
    ),
]
Full = Annotated[bool, typer.Option("--full", help="Run every stage again.")]


@app.command("run")
def run(
    file: File, spark_master: SparkMaster = None, full: Full = False, as_json: AsJson = False
) -> None:
    """Bring the tables, the plan and the page of a pipeline up to date.

    Only what changed since the last run is done: new files are read and matched, what depends on a
    changed ontology, mapping or subscription is made anew.

    \b
    Examples:
      kbn pipeline run podcasts.yaml
      kbn pipeline run podcasts.yaml --spark-master local[2] --full
    """
    from kbn.spark import pipeline

    config = pipeline.load_config(file)
    remark_on_compiling()
    outcomes = run_with_progress(config, session_starter(spark_master), full)
    page = config.output / "report.html"
    if as_json:
        stages = [outcome.as_json() for outcome in outcomes]
        print_json({"name": config.name, "stages": stages, "report": str(page)})
    else:
        print_outcomes(outcomes)
        typer.echo(f"\n{page}")
    remark_on_outcomes(outcomes, f"see kbn pipeline show {file} quarantine, or problems")


@app.command("plan", short_help="Say what a run would do with each stage, and why.")
def plan(file: File, full: Full = False, as_json: AsJson = False) -> None:
    """Say for each stage whether a run would do it, append to it or skip it, and why.

    \b
    Example:
      kbn pipeline plan podcasts.yaml
    """
    from kbn.spark import pipeline

    decisions = pipeline.plan(file, full=full)
    if as_json:
        print_json([{"stage": d.stage, "action": d.action, "why": d.why} for d in decisions])
        return
    print_table([(d.stage, d.action, d.why) for d in decisions], columns=["stage", "does", "why"])


@app.command("status", short_help="Say what the last runs left.")
def status(file: File, as_json: AsJson = False) -> None:
    """Say what the last runs left: tables, their rows, when they were made, how long it took.

    \b
    Example:
      kbn pipeline status podcasts.yaml
    """
    from kbn.spark import pipeline

    found = pipeline.status(pipeline.load_config(file).output)
    if as_json:
        print_json(found.as_json())
        return
    if not found.stages:
        remark(f"{found.out}: nothing has run yet; kbn pipeline run {file}")
        return
    rows = []
    for name, stage in found.stages.items():
        runs = str(len(stage.runs)) if stage.runs else ""
        made = (name, _tables(stage.rows), runs, f"{stage.seconds:.1f}", _local(stage.finished))
        rows.append(made)
    print_table(rows, columns=["stage", "tables", "runs", "seconds", "finished"])


@app.command("show", short_help="Print rows of a table: quarantine, problems, matches, …")
def show(
    file: File,
    table: Annotated[
        str, typer.Argument(metavar="TABLE", help="A table of the output folder, or subscriptions.")
    ],
    limit: Annotated[int, typer.Option("--limit", min=1, help="So many rows at most.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Print the first rows of a table that a pipeline made; `subscriptions` is who wants what.

    \b
    Examples:
      kbn pipeline show podcasts.yaml quarantine
      kbn pipeline show podcasts.yaml subscriptions --limit 5 --json
    """
    from kbn.spark import pipeline

    config = pipeline.load_config(file)
    if table == "subscriptions":
        from kbn.cli.store import print_subscriptions

        print_subscriptions(config.output, None, limit, as_json)
        return
    rows, total = pipeline.head(config, table, limit)
    if as_json:
        for row in rows:
            print_json_line(row)
        return
    if rows:
        print_table([tuple(map(_cell, row.values())) for row in rows], columns=list(rows[0]))
    remark(f"{len(rows):,} of {counted(total, 'row')} of {table}")


def _cell(value: object) -> str:
    return "" if value is None else str(value)


def remark_on_outcomes(outcomes: list[Outcome], where: str) -> None:
    """What the stages have to say, on stderr; the exit code is 1 when nothing could be read."""
    told = [said for one in outcomes for said in one.told]
    for said in told:
        remark(said)
    if told:
        remark(where)
    rows = {name: count for one in outcomes for name, count in one.rows.items()}
    if rows.get("quarantine") and not rows.get("notifications"):
        raise typer.Exit(1)


def require_spark() -> None:
    """Say that Spark is not installed, before the work that needs it."""
    import kbn.spark  # noqa: F401


def run_with_progress(
    config: PipelineConfig, start: Callable[[], SparkSession], full: bool = False
) -> list[Outcome]:
    """Run a pipeline, with the stage it is in on stderr."""
    from kbn.spark import pipeline

    with progress() as show:
        return pipeline.run(config, start, full=full, progress=show)


def session_starter(
    master: str | None, more: Mapping[str, str] | None = None
) -> Callable[[], SparkSession]:
    """A function that starts Spark when it is called, or gives the one that runs."""

    def start() -> SparkSession:
        from kbn.spark import session
        from kbn.spark.pipeline import SETTINGS

        return session(master, settings={**SETTINGS, **(more or {})})

    return start


def print_outcomes(outcomes: list[Outcome]) -> None:
    """What became of each stage, as a table."""
    rows = []
    for one in outcomes:
        seconds = "" if one.action == "skip" else f"{one.seconds:.1f}"
        rows.append((one.stage, one.action, _tables(one.rows), seconds, one.why))
    print_table(rows, columns=["stage", "did", "rows", "seconds", "why"])


def _local(finished: str) -> str:
    """A moment of the pipeline's state, which is in UTC, as people read it."""
    return local_time(datetime.fromisoformat(finished).timestamp()) if finished else ""


def _tables(rows: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in rows.items())
