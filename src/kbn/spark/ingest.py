"""Ingest: files, queues and DataFrames to notifications; what is none goes to the quarantine.

    read(spark, path, format, mapping)     files, now or as they arrive
    ingest(records, format, mapping)       a DataFrame: texts from a queue, or typed columns
    notifications(ingested)                what could be read
    quarantine(ingested)                   what could not: where it stood, the record, the reason

Every record becomes one row of INGESTED and so ends in exactly one of the two. The work is done by
the functions that turn texts and files into outcomes, in Arrow batches; this is how Spark gets to
them. Plain JSON files are cut into lines by Spark, so that a large one is read by many tasks. All
other files are opened by the task that reads them: only so can a damaged one be set aside while the
others are read, and a CSV file's header be known to all its rows.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from collections.abc import Mapping as MappingABC
from functools import partial, reduce
from itertools import groupby, pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kbn.config import did_you_mean
from kbn.errors import InvalidInputError
from kbn.spark.columns import INGESTED, NOTIFICATIONS, QUARANTINE
from kbn.spark.io import (
    COMPRESSED,
    CONTENT_BYTES_MAX,
    JsonReader,
    Mapping,
    Outcome,
    Refused,
    batch_outcomes,
    batches,
    feed_outcomes,
    file_outcomes,
)

__all__ = ["FORMATS", "ingest", "notifications", "quarantine", "read"]

FORMATS = ("json", "cloudevents", "csv", "parquet", "rss")
_OF_TEXT = ("json", "cloudevents", "rss")
_OF_COLUMNS = ("rows", "parquet", "csv")
_OF_LINES = ("json", "cloudevents")

Path = str | os.PathLike[str]
AnyMapping = Mapping | Path | MappingABC[str, Any]

_BINARY_FILE = StructType(
    [
        StructField("path", StringType()),
        StructField("modificationTime", TimestampType()),
        StructField("length", LongType()),
        StructField("content", BinaryType()),
    ]
)


def read(
    spark: SparkSession,
    path: Path | Iterable[Path],
    format: str,
    mapping: AnyMapping | None = None,
    *,
    stream: bool = False,
    options: MappingABC[str, str] | None = None,
) -> DataFrame:
    """The records of files, as INGESTED rows; with `stream`, of those that arrive from now on too.

    `path` is a file, a directory (read with all below it), a pattern, or several. `options` go to
    Spark's reader, such as `maxFilesPerTrigger` for a stream. What is not there is refused at once.

    ```python
    ingested = read(spark, "feeds/*.xml", "rss")
    arriving = read(spark, "inbox", "json", {"id": "id"}, stream=True)
    ```
    """
    _check_format(format, FORMATS)
    rules = _mapping(mapping)
    given = [path] if isinstance(path, (str, os.PathLike)) else path
    paths = [os.fspath(one) for one in given]
    if not paths:
        raise InvalidInputError("no path is given to read from")
    _check_paths(spark, paths, stream)
    # A stream has one path: several are several streams.
    groups = [[one] for one in paths] if stream else [paths]
    readers = [_Reader(spark, group, stream, dict(options or {})) for group in groups]
    return reduce(DataFrame.unionByName, (_read(one, format, rules) for one in readers))


def _read(reader: _Reader, format: str, rules: Mapping | None) -> DataFrame:
    if format not in _OF_LINES:
        return _of_files(reader.files(), format, rules)
    is_compressed = F.col("_metadata.file_name").rlike(_SUFFIXES)
    lines = reader.lines().where(~is_compressed)
    parts = lines.select(
        F.col("value").cast(BinaryType()).alias("value"),
        F.col("_metadata.file_path").alias("source"),
        F.col("_metadata.file_block_start").alias("start"),
    ).mapInArrow(partial(line_batches, reader=_json_reader(format, rules)), INGESTED)
    return parts.unionByName(_of_files(reader.files().where(is_compressed), format, rules))


def ingest(records: DataFrame, format: str, mapping: AnyMapping | None = None) -> DataFrame:
    """The records of a DataFrame, as INGESTED rows; batch or streaming alike.

    With the format json, cloudevents or rss there is a record in each row's column `value`, text or
    binary, as a queue gives it; columns `topic`, `partition` and `offset` say where it stood. With
    the format rows every row is a record and every column a field.

    ```python
    messages = spark.readStream.format("kafka").options(**options).load()
    ingested = ingest(messages, "cloudevents")
    ```
    """
    _check_format(format, (*_OF_TEXT, *_OF_COLUMNS))
    rules = _mapping(mapping)
    if format in _OF_COLUMNS:
        _check_columns(records.columns, rules)
        return records.mapInArrow(partial(row_batches, mapping=rules), INGESTED)
    if "value" not in records.columns:
        raise InvalidInputError(
            f"the format {format} wants the records in a column 'value'; there are "
            f"{', '.join(records.columns)} (or is it the format 'rows'?)"
        )
    texts = records.select(
        F.col("value").cast(BinaryType()).alias("value"), *_origin(records.columns)
    )
    return texts.mapInArrow(partial(text_batches, format=format, mapping=rules), INGESTED)


def notifications(ingested: DataFrame, *, distinct: bool = False) -> DataFrame:
    """What could be read. With `distinct`, one per id: a shuffle, and in a stream a growing state
    unless the stream has a watermark.

    ```python
    published = notifications(read(spark, "posts.jsonl", "json"), distinct=True)
    ```
    """
    found = ingested.where(F.col("reason").isNull()).select(*NOTIFICATIONS.names)
    return found.dropDuplicates(["id"]) if distinct else found


def quarantine(ingested: DataFrame) -> DataFrame:
    """What could not be read, with the reason.

    ```python
    quarantine(ingested).groupBy("reason").count().show()
    ```
    """
    return ingested.where(F.col("reason").isNotNull()).select(*QUARANTINE.names)


# In the workers: Arrow in, Arrow out, no Spark.


def line_batches(given: Iterable[pa.RecordBatch], reader: JsonReader) -> Iterator[pa.RecordBatch]:
    """Batches of (value, source, start): lines of files, and where the part they are of begins."""
    return batches(_line_outcomes(given, reader))


def text_batches(
    given: Iterable[pa.RecordBatch], format: str, mapping: Mapping | None
) -> Iterator[pa.RecordBatch]:
    """Batches of (value, source, position): one text each."""
    reader = None if format == "rss" else _json_reader(format, mapping)
    outcomes_of = partial(_text_outcomes, reader=reader, mapping=mapping)
    return batches(
        outcome
        for batch in given
        for value, source, position in zip(*(c.to_pylist() for c in batch.columns), strict=True)
        for outcome in outcomes_of(value, source, position)
    )


def row_batches(
    given: Iterable[pa.RecordBatch], mapping: Mapping | None
) -> Iterator[pa.RecordBatch]:
    """Batches of typed columns: a record a row."""
    return batches(
        outcome for batch in given for outcome in batch_outcomes(batch, None, None, mapping)
    )


def file_batches(
    given: Iterable[pa.RecordBatch], format: str, mapping: Mapping | None
) -> Iterator[pa.RecordBatch]:
    """Batches of (source, content): a file each."""
    return batches(
        outcome
        for batch in given
        for row in range(batch.num_rows)
        for outcome in file_outcomes(
            batch.column(0)[row].as_py(), batch.column(1)[row].as_py(), format, mapping
        )
    )


def _line_outcomes(given: Iterable[pa.RecordBatch], reader: JsonReader) -> Iterator[Outcome]:
    runs = (run for batch in given for run in _runs(batch))
    for (source, start), part in groupby(runs, key=lambda run: run[0]):
        values = (value for _, values in part for value in values)
        if start == 0:
            yield from reader.file(enumerate(values, start=1), source)
        else:
            # Which line a later part of a large file begins with, nobody has counted.
            yield from reader.lines(((None, value) for value in values), source)


def _runs(batch: pa.RecordBatch) -> Iterator[tuple[tuple[str, int], list[bytes]]]:
    """The values of the batch, in runs that are of one file's part."""
    if batch.num_rows == 0:
        return
    values, sources, starts = batch.columns
    ends = {0, batch.num_rows}
    for column in (sources, starts):
        changed = pc.not_equal(column[1:], column[:-1])
        ends.update(place + 1 for place in pc.indices_nonzero(changed).to_pylist())
    edges = sorted(ends)
    for begin, end in pairwise(edges):
        key = (sources[begin].as_py(), starts[begin].as_py())
        yield key, values[begin:end].to_pylist()


