"""Destinations: committed batches handed on to a queue or a table, each row once.

A sink of this kind has a folder, its *outbox*: tasks write parts there and the batch is committed
by its manifest (`manifests.py`), so what a batch holds is decided once. Then the batch is handed
on, and what was handed on is written down (`acknowledged.json`):

    1. where the destination stands, and which batch is on its way;
    2. the rows go to the destination, with ids that are always the same for the same rows;
    3. the batch was taken. Its parts are not needed any more.

Killed between 1 and 3, the batch is on its way when the stream is started again. A queue is then
read from where it stood, and only rows whose ids are not there are sent. A table has the number of
the last batch in the same commit as its rows, and is asked for it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import uuid4

import pyarrow as pa
from pyspark.sql.types import StructType

from kbn.errors import InvalidInputError, KbnError
from kbn.spark.io.manifests import Delivered, Manifest, link
from kbn.spark.io.outbox import acknowledged, pending_batches, write_down
from kbn.spark.io.parts import read_part
from kbn.spark.io.spool import locked
from kbn.spark.releases import arrow_schema

OUTBOX = "outbox.json"


@dataclass(frozen=True)
class Committed:
    """A batch that is to be handed on: the outbox it is of, its number there, and its rows."""

    outbox: str
    name: str
    manifest: Manifest
    delivered: Delivered

    @property
    def number(self) -> int:
        return self.manifest.batch or 0

    @property
    def schema(self) -> StructType:
        return StructType.fromJson(self.manifest.schema)

    @property
    def arrow_schema(self) -> pa.Schema:
        return arrow_schema(self.schema)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, part by part, in an order that is always the same."""
        for part in self.manifest.parts:
            table = read_part(self.delivered.parts / part.name, self.arrow_schema)
            yield from table.to_batches()


class Destination(Protocol):
    """Where batches go."""

    @property
    def identity(self) -> str:
        """What it is: an outbox belongs to one, for ever."""
        ...

    def standing(self) -> Any:
        """Where it stands now, as JSON can hold it: what `take` needs to know after a crash."""
        ...

    def take(self, batch: Committed, since: Any, *, again: bool) -> None:
        """Take the rows of a batch. `again`, when it may have some of them; `since` is where it
        stood before the first.
        """
        ...


def hand_on(delivered: Delivered, destination: Destination) -> int:
    """Hand on the batches of a stream that were not taken, oldest first; how many."""
    busy = "is in use by another query: a sink needs an outbox of its own"
    with closing(locked(delivered.directory / ".handing-on", busy)):
        outbox = _claim(delivered, destination)
        count = 0
        for number in list(pending_batches(delivered)):
            _forget_parts(delivered, number - 1)
            _hand_on(delivered, destination, outbox, delivered.name_of(number))
            count += 1
        return count


def hand_on_write(delivered: Delivered, destination: Destination) -> None:
    """Hand on the one write of an outbox that was made for it."""
    outbox = _claim(delivered, destination)
    for name in delivered.names():
        manifest = delivered.read(name)
        destination.take(
            Committed(outbox, name, manifest, delivered), destination.standing(), again=False
        )


def _hand_on(delivered: Delivered, destination: Destination, outbox: str, name: str) -> None:
    manifest = delivered.read(name)
    if manifest.rows:
        known = acknowledged(delivered)
        again = known.get("sending") == name
        if not again:
            known = {"since": destination.standing(), "sending": name}
            write_down(delivered, **known)
        batch = Committed(outbox, name, manifest, delivered)
        try:
            destination.take(batch, known["since"], again=again)
        except InvalidInputError:
            raise
        except KbnError as error:
            raise KbnError(
                f"{error}. The batch is safe in {delivered.directory}, and is sent when the query "
                "is started again"
            ) from error
    write_down(delivered, batch=manifest.batch, sending=None, since=None)


def _claim(delivered: Delivered, destination: Destination) -> str:
    """The name of the outbox, which begins every id that comes from it."""
    delivered.prepare()
    path = delivered.directory / OUTBOX
    if not path.exists():
        link(path, json.dumps({"id": uuid4().hex, "to": destination.identity}))
    known = json.loads(path.read_text(encoding="utf-8"))
    if known["to"] != destination.identity:
        raise InvalidInputError(
            f"{delivered.directory} is the outbox of what goes to {known['to']}, not to "
            f"{destination.identity}: give this query a checkpoint, or an outbox, of its own"
        )
    return str(known["id"])


def _forget_parts(delivered: Delivered, number: int) -> None:
    """Delete the parts of a batch that was taken; that it was committed stays known."""
    if number >= 0 and delivered.is_committed(number):
        for part in delivered.read_batch(number).parts:
            with suppress(FileNotFoundError):
                os.unlink(delivered.parts / part.name)
