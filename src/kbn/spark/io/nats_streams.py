"""The format "kbn-nats": streams of NATS JetStream, without a jar.

    spark.readStream.format("kbn-nats").option("servers", url).option("stream", "NEWS").load()

A place is a stream; the offset of a message is its number in the stream. A task reads by a consumer
of its own, which nobody acknowledges to and which the server forgets soon after: the checkpoint
knows how far we are. `subject` asks for some of the messages; the offsets of others are skipped.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from kbn.errors import InvalidInputError, KbnError, MissingDependencyError
from kbn.spark.io.connector_options import checked_options, whole_number, with_secrets
from kbn.spark.io.queue_reader import OPTIONS, QueueReader, schema_of
from kbn.spark.io.queues import Bounds, Message, Outgoing
from kbn.spark.releases import require_stream_sink, require_stream_source

if TYPE_CHECKING:
    from nats.aio.client import Client

T = TypeVar("T")

NAME = "kbn-nats"
ID_HEADER = "Nats-Msg-Id"
MESSAGES_AT_ONCE = 500
SENT_AT_ONCE = 256
FORGOTTEN_AFTER_S = 300.0


class NatsSource(DataSource):
    """Streams of NATS JetStream; docs/how-to/connect.md describes the options."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return schema_of(nats_options(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        options = nats_options(self.options)
        return QueueReader(options, schema, partial(NatsQueue, options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        require_stream_source(NAME)
        from kbn.spark.io.queue_stream import QueueStreamReader

        options = nats_options(self.options)
        return QueueStreamReader(options, schema, partial(NatsQueue, options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from kbn.spark.io.connector_sink import to_queue

        options = _writing(nats_options(self.options))
        return to_queue(NAME, options, schema, overwrite, partial(NatsQueue, options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        require_stream_sink(NAME)
        from kbn.spark.io.connector_stream import stream_to_queue

        options = _writing(nats_options(self.options))
        return stream_to_queue(NAME, options, schema, partial(NatsQueue, options))


def nats_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options, checked."""
    _library()
    known = (
        *(
            "servers",
            "stream",
            "subject",
            "outbox",
            "batch",
            "user",
            "password",
            "token",
            "credentials",
        ),
        *("tlsCa", *OPTIONS),
    )
    return checked_options(NAME, options, known, needed=("servers", "stream"))


def _writing(options: dict[str, str]) -> dict[str, str]:
    subject = options.get("subject", "")
    if not subject or "*" in subject or ">" in subject:
        raise InvalidInputError(
            "say under which subject rows are published: the option subject, without * and >"
        )
    return options


def _library() -> Any:
    try:
        import nats
    except ImportError as error:
        raise MissingDependencyError("to read from or write to NATS", extra="nats") from error
    return nats


class NatsQueue:
    """One stream of a server; every call connects anew, which takes some milliseconds."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = dict(options)
        self._stream = options["stream"]
        self._subject = options.get("subject")
        self._wait_s = whole_number(options, "giveUpAfter", 60)

    @property
    def address(self) -> str:
        # Without what may stand before the @: a user and a password.
        return "NATS at " + ",".join(
            each.rpartition("@")[2].removeprefix("nats://")
            for each in self._options["servers"].split(",")
        )

    def bounds(self) -> dict[str, Bounds]:
        with _Session(self) as session:
            state = session.call(session.client.jetstream().stream_info(self._stream)).state
        # A new stream says that its first message is number 0; the first will be 1.
        return {self._stream: Bounds(max(1, state.first_seq), state.last_seq + 1)}

    def read(self, place: str, start: int, end: int) -> Iterator[Message]:
        from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

        asked = ConsumerConfig(
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=start,
            ack_policy=AckPolicy.NONE,
            inactive_threshold=FORGOTTEN_AFTER_S,
            mem_storage=True,
        )
        with _Session(self) as session:
            stream = session.client.jetstream()
            reading = stream.pull_subscribe(self._subject or ">", stream=place, config=asked)
            consumer = session.call(reading)
            left = session.call(consumer.consumer_info()).num_pending or 0
            while left:
                count = min(MESSAGES_AT_ONCE, left, end - start)
                some = session.call(consumer.fetch(count, timeout=self._wait_s))
                for each in some:
                    about = each.metadata
                    if about.sequence.stream >= end:
                        return
                    left = about.num_pending
                    yield _message(place, each)

    def send(self, messages: Iterable[Outgoing]) -> int:
        subject = self._subject
        assert subject is not None
        count, waiting = 0, iter(messages)
        with _Session(self) as session:
            stream = session.client.jetstream()
            while some := list(islice(waiting, SENT_AT_ONCE)):

                async def publish(some: list[Outgoing] = some) -> None:
                    await asyncio.gather(
                        *(
                            stream.publish(
                                subject,
                                each.value,
                                timeout=self._wait_s,
                                stream=self._stream,
                                headers={ID_HEADER: each.id},
                            )
                            for each in some
                        )
                    )

                session.call(publish())
                count += len(some)
        return count

    def close(self) -> None:
        """Nothing stays open between calls."""

    async def connected(self) -> Client:
        """A connection; what is wrong with it is told once, and not logged again and again."""
        given = with_secrets(self._options)
        tls = ssl.create_default_context(cafile=given["tlsCa"]) if "tlsCa" in given else None

        async def quiet(error: Exception) -> None:
            pass

        asked = _library().connect(
            [each.strip() for each in given["servers"].split(",")],
            user=given.get("user"),
            password=given.get("password"),
            token=given.get("token"),
            user_credentials=given.get("credentials"),
            tls=tls,
            allow_reconnect=False,
            max_reconnect_attempts=1,
            error_cb=quiet,
        )
        client: Client = await asyncio.wait_for(asked, self._wait_s)
        return client


class _Session:
    """A connection and a loop of its own, for code that waits."""

    def __init__(self, queue: NatsQueue) -> None:
        self._queue = queue
        self._loop = asyncio.new_event_loop()
        self.client: Client

    def __enter__(self) -> _Session:
        try:
            self.client = self.call(self._queue.connected())
        except BaseException:
            self._loop.close()
            raise
        return self

    def __exit__(self, *about: object) -> None:
        try:
            self._loop.run_until_complete(self.client.close())
        finally:
            self._loop.close()

    def call(self, what: Coroutine[Any, Any, T]) -> T:
        """Wait for it; what NATS says against it becomes an error with an address."""
        import nats.errors

        try:
            return self._loop.run_until_complete(what)
        except (nats.errors.Error, OSError, TimeoutError) as error:
            said = str(error).removeprefix("nats: ") or type(error).__name__
            raise KbnError(f"{self._queue.address}: {said}") from None


def _message(place: str, read: Any) -> Message:
    about = read.metadata
    return Message(
        place,
        about.sequence.stream,
        read.subject.encode(),
        read.data,
        int(about.timestamp.timestamp() * 1_000_000),
        (read.headers or {}).get(ID_HEADER),
    )
