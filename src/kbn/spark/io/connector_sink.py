"""The sinks of the connectors: rows into an outbox, and from there to a queue or a table.

A stream's outbox is in its checkpoint unless the option `outbox` names a folder; both belong
together for ever. A table that is written as a whole has an outbox for the time that takes; with
the options `outbox` and `batch` it is that batch of the outbox, and written once however often it
is tried (as `foreachBatch` may).
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from kbn.errors import InvalidInputError
from kbn.spark.io.destinations import Destination, hand_on, hand_on_write
from kbn.spark.io.queue_rows import QueueDestination, check_messages
from kbn.spark.io.queues import Queue
from kbn.spark.io.sink import BatchWriter
from kbn.spark.io.sources import local_path

IN_CHECKPOINT = "kbn-outbox"


class ConnectorBatchWriter(BatchWriter):
    """A DataFrame as a whole, handed on when all of it is there."""

    def __init__(
        self, options: Mapping[str, str], schema: StructType, destination: Callable[[], Destination]
    ) -> None:
        folder = local_path(options["outbox"]) if "outbox" in options else None
        if "batch" in options and not (options["batch"].isdigit() and folder is not None):
            raise InvalidInputError("the option batch is a number, and goes with the option outbox")
        if folder is not None:
            Path(folder).mkdir(parents=True, exist_ok=True)
        about = {"batch": options["batch"]} if "batch" in options else {}
        self._outbox = str(folder) if about else tempfile.mkdtemp(prefix="kbn-outbox-", dir=folder)
        super().__init__({"path": self._outbox, **about}, schema, overwrite=False)
        self._destination = destination

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        if self._batch is not None:
            super().commit(messages)
            hand_on(self._target.delivered, self._destination())
            return
        try:
            super().commit(messages)
            hand_on_write(self._target.delivered, self._destination())
        finally:
            shutil.rmtree(self._outbox, ignore_errors=True)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        if self._batch is not None:
            super().abort(messages)
        else:
            shutil.rmtree(self._outbox, ignore_errors=True)


def stream_outbox(options: Mapping[str, str]) -> str:
    """The folder in which a stream's batches wait."""
    if "outbox" in options:
        return local_path(options["outbox"])
    if "checkpointLocation" not in options:
        raise InvalidInputError(
            "say where batches wait until they are taken: the option checkpointLocation, or the "
            "option outbox (a folder that all workers see)"
        )
    try:
        return str(Path(local_path(options["checkpointLocation"])) / IN_CHECKPOINT)
    except InvalidInputError:
        raise InvalidInputError(
            "the checkpoint is not a folder of this machine: name one that all workers see with "
            "the option outbox, in which batches wait until they are taken"
        ) from None


# For queues.


def to_queue(
    format: str,
    options: Mapping[str, str],
    schema: StructType,
    overwrite: bool,
    connect: Callable[[], Queue],
) -> ConnectorBatchWriter:
    """A table's rows as messages of a queue."""
    if overwrite:
        raise InvalidInputError('what was sent stays so: use .mode("append")')
    check_messages(schema, options.get("key"))
    return ConnectorBatchWriter(options, schema, QueueOf(format, dict(options), connect))


class QueueOf:
    """Makes the destination where it is needed: connections do not travel."""

    def __init__(
        self, format: str, options: Mapping[str, str], connect: Callable[[], Queue]
    ) -> None:
        named = [options[name] for name in ("topic", "stream", "subject") if name in options]
        self._identity = " ".join([format, *named])
        self._key = options.get("key")
        self._connect = connect

    def __call__(self) -> QueueDestination:
        return QueueDestination(self._identity, self._connect(), self._key)
