"""Kafka and NATS, without Spark: what is read and sent, and what is said when it cannot be."""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from pyspark.sql.types import IntegerType, StringType, StructField, StructType
from tests.spark.queue_servers import MockKafka, NatsServer, nats_server
from tests.spark.releases import reads_streams

from kbn.errors import InvalidInputError, KbnError, MissingDependencyError
from kbn.spark.io.connector_options import checked_options, with_secrets
from kbn.spark.io.kafka_topics import KafkaQueue, KafkaSource, kafka_options
from kbn.spark.io.nats_streams import NatsQueue, NatsSource, nats_options
from kbn.spark.io.queues import Bounds, Outgoing, Span, reached, spans, starting, still_kept


@pytest.fixture(scope="module")
def kafka() -> MockKafka:
    return MockKafka()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with nats_server(tmp_path_factory.mktemp("nats")) as started:
        yield started


def notifications(first: int, count: int) -> list[bytes]:
    return [
        json.dumps({"id": f"n{n}", "attributes": {"price": n}}).encode()
        for n in range(first, first + count)
    ]


# Places and offsets.


def test_a_batch_has_about_as_many_rows_as_it_may_and_ends_come_in_the_end(seed: int) -> None:
    random = Random(seed)
    for _ in range(200):
        bounds = {f"p{n}": Bounds(0, random.randrange(50)) for n in range(random.randrange(1, 6))}
        start = {place: random.randrange(held.end + 1) for place, held in bounds.items()}
        rows = random.randrange(1, 20)
        for _ in range(200):
            after = reached(start, bounds, rows)
            taken = sum(after.values()) - sum(start.values())
            assert taken <= max(rows, len(bounds))
            assert all(start[place] <= after[place] <= bounds[place].end for place in bounds)
            if after == start:
                break
            start = after
        assert start == {place: held.end for place, held in bounds.items()}
        assert reached(start, bounds, None) == start


def test_spans_hold_every_offset_once(seed: int) -> None:
    random = Random(seed)
    for _ in range(100):
        start = {f"p{n}": random.randrange(100) for n in range(3)}
        end = {place: offset + random.randrange(100) for place, offset in start.items()}
        found = spans(start, end, random.randrange(1, 5), least=random.randrange(1, 60))
        held = [(span.place, n) for span in found for n in range(span.start, span.end)]
        assert sorted(held) == [(p, n) for p in sorted(start) for n in range(start[p], end[p])]


def test_what_is_kept_no_longer_is_told_or_skipped() -> None:
    bounds = {"news/0": Bounds(10, 20)}
    with pytest.raises(KbnError, match="keeps messages from 10 on, and 4 comes next: 6 are lost"):
        still_kept({"news/0": 4}, bounds, "Kafka at x", or_fail=True)
    assert still_kept({"news/0": 4}, bounds, "Kafka at x", or_fail=False) == {"news/0": 10}
    with pytest.raises(KbnError, match="made anew"):
        still_kept({"news/0": 21}, bounds, "Kafka at x", or_fail=False)
    with pytest.raises(KbnError, match="has no news/1 any more"):
        still_kept({"news/1": 1}, bounds, "Kafka at x", or_fail=True)
    for wrong in ("first", "[1]", '{"news/0": "x"}', '{"other/0": 1}'):
        with pytest.raises(InvalidInputError, match="startingOffsets"):
            starting(wrong, bounds)


# Options.


