"""Publishing: delivered batches as durable notifications of a broker, each row once.

A broker takes the durable notifications of a publisher in the order of their numbers, remembers the
last, and drops what it has. So a folder of delivered batches publishes under one name and one epoch
for ever (`publisher.json`), and its rows have fixed numbers: the first row of a batch comes after
all that was published of the folder before, and the rows of a batch are read from the parts that
its manifest names, always in the same order. What was published is written down beside the
manifests (`acknowledged.json`): which batch is on its way, before the first row of it is sent, and
that it was taken, after the last. Whenever we are killed in between, the same rows are sent again
under the same numbers, and the broker drops those it has.

A row that the broker refuses (the publisher may not use an attribute, say) has used up its number.
It goes to `refused.jsonl` with the reason; the others are published, and then the query is told.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from itertools import islice
from uuid import uuid4

from pyspark.sql.types import StructType

from kbn.errors import InvalidInputError, KbnError, TransportError
from kbn.filters import Notification
from kbn.spark.io.broker_address import BrokerAddress
from kbn.spark.io.manifests import Delivered, Manifest, link
from kbn.spark.io.outbox import acknowledged, pending_batches, stream_of, write_down
from kbn.spark.io.parts import read_part
from kbn.spark.io.row_notifications import notifications
from kbn.spark.io.spool import locked
from kbn.spark.releases import arrow_schema
from kbn.transport import Client, connect

PUBLISHER = "publisher.json"
REFUSED = "refused.jsonl"
PUBLISHED_AT_ONCE = 512


@dataclass(frozen=True, slots=True)
class Publisher:
    """As whom a folder publishes."""

    client: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a folder is published: so many rows in all, the last batch, the other writes, and
    the manifest that is on its way.
    """

    published: int = 0
    batch: int | None = None
    writes: tuple[str, ...] = ()
    sending: str | None = None

    @classmethod
    def of(cls, delivered: Delivered) -> Progress:
        known = acknowledged(delivered)
        return cls(
            known.get("published", 0),
            known.get("batch"),
            tuple(known.get("writes", ())),
            known.get("sending"),
        )

    def save(self, delivered: Delivered) -> Progress:
        write_down(delivered, **asdict(self))
        return self

    def after(self, name: str, batch: int | None, published: int) -> Progress:
        """How far it is when that manifest was taken."""
        if batch is None:
            return Progress(published, self.batch, (*self.writes, name))
        return Progress(published, batch, self.writes)


def publish_pending(delivered: Delivered, broker: BrokerAddress) -> int:
    """Publish what the broker has not taken, oldest first; returns how many batches."""
    busy = "is being published by another query: write to it from one at a time"
    with closing(locked(delivered.directory / ".publishing", busy)):
        progress = Progress.of(delivered)
        names = list(pending(delivered, progress))
        if not names:
            return 0
        publisher = claim_publisher(delivered, broker.client)
        try:
            asyncio.run(_publish(delivered, broker, publisher, progress, names))
        except (TransportError, TimeoutError) as error:
            raise KbnError(
                f"{broker.url} did not take {names[0]}: {error or 'no answer'}. The batch is safe "
                f"in {delivered.directory}, and is published when the query is started again"
            ) from error
        return len(names)


def pending(delivered: Delivered, progress: Progress) -> Iterator[str]:
    """The manifests that were not taken: the one on its way first."""
    if progress.sending is not None:
        yield progress.sending
    writes = set(progress.writes)
    batches = {delivered.name_of(batch) for batch in pending_batches(delivered)}
    for name in delivered.names():
        is_pending = name in batches or (name.startswith("write-") and name not in writes)
        if is_pending and name != progress.sending:
            yield name


def claim_publisher(delivered: Delivered, client: str | None) -> Publisher:
    """The publisher that a folder is, for ever; the first time, as `client` or by the stream."""
    path = delivered.directory / PUBLISHER
    if not path.exists():
        identity = stream_of(delivered) or uuid4().hex
        made = Publisher(client or f"spark-{identity}", _epoch_of(identity))
        link(path, json.dumps(asdict(made)))
    known = Publisher(**json.loads(path.read_text(encoding="utf-8")))
    if client is not None and client != known.client:
        raise InvalidInputError(
            f"{delivered.directory} is published as {known.client!r}, not as {client!r}: under "
            "another name the broker could not tell what it has. Leave the option client as it "
            "was, or give it a folder of its own"
        )
    return known


