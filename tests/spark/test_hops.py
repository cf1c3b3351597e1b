"""Delivery logs into hops: means, deviations, histograms and who is misplaced."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from pathlib import Path
from statistics import fmean, pstdev

import pytest
from pyspark.sql import SparkSession

from kbn.errors import InvalidInputError
from kbn.spark.columns import DELIVERIES, HOPS
from kbn.spark.hops import hop_histogram, hops

Delivery = tuple[str, str | None, str | None, int | None]


def some_deliveries(seed: int) -> list[Delivery]:
    rng = random.Random(seed)
    rows: list[Delivery] = [("n", None, "b0", 3), ("n", "s0", "b0", None)]
    for number in range(400):
        subscriber = rng.randrange(12)
        broker = rng.choice([f"b{subscriber % 4}", "b9"]) if subscriber else None
        rows.append((f"n{number}", f"s{subscriber}", broker, rng.randrange(subscriber // 3 + 1)))
    return rows


def test_hops_are_what_the_log_says(spark: SparkSession, seed: int) -> None:
    rows = some_deliveries(seed)
    logs: dict[tuple[str | None, str | None], list[int]] = defaultdict(list)
    for _, subscriber, broker, count in rows[2:]:
        assert count is not None
        logs[subscriber, broker].append(count)
    found = hops(spark.createDataFrame(rows, DELIVERIES))
    assert found.schema.names == HOPS.names
    assert [field.dataType for field in found.schema][:5] == [
        field.dataType for field in HOPS.fields[:5]
    ]
    listed = found.collect()
    assert {(row.subscriber, row.broker) for row in listed} == logs.keys()
    assert len(listed) == len(logs)
    for row in listed:
        log = logs[row.subscriber, row.broker]
        assert row.notifications == len(log)
        assert row.mean == pytest.approx(fmean(log))
        assert row.deviation == pytest.approx(pstdev(log), abs=1e-6)
        assert row.histogram == dict(Counter(log))
        assert row.misplaced == (sum(log) > 1.5 * len(log))


def test_a_mean_at_the_threshold_is_not_above_it(spark: SparkSession) -> None:
    rows = [("n1", "s", "b", 1), ("n2", "s", "b", 2)]
    table = spark.createDataFrame(rows, DELIVERIES)
    assert [row.misplaced for row in hops(table).collect()] == [False]
    assert [row.misplaced for row in hops(table, threshold=1.4).collect()] == [True]
    with pytest.raises(InvalidInputError, match="threshold"):
        hops(table, threshold=-1)


def test_the_histogram_of_all_deliveries_has_shares(spark: SparkSession, seed: int) -> None:
    rows = some_deliveries(seed)
    counts = Counter(count for _, subscriber, _, count in rows if subscriber and count is not None)
    found = hop_histogram(spark.createDataFrame(rows, DELIVERIES)).collect()
    assert [(row.hops, row.deliveries) for row in found] == sorted(counts.items())
    assert [row.share for row in found] == pytest.approx(
        [counts[row.hops] / counts.total() for row in found]
    )


def test_no_deliveries_are_no_hops(spark: SparkSession) -> None:
    empty = spark.createDataFrame([], DELIVERIES)
    assert hops(empty).collect() == []
    assert hop_histogram(empty).collect() == []


def test_hops_follow_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    rows = [("n1", "s", "b", 1), ("n2", "s", "b", 3), ("n3", "s", "b", 3)]
    folder = str(tmp_path / "in")
    spark.createDataFrame(rows, DELIVERIES).coalesce(1).write.json(folder)
    stream = spark.readStream.schema(DELIVERIES).json(folder)
    query = (
        hops(stream)
        .writeStream.format("memory")
        .queryName("hops_of_a_stream")
        .outputMode("complete")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    (row,) = spark.table("hops_of_a_stream").collect()
    assert (row.notifications, row.histogram, row.misplaced) == (3, {1: 1, 3: 2}, True)
    with pytest.raises(InvalidInputError, match="on a batch"):
        hop_histogram(stream)


def test_a_log_without_hops_is_refused(spark: SparkSession) -> None:
    with pytest.raises(InvalidInputError, match="lacks broker, hops, subscriber"):
        hops(spark.range(1))
