"""The tables of a pipeline: a folder of Parquet files each, put in place whole.

    tables/annotated/run=1/*.parquet      what the first run made
    tables/annotated/run=2/*.parquet      what came after
    tables/medoids/*.parquet              a table that is always made as a whole

A table is written beside its place, below `.new`, and renamed into it. What was killed in between
is under `.new` and nobody looks there.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from kbn.config import or_one_of
from kbn.errors import InvalidInputError

RUN = "run"


class Tables:
    """The tables below a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._new = root / ".new"

    def clear_unfinished(self) -> None:
        """Remove what a killed run left behind."""
        shutil.rmtree(self._new, ignore_errors=True)
        self.root.mkdir(parents=True, exist_ok=True)

    def path(self, name: str, run: int | None = None) -> Path:
        """Where a table, or one run's part of it, lies."""
        return self.root / name if run is None else self.root / name / f"{RUN}={run}"

    def write(self, table: DataFrame, name: str, run: int | None = None) -> None:
        """Write a table, or one run's part, in place of what is there."""
        fresh = self._new / name
        table.write.mode("overwrite").parquet(str(fresh))
        self._put(fresh, self.path(name, run))

    def stage(self, spark: SparkSession, table: DataFrame, name: str) -> DataFrame:
        """Write a table that is only needed until the stage is done, and read it back."""
        fresh = self._new / name
        table.write.mode("overwrite").parquet(str(fresh))
        return spark.read.schema(table.schema).parquet(str(fresh))

    def read(self, spark: SparkSession, name: str, run: int | None = None) -> DataFrame:
        """A table without the number of the run, or one run's part of it."""
        found = spark.read.parquet(str(self.path(name, run)))
        return found.drop(RUN) if run is None else found

    def keep_runs(self, name: str, runs: Collection[int]) -> None:
        """Remove the parts of runs that are not wanted any more."""
        for part in self.path(name).glob(f"{RUN}=*"):
            if int(part.name.partition("=")[2]) not in runs:
                shutil.rmtree(part)

    def has(self, name: str, runs: Collection[int] | None = None) -> bool:
        """Whether a table is there, with these runs if it has any."""
        if runs is None:
            return self.path(name).is_dir()
        return all(self.path(name, run).is_dir() for run in runs)

    def remove(self, name: str) -> None:
        """Remove a table, if it is there."""
        shutil.rmtree(self.path(name), ignore_errors=True)

    def rows(self, name: str, run: int | None = None) -> int:
        """How many rows a table, or one run's part, has; only the ends of its files are read."""
        files = self.path(name, run).rglob("*.parquet")
        return sum(int(pq.read_metadata(file).num_rows) for file in files)

    def head(self, name: str, limit: int) -> tuple[list[dict[str, Any]], int]:
        """The first rows of a table, and how many it has; InvalidInputError if it is not there."""
        known = sorted(at.name for at in self.root.glob("[!.]*") if at.is_dir())
        if name not in known:
            said = or_one_of(name, known) if known else ": nothing has run yet"
            raise InvalidInputError(f"there is no table {name!r:.60}{said}")
        rows: list[dict[str, Any]] = []
        for file in sorted(self.path(name).rglob("*.parquet")):
            if len(rows) < limit:
                with pq.ParquetFile(file) as opened:
                    for batch in opened.iter_batches(limit):
                        rows += batch.to_pylist()
                        if len(rows) >= limit:
                            break
        return rows[:limit], self.rows(name)

    def _put(self, fresh: Path, place: Path) -> None:
        place.parent.mkdir(parents=True, exist_ok=True)
        old = self._new / f"{fresh.name}.old"
        shutil.rmtree(old, ignore_errors=True)
        if place.exists():
            os.rename(place, old)
        os.rename(fresh, place)
        shutil.rmtree(old, ignore_errors=True)
