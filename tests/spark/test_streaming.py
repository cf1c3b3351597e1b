"""Streams of other sources, Kafka, and drivers that are killed in mid-stream."""

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
from random import Random

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructType,
)
from tests.spark.releases import reads_streams
from tests.spark.streams import Pair, World, offsets, pairs, subscriptions_at

from kbn.errors import InvalidInputError, KbnError
from kbn.filters import Notification
from kbn.spark.ingest import ingest, read
from kbn.spark.io.manifests import Delivered
from kbn.spark.io.sink import read_delivered
from kbn.spark.streaming import (
    kafka_sink,
    kafka_source,
    match_stream,
    pinned,
    stream_id,
    to_kafka,
    unpin,
)

DRIVER = Path(__file__).parent / "stream_driver.py"
RUN_LIMIT_S = 180


def test_a_pin_holds_until_its_batch_is_delivered(tmp_path: Path) -> None:
    assert pinned(tmp_path, 3, lambda: 7) == 7
    assert pinned(tmp_path, 3, lambda: 8) == 7
    assert pinned(tmp_path, 4, lambda: 8) == 8
    unpin(tmp_path, 3)
    assert pinned(tmp_path, 3, lambda: 9) == 9


def test_any_streaming_dataframe_is_matched_once_at_pinned_versions(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    world = World(tmp_path, seed)
    expected: Counter[Pair] = Counter()

    def run() -> None:
        stream = read(spark, world.inbox, "json", stream=True)
        bad = tmp_path / "bad"
        match_stream(
            stream, world.store, world.delivered, world.checkpoint,
            trigger={"availableNow": True}, quarantine=bad,
        ).awaitTermination()  # fmt: skip

    for name in ("a.jsonl", "b.jsonl"):
        version = world.resubscribe()
        world.publish(name, 30)
        oracle, subscribers = subscriptions_at(world.store, version)
        for line in (world.inbox / name).read_text().splitlines():
            with suppress(json.JSONDecodeError):
                notification = Notification.from_json(json.loads(line))
                assert notification.id is not None
                for key in map(str, oracle.match(notification)):
                    expected[notification.id, key, subscribers[key]] += 1
        run()
    assert pairs(read_delivered(world.delivered).to_pylist()) == expected
    assert [m.facts["version"] for m in Delivered(world.delivered).batches()] == [1, 2]
    owner = json.loads((world.delivered / "stream.json").read_text())["stream"]
    assert owner == stream_id(str(world.checkpoint)) is not None
    assert stream_id("s3a://somewhere/else") is None
    refused = read_delivered(tmp_path / "bad")
    assert refused.num_rows == 60 - len(world.published)
    assert refused.schema.names == ["source", "position", "record", "reason"]


def test_match_stream_is_for_streams(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    world = World(tmp_path, seed)
    with pytest.raises(InvalidInputError, match="use match"):
        match_stream(spark.range(3), world.store, tmp_path / "out", tmp_path / "ckpt")


MESSAGES = (
    StructType()
    .add("key", BinaryType())
    .add("value", BinaryType())
    .add("topic", StringType())
    .add("partition", IntegerType())
    .add("offset", LongType())
)


def test_kafkas_messages_are_ingested_and_rows_become_messages(spark: SparkSession) -> None:
    messages = [
        (None, b'{"id": "n1", "attributes": {"a": 1}}', "news", 3, 41),
        (None, b"{", "news", 3, 42),
        (None, None, "news", 3, 43),
    ]
    rows = ingest(spark.createDataFrame(messages, MESSAGES), "json").orderBy("position").collect()
    assert [(r.id, r.source, r.position) for r in rows] == [
        ("n1", None, None),
        (None, "news/3", 42),
        (None, "news/3", 43),
    ]
    sent = to_kafka(spark.createDataFrame([("n1", 5)], ["notification", "count"]), "notification")
    assert [(r.key, json.loads(r.value)) for r in sent.collect()] == [
        ("n1", {"notification": "n1", "count": 5})
    ]


def test_without_the_connector_the_package_is_named(spark: SparkSession, tmp_path: Path) -> None:
    options = {"kafka.bootstrap.servers": "localhost:1", "subscribe": "news"}
    with pytest.raises(KbnError, match=r"spark-sql-kafka-0-10_2\.13:4\.3\.0"):
        kafka_source(spark, options)
    rows = spark.readStream.format("rate").load()
    with pytest.raises(KbnError, match="--packages"):
        kafka_sink(rows, {**options, "topic": "out"}, tmp_path / "ckpt")


@pytest.mark.parametrize(
    ("kills", "sink"),
    [
        pytest.param(2, "kbn", marks=[pytest.mark.slow, reads_streams]),
        pytest.param(10, "kbn", marks=[pytest.mark.slow, reads_streams]),
        pytest.param(10, "parquet", marks=[pytest.mark.slow, reads_streams]),
        pytest.param(10, "match_stream", marks=pytest.mark.slow),
    ],
)
def test_a_driver_killed_again_and_again_loses_and_doubles_nothing(
    tmp_path: Path, seed: int, kills: int, sink: str
) -> None:
    world = World(tmp_path, seed)
    world.resubscribe()
    world.publish("f00.jsonl", 10)
    for kill in range(kills):
        world.publish(f"f{kill + 1:02d}.jsonl", world.random.randrange(30, 60))
        run_until_killed(world, sink)
    done = run_driver(world, sink)
    assert done.wait(RUN_LIMIT_S) == 0, (tmp_path / "log").read_text()[-4000:]
    expected = world.expected() if sink != "match_stream" else expected_by_pins(world)
    assert delivered_by(world, sink) == expected
    assert {notification for notification, _, _ in expected} == world.published


def run_driver(world: World, sink: str) -> subprocess.Popen[bytes]:
    """The stream in processes of its own, which can be killed together."""
    with open(world.root / "log", "ab") as log:
        return subprocess.Popen(
            [sys.executable, str(DRIVER), str(world.root), sink],
            stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip


def run_until_killed(world: World, sink: str) -> None:
    """Kill the driver when something it writes has grown by so much; subscribe meanwhile."""
    watched = world.root / world.random.choice(
        ["checkpoint/offsets", "checkpoint/commits", *places(sink)]
    )
    wanted = entries(watched) + world.random.randrange(1, 4)
    print(f"to be killed when {watched.relative_to(world.root)} has {wanted} entries")
    driver = run_driver(world, sink)
    batches = entries(world.checkpoint / "offsets")
    try:
        for _ in range(RUN_LIMIT_S * 100):
            with suppress(subprocess.TimeoutExpired):
                driver.wait(0.01)
            if driver.poll() is not None or entries(watched) >= wanted:
                break
            if entries(world.checkpoint / "offsets") > batches:
                batches = entries(world.checkpoint / "offsets")
                world.resubscribe()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()


def places(sink: str) -> list[str]:
    return ["out/_spark_metadata", "out"] if sink == "parquet" else ["out/parts", "out/manifests"]


def entries(directory: Path) -> int:
    with suppress(FileNotFoundError):
        return len([name for name in os.listdir(directory) if not name.startswith(".")])
    return 0


def delivered_by(world: World, sink: str) -> Counter[Pair]:
    if sink != "parquet":
        return pairs(read_delivered(world.delivered).to_pylist())
    return pairs(rows_of_sparks_own_sink(world.delivered))


def rows_of_sparks_own_sink(directory: Path) -> list[dict[str, str]]:
    """The rows of the files that its log of batches names."""
    import pyarrow.parquet as pq

    names: set[str] = set()
    for path in (directory / "_spark_metadata").iterdir():
        if path.name.split(".")[0].isdigit():
            names |= {json.loads(line)["path"] for line in path.read_text().splitlines()[1:]}
    tables = (pq.read_table(directory / Path(name).name) for name in names)
    return [row for table in tables for row in table.to_pylist()]


def expected_by_pins(world: World) -> Counter[Pair]:
    """By the files of each batch, and the version its manifest names."""
    found: Counter[Pair] = Counter()
    for number, names in files_of_batches(world.checkpoint):
        version = Delivered(world.delivered).read_batch(number).facts["version"]
        oracle, subscribers = subscriptions_at(world.store, version)
        for name in names:
            for line in (world.inbox / name).read_text().splitlines():
                with suppress(json.JSONDecodeError):
                    notification = Notification.from_json(json.loads(line))
                    for key in map(str, oracle.match(notification)):
                        found[notification.id or "", key, subscribers[key]] += 1
    return found


def files_of_batches(checkpoint: Path) -> Iterator[tuple[int, list[str]]]:
    """The files that Spark's own source put into each batch, by its log."""
    logged: dict[int, set[str]] = {}
    for path in (checkpoint / "sources" / "0").iterdir():
        if path.name.split(".")[0].isdigit():
            for line in path.read_text().splitlines()[1:]:
                entry = json.loads(line)
                logged.setdefault(entry["batchId"], set()).add(Path(entry["path"]).name)
    before = -1
    for number, offset in offsets(checkpoint):
        upto = int(offset["logOffset"])
        yield number, [n for log in range(before + 1, upto + 1) for n in logged.get(log, ())]
        before = upto


def test_the_kill_points_come_from_the_seed(tmp_path: Path) -> None:
    first, second = (World(tmp_path / name, 5).random.random() for name in "ab")
    assert first == second == Random(5).random()
