"""`kbn bench spark`: podcasts from Parquet to matches, beside Spark SQL in the same run.

1. The workload is written to Parquet (not timed).
2. For each number of cores, a process of its own, with a JVM and workers of its own, is pinned to
   so many CPUs (`batch_cores.py`). It compiles, counts by group from both forms that notifications
   can have, and expands a part of them to pairs. Each measurement has a warm-up before it, because
   the first run of anything is compilation, and is made `ROUNDS` times.
3. The relational plans get a few notifications: they are slow. Their totals must be ours.

CPU is that of the whole process tree: driver, JVM with its collector and compiler, Python workers.
Rates are per core-second of CPU. Efficiency is by the wall clock: how much faster so many CPUs are
than one, per CPU. Without pinning, "one core" would be a JVM on one and its worker on another.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kbn.errors import InvalidInputError
from kbn.lab.experiment import Progress, silent
from kbn.lab.measuring import versions
from kbn.lab.spark import batch_cores, data
from kbn.lab.spark.batch_cores import Row, Settings
from kbn.lab.workloads.podcast import Podcast

__all__ = ["Report", "Row", "Settings", "run"]


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
    allowed = batch_cores.cpus()
    if max(settings.cores) > len(allowed):
        raise InvalidInputError(
            f"there are {len(allowed)} CPUs here to pin {max(settings.cores)} cores to"
        )
    with TemporaryDirectory(prefix="kbn-bench-", ignore_cleanup_errors=True) as made:
        place, workload = Path(made), Podcast()
        progress("writing the workload", 0, 0)
        data.write_subscriptions(workload, settings.subscriptions, settings.seed, place)
        data.write_distinct(settings.subscriptions, settings.seed, workload, place)
        data.write_notifications(workload, settings.notifications, settings.seed + 1, place)
        rows: list[Row] = []
        facts: dict[str, Any] = {"answers": {}}
        for number, cores in enumerate(settings.cores):
            progress(f"measuring on {cores}", number, len(settings.cores))
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as child:
                task = child.submit(batch_cores.measure, settings, place, cores)
                measured, found = task.result()
            rows += measured
            facts["answers"] |= found.pop("answers")
            facts |= found
    ratios = _ratios(settings, rows)
    if settings.why:
        ratios["times pairs"] = _of_pairs(rows)
    return Report(settings, tuple(rows), {**facts, **ratios}, versions())


def _of_pairs(rows: list[Row]) -> dict[str, float]:
    """The CPU time of pairs with reasons, in that of pairs."""
    pairs = {row.cores: row.cpu_s for row in rows if row.what == "pairs"}
    return {
        f"why on {row.cores}": row.cpu_s / pairs[row.cores]
        for row in rows
        if row.what == "pairs, why"
    }


def _ratios(settings: Settings, rows: list[Row]) -> dict[str, Any]:
    by = {(row.what, row.cores): row for row in rows}
    one = settings.cores[0]
    ours = by["counted, columns", one]
    return {
        "times SQL": {
            row.what: ours.per_core_second / row.per_core_second
            for row in rows
            if row.what.startswith("SQL")
        },
        "efficiency": {
            f"{what}, {one} to {cores}": row.per_second / by[what, one].per_second / (cores / one)
            for (what, cores), row in by.items()
            if cores != one
        },
    }