def _text_outcomes(
    value: bytes | None,
    source: str | None,
    position: int | None,
    reader: JsonReader | None,
    mapping: Mapping | None,
) -> Iterator[Outcome]:
    if value is None or not value.strip():
        return iter((Refused(source, position, None if value is None else "", "an empty record"),))
    if reader is None:
        return feed_outcomes(value, source, mapping)
    return reader.read(value, source, position)


def _json_reader(format: str, mapping: Mapping | None) -> JsonReader:
    return JsonReader(format == "cloudevents", mapping)


# On the driver.

_SUFFIXES = "(" + "|".join(suffix.replace(".", r"\.") for suffix in COMPRESSED) + ")$"


class _Reader:
    """Spark's readers for the same paths, batch or stream."""

    def __init__(
        self, spark: SparkSession, paths: list[str], stream: bool, options: dict[str, str]
    ) -> None:
        self._spark = spark
        self._paths = paths
        self._stream = stream
        self._options = {"recursiveFileLookup": "true", **options}

    def lines(self) -> DataFrame:
        """One row a line, of every file."""
        return self._loaded("text", {"lineSep": "\n"}, None)

    def files(self) -> DataFrame:
        """One row a file."""
        return self._loaded("binaryFile", {}, _BINARY_FILE)

    def _loaded(self, source: str, options: dict[str, str], schema: StructType | None) -> DataFrame:
        every = {**options, **self._options}
        if not self._stream:
            return self._spark.read.format(source).options(**every).load(self._paths)
        reader = self._spark.readStream.format(source).options(**every)
        if schema is not None:
            reader = reader.schema(schema)
        (path,) = self._paths
        return reader.load(path)