def _epoch_of(identity: str) -> int:
    """A number for a stream, always the same; less than any that is taken from the clock.

    A name that another client has now is refused to us that way, and not taken from it.
    """
    return 1 + int.from_bytes(blake2b(identity.encode(), digest_size=5).digest())


async def _publish(
    delivered: Delivered,
    broker: BrokerAddress,
    publisher: Publisher,
    progress: Progress,
    names: list[str],
) -> None:
    taken = await _taken(broker, publisher, progress.published)
    async with _connected(broker, publisher, taken) as client:
        for name in names:
            progress = replace(progress, sending=name).save(delivered)
            manifest = delivered.read(name)
            first = progress.published
            rows = _Rows(delivered, name, manifest)
            last, refused = await _publish_rows(client, rows, first, taken, broker.give_up_s)
            if last < taken:
                raise KbnError(
                    f"{broker.url} has {taken} notifications of {publisher.client!r}, and "
                    f"{delivered.directory} only {last}: was it put back from a copy, or is the "
                    "name in use elsewhere?"
                )
            progress = progress.after(name, manifest.batch, last).save(delivered)
            if refused:
                raise KbnError(
                    f"{broker.url} refused {len(refused)} of {last - first} rows of {name}, the "
                    f"first because: {refused[0]}. They are in {delivered.directory / REFUSED}; "
                    "the others are published, and a restarted query goes on after them"
                )


def _connected(broker: BrokerAddress, publisher: Publisher, published: int) -> Client:
    return connect(
        broker.url, name=publisher.client, epoch=publisher.epoch, published=published,
        token=broker.token, tls_ca=broker.tls_ca, timeout=broker.give_up_s,
    )  # fmt: skip


async def _taken(broker: BrokerAddress, publisher: Publisher, published: int) -> int:
    """How many of our rows the broker has: those we know of, and those sent before we were killed.

    They are not sent again, although it would drop them: it grants nothing in return for those.
    """
    async with _connected(broker, publisher, published) as client:
        return client.core.stored_up_to


async def _publish_rows(
    client: Client, rows: _Rows, first: int, taken: int, give_up_s: float
) -> tuple[int, list[KbnError]]:
    """Publish rows, numbered after `first`, except those up to `taken`; the last number, and why
    some were refused.
    """
    last, refused = first, []
    found = iter(rows)
    while some := list(islice(found, PUBLISHED_AT_ONCE)):
        new = some[max(0, taken - last) :]
        last += len(some)
        async with asyncio.timeout(give_up_s):
            outcomes = await asyncio.gather(
                *(client.publish(each, durable=True) for each in new), return_exceptions=True
            )
        _ = client.core  # raises, when it is the connection that is over
        for notification, outcome in zip(new, outcomes, strict=True):
            if isinstance(outcome, KbnError):
                refused.append(outcome)
                rows.note_refused(notification, outcome)
            elif isinstance(outcome, BaseException):
                raise outcome
    return last, refused


class _Rows:
    """The notifications of one manifest, in an order that is always the same."""

    def __init__(self, delivered: Delivered, name: str, manifest: Manifest) -> None:
        self._delivered = delivered
        self._name = name
        self._manifest = manifest

    def __iter__(self) -> Iterator[Notification]:
        schema = StructType.fromJson(self._manifest.schema)
        arrow = arrow_schema(schema)
        for part in self._manifest.parts:
            table = read_part(self._delivered.parts / part.name, arrow)
            yield from notifications(table.to_batches(), schema)

    def note_refused(self, notification: Notification, error: KbnError) -> None:
        about = {"manifest": self._name, "reason": str(error), **notification.to_json()}
        with open(self._delivered.directory / REFUSED, "a", encoding="utf-8") as stream:
            stream.write(json.dumps(about, ensure_ascii=False) + "\n")
