"""Streams from Kafka and NATS, to queues and tables, killed again and again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.queue_servers import MockKafka, NatsServer, nats_server
from tests.spark.releases import reads_streams
from tests.spark.streams import Pair, World, offsets, pairs, subscriptions_at

from kbn.filters import Notification
from kbn.spark import ingest, match, quarantine, register
from kbn.spark.io.kafka_topics import KafkaQueue
from kbn.spark.io.nats_streams import NatsQueue
from kbn.spark.io.queues import Queue

DRIVER = Path(__file__).parent / "queue_driver.py"
RUN_LIMIT_S = 240
# `scripts/test-long` kills ten times, and has the other sinks, too.
NAMES = os.environ.get("KBN_QUEUE_STREAMS", "kafka-to-nats nats-to-delta").split()
KILLS = int(os.environ.get("KBN_QUEUE_KILLS", "2"))


class QueueWorld(World):
    """Someone who publishes to a topic and a stream, and knows what stands where."""

    def __init__(self, root: Path, seed: int, kafka: MockKafka, nats: NatsServer) -> None:
        super().__init__(root, seed)
        self.kafka, self.nats = kafka, nats
        nats.add_stream("POSTS", "posts")
        nats.add_stream("MATCHES", "matches")
        self.stands: dict[tuple[str, int], Notification] = {}
        kafka.publish("matches", [])

    def post(self, count: int) -> None:
        """So many notifications to each of them; now and then one that is none."""
        for queue in ("kafka", "nats"):
            name = f"{len(self.stands):05d}"
            self.publish(name, count)
            lines = (self.inbox / name).read_bytes().splitlines()
            if queue == "kafka":
                where = self.kafka.publish("posts", lines)
            else:
                where = [("POSTS", number) for number in self.nats.publish("posts", lines)]
            for place, line in zip(where, lines, strict=True):
                with suppress(json.JSONDecodeError):
                    self.stands[place] = Notification.from_json(json.loads(line))

    def expected_of(self, name: str) -> Counter[Pair]:
        """What a query must have delivered, by the offsets in its checkpoint."""
        found: Counter[Pair] = Counter()
        before: dict[str, int] = {}
        for _, offset in offsets(self.root / "checkpoints" / name):
            oracle, subscribers = subscriptions_at(self.store, offset["version"])
            for place, end in offset["places"].items():
                for number in range(before.get(place, 0), end):
                    notification = self.stands.get((place, number))
                    if notification is not None:
                        for key in map(str, oracle.match(notification)):
                            found[notification.id or "", key, subscribers[key]] += 1
            before = offset["places"]
        return found


def delivered_to(world: QueueWorld, name: str) -> Counter[Pair]:
    """What a sink holds, read without Spark."""
    sink = name.partition("-to-")[2]
    if sink == "delta":
        from deltalake import DeltaTable

        table = DeltaTable(world.root / "delta").to_pyarrow_dataset().to_table()
        return pairs(table.to_pylist())
    if sink == "iceberg":
        from pyiceberg.catalog import load_catalog

        uri = f"sqlite:///{world.root}/catalog.db"
        catalog = load_catalog("x", type="sql", uri=uri, warehouse=f"file://{world.root}/lake")
        return pairs(catalog.load_table("db.matches").scan().to_arrow().to_pylist())
    servers = {"kafka": world.kafka.servers, "nats": world.nats.servers}[sink]
    queue: Queue = (
        KafkaQueue({"servers": servers, "topic": "matches"})
        if sink == "kafka"
        else NatsQueue({"servers": servers, "stream": "MATCHES"})
    )
    rows = [
        json.loads(message.value or b"")
        for place, held in queue.bounds().items()
        for message in queue.read(place, held.first, held.end)
    ]
    queue.close()
    return pairs(rows)


@pytest.fixture
def world(tmp_path: Path, seed: int) -> Iterator[QueueWorld]:
    with nats_server(tmp_path / "nats") as server:
        made = QueueWorld(tmp_path, seed, MockKafka(), server)
        made.kafka.publish("matches", [b"{}"])  # the mock makes a topic when it is written to
        yield made


@reads_streams
@pytest.mark.slow
def test_streams_of_queues_killed_again_and_again_lose_and_double_nothing(
    world: QueueWorld,
) -> None:
    world.resubscribe()
    world.post(10)
    for _ in range(KILLS):
        world.post(world.random.randrange(20, 40))
        run_until_killed(world)
    done = run_driver(world)
    assert done.wait(RUN_LIMIT_S) == 0, (world.root / "log").read_text()[-4000:]
    everyone = {notification.id for notification in world.stands.values()}
    seen: set[str] = set()
    for name in NAMES:
        found = delivered_to(world, name)
        expected = world.expected_of(name)
        assert found == expected, name
        seen |= {notification for notification, _, _ in found}
    assert seen == everyone == world.published


def run_driver(world: QueueWorld) -> subprocess.Popen[bytes]:
    """The streams in processes of their own, which can be killed together."""
    with open(world.root / "log", "ab") as log:
        return subprocess.Popen(
            [sys.executable, DRIVER, world.root, world.kafka.servers, world.nats.servers, *NAMES],
            stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip


def run_until_killed(world: QueueWorld) -> None:
    """Kill the driver when something that one of the queries writes has changed so many times."""
    checkpoint = world.root / "checkpoints" / world.random.choice(NAMES)
    inside = ("offsets", "commits", "kbn-outbox/parts", "kbn-outbox/acknowledged.json")
    watched = checkpoint / world.random.choice(inside)
    left = world.random.randrange(1, 5)
    print(f"to be killed when {watched.relative_to(world.root)} has changed {left} times")
    seen, planned = changed(watched), changed(checkpoint / "offsets")
    driver = run_driver(world)
    try:
        for _ in range(RUN_LIMIT_S * 200):
            with suppress(subprocess.TimeoutExpired):
                driver.wait(0.005)
            if changed(watched) != seen:
                seen, left = changed(watched), left - 1
            if driver.poll() is not None or left == 0:
                break
            if changed(checkpoint / "offsets") != planned:
                planned = changed(checkpoint / "offsets")
                world.resubscribe()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    assert driver.returncode in (-signal.SIGKILL, 0), (world.root / "log").read_text()[-4000:]


def changed(path: Path) -> int:
    """When a file, or what a folder holds, was last changed."""
    with suppress(FileNotFoundError):
        return path.stat().st_mtime_ns
    return 0


@pytest.mark.slow
def test_tables_go_to_queues_and_come_back(
    spark: SparkSession, world: QueueWorld, tmp_path: Path
) -> None:
    register(spark)
    posts = [("n1", '{"price":5}'), ("n2", '{"price":15}')]
    table = spark.createDataFrame(posts, ["id", "attributes"])
    places = {
        "kbn-kafka": {"servers": world.kafka.servers, "topic": "some"},
        "kbn-nats": {"servers": world.nats.servers, "stream": "SOME", "subject": "some.posts"},
    }
    world.nats.add_stream("SOME", "some.>")
    world.kafka.publish("some", [b"{"])
    world.nats.publish("some.posts", [b"{"])
    for format, options in places.items():
        table.write.format(format).options(**options).mode("append").save()
        reading = spark.read.format(format).options(**options)
        back = reading.load()
        assert {(r.id, r.attributes) for r in back.where("id is not null").collect()} == set(posts)
        (bad,) = quarantine(back).collect()
        assert bad.source in ("some/0", "some/1", "some/2", "some/3", "SOME") and bad.record == "{"
        raw = reading.option("form", "messages").load()
        assert {r.id for r in ingest(raw, "json").where("id is not null").collect()} == {"n1", "n2"}
        wants = spark.createDataFrame(
            [("s1", "ann", "price < 10")], ["subscription", "subscriber", "filter"]
        )
        assert [r.notification for r in match(back, wants).collect()] == ["n1"]


@pytest.mark.slow
def test_tables_of_delta_and_iceberg_are_written_and_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    register(spark)
    rows = spark.range(10).selectExpr("id", "cast(id as string) name", "array(id, id+1) bag")
    catalog = {
        "table": "db.rows",
        "catalog.type": "sql",
        "catalog.uri": f"sqlite:///{tmp_path}/catalog.db",
        "catalog.warehouse": f"file://{tmp_path}/lake",
    }
    for format, options in (("kbn-delta", {"path": str(tmp_path / "t")}), ("kbn-iceberg", catalog)):
        writer = rows.write.format(format).options(**options)
        writer.mode("append").save()
        writer.mode("append").save()
        there = spark.read.format(format).options(**options).load()
        assert there.count() == 20
        assert sorted(there.distinct().collect()) == sorted(rows.collect())
        writer.mode("overwrite").save()
        assert spark.read.format(format).options(**options).load().count() == 10
    first = spark.read.format("kbn-delta").option("version", "0").load(str(tmp_path / "t"))
    assert first.count() == 10
