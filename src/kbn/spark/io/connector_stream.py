"""The sinks of the connectors for streams; needs Spark 4.1."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from kbn.spark.io.connector_sink import QueueOf, stream_outbox
from kbn.spark.io.destinations import Destination, hand_on
from kbn.spark.io.queue_rows import check_messages
from kbn.spark.io.queues import Queue
from kbn.spark.io.stream_writer import StreamWriter


class ConnectorStreamWriter(StreamWriter):
    """Batches of a stream, handed on one after the other."""

    def __init__(
        self, options: Mapping[str, str], schema: StructType, destination: Callable[[], Destination]
    ) -> None:
        super().__init__({"path": stream_outbox(options)}, schema)
        self._destination = destination

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        super().commit(messages, batchId)
        hand_on(self._target.delivered, self._destination())


def stream_to_queue(
    format: str, options: Mapping[str, str], schema: StructType, connect: Callable[[], Queue]
) -> ConnectorStreamWriter:
    """A stream's rows as messages of a queue."""
    check_messages(schema, options.get("key"))
    return ConnectorStreamWriter(options, schema, QueueOf(format, dict(options), connect))
