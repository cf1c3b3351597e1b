"""Rows as messages of a queue, and the queue as a destination.

A table with a column `value` has messages, under its column `key` if it has one. A table of
notifications (`id` and `attributes`) becomes notifications in kbn's JSON form, which the formats of
queues read again. Of any other table each row is a JSON object.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql.types import BinaryType, StringType, StructType

from kbn.errors import InvalidInputError
from kbn.spark.io.destinations import Committed
from kbn.spark.io.parts import json_lines
from kbn.spark.io.queues import Offsets, Outgoing, Queue
from kbn.spark.io.row_notifications import holds_notifications


def check_messages(schema: StructType, key: str | None) -> None:
    """InvalidInputError, when rows of this schema cannot be messages."""
    types = {field.name: field.dataType for field in schema.fields}
    if "value" in types and not isinstance(types["value"], (StringType, BinaryType)):
        raise InvalidInputError(
            f"the column value is sent as it is, and must be text or binary, not "
            f"{types['value'].simpleString()}: cast it, or rename it"
        )
    if key is not None and key not in types:
        raise InvalidInputError(
            f"there is no column {key!r} for the key; there are {', '.join(types)}"
        )


def messages(batch: Committed, key: str | None) -> Iterator[Outgoing]:
    """The messages of a batch, with ids that say where they come from."""
    names = set(batch.schema.names)
    key = key or ("key" if {"key", "value"} <= names else None)
    as_it_is, whole = "value" in names, holds_notifications(batch.schema)
    number = 0
    for rows in batch.batches():
        keys = rows.column(key).to_pylist() if key else [None] * rows.num_rows
        if as_it_is:
            values = [_bytes(value) or b"" for value in rows.column("value").to_pylist()]
        elif whole:
            values = [_notification(row) for row in rows.to_pylist()]
        else:
            values = [line[:-1] for line in json_lines([rows])]
        for value, name in zip(values, keys, strict=True):
            number += 1
            if value or as_it_is:
                yield Outgoing(f"{batch.outbox}/{batch.name}/{number}", _bytes(name), value)


def _bytes(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return str(value).encode()


def _notification(row: dict[str, Any]) -> bytes:
    """A notification in JSON; nothing for a row that says why a record was none."""
    if row["attributes"] is None:
        return b""
    about: dict[str, Any] = {"id": row["id"]}
    if row.get("publisher") is not None:
        about["publisher"] = row["publisher"]
    if isinstance(time := row.get("time"), datetime):
        about["time"] = time.isoformat()
    head = json.dumps(about, ensure_ascii=False)[:-1]
    return f'{head}, "attributes": {row["attributes"]}}}'.encode()


@dataclass(frozen=True)
class QueueDestination:
    """A queue that takes batches."""

    identity: str
    queue: Queue
    key: str | None = None

    def standing(self) -> Offsets:
        return {place: held.end for place, held in self.queue.bounds().items()}

    def take(self, batch: Committed, since: Offsets, *, again: bool) -> None:
        try:
            there = self._ids(since) if again else frozenset()
            self.queue.send(each for each in messages(batch, self.key) if each.id not in there)
        finally:
            self.queue.close()

    def _ids(self, since: Offsets) -> frozenset[str | None]:
        """The ids of what came to the queue since."""
        return frozenset(
            message.id
            for place, held in self.queue.bounds().items()
            for message in self.queue.read(place, since.get(place, held.first), held.end)
        )
