"""Messages of a queue as rows, batch or stream: what the formats of Kafka and NATS have in common.

A row is what the format "kbn" gives: a notification, or a message that could not be read with the
reason, and with `subscriptions` the version it is matched at. With the form `messages` a row is the
message as it is (MESSAGES), for `ingest` with a mapping. Streams are in `queue_stream.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kbn.errors import InvalidInputError
from kbn.spark.columns import INGESTED
from kbn.spark.io.connector_options import yes_or_no
from kbn.spark.io.data_source import VERSION, newest_version, tasks_of
from kbn.spark.io.json_texts import JsonReader
from kbn.spark.io.outcomes import Outcome, Refused, batches
from kbn.spark.io.queues import Message, Queue, Span, spans, starting, still_kept
from kbn.spark.releases import arrow_schema

FORMS = ("kbn", "cloudevents", "messages")
OPTIONS = (
    "form", "subscriptions", "startingOffsets", "endingOffsets", "failOnDataLoss",
    "maxRowsPerBatch", "tasks", "giveUpAfter", "secrets",
)  # fmt: skip
ROWS_PER_BATCH = 8192

MESSAGES = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
    ]
)
"""A message as it is. Of NATS, `topic` is the stream and `key` the subject."""


def schema_of(options: Mapping[str, str]) -> StructType:
    """The columns that the options ask for."""
    form = options.get("form", "kbn").lower()
    if form not in FORMS:
        raise InvalidInputError(f"the option form is {', '.join(FORMS)}, not {form!r}")
    held = MESSAGES if form == "messages" else INGESTED
    return StructType([*held.fields, *([VERSION] if "subscriptions" in options else [])])


@dataclass
class Portion(InputPartition):
    """What one task reads, and the version its rows are to be matched at."""

    span: Span
    version: int | None


@dataclass(frozen=True)
class Rows:
    """Turns the messages of a span into Arrow batches; goes to the workers."""

    connect: Callable[[], Queue]
    form: str
    schema: StructType

    def of(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Where there is nothing to read, Spark asks for a partition of its own making.
        if not isinstance(partition, Portion):
            return
        span, queue = partition.span, self.connect()
        arrow = arrow_schema(self.schema)
        try:
            messages = queue.read(span.place, span.start, span.end)
            made = raw_batches(messages) if self.form == "messages" else self._ingested(messages)
            for batch in made:
                columns = dict(zip(batch.schema.names, batch.columns, strict=True))
                version = pa.scalar(partition.version, pa.int64())
                columns[VERSION.name] = pa.repeat(version, batch.num_rows)
                yield pa.record_batch([columns[name] for name in arrow.names], schema=arrow)
        finally:
            queue.close()

    def _ingested(self, messages: Iterator[Message]) -> Iterator[pa.RecordBatch]:
        reader = JsonReader(cloudevents=self.form == "cloudevents")
        return batches(outcome for each in messages for outcome in outcomes(each, reader))


def outcomes(message: Message, reader: JsonReader) -> Iterator[Outcome]:
    """What became of the record, or the records, of a message."""
    value = message.value
    if value is None or not value.strip():
        shown = None if value is None else ""
        return iter((Refused(message.place, message.offset, shown, "an empty record"),))
    return reader.read(value, message.place, message.offset)


def raw_batches(messages: Iterator[Message]) -> Iterator[pa.RecordBatch]:
    """Messages as they are, in MESSAGES."""
    schema = arrow_schema(MESSAGES)
    held: list[tuple[object, ...]] = []
    for each in messages:
        topic, _, partition = each.place.rpartition("/")
        named = (topic, int(partition)) if topic else (each.place, 0)
        held.append((each.key, each.value, *named, each.offset, each.time_us))
        if len(held) == ROWS_PER_BATCH:
            yield _batch(held, schema)
            held = []
    if held:
        yield _batch(held, schema)


def _batch(rows: list[tuple[object, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(list(c), field.type) for c, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


class QueueReader(DataSourceReader):
    """The messages that a queue has now."""

    def __init__(
        self, options: Mapping[str, str], schema: StructType, connect: Callable[[], Queue]
    ) -> None:
        self._options = options
        self._connect = connect
        self._rows = Rows(connect, options.get("form", "kbn").lower(), schema)

    def partitions(self) -> Sequence[InputPartition]:
        options, queue = self._options, self._connect()
        try:
            bounds = queue.bounds()
        finally:
            queue.close()
        start = starting(options.get("startingOffsets", "earliest"), bounds)
        end = starting(options.get("endingOffsets", "latest"), bounds, "endingOffsets")
        is_strict = yes_or_no(options, "failOnDataLoss", True)
        start = still_kept(start, bounds, queue.address, or_fail=is_strict)
        version = newest_version(options.get("subscriptions"), 0)
        return [Portion(span, version) for span in spans(start, end, tasks_of(options))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._rows.of(partition)