def _of_files(files: DataFrame, format: str, rules: Mapping | None) -> DataFrame:
    """The outcomes of whole files: opened by path where the workers can, else handed over."""
    source = F.col("_metadata.file_path")
    by_path = source.startswith("file:") | (F.col("length") > CONTENT_BYTES_MAX)
    no_content = F.lit(None).cast(BinaryType())
    opened = files.where(by_path).select(source.alias("source"), no_content.alias("content"))
    handed = files.where(~by_path).select(source.alias("source"), F.col("content"))
    work = partial(file_batches, format=format, mapping=rules)
    return opened.unionByName(handed).mapInArrow(work, INGESTED)


def _origin(columns: list[str]) -> list[Column]:
    """Where a record of a queue stood, as far as the columns tell."""
    nowhere = F.lit(None).cast(StringType()), F.lit(None).cast(LongType())
    source, position = nowhere
    if "topic" in columns:
        named = [F.col("topic").cast(StringType())]
        if "partition" in columns:
            named.append(F.col("partition").cast(StringType()))
        source = F.concat_ws("/", *named)
    if "offset" in columns:
        position = F.col("offset").cast(LongType())
    return [source.alias("source"), position.alias("position")]


def _mapping(given: AnyMapping | None) -> Mapping | None:
    if given is None or isinstance(given, Mapping):
        return given
    if isinstance(given, (str, os.PathLike)):
        return Mapping.load(os.fspath(given))
    return Mapping.of(given)


def _check_format(given: str, known: tuple[str, ...]) -> None:
    if given not in known:
        raise InvalidInputError(
            f"there is no format {given!r}{did_you_mean(str(given), known)}; "
            f"there are {', '.join(known)}"
        )


def _check_columns(columns: list[str], rules: Mapping | None) -> None:
    for name in rules.fields if rules is not None else ():
        if name not in columns and name.partition(".")[0] not in columns:
            raise InvalidInputError(
                f"the mapping reads the column {name!r}, and the DataFrame has none"
                f"{did_you_mean(name, columns)}; it has {', '.join(columns)}"
            )


def _check_paths(spark: SparkSession, paths: list[str], stream: bool) -> None:
    if len(paths) > 1 and not stream:
        # One look at all of them; only when that fails, which of them it is.
        with contextlib.suppress(Exception):
            spark.read.format("binaryFile").load(paths).schema  # noqa: B018
            return
    for one in paths:
        _check_path(spark, one, stream)


def _check_path(spark: SparkSession, path: str, stream: bool) -> None:
    if stream and any(sign in path for sign in "*?[{"):
        return  # What fits the pattern may be yet to come.
    try:
        # Only looks at what is there; and under Spark Connect, only because we ask.
        spark.read.format("binaryFile").load(path).schema  # noqa: B018
    except PySparkException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            raise InvalidInputError(f"{path}: there is no such file or directory") from None
        raise InvalidInputError(f"{path}: Spark cannot read it: {_told(error)}") from error
    except Exception as error:  # a file system that is not there: py4j's own
        raise InvalidInputError(f"{path}: Spark cannot read it: {_told(error)}") from error


def _told(error: Exception) -> str:
    """What it says, without where: the line of Java's that names the exception, if there is one."""
    lines = str(error).splitlines() or [type(error).__name__]
    return next((line for line in lines if line.startswith(": ")), lines[0]).strip(": ")[:300]
