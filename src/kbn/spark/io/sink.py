"""The sink "kbn": rows into a folder of parts and manifests, each batch exactly once.

    matches.writeStream.format("kbn").option("checkpointLocation", "ckpt").start("delivered")

Tasks write parts (`parts.py`), the driver commits the batch (`manifests.py`) and, with the options
host and port, sends it on (`outbox.py`), or with the option url publishes it (`publishing.py`).
`read_delivered` reads what was delivered; so does
`spark.read.format("kbn").option("delivered", folder)`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from kbn.errors import InvalidInputError
from kbn.spark.io.broker_address import BrokerAddress
from kbn.spark.io.data_source import number
from kbn.spark.io.manifests import Delivered, Manifest, Part
from kbn.spark.io.outbox import send_pending
from kbn.spark.io.parts import checked_format, read_part, write_part
from kbn.spark.io.row_notifications import check_publishable, checked
from kbn.spark.io.sources import local_path
from kbn.spark.releases import arrow_schema

QUERY_ID = "sql.streaming.queryId"


def read_delivered(directory: str | Path) -> pa.Table:
    """All rows that were delivered into a folder; the batches of a stream in their order.

    ```python
    matches.write.format("kbn").mode("append").save("delivered")
    table = read_delivered("delivered")
    ```
    """
    delivered = Delivered(directory)
    tables = [read_rows(delivered, manifest) for manifest in delivered.batches()]
    if not tables:
        raise InvalidInputError(f"{directory}: nothing was delivered there yet")
    return pa.concat_tables(tables, promote_options="default")


def read_rows(delivered: Delivered, manifest: Manifest) -> pa.Table:
    """The rows of one batch.

    ```python
    delivered = Delivered("delivered")
    first = read_rows(delivered, next(delivered.batches()))
    ```
    """
    schema = arrow_schema(StructType.fromJson(manifest.schema))
    pieces = [read_part(delivered.parts / part.name, schema) for part in manifest.parts]
    return pa.concat_tables([schema.empty_table(), *pieces])


@dataclass
class Written(WriterCommitMessage):
    """What a task tells the driver: its part, if it had rows, and the stream it worked for."""

    part: Part | None
    stream: str | None


class Target:
    """Where rows go and how: what both writers do."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        if "path" not in options:
            raise InvalidInputError('say where rows go: .start("folder") or .save("folder")')
        self.delivered = Delivered(local_path(options["path"]))
        self._format = checked_format(options.get("fileFormat", "parquet").lower())
        self._schema = schema
        self._facts = json.loads(options.get("facts", "{}"))
        self._stream = options.get("stream")
        self._peer = _peer(options)
        self._broker = _broker(options)
        if self._broker is not None:
            check_publishable(schema)

    def write(self, batches: Iterator[pa.RecordBatch]) -> Written:
        if self._broker is not None:
            batches = checked(batches, self._schema)
        part = write_part(self.delivered.parts, batches, arrow_schema(self._schema), self._format)
        context = TaskContext.get()
        told = None if context is None else context.getLocalProperty(QUERY_ID)
        return Written(part, self._stream or told)

    def commit(
        self, messages: Sequence[Any], batch: int | None, replaces: Sequence[str] = ()
    ) -> None:
        streams = {m.stream for m in messages if m is not None} - {None}
        manifest = Manifest(
            batch, tuple(_parts(messages)), self._schema.jsonValue(), self._facts, tuple(replaces)
        )
        self.delivered.commit(manifest, streams.pop() if streams and batch is not None else None)
        if self._peer is not None and batch is not None:
            send_pending(self.delivered, self._peer)
        if self._broker is not None:
            from kbn.spark.io.publishing import publish_pending

            publish_pending(self.delivered, self._broker)

    def abort(self, messages: Sequence[Any], batch: int | None) -> None:
        self.delivered.discard(batch, _parts(messages))


class BatchWriter(DataSourceArrowWriter):
    """A DataFrame as a whole; with the option `batch`, as that batch of a stream."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        self._target = Target(options, schema)
        self._batch = int(options["batch"]) if "batch" in options else None
        self._overwrite = overwrite
        if overwrite and "url" in options:
            raise InvalidInputError('what was published stays so: use .mode("append") with a url')

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return self._target.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        replaces = self._target.delivered.names() if self._overwrite else []
        self._target.commit(messages, self._batch, replaces)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._target.abort(messages, self._batch)


def _parts(messages: Sequence[Any]) -> list[Part]:
    return [message.part for message in messages if message is not None and message.part]


def _peer(options: Mapping[str, str]) -> tuple[str, int] | None:
    if "host" not in options and "port" not in options:
        return None
    if "host" not in options or not options.get("port", "").isdigit():
        raise InvalidInputError("a peer needs the options host and port, a number")
    return options["host"], int(options["port"])


def _broker(options: Mapping[str, str]) -> BrokerAddress | None:
    if "url" not in options:
        return None
    if "host" in options or "port" in options:
        raise InvalidInputError("rows go to a broker (url) or to a peer (host and port), not both")
    return BrokerAddress.of(options, number(options, "giveUpAfter") or 60)
