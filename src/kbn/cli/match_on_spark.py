"""`kbn match --spark`: the first half of a pipeline, declared on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from kbn.cli.output import print_facts, print_json, progress, remark_on_compiling

if TYPE_CHECKING:
    from kbn.cli.match import OnSpark

LINES = "matches.jsonl"


def match_on_spark(wanted: dict[str, Any], on_spark: OnSpark, as_json: bool) -> None:
    """Match files into tables below a folder, and say how many matches there are."""
    from kbn.cli.pipeline import remark_on_outcomes, session_starter
    from kbn.spark import pipeline

    if on_spark.out is None:
        raise typer.BadParameter("say where the tables go: --out FOLDER", param_hint="--spark")
    declared = {**wanted, "name": "match", "output": str(on_spark.out), "options": {"expand": True}}
    config = pipeline.checked_config(declared, "kbn match", Path.cwd())
    remark_on_compiling()
    start = session_starter(on_spark.spark_master)
    with progress() as show:
        outcomes = pipeline.run(config, start, until="match", progress=show)
    if on_spark.lines:
        found = pipeline.table(start(), config, "matches")
        found.write.mode("overwrite").json(str(config.output / LINES))
    rows = {name: count for one in outcomes for name, count in one.rows.items()}
    facts: dict[str, object] = {
        name: rows[name]
        for name in (
            "notifications",
            "quarantine",
            "unrecognised",
            "rejected",
            "problems",
            "matches",
        )
    }
    facts["tables"] = str(config.output / "tables")
    if as_json:
        print_json(facts)
    else:
        print_facts({n: f"{v:,}" if isinstance(v, int) else v for n, v in facts.items()})
    remark_on_outcomes(outcomes, f"see quarantine and problems in {facts['tables']}")
