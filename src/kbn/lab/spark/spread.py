"""Cases of an experiment spread over the tasks of Spark, one core or many.

A task works on some cases and returns what it finds as JSON, so any experiment whose cases share
nothing can be swept. Rows come back in the order of the cases, and are those that working on them
one by one gives.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from kbn.errors import KbnError
from kbn.lab.experiment import Progress, silent
from kbn.lab.spark.sweep import spark_session, watched

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

Case = TypeVar("Case")
Rows = list[dict[str, Any]]


def spread(
    work: Callable[[Case], Rows],
    cases: Sequence[Case],
    *,
    cores: int,
    progress: Progress = silent,
    spark: SparkSession | None = None,
) -> list[Rows]:
    """What `work` finds in each case, in their order; it is a function of a module, and pure."""

    def job(used: SparkSession, tasks: int) -> pa.Table:
        listed = list(cases)

        def some(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield from _found(work, listed, batch.column(0).to_pylist())

        numbers = used.range(0, len(listed), 1, tasks)
        return numbers.mapInArrow(some, "number long, found string, trouble string").toArrow()

    with spark_session(spark, cores) as used:
        table = watched(used, len(cases), job, progress, "cases")
    rows = table.sort_by("number").to_pylist()
    failed = [row for row in rows if row["trouble"]]
    if failed:
        first = failed[0]
        raise KbnError(
            f"{len(failed)} of {len(cases)} cases failed, first case {first['number']}: "
            f"{first['trouble']}"
        )
    return [json.loads(row["found"]) for row in rows]


def _found(
    work: Callable[[Case], Rows], cases: Sequence[Case], numbers: Sequence[int]
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for number in numbers:
        found, trouble = "[]", None
        try:
            found = json.dumps(work(cases[number]))
        except Exception as error:  # told with the case's number when all have ended
            trouble = f"{type(error).__name__}: {error}"
        row = {"number": number, "found": found, "trouble": trouble}
        schema = pa.schema(
            [("number", pa.int64()), ("found", pa.string()), ("trouble", pa.string())]
        )
        yield pa.RecordBatch.from_pylist([row], schema=schema)
