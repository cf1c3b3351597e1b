"""Parts: the files of rows that tasks write, in one of three formats, and read again."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from kbn.errors import InvalidInputError, KbnError
from kbn.spark.io.manifests import Part

FORMATS = {"parquet": ".parquet", "arrow": ".arrow", "json": ".jsonl"}


def checked_format(name: str) -> str:
    if name not in FORMATS:
        raise InvalidInputError(f"fileFormat is one of {', '.join(FORMATS)}, not {name!r}")
    return name


def write_part(
    directory: Path, batches: Iterable[pa.RecordBatch], schema: pa.Schema, format: str
) -> Part | None:
    """Write rows to a new file and see it to the disk; None, and no file, when there are none."""
    held = (batch for batch in batches if batch.num_rows)
    first = next(held, None)
    if first is None:
        return None
    directory.mkdir(parents=True, exist_ok=True)
    name = uuid4().hex + FORMATS[format]
    rows = 0
    try:
        with open(directory / name, "xb") as stream:
            write = _writer(stream, schema, format)
            for batch in _chained(first, held):
                write(batch.cast(schema))
                rows += batch.num_rows
            write(None)
            stream.flush()
            os.fsync(stream.fileno())
    except BaseException:
        (directory / name).unlink(missing_ok=True)
        raise
    return Part(name, rows)


def read_part(path: Path, schema: pa.Schema) -> pa.Table:
    """The rows of a part."""
    try:
        if path.suffix == ".parquet":
            table = pq.read_table(path)
        elif path.suffix == ".arrow":
            with pa.ipc.open_file(path) as reader:
                table = reader.read_all()
        else:
            with open(path, "rb") as stream:
                rows = [json.loads(line) for line in stream]
            table = pa.Table.from_pylist([_from_json(row, schema) for row in rows], schema)
    except FileNotFoundError:
        raise KbnError(f"{path} is missing, and a manifest names it: put it back") from None
    return table.select(schema.names).cast(schema)


def json_lines(batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """Each row as a line of JSON: times in ISO 8601, bytes in base64."""
    for batch in batches:
        for row in batch.to_pylist():
            yield json.dumps(row, default=_to_json, ensure_ascii=False).encode() + b"\n"


def _writer(
    stream: BinaryIO, schema: pa.Schema, format: str
) -> Callable[[pa.RecordBatch | None], None]:
    """Takes batches, and None for the end."""
    if format == "json":

        def write_lines(batch: pa.RecordBatch | None) -> None:
            stream.writelines(json_lines([] if batch is None else [batch]))

        return write_lines
    writer = (
        pq.ParquetWriter(stream, schema) if format == "parquet" else pa.ipc.new_file(stream, schema)
    )

    def write(batch: pa.RecordBatch | None) -> None:
        if batch is None:
            writer.close()
        else:
            writer.write_batch(batch)

    return write


def _chained(first: pa.RecordBatch, rest: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def _to_json(value: Any) -> Any:
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    return str(value)


def _from_json(row: dict[str, Any], schema: pa.Schema) -> dict[str, Any]:
    """Times and bytes, which JSON has as text, as what the schema says they are."""
    for field in schema:
        value = row.get(field.name)
        if value is None:
            continue
        if pa.types.is_timestamp(field.type):
            row[field.name] = datetime.fromisoformat(value)
        elif pa.types.is_date(field.type):
            row[field.name] = date.fromisoformat(value)
        elif pa.types.is_binary(field.type):
            row[field.name] = base64.b64decode(value)
    return row
