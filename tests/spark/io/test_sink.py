"""The sink "kbn" under Spark: written, read again, and never written twice."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual
from tests.spark.releases import reads_streams
from tests.spark.streams import World

from kbn.spark.columns import MATCHES
from kbn.spark.io.data_source import register
from kbn.spark.io.manifests import Delivered
from kbn.spark.io.sink import read_delivered


@pytest.fixture(scope="module", autouse=True)
def registered(spark: SparkSession) -> None:
    register(spark)


@pytest.mark.slow
def test_what_is_written_is_read_again_appended_or_overwritten(
    spark: SparkSession, tmp_path: Path
) -> None:
    out = str(tmp_path / "out")
    first = spark.createDataFrame([("n1", "s1", "ann"), ("n2", "s1", "ann")], MATCHES)
    second = spark.createDataFrame([("n3", "s2", "bob")], MATCHES)
    reading = spark.read.format("kbn").option("delivered", out)
    first.repartition(2).write.format("kbn").mode("append").save(out)
    second.write.format("kbn").option("fileFormat", "json").mode("append").save(out)
    assertDataFrameEqual(reading.load(), first.union(second))
    second.write.format("kbn").mode("overwrite").save(out)
    assertDataFrameEqual(reading.load(), second)
    assert read_delivered(out).num_rows == 1


def test_a_batch_by_number_is_written_once(spark: SparkSession, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    for name in ("one", "two"):
        rows = spark.createDataFrame([(name, "s", "ann")], MATCHES)
        rows.write.format("kbn").mode("append").option("batch", "7").save(out)
    assert read_delivered(out)["notification"].to_pylist() == ["one"]
    assert len(list(Delivered(out).parts.iterdir())) == 1


@reads_streams
def test_a_stream_with_a_new_checkpoint_is_refused_where_the_old_one_delivered(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    world = World(tmp_path, seed)
    world.publish("a.jsonl", 10)

    def run() -> None:
        ids = spark.readStream.format("kbn").load(str(world.inbox)).select("id")
        writer = ids.writeStream.format("kbn").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(world.checkpoint))
        writer.start(str(world.delivered)).awaitTermination()

    run()
    before = read_delivered(world.delivered)
    shutil.rmtree(world.checkpoint)
    with pytest.raises(PySparkException, match="another stream"):
        run()
    assert read_delivered(world.delivered).equals(before)
    assert len(list(Delivered(world.delivered).parts.iterdir())) == 1
