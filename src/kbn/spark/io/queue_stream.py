"""Messages of a queue as a stream; needs Spark 4.2.

How far each place is read and the version of the subscriptions are in the checkpoint:

    {"places": {"news/0": 120, "news/1": 98}, "version": 7}
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from kbn.errors import InvalidInputError
from kbn.spark.io.connector_options import whole_number, yes_or_no
from kbn.spark.io.data_source import newest_version, tasks_of
from kbn.spark.io.queue_reader import Portion, Rows
from kbn.spark.io.queues import Bounds, Offsets, Queue, reached, spans, starting, still_kept


class QueueStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Messages as they come."""

    def __init__(
        self, options: Mapping[str, str], schema: StructType, connect: Callable[[], Queue]
    ) -> None:
        if "endingOffsets" in options:
            raise InvalidInputError("a stream has no end: leave out endingOffsets, or use read")
        self._store = options.get("subscriptions")
        self._rows_max = (
            whole_number(options, "maxRowsPerBatch", 1) if "maxRowsPerBatch" in options else None
        )
        self._starting = options.get("startingOffsets", "earliest")
        self._is_strict = yes_or_no(options, "failOnDataLoss", True)
        self._tasks = tasks_of(options)
        self._connect = connect
        self._rows = Rows(connect, options.get("form", "kbn").lower(), schema)
        self._queue: Queue | None = None
        self._held: dict[str, Bounds] | None = None

    def initialOffset(self) -> dict[str, Any]:
        start = starting(self._starting, self._bounds())
        return _offset(start, newest_version(self._store, 0))

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable() if self._rows_max is None else ReadMaxRows(self._rows_max)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        bounds = self._held if self._held is not None else self._bounds()
        kept = still_kept(start["places"], bounds, self._open().address, or_fail=self._is_strict)
        after = reached(kept, bounds, _rows(limit))
        # Nothing new is the same offset, whatever the store: a version alone is no batch.
        if after == start["places"]:
            return start
        return _offset(after, newest_version(self._store, start["version"]))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return None

    def prepareForTriggerAvailableNow(self) -> None:
        self._held = self._bounds()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        before: Offsets = start["places"]
        if not self._is_strict:
            before = still_kept(before, self._bounds(), self._open().address, or_fail=False)
        version = end["version"] if self._store is not None else None
        return [Portion(span, version) for span in spans(before, end["places"], self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._rows.of(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: the queue keeps its messages, and the checkpoint how far we are."""

    def stop(self) -> None:
        if self._queue is not None:
            self._queue.close()

    def _open(self) -> Queue:
        if self._queue is None:
            self._queue = self._connect()
        return self._queue

    def _bounds(self) -> dict[str, Bounds]:
        return self._open().bounds()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_queue": None}  # a connection stays in its process


def _offset(places: Offsets, version: int | None) -> dict[str, Any]:
    return {"places": places, "version": version or 0}


def _rows(limit: ReadLimit) -> int | None:
    if isinstance(limit, ReadMaxRows):
        return limit.max_rows
    if isinstance(limit, ReadAllAvailable):
        return None
    raise InvalidInputError(f"{type(limit).__name__} is not supported: use maxRowsPerBatch")
