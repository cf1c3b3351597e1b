"""Rows of tables to outcomes: Parquet files, and DataFrames with typed columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from kbn.errors import InvalidInputError
from kbn.spark.io.mapping import Mapping, record_text
from kbn.spark.io.outcomes import Outcome, Refused, Row
from kbn.spark.io.partitions import partition_fields
from kbn.spark.io.records import json_content, own_row

BATCH_ROWS = 4096
_OWN = {"id", "publisher", "time", "attributes"}


def parquet_outcomes(
    stream: IO[bytes], source: str | None, mapping: Mapping | None
) -> Iterator[Outcome]:
    """Each row of a Parquet file as a notification; OSError or ArrowException if it is damaged."""
    with pq.ParquetFile(stream) as file:
        names = file.schema_arrow.names
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            yield Refused(source, None, None, f"the file has the column {twice!r:.60} twice")
            return
        position = 1
        for batch in file.iter_batches(BATCH_ROWS):
            yield from batch_outcomes(batch, source, position, mapping)
            position += batch.num_rows


def batch_outcomes(
    batch: pa.RecordBatch, source: str | None, position: int | None, mapping: Mapping | None
) -> Iterator[Outcome]:
    """Each row of an Arrow batch as a notification; `position` is that of the first row.

    Without a mapping, a table of kbn's own (id, publisher, time, attributes) is read as such, and
    of any other every column is an attribute.

    >>> batch = pa.RecordBatch.from_pylist([{"id": "n1", "topic": "tea"}])
    >>> [row.id for row in batch_outcomes(batch, None, None, Mapping(id="id"))]
    ['n1']
    """
    is_own = mapping is None and "attributes" in batch.schema.names
    is_own = is_own and set(batch.schema.names) <= _OWN
    rules = mapping or Mapping()
    in_path = partition_fields(source)
    for place, record in enumerate(_records(batch)):
        where = None if position is None else position + place
        if isinstance(record, Refused):
            yield record._replace(source=source, position=where)
            continue
        try:
            if is_own:
                yield _own(record, source)
            else:
                yield rules.row({**in_path, **record}, source, columnar=True)
        except InvalidInputError as error:
            yield Refused(source, where, record_text(record), str(error))


def _own(record: dict[str, Any], source: str | None) -> Row:
    content = record_text(record).encode()
    attributes = record["attributes"]
    if isinstance(attributes, str):
        attributes, _ = json_content(attributes.encode())
    if not isinstance(attributes, dict):
        raise InvalidInputError("attributes: a JSON object of names and values is expected")
    return own_row({**record, "attributes": attributes}, content, source)


def _records(batch: pa.RecordBatch) -> Iterator[dict[str, Any] | Refused]:
    plain = _plain(batch)
    try:
        yield from plain.to_pylist()
    except (ValueError, OverflowError):
        # Arrow keeps strings that are not UTF-8 and times after the year 9999, Python does not.
        # Row by row, to see which it is.
        for row in range(plain.num_rows):
            yield _one(plain.slice(row, 1))


def _one(row: pa.RecordBatch) -> dict[str, Any] | Refused:
    try:
        found: dict[str, Any] = row.to_pylist()[0]
        return found
    except (ValueError, OverflowError) as error:
        cells = dict(zip(row.schema.names, map(_cell, row.columns), strict=True))
        told = "not UTF-8 text" if isinstance(error, UnicodeError) else str(error)
        return Refused(None, None, record_text(cells), told)


def _cell(column: pa.Array) -> Any:
    """The one value of the column, or the nearest thing to it that can be shown."""
    try:
        return column[0].as_py()
    except UnicodeDecodeError:
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            return column.cast(pa.large_binary())[0].as_py().decode("utf-8", "backslashreplace")
        return None
    except (ValueError, OverflowError):
        return column.cast(pa.int64())[0].as_py() if pa.types.is_temporal(column.type) else None


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with times no finer than Python's, in their zone."""
    for place, field in enumerate(batch.schema):
        if pa.types.is_timestamp(field.type) and field.type.unit == "ns":
            coarse = pa.timestamp("us", field.type.tz)
            column = batch.column(place).cast(coarse, safe=False)
            batch = batch.set_column(place, field.name, column)
    return batch
