"""The sink "kbn" for streams; needs Spark 4.1. What it does with each batch is in `sink.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from kbn.spark.io.sink import Target, Written


class StreamWriter(DataSourceStreamArrowWriter):
    """Batches of a stream."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._target = Target(options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return self._target.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._target.commit(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._target.abort(messages, batchId)
