"""`kbn demo`: a podcast day through the whole pipeline on Spark: who got what and why; a page."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kbn.cli.output import AsJson, print_facts, print_json, print_table, remark, remark_on_compiling
from kbn.cli.pipeline import (
    SparkMaster,
    print_outcomes,
    require_spark,
    run_with_progress,
    session_starter,
)
from kbn.errors import InvalidInputError
from kbn.wording import counted

if TYPE_CHECKING:
    from kbn.lab import demo as story

FOLDER = Path("kbn-demo")

# A JVM that lives for a minute is better off without the compiler that pays after several.
SHORT_LIVED = {"spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


def demo(
    quick: Annotated[
        bool, typer.Option("--quick", help="Five subscriptions, six episodes, without Spark.")
    ] = False,
    out: Annotated[
        Path, typer.Option("--out", file_okay=False, help="Folder for the data and the results.")
    ] = FOLDER,
    feeds: Annotated[int, typer.Option(min=1, help="Podcast feeds, of 50 episodes each.")] = 400,
    subscriptions: Annotated[int, typer.Option(min=1, help="How many subscriptions.")] = 100_000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same day.")] = 0,
    spark_master: SparkMaster = None,
    as_json: AsJson = False,
) -> None:
    """Make up a day of podcasts and take it through the whole pipeline on Spark.

    Feeds become notifications, the categories they name become terms of an ontology, and each
    notification is matched with all subscriptions. Most ask for wider categories than the episodes
    carry: that Podcasting is Technology comes from the ontology. Ends in a page with plots.

    \b
    Examples:
      kbn demo
      kbn demo --quick
      kbn demo --feeds 40 --subscriptions 1000 --out /tmp/day
    """
    if quick:
        from kbn.cli.quick_demo import quick_demo

        quick_demo(as_json)
        return
    require_spark()
    from kbn.lab import PodcastDay
    from kbn.lab import demo as story

    _check_folder(out)
    began = time.perf_counter()
    made = f"{counted(feeds, 'feed')} and {counted(subscriptions, 'subscription')}"
    remark(f"making up {made} in {out}…")
    day = PodcastDay(feeds, subscriptions=subscriptions, seed=seed)
    _run(story.prepare(day, out), subscriptions, spark_master, as_json, began)


def _run(file: Path, subscriptions: int, master: str | None, as_json: bool, began: float) -> None:
    from kbn.lab import demo as story
    from kbn.spark.pipeline import load_config

    config = load_config(file)
    remark_on_compiling()
    remark("starting Spark and running the pipeline…")
    start = session_starter(master, SHORT_LIVED)
    outcomes = run_with_progress(config, start)
    shown = story.examples(start(), config)
    facts = {**story.totals(config, subscriptions), "seconds in all": time.perf_counter() - began}
    page = config.output / "report.html"
    if as_json:
        stages = [outcome.as_json() for outcome in outcomes]
        told = [example.as_json() for example in shown]
        print_json({"stages": stages, "examples": told, "totals": facts, "report": str(page)})
        return
    print_outcomes(outcomes)
    typer.echo()
    print_table(_rows(shown), columns=["notification", "category", "goes to", "because"])
    typer.echo()
    print_facts({name: _spoken(value) for name, value in facts.items()})
    typer.echo(f"\nthe page with plots  {page}\nthe tables           {config.output / 'tables'}")
    typer.echo(f"what is next         kbn pipeline plan {file}")


def _check_folder(out: Path) -> None:
    """Write only into a folder that is empty, or that an earlier demo made."""
    if out.exists() and any(out.iterdir()) and not (out / "pipeline.yaml").exists():
        raise InvalidInputError(
            f"{out} holds something that no demo made; name another folder with --out"
        )


def _rows(shown: list[story.Example]) -> list[tuple[str, str, str, str]]:
    """One row per receiver; what they share stands only in the first."""
    rows = []
    for example in shown:
        name, categories = example.notification, ", ".join(example.categories)
        for subscriber, why in example.why.items():
            rows.append((name, categories, subscriber, "; ".join(why)))
            name = categories = ""
        more = example.receivers - len(example.why)
        if more:
            rows.append(("", "", f"and {more:,} more", ""))
    return rows


def _spoken(value: object) -> str:
    return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"
