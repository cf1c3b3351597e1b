"""Ingest on Spark: the same outcomes as without, batch and stream; nothing lost, nothing fatal."""

from __future__ import annotations

import gzip
import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from kbn.errors import InvalidInputError
from kbn.spark.columns import INGESTED, NOTIFICATIONS, QUARANTINE
from kbn.spark.ingest import ingest, line_batches, notifications, quarantine, read
from kbn.spark.io.json_texts import JsonReader
from kbn.spark.io.whole_files import file_outcomes

MAPPING = {"id": "no", "attributes": {"tags": {"as": "term", "split": ";"}, "n": {"as": "integer"}}}


@pytest.fixture
def small_parts(spark: SparkSession) -> Iterator[None]:
    """Files in many small parts, as only large ones are otherwise."""
    names = ("spark.sql.files.maxPartitionBytes", "spark.sql.files.openCostInBytes")
    for name in names:
        spark.conf.set(name, "2000")
    yield
    for name in names:
        spark.conf.unset(name)


def streamed(spark: SparkSession, frame: DataFrame, name: str) -> list[Row]:
    query = frame.writeStream.format("memory").queryName(name).trigger(availableNow=True).start()
    query.awaitTermination()
    return spark.table(name).collect()


def key(row: Any) -> tuple[Any, ...]:
    """What a row says, without the position, which a file in parts does not tell."""
    return (row.id, row.attributes, row.source, row.record, row.reason)


def test_json_files_are_read_alike_whole_in_parts_and_as_a_stream(
    spark: SparkSession, tmp_path: Path, seed: int, small_parts: None
) -> None:
    chosen = random.Random(seed)
    folder = tmp_path / "in put"
    (folder / "deeper").mkdir(parents=True)
    kinds = [
        lambda n: json.dumps({"id": str(n), "attributes": {"a": chosen.random()}}).encode(),
        lambda n: json.dumps({"a": n, "b": None}).encode(),
        lambda n: b'{"a":1,"a":2}',
        lambda n: b"\xff\xfe",
        lambda n: b"",
        lambda n: json.dumps([{"a": n}, 5]).encode(),
    ]
    for name in ("a.json", "deeper/b é.jsonl", "c.json.gz"):
        lines = b"\n".join(chosen.choice(kinds)(n) for n in range(300))
        packed = gzip.compress(lines) if name.endswith("gz") else lines
        (folder / name).write_bytes(packed)
    (folder / "broken.json.gz").write_bytes(gzip.compress(b"{}")[:9])
    (folder / "array.json").write_text('[\n{"a":1},\n{"a":{}}\n]')
    (folder / "empty.json").write_bytes(b"")
    files = [path for path in folder.rglob("*") if path.is_file()]
    expected = Counter(
        key(_as_ingested(outcome))
        for path in files
        for outcome in file_outcomes(_uri(path), None, "json", None)
    )

    found = read(spark, folder, "json")
    assert found.schema == INGESTED
    rows = found.collect()
    assert Counter(map(key, rows)) == expected
    assert (
        Counter(map(key, streamed(spark, read(spark, str(folder), "json", stream=True), "js")))
        == expected
    )
    halves = notifications(found), quarantine(found)
    assert [half.schema.names for half in halves] == [NOTIFICATIONS.names, QUARANTINE.names]
    assert sum(half.count() for half in halves) == sum(expected.values())
    # Where a position is told it is the right one.
    lines = {path.name: path.read_bytes().split(b"\n") for path in files if path.suffix != ".gz"}
    for row in rows:
        name = row.source and row.source.rpartition("/")[2].replace("%20", " ")
        if row.record and row.position and name in lines and "item" not in row.reason:
            assert lines[name][row.position - 1].decode("utf-8", "backslashreplace") == row.record


def _uri(path: Path) -> str:
    """As Spark writes it."""
    return "file:" + str(path).replace(" ", "%20")


def _as_ingested(outcome: Any) -> Row:
    return Row(**{name: getattr(outcome, name, None) for name in INGESTED.names})


def test_csv_files_are_read_alike_as_a_batch_and_as_a_stream(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "day=2026-11-15").mkdir()
    (tmp_path / "a.csv").write_text('no,tags,n\n1,a;b,5\n2,c\n3,"d,x\n4,"e\ne",7\n5,f,many\n')
    (tmp_path / "day=2026-11-15" / "b.csv").write_text("n,no\n1,6\n")
    found = read(spark, tmp_path, "csv", MAPPING)
    good = {row.id: json.loads(row.attributes) for row in notifications(found).collect()}
    assert good == {"1": {"tags": ["a", "b"], "n": 5}, "4": {"tags": ["e\ne"], "n": 7}}
    bad = {
        (row.source.rpartition("/")[2], row.position): row for row in quarantine(found).collect()
    }
    assert sorted(bad) == [("a.csv", 3), ("a.csv", 4), ("a.csv", 7), ("b.csv", 2)]
    assert bad["a.csv", 4].record == '3,"d,x'
    assert "no column 'tags'" in bad["b.csv", 2].reason
    paths = [tmp_path / "a.csv", tmp_path / "day=2026-11-15"]
    with_mapping = read(spark, paths, "csv", MAPPING, stream=True)
    assert Counter(map(key, streamed(spark, with_mapping, "cs"))) == Counter(
        map(key, found.collect())
    )


