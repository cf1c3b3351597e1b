"""A declared pipeline: from files of records and subscriptions to who gets what, a plan, a page.

    ingest → annotate ─┐
             compile ──┴→ match
                 └→ medoids → plan → hops      → report

`load_config` reads and checks the YAML file that declares one, `plan` says what a run would do,
`run` does it, `status` says what is there. Every table is a folder of Parquet files.
"""

from __future__ import annotations

from kbn.spark.pipeline.config import PipelineConfig, checked_config, load_config
from kbn.spark.pipeline.deciding import Decision
from kbn.spark.pipeline.runner import SETTINGS, Outcome, head, plan, run, table
from kbn.spark.pipeline.state import Status, status

__all__ = [
    "SETTINGS",
    "Decision",
    "Outcome",
    "PipelineConfig",
    "Status",
    "checked_config",
    "head",
    "load_config",
    "plan",
    "run",
    "status",
    "table",
]
