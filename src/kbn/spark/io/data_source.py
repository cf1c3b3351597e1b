"""The data source "kbn": notifications in, batch or stream; and what a sink "kbn" delivered.

    spark.readStream.format("kbn").option("path", "inbox").option("subscriptions", "store").load()

One row per line: a notification, or a line that could not be read, with the reason
(`columns.INGESTED`). With `subscriptions`, the newest version of that store when a batch is planned
becomes part of the batch's offset and stands in every row's column `version`. Spark writes the
offset down before the batch runs and takes it from there when the batch runs again, so that it is
matched against the same subscriptions: a change made at version N counts from the first batch
planned after it, for all rows of that batch and of those that follow.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    InputPartition,
)
from pyspark.sql.types import LongType, StructField, StructType

from kbn.errors import InvalidInputError, KbnError
from kbn.spark.columns import INGESTED
from kbn.spark.io.json_texts import JsonReader
from kbn.spark.io.manifests import Delivered
from kbn.spark.io.outcomes import Outcome, Refused, batches
from kbn.spark.io.parts import read_part
from kbn.spark.io.slices import Slice, lines, lines_before, pieces
from kbn.spark.io.sources import FilesSource, Offset, Source, local_path
from kbn.spark.io.spool import SocketSource
from kbn.spark.releases import arrow_schema, require_stream_sink, require_stream_source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import (
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )

NAME = "kbn"
VERSION = StructField("version", LongType())
ROWS_PER_ARROW_BATCH = 16_384
OPTIONS = {
    "path", "pattern", "form", "host", "port", "spool", "giveUpAfter", "subscriptions",
    "maxRowsPerBatch", "tasks", "delivered", "fileFormat", "batch", "facts", "stream",
    "url", "filter", "client", "token", "tlsCa",
}  # fmt: skip
SPARKS_OWN = {"checkpointLocation", "queryName"}


def register(spark: SparkSession) -> None:
    """Make the format "kbn" known to a session, and those of Kafka, NATS, Delta and Iceberg.

    ```python
    register(spark)
    posts = spark.readStream.format("kbn").option("subscriptions", "store").load("inbox")
    ```
    """
    from kbn.spark.io.connectors import CONNECTORS

    spark.dataSource.register(KbnSource)
    for connector in CONNECTORS:
        spark.dataSource.register(connector)


class KbnSource(DataSource):
    """The format "kbn"; docs/how-to/stream.md describes its options."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        check_options(self.options)
        if "delivered" in self.options:
            return _delivered_schema(self.options["delivered"])
        return source_schema(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        check_options(self.options)
        if "delivered" in self.options:
            return DeliveredReader(self.options["delivered"], schema)
        return FilesReader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        check_options(self.options)
        require_stream_source(NAME)
        from kbn.spark.io.stream_reader import StreamReader

        return StreamReader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from kbn.spark.io.sink import BatchWriter

        check_options(self.options)
        return BatchWriter(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        check_options(self.options)
        require_stream_sink(NAME)
        from kbn.spark.io.stream_writer import StreamWriter

        return StreamWriter(self.options, schema)


def check_options(options: Mapping[str, str]) -> None:
    """Refuse an option nobody reads: a misspelt one would be silently without effect."""
    known = {name.lower() for name in OPTIONS | SPARKS_OWN}
    for name in options:
        if name.lower() not in known:
            raise InvalidInputError(
                f'the format "kbn" has no option {name!r}; it has {", ".join(sorted(OPTIONS))}'
            )


def source_schema(options: Mapping[str, str]) -> StructType:
    """INGESTED, and the version when there is a store."""
    fields = [*INGESTED.fields, *([VERSION] if "subscriptions" in options else [])]
    return StructType(fields)


def source_of(options: Mapping[str, str]) -> Source:
    """The source that options ask for."""
    if "url" in options:
        return _broker_source(options)
    if "host" in options:
        missing = [name for name in ("port", "spool") if name not in options]
        if missing:
            raise InvalidInputError(
                f"a socket needs the options host, port and spool (a folder that what it sends is "
                f"written to); {' and '.join(missing)} missing"
            )
        give_up_s = number(options, "giveUpAfter") or 60
        port = number(options, "port") or 0
        return SocketSource(options["host"], port, local_path(options["spool"]), give_up_s)
    if "path" in options:
        return FilesSource.at(local_path(options["path"]), options.get("pattern", "*"))
    raise InvalidInputError(
        'say where notifications come from: .load("folder"), or the options url, filter, client '
        "and spool, or host, port and spool"
    )


def _broker_source(options: Mapping[str, str]) -> Source:
    # Here and not above: those who read files need none of it.
    from kbn.spark.io.broker_address import BrokerAddress
    from kbn.spark.io.brokers import BrokerSource

    needed = {
        "filter": "what is wanted",
        "client": "a name of its own, by which the broker knows for whom it keeps notifications "
        "while the query is away: a stream keeps its name, and no two share one",
        "spool": "a folder that what comes is written to",
    }
    missing = [f"{name} ({why})" for name, why in needed.items() if name not in options]
    if missing:
        raise InvalidInputError(
            f"to read from a broker, the option {' and the option '.join(missing)} is needed"
        )
    for other in ("host", "port", "path", "form"):
        if other in options:
            raise InvalidInputError(f"the options url and {other} do not go together")
    broker = BrokerAddress.of(options, number(options, "giveUpAfter") or 60)
    return BrokerSource(broker, options["filter"], local_path(options["spool"]))


def reader_of(options: Mapping[str, str]) -> JsonReader:
    """How lines are read."""
    form = options.get("form", "kbn").lower()
    if form not in ("kbn", "cloudevents"):
        raise InvalidInputError(f"the option form is kbn or cloudevents, not {form!r}")
    return JsonReader(cloudevents=form == "cloudevents")


def tasks_of(options: Mapping[str, str]) -> int:
    """How many tasks share a batch; as many as this machine has cores, unless it is said."""
    return number(options, "tasks") or os.cpu_count() or 1


@dataclass
class Portion(InputPartition):
    """What one task reads, and the version its rows are to be matched at."""

    slices: tuple[Slice, ...]
    version: int | None


class FilesReader(DataSourceReader):
    """All notifications that are in files now, or were delivered by a broker up to now."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        if "host" in options:
            raise InvalidInputError("a socket has no end: read it with readStream")
        self._options = options
        self._schema = checked_schema(schema, options)
        self._reader = reader_of(options)

    def partitions(self) -> Sequence[InputPartition]:
        source = source_of(self._options)
        assert isinstance(source, FilesSource)
        version = newest_version(self._options.get("subscriptions"), 0)
        portions = pieces(source.everything(), tasks_of(self._options))
        return [Portion(portion, version) for portion in portions]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Where there is nothing to read, Spark asks for a partition of its own making.
        slices = partition.slices if isinstance(partition, Portion) else ()
        version = partition.version if isinstance(partition, Portion) else None
        return read_slices(slices, version, self._schema, self._reader)


class DeliveredReader(DataSourceReader):
    """What was delivered into a folder, as its manifests say."""

    def __init__(self, directory: str, schema: StructType) -> None:
        self._directory = local_path(directory)
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        manifests = Delivered(self._directory).batches()
        return [InputPartition(part.name) for each in manifests for part in each.parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is None:
            return iter(())
        schema = arrow_schema(self._schema)
        table = read_part(Delivered(self._directory).parts / partition.value, schema)
        return iter(table.to_batches(max_chunksize=ROWS_PER_ARROW_BATCH))


def offset(reached: Offset, version: int | None) -> dict[str, Any]:
    """What Spark writes down as the end of a batch."""
    return {**reached.to_json(), "version": version or 0}


def newest_version(store: str | None, before: int) -> int | None:
    """The newest version of a store; KbnError when it is older than the batch before saw it."""
    if store is None:
        return None
    # Here and not above: only the process that plans needs it, and it brings the kernels along.
    from kbn.matching import SubscriptionStore

    version = SubscriptionStore.open(store).version
    if version < before:
        raise KbnError(
            f"the store {store} is at version {version}, and this stream has used version "
            f"{before}: it is not the store the stream was started with"
        )
    return version


def read_slices(
    slices: Sequence[Slice], version: int | None, schema: StructType, reader: JsonReader
) -> Iterator[pa.RecordBatch]:
    """The rows of one task, as Arrow batches in `schema`."""
    arrow = arrow_schema(schema)
    for batch in batches(outcome for part in slices for outcome in outcomes(part, reader)):
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        columns[VERSION.name] = pa.repeat(pa.scalar(version, pa.int64()), batch.num_rows)
        yield pa.record_batch([columns[name] for name in arrow.names], schema=arrow)


def outcomes(part: Slice, reader: JsonReader) -> Iterator[Outcome]:
    """What became of each record of a slice."""
    before: int | None = None
    for outcome in reader.lines(lines(part), part.path):
        if isinstance(outcome, Refused) and outcome.position is not None:
            # Counted only where it is asked for: a good file is read once.
            before = lines_before(part) if before is None else before
            outcome = outcome._replace(position=before + outcome.position)
        yield outcome


def _delivered_schema(directory: str) -> StructType:
    delivered = Delivered(local_path(directory))
    names = delivered.names()
    if not names:
        raise InvalidInputError(
            f"{directory}: nothing was delivered there yet (give a schema to read it anyway)"
        )
    return StructType.fromJson(delivered.read(names[-1]).schema)


def checked_schema(schema: StructType, options: Mapping[str, str]) -> StructType:
    """The schema of a read; InvalidInputError when it asks for a column there is none of."""
    known = {field.name: field.dataType for field in source_schema(options).fields}
    for field in schema.fields:
        if known.get(field.name) != field.dataType:
            raise InvalidInputError(
                f"the source has no column {field.name} of type {field.dataType.simpleString()}: "
                "leave out .schema(…)"
            )
    return schema


def number(options: Mapping[str, str], name: str) -> int | None:
    """The number that an option is, if it is given."""
    if name not in options:
        return None
    text = options[name]
    if not text.isdigit() or int(text) < 1:
        raise InvalidInputError(f"the option {name} is a number from 1 on, not {text!r}")
    return int(text)