def test_a_damaged_parquet_file_leaves_the_others_be(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame([(1, ["a"]), (2, None)], ["n", "tags"])
    frame.coalesce(1).write.parquet(str(tmp_path / "in"))
    (tmp_path / "in" / "broken.parquet").write_bytes(b"PAR1 nothing PAR1")
    found = read(spark, tmp_path / "in", "parquet")
    assert sorted(row.attributes for row in notifications(found).collect()) == [
        '{"n":1,"tags":["a"]}',
        '{"n":2}',
    ]
    (bad,) = quarantine(found).collect()
    assert bad.source.endswith("/broken.parquet")
    assert bad.position is None


def test_feeds_and_cloudevents_are_read(spark: SparkSession, tmp_path: Path) -> None:
    item = "<item><guid>7</guid><category>Tea</category></item>"
    feed = f'<rss version="2.0"><channel><title>T</title>{item}</channel></rss>'
    (tmp_path / "feed.xml").write_text(feed)
    (tmp_path / "bad.xml").write_text("<!DOCTYPE x><rss/>")
    found = read(spark, tmp_path / "*.xml", "rss")
    (row,) = notifications(found).collect()
    assert (row.id, row.publisher, json.loads(row.attributes)) == ("7", "T", {"category": ["Tea"]})
    assert "document type" in quarantine(found).collect()[0].reason
    event = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "data": {"a": 1}}
    (tmp_path / "events.json").write_text(json.dumps([event, {}], indent=1))
    found = read(spark, tmp_path / "events.json", "cloudevents")
    assert [row.publisher for row in notifications(found).collect()] == ["/s"]
    assert quarantine(found).count() == 1


def test_texts_of_a_queue_keep_their_place(spark: SparkSession) -> None:
    rows = [('{"no":1,"tags":"a"}', "t", 0, 5), (None, "t", 0, 6), ("nonsense", "t", 1, 7)]
    frame = spark.createDataFrame(rows, ["value", "topic", "partition", "offset"])
    found = ingest(frame, "json", MAPPING)
    assert [row.id for row in notifications(found).collect()] == ["1"]
    bad = {(row.source, row.position, row.reason[:15]) for row in quarantine(found).collect()}
    assert bad == {("t/0", 6, "an empty record"), ("t/1", 7, "not JSON: inval")}
    again = frame.union(frame).select("value")
    assert notifications(ingest(again, "json", MAPPING)).count() == 2
    assert notifications(ingest(again, "json", MAPPING), distinct=True).count() == 1


def test_typed_columns_are_fields(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(1, "a;b", 5.0), (2, None, float("nan"))], ["no", "tags", "n"])
    found = ingest(frame, "rows", MAPPING)
    (row,) = notifications(found).collect()
    assert (row.id, json.loads(row.attributes)) == ("1", {"tags": ["a", "b"], "n": 5})
    (bad,) = quarantine(found).collect()
    assert bad.reason == "n: nan is not a finite number"
    assert json.loads(bad.record.replace("NaN", "null")) == {"no": 2, "tags": None, "n": None}
    with pytest.raises(InvalidInputError, match=r"column 'tags'.*did you mean 'tag'\?"):
        ingest(frame.withColumnRenamed("tags", "tag"), "rows", MAPPING)


def test_what_is_not_there_is_refused_before_anything_runs(
    spark: SparkSession, tmp_path: Path
) -> None:
    for path in (tmp_path / "none", tmp_path / "*.csv"):
        with pytest.raises(InvalidInputError, match="there is no such file or directory"):
            read(spark, path, "csv")
    with pytest.raises(InvalidInputError, match="none: there is no such file"):
        read(spark, tmp_path / "none", "json", stream=True)
    with pytest.raises(InvalidInputError, match="No FileSystem for scheme"):
        read(spark, "nowhere://x/y", "json")
    with pytest.raises(InvalidInputError, match=r"no format 'jsn'; did you mean 'json'\?"):
        read(spark, tmp_path, "jsn")
    with pytest.raises(InvalidInputError, match=r"m\.yaml: cannot read the mapping"):
        read(spark, tmp_path, "csv", tmp_path / "m.yaml")
    with pytest.raises(InvalidInputError, match="a column 'value'"):
        ingest(spark.range(1), "json")


@pytest.mark.parametrize("format", ["json", "csv", "parquet", "rss"])
def test_an_empty_directory_has_no_records(
    spark: SparkSession, tmp_path: Path, format: str
) -> None:
    assert read(spark, tmp_path, format).count() == 0


def test_lines_are_numbered_through_batches_and_files() -> None:
    lines = [("f", 0, b"x"), ("f", 0, b"{}"), ("f", 0, b"y"), ("g", 0, b"z"), ("g", 9, b"w")]
    batches = [
        pa.RecordBatch.from_arrays(
            [
                pa.array([line[2] for line in part], pa.binary()),
                pa.array([line[0] for line in part], pa.string()),
                pa.array([line[1] for line in part], pa.int64()),
            ],
            names=["value", "source", "start"],
        )
        for part in (lines[:0], lines[:1], lines[1:4], lines[4:])
    ]
    found = [row for batch in line_batches(batches, JsonReader()) for row in batch.to_pylist()]
    places = {(row["source"], row["position"], row["record"]) for row in found if row["reason"]}
    assert places == {("f", 1, "x"), ("f", 3, "y"), ("g", 1, "z"), ("g", None, "w")}
