"""What became of a record: a notification's row, or a refusal with its reason; and both as Arrow.

Readers of every format yield one outcome per record, so that none is lost and none counts twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from hashlib import blake2b
from typing import NamedTuple

import pyarrow as pa

ROWS_MAX = 8192
"""Outcomes in one Arrow batch, at most."""

BYTES_MAX = 32 * 2**20
"""Characters in one Arrow batch before the next is begun: a few huge records make a batch too."""

INGESTED_ARROW = pa.schema(
    [
        ("id", pa.string()),
        ("publisher", pa.string()),
        ("time", pa.timestamp("us", "UTC")),
        ("attributes", pa.string()),
        ("source", pa.string()),
        ("position", pa.int64()),
        ("record", pa.string()),
        ("reason", pa.string()),
    ]
)
"""`kbn.spark.columns.INGESTED` for Arrow."""


class Row(NamedTuple):
    """A notification, its attributes as JSON text."""

    id: str
    publisher: str | None
    time: datetime | None
    attributes: str


class Refused(NamedTuple):
    """A record that is no notification; without a position the whole source is meant."""

    source: str | None
    position: int | None
    record: str | None
    reason: str


Outcome = Row | Refused


def batches(outcomes: Iterable[Outcome]) -> Iterator[pa.RecordBatch]:
    """The outcomes as Arrow batches of the schema INGESTED, each of bounded size.

    >>> row = Row("n1", None, None, '{"topic":"tea"}')
    >>> [made.num_rows for made in batches([row, Refused("a.csv", 2, "x", "no number")])]
    [2]
    """
    rows: list[Row] = []
    refused: list[Refused] = []
    size = 0
    for outcome in outcomes:
        if type(outcome) is Row:
            rows.append(outcome)
            size += len(outcome.attributes)
        else:
            refused.append(outcome)  # type: ignore[arg-type]
            size += len(outcome.record or "")  # type: ignore[union-attr]
        if len(rows) + len(refused) >= ROWS_MAX or size >= BYTES_MAX:
            yield batch(rows, refused)
            rows, refused, size = [], [], 0
    if rows or refused:
        yield batch(rows, refused)


def batch(rows: list[Row], refused: list[Refused]) -> pa.RecordBatch:
    """One Arrow batch: the rows, then the refusals."""
    columns = [*_columns(rows, len(Row._fields), len(refused), first=True)]
    columns += _columns(refused, len(Refused._fields), len(rows), first=False)
    arrays = [
        pa.array(column, field.type) for column, field in zip(columns, INGESTED_ARROW, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=INGESTED_ARROW)


def _columns(
    rows: list[Row] | list[Refused], width: int, missing: int, *, first: bool
) -> list[list[object]]:
    """The columns of the rows, with so many nulls after them, or before."""
    nulls: list[object] = [None] * missing
    if not rows:
        return [nulls] * width
    columns = [list(column) for column in zip(*rows, strict=True)]
    return [column + nulls if first else nulls + column for column in columns]


def shown(content: bytes) -> str:
    """The content as text; bytes that are not UTF-8 are shown as `\\xff`."""
    return content.decode("utf-8", "backslashreplace")


def stable_id(source: str | None, content: bytes) -> str:
    """The id of a record that has none: a hash of where it came from and what it says.

    Reading the same file again gives the same ids; the same record in another file gets another,
    and the same record twice in one file gets one id twice.
    """
    hashed = blake2b((source or "").encode("utf-8", "surrogatepass"), digest_size=16)
    hashed.update(b"\0")
    hashed.update(content)
    return hashed.hexdigest()
