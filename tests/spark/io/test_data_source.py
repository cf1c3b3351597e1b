"""The source "kbn": a stream gives what the plain evaluator says, at the version of each batch."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.spark.io.test_manifests import Receiver
from tests.spark.io.test_spool import Peer
from tests.spark.releases import reads_streams
from tests.spark.streams import World, offsets, pairs

from kbn.errors import InvalidInputError
from kbn.matching.store import SubscriptionStore
from kbn.spark.columns import INGESTED
from kbn.spark.io.data_source import KbnSource, check_options, newest_version, register
from kbn.spark.io.sink import read_delivered
from kbn.spark.matching import match


@pytest.fixture(scope="module", autouse=True)
def registered(spark: SparkSession) -> None:
    register(spark)


@pytest.fixture
def world(tmp_path: Path, seed: int) -> World:
    return World(tmp_path, seed)


@pytest.fixture
def running(spark: SparkSession) -> Iterator[None]:
    """Queries that a test leaves running end with it."""
    yield
    for query in spark.streams.active:
        query.stop()


def reading(spark: SparkSession, world: World, **options: str) -> DataFrame:
    reader = spark.readStream.format("kbn").option("subscriptions", str(world.store.directory))
    return reader.options(**options).load(str(world.inbox))


def started(rows: DataFrame, world: World, format: str = "kbn") -> StreamingQuery:
    writer = rows.writeStream.format(format).option("checkpointLocation", str(world.checkpoint))
    return writer.start(str(world.delivered))


@reads_streams
def test_a_stream_agrees_with_the_oracle_while_subscriptions_change_and_it_restarts(
    spark: SparkSession, world: World, running: None
) -> None:
    world.resubscribe()
    world.publish("b.jsonl", 30)
    matches = match(reading(spark, world, maxRowsPerBatch="20"), world.store)
    query = started(matches, world)
    query.processAllAvailable()
    world.resubscribe()
    world.publish("d.jsonl", 15)
    query.processAllAvailable()
    query.stop()
    world.resubscribe()
    world.publish("c.jsonl", 10)  # late: it sorts before what was read
    world.publish("e.jsonl", 25)
    query = started(matches, world)
    query.processAllAvailable()
    query.stop()

    versions = [offset["version"] for _, offset in offsets(world.checkpoint)]
    assert versions == sorted(versions)
    assert set(versions) == {1, 2, 3}
    delivered = pairs(read_delivered(world.delivered).to_pylist())
    assert delivered == world.expected()
    assert {notification for notification, _, _ in delivered} == world.published


@reads_streams
def test_what_is_available_now_is_read_in_batches_and_sparks_own_sink_takes_it(
    spark: SparkSession, world: World
) -> None:
    world.resubscribe()
    world.publish("a.jsonl", 50)
    matches = match(reading(spark, world, maxRowsPerBatch="20"), world.store)
    for _ in range(2):
        writer = matches.writeStream.format("parquet").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(world.checkpoint))
        writer.start(str(world.delivered)).awaitTermination()
    assert len(offsets(world.checkpoint)) == 3
    rows = [row.asDict() for row in spark.read.parquet(str(world.delivered)).collect()]
    assert pairs(rows) == world.expected()


def test_lines_that_are_no_notifications_are_quarantined_where_they_stand(
    spark: SparkSession, tmp_path: Path
) -> None:
    good = '{"id": "n1", "publisher": "p", "time": "2026-11-15T10:00:00Z", "attributes": {"a": 1}}'
    (tmp_path / "a.jsonl").write_text(f'\ufeff{good}\n\n{{"id": \n{{"price": NaN}}\n{{"a": 2}}')
    rows = spark.read.format("kbn").load(str(tmp_path)).orderBy("position", "id").collect()
    assert [(r.source, r.position, r.record) for r in rows if r.reason] == [
        (str(tmp_path / "a.jsonl"), 3, '{"id": '),
        (str(tmp_path / "a.jsonl"), 4, '{"price": NaN}'),
    ]
    read = {r.attributes: (r.id, r.publisher, r.time) for r in rows if not r.reason}
    assert read.keys() == {'{"a":1}', '{"a":2}'}
    assert read['{"a":1}'][:2] == ("n1", "p")
    assert read['{"a":1}'][2].isoformat() == "2026-11-15T10:00:00"


def test_an_empty_folder_gives_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.read.format("kbn").load(str(tmp_path))
    assert rows.schema == INGESTED
    assert rows.collect() == []


@reads_streams
def test_from_a_socket_to_a_socket_every_row_goes_once(
    spark: SparkSession, tmp_path: Path, seed: int, running: None
) -> None:
    peer, receiver = Peer(60, Random(seed)), Receiver()
    peer.start()
    receiver.start()
    options = {"host": "127.0.0.1", "port": str(peer.port), "spool": str(tmp_path / "spool")}
    rows = spark.readStream.format("kbn").options(**options).load().select("id")
    writer = rows.writeStream.format("kbn").option("checkpointLocation", str(tmp_path / "ckpt"))
    writer = writer.option("host", "127.0.0.1").option("port", receiver.port)
    query = writer.start(str(tmp_path / "out"))
    query.processAllAvailable()
    peer.join(60)
    query.processAllAvailable()
    query.stop()
    receiver.end()
    sent = [row["id"] for frame in receiver.taken for row in frame.rows]
    assert sorted(sent) == sorted(f"n{n}" for n in range(60))
    assert sent == read_delivered(tmp_path / "out")["id"].to_pylist()


def test_mistakes_in_the_options_are_told(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="no option 'maxRowsPerBach'"):
        check_options({"maxRowsPerBach": "1"})
    with pytest.raises(InvalidInputError, match="readStream"):
        KbnSource({"host": "here"}).reader(INGESTED)
    with pytest.raises(PySparkException, match="give the folder notifications arrive in"):
        spark.read.format("kbn").load(str(tmp_path / "none")).collect()


@reads_streams
def test_mistakes_in_the_options_of_a_stream_are_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="from 1 on"):
        KbnSource({"path": str(tmp_path), "maxRowsPerBatch": "0"}).streamReader(INGESTED)
    with pytest.raises(InvalidInputError, match="port and spool missing"):
        KbnSource({"host": "here"}).streamReader(INGESTED)


def test_a_store_that_goes_back_is_refused(tmp_path: Path) -> None:
    store = SubscriptionStore.create(tmp_path / "store")
    store.change(add=[("s", "ann", "price < 5")])
    path = str(store.directory)
    assert newest_version(path, 1) == 1
    shutil.rmtree(path)
    SubscriptionStore.create(path)
    with pytest.raises(Exception, match="not the store the stream was started with"):
        newest_version(path, 1)
    assert json.dumps(newest_version(None, 0)) == "null"
