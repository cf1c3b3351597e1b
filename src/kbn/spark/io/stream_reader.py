"""Notifications as a stream, through the format "kbn"; needs Spark 4.2.

The reader lives in two kinds of process. One long-lived process plans: it opens the source and asks
it for offsets. The workers get a copy of the reader that was never opened, and read slices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from kbn.spark.io.data_source import (
    Portion,
    checked_schema,
    newest_version,
    number,
    offset,
    read_slices,
    reader_of,
    source_of,
    tasks_of,
)
from kbn.spark.io.slices import pieces
from kbn.spark.io.sources import Offset


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Notifications as they come."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._schema = checked_schema(schema, options)
        self._reader = reader_of(options)
        self._store = options.get("subscriptions")
        self._rows_max = number(options, "maxRowsPerBatch")
        self._tasks = tasks_of(options)
        self._source = source_of(options)
        self._is_open = False

    def initialOffset(self) -> dict[str, Any]:
        self._open()
        return offset(Offset(), newest_version(self._store, 0))

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable() if self._rows_max is None else ReadMaxRows(self._rows_max)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        self._open()
        before = Offset.from_json(start)
        after = self._source.latest(before, _rows(limit))
        # Nothing new is the same offset, whatever the store: a version alone is no batch.
        if after == before:
            return start
        return offset(after, newest_version(self._store, start["version"]))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return None

    def prepareForTriggerAvailableNow(self) -> None:
        self._open()
        self._source.hold()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        found = self._source.slices(Offset.from_json(start), Offset.from_json(end))
        version = end["version"] if self._store is not None else None
        return [Portion(piece, version) for piece in pieces(found, self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Portion)
        return read_slices(partition.slices, partition.version, self._schema, self._reader)

    def commit(self, end: dict[str, Any]) -> None:
        self._source.done(Offset.from_json(end))

    def stop(self) -> None:
        if self._is_open:
            self._source.close()

    def _open(self) -> None:
        if not self._is_open:
            self._source.open()
            self._is_open = True


def _rows(limit: ReadLimit) -> int | None:
    if isinstance(limit, ReadMaxRows):
        return limit.max_rows
    if isinstance(limit, ReadAllAvailable):
        return None
    raise InvalidInputError(f"{type(limit).__name__} is not supported: use maxRowsPerBatch")
