"""The format "kbn-kafka": topics of Kafka, by librdkafka and without a jar.

    spark.readStream.format("kbn-kafka").option("servers", "localhost:9092").option("topic", "news")

A place is a partition, "news/0". We assign partitions to ourselves and never commit offsets, since
Spark's checkpoint has them. Options that begin with `kafka.` go to librdkafka: for example,
`kafka.security.protocol`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

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
    import confluent_kafka

NAME = "kbn-kafka"
PREFIX = "kafka."
ID_HEADER = "kbn-id"
MESSAGES_AT_ONCE = 1000
QUIET = logging.getLogger("kbn.kafka")


class KafkaSource(DataSource):
    """Topics of Kafka; docs/how-to/connect.md describes the options."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return schema_of(kafka_options(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        options = kafka_options(self.options)
        return QueueReader(options, schema, partial(KafkaQueue, options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        require_stream_source(NAME)
        from kbn.spark.io.queue_stream import QueueStreamReader

        options = kafka_options(self.options)
        return QueueStreamReader(options, schema, partial(KafkaQueue, options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from kbn.spark.io.connector_sink import to_queue

        options = _writing(kafka_options(self.options))
        return to_queue(NAME, options, schema, overwrite, partial(KafkaQueue, options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        require_stream_sink(NAME)
        from kbn.spark.io.connector_stream import stream_to_queue

        options = _writing(kafka_options(self.options))
        return stream_to_queue(NAME, options, schema, partial(KafkaQueue, options))


def kafka_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options, checked."""
    _library()
    known = ("servers", "topic", "key", "outbox", "batch", *OPTIONS)
    return checked_options(NAME, options, known, needed=("servers", "topic"), prefix=PREFIX)


def _writing(options: dict[str, str]) -> dict[str, str]:
    if "," in options["topic"]:
        raise InvalidInputError("rows go to one topic: name one with the option topic")
    return options


def _library() -> Any:
    try:
        import confluent_kafka
    except ImportError as error:
        raise MissingDependencyError("to read from or write to Kafka", extra="kafka") from error
    return confluent_kafka


class KafkaQueue:
    """Topics of one cluster."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = dict(options)
        self._topics = [name.strip() for name in options["topic"].split(",") if name.strip()]
        self._wait_s = whole_number(options, "giveUpAfter", 60)
        self._consumer: confluent_kafka.Consumer | None = None

    @property
    def address(self) -> str:
        return f"Kafka at {self._options['servers']}"

    def bounds(self) -> dict[str, Bounds]:
        kafka, found = _library(), {}
        with self._told():
            consumer = self._connected()
            for topic in self._topics:
                about = consumer.list_topics(topic, timeout=self._wait_s).topics[topic]
                if about.error is not None:
                    raise KbnError(f"{self.address}: the topic {topic!r}: {about.error.str()}")
                for number in sorted(about.partitions):
                    place = kafka.TopicPartition(topic, number)
                    first, end = consumer.get_watermark_offsets(place, timeout=self._wait_s)
                    found[f"{topic}/{number}"] = Bounds(first, end)
        return found

    def read(self, place: str, start: int, end: int) -> Iterator[Message]:
        kafka = _library()
        topic, _, number = place.rpartition("/")
        with self._told():
            consumer = self._connected()
            consumer.assign([kafka.TopicPartition(topic, int(number), start)])
        due = start
        while due < end:
            with self._told():
                some = consumer.consume(min(MESSAGES_AT_ONCE, end - due), timeout=self._wait_s)
            if not some:
                raise KbnError(
                    f"{self.address} sent nothing of {place} from {due} on for {self._wait_s} s"
                )
            for each in some:
                if (error := each.error()) is not None:
                    if error.code() == kafka.KafkaError._PARTITION_EOF:
                        return  # what is missing before the end are marks of transactions
                    raise KbnError(f"{self.address}: {place} at {due}: {error.str()}")
                offset = int(each.offset() or 0)
                if offset >= end:
                    return
                due = offset + 1
                yield _message(place, each)

    def send(self, messages: Iterable[Outgoing]) -> int:
        kafka = _library()
        failed: list[Any] = []
        producer = kafka.Producer(self._settings({"enable.idempotence": True, "acks": "all"}))

        def done(error: Any, message: Any) -> None:
            if error is not None:
                failed.append(error)

        count = 0
        for each in messages:
            arguments = {
                "value": each.value,
                "key": each.key,
                "headers": [(ID_HEADER, each.id.encode())],
                "on_delivery": done,
            }
            while not failed:
                try:
                    producer.produce(self._topics[0], **arguments)
                    break
                except BufferError:
                    producer.poll(0.1)  # its queue is full: wait until some are taken
            producer.poll(0)
            if failed:
                break
            count += 1
        left = producer.flush(self._wait_s)
        if failed or left:
            why = failed[0].str() if failed else f"no answer for {self._wait_s} s"
            raise KbnError(f"{self.address} did not take every message: {why}")
        return count

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _connected(self) -> confluent_kafka.Consumer:
        if self._consumer is None:
            reading = {
                "group.id": "kbn",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
            }
            self._consumer = _library().Consumer(self._settings(reading))
        return self._consumer

    def _settings(self, own: Mapping[str, Any]) -> dict[str, Any]:
        given = with_secrets(self._options)
        passed = {
            name.lower().removeprefix(PREFIX): value
            for name, value in given.items()
            if name.lower().startswith(PREFIX)
        }
        about = {"bootstrap.servers": self._options["servers"], "logger": QUIET}
        return {"allow.auto.create.topics": False, **passed, **own, **about}

    def _told(self) -> _Told:
        return _Told(self.address)


class _Told:
    """Says whose an error of librdkafka's is."""

    def __init__(self, address: str) -> None:
        self._address = address

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        kafka = _library()
        if isinstance(error, kafka.KafkaException):
            raise KbnError(f"{self._address}: {error.args[0].str()}") from None


def _message(place: str, read: Any) -> Message:
    kind, time_ms = read.timestamp()
    headers = dict(read.headers() or ())
    id = headers.get(ID_HEADER)
    return Message(
        place,
        read.offset(),
        read.key(),
        read.value(),
        time_ms * 1000 if kind else None,
        None if id is None else id.decode("utf-8", "replace"),
    )