@reads_streams
def test_options_are_checked_by_name_and_value() -> None:
    with pytest.raises(InvalidInputError, match="needs the option topic"):
        kafka_options({"servers": "localhost:9092"})
    with pytest.raises(InvalidInputError, match="did you mean 'topic'"):
        kafka_options({"servers": "localhost:9092", "topc": "news"})
    with pytest.raises(InvalidInputError, match="needs the option stream"):
        nats_options({"servers": "nats://localhost"})
    with pytest.raises(InvalidInputError, match="the option form is kbn, cloudevents, messages"):
        NatsSource({"servers": "x", "stream": "S", "form": "xml"}).schema()
    schema = NatsSource({"servers": "x", "stream": "S"}).schema()
    with pytest.raises(InvalidInputError, match="maxRowsPerBatch is a number from 1 on"):
        NatsSource({"servers": "x", "stream": "S", "maxRowsPerBatch": "0"}).streamReader(schema)
    with pytest.raises(InvalidInputError, match="without \\* and >"):
        NatsSource({"servers": "x", "stream": "S", "subject": "a.>"}).writer(schema, False)
    with pytest.raises(InvalidInputError, match="one topic"):
        KafkaSource({"servers": "x", "topic": "a,b"}).writer(schema, False)
    numbers = StructType([StructField("value", IntegerType())])
    with pytest.raises(InvalidInputError, match="must be text or binary"):
        KafkaSource({"servers": "x", "topic": "a"}).writer(numbers, False)
    texts = StructType([StructField("name", StringType())])
    with pytest.raises(InvalidInputError, match="no column 'who' for the key"):
        KafkaSource({"servers": "x", "topic": "a", "key": "who"}).writer(texts, False)
    with pytest.raises(InvalidInputError, match="checkpointLocation, or the option outbox"):
        KafkaSource({"servers": "x", "topic": "a"}).streamWriter(texts, False)


def test_a_missing_library_is_told_by_the_name_of_its_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    monkeypatch.setitem(sys.modules, "nats", None)
    with pytest.raises(MissingDependencyError, match=r"kbn\[kafka\]"):
        kafka_options({"servers": "x", "topic": "a"})
    with pytest.raises(MissingDependencyError, match=r"kbn\[nats\]"):
        nats_options({"servers": "x", "stream": "a"})


def test_secrets_come_from_a_file_and_are_in_no_message(tmp_path: Path) -> None:
    path = tmp_path / "secrets"
    path.write_text("# of the test\npassword = hush hush\n\nuser=ann\n")
    options = nats_options(
        {"servers": "nats://bob:pst@127.0.0.1:1", "stream": "S", "secrets": str(path)}
    )
    assert with_secrets(options)["password"] == "hush hush"
    assert "hush" not in str(options) and b"hush" not in pickle.dumps(NatsQueue(options))
    with pytest.raises(KbnError) as told:
        NatsQueue({**options, "giveUpAfter": "1"}).bounds()
    assert "127.0.0.1:1" in str(told.value)
    assert "hush" not in str(told.value) and "pst" not in str(told.value)
    path.write_text("hush hush")
    with pytest.raises(InvalidInputError) as wrong:
        with_secrets(options)
    assert ":1: expected name = value" in str(wrong.value) and "hush" not in str(wrong.value)
    with pytest.raises(InvalidInputError, match="cannot be read"):
        with_secrets({"secrets": str(tmp_path / "none")})
    with pytest.raises(InvalidInputError) as unknown:
        checked_options("kbn-nats", {"pasword": "hush"}, ["password"])
    assert "hush" not in str(unknown.value)


# Reading and sending.


def test_kafkas_messages_are_read_between_offsets_and_sent_with_ids(kafka: MockKafka) -> None:
    stood = kafka.publish("news", notifications(0, 40))
    queue = KafkaQueue({"servers": kafka.servers, "topic": "news"})
    bounds = queue.bounds()
    assert len(bounds) == 4 and sum(held.end for held in bounds.values()) == 40
    place = max(bounds, key=lambda each: bounds[each].end)
    end = bounds[place].end
    read = list(queue.read(place, 1, end))
    assert [each.offset for each in read] == list(range(1, end))
    by_place = {where: value for where, value in zip(stood, notifications(0, 40), strict=True)}
    assert [each.value for each in read] == [by_place[place, n] for n in range(1, end)]
    assert [each.offset for each in queue.read(place, 1, 3)] == [1, 2]
    assert queue.send(Outgoing(f"box/{n}", b"k", b"v%d" % n) for n in range(3)) == 3
    more = {place: held for place, held in queue.bounds().items() if held != bounds[place]}
    ((where, held),) = more.items()
    sent = list(queue.read(where, bounds[where].end, held.end))
    assert [(each.id, each.key, each.value) for each in sent] == [
        (f"box/{n}", b"k", b"v%d" % n) for n in range(3)
    ]
    with pytest.raises(KbnError, match="out of range"):
        list(queue.read(where, held.end + 5, held.end + 6))
    queue.close()


def test_a_topic_that_is_not_there_is_told(kafka: MockKafka) -> None:
    queue = KafkaQueue({"servers": kafka.servers, "topic": "nothing", "giveUpAfter": "5"})
    with pytest.raises(KbnError, match=r"the topic 'nothing': .*[Uu]nknown topic"):
        queue.bounds()
    queue.close()
    away = KafkaQueue({"servers": "127.0.0.1:1", "topic": "news", "giveUpAfter": "1"})
    with pytest.raises(KbnError, match=r"Kafka at 127\.0\.0\.1:1: "):
        away.bounds()
    away.close()


def test_a_stream_of_nats_is_read_between_numbers_and_by_subject(server: NatsServer) -> None:
    server.add_stream("NEWS", "news.>")
    everything = NatsQueue({"servers": server.servers, "stream": "NEWS"})
    assert everything.bounds() == {"NEWS": Bounds(1, 1)}
    for number in range(10):
        server.publish(f"news.{'ab'[number % 2]}", [b"m%d" % number])
    assert everything.bounds() == {"NEWS": Bounds(1, 11)}
    assert [each.offset for each in everything.read("NEWS", 3, 7)] == [3, 4, 5, 6]
    options = {"servers": server.servers, "stream": "NEWS", "subject": "news.b"}
    some = NatsQueue(options)
    read = list(some.read("NEWS", 1, 11))
    assert [(each.offset, each.value) for each in read] == [
        (n + 1, b"m%d" % n) for n in range(1, 10, 2)
    ]
    assert [each.offset for each in some.read("NEWS", 7, 9)] == [8]
    assert list(some.read("NEWS", 11, 11)) == []
    assert some.send([Outgoing("box/1", None, b"x")]) == 1
    assert [each.id for each in some.read("NEWS", 11, 12)] == ["box/1"]
    assert {each.key for each in read} == {b"news.b"}
    with pytest.raises(KbnError, match="stream not found"):
        NatsQueue({**options, "stream": "NONE"}).bounds()


@reads_streams
def test_a_stream_reads_on_from_its_offsets_and_takes_no_more_than_it_may(
    server: NatsServer,
) -> None:
    from pyspark.sql.streaming.datasource import ReadMaxRows

    from kbn.spark.io.queue_stream import QueueStreamReader

    server.add_stream("POSTS", "posts")
    server.publish("posts", [*notifications(1, 4), b"{", b""])
    options = {"servers": server.servers, "stream": "POSTS", "maxRowsPerBatch": "4"}
    source = NatsSource(options)
    reader = source.streamReader(source.schema())
    assert isinstance(reader, QueueStreamReader)
    start = reader.initialOffset()
    assert start == {"places": {"POSTS": 1}, "version": 0}
    reader.prepareForTriggerAvailableNow()
    server.publish("posts", notifications(5, 1))
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(4)
    middle = reader.latestOffset(start, limit)
    end = reader.latestOffset(middle, limit)
    assert (middle["places"], end["places"]) == ({"POSTS": 5}, {"POSTS": 7})
    assert reader.latestOffset(end, limit) == end  # what came after is for the next time
    copied = pickle.loads(pickle.dumps(reader))
    rows = [
        row
        for partition in copied.partitions(start, end)
        for batch in copied.read(partition)
        for row in batch.to_pylist()
    ]
    assert [row["id"] for row in rows if row["id"]] == ["n1", "n2", "n3", "n4"]
    refused = [(row["source"], row["position"], row["reason"]) for row in rows if row["reason"]]
    assert [(source, position) for source, position, _ in refused] == [("POSTS", 5), ("POSTS", 6)]
    assert refused[1][2] == "an empty record"
    reader.stop()


def test_a_span_is_one_tasks_share() -> None:
    assert spans({"a": 3}, {"a": 3}, 4) == []
    assert spans({"a": 3}, {"a": 5}, 4) == [Span("a", 3, 5)]
