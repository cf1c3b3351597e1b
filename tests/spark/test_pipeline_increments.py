"""A second run costs what is new: new files, new messages, late subscriptions."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import DataFrame, SparkSession
from tests.spark.pipelines import write_pipeline, write_posts
from tests.spark.queue_servers import MockKafka

from kbn.errors import InvalidInputError, KbnError
from kbn.matching import SubscriptionStore
from kbn.spark.pipeline import load_config, plan, run, stages, table
from kbn.spark.pipeline.deciding import Decision, Found, Past, decide
from kbn.spark.pipeline.state import StageState
from kbn.spark.pipeline.tables import Tables


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = write_pipeline(tmp_path / "p")
    write_posts(made.parent / "posts" / "a.jsonl", 1, 30, 0)
    made.write_text(made.read_text() + "options: {expand: true}\n", encoding="utf-8")
    return made


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def decided(
    file: Path, known: dict[str, StageState], queue: dict[str, tuple[int, int]] | None = None
) -> dict[str, Decision]:
    config = load_config(file)
    found = Found.of(config)
    if queue is not None:
        found = replace(found, sources=(*found.sources, queue), queues=frozenset({1}))
    return {d.stage: d for d in decide(config, config.ontology.load(), found, Past(known))}


def after(decisions: dict[str, Decision]) -> dict[str, StageState]:
    return {name: StageState(d.inputs, d.runs) for name, d in decisions.items()}


# What is decided.


def test_late_subscriptions_are_matched_against_what_is_kept(file: Path) -> None:
    known = after(decided(file, {}))
    edit(file.parent / "wants.txt", "1200", "1300")
    match = decided(file, known)["match"]
    assert (match.action, match.todo, match.late) == ("backfill", (), (1,))
    assert match.why == "the subscriptions changed"
    write_posts(file.parent / "posts" / "b.jsonl", 100, 3, 0)
    match = decided(file, known)["match"]
    assert (match.action, match.todo, match.late) == ("backfill", (2,), (1,))
    edit(file.parent / "podcast.ttl", '"Arts"@en', '"Art"@en')  # now everything is another
    match = decided(file, known)["match"]
    assert (match.action, match.todo, match.late) == ("run", (1, 2), ())


def test_matches_counted_by_filter_are_counted_again_as_a_whole(file: Path) -> None:
    edit(file, "expand: true", "expand: false")
    known = after(decided(file, {}))
    edit(file.parent / "wants.txt", "1200", "1300")
    assert decided(file, known)["match"].action == "run"
    edit(file, "expand: false", "backfill: false")
    with pytest.raises(InvalidInputError, match=r"options\.backfill.*expand: true"):
        load_config(file)


def test_of_a_queue_a_run_takes_what_came_since_the_last(file: Path) -> None:
    first = decided(file, {}, {"news/0": (0, 5), "news/1": (3, 3)})["ingest"]
    assert dict(first.runs[1].files)["1:news/0"] == (0, 5) and "1:news/1" not in first.runs[1].files
    known = after(decided(file, {}, {"news/0": (0, 5), "news/1": (3, 3)}))
    assert decided(file, known, {"news/0": (2, 5), "news/1": (3, 3)})["ingest"].action == "skip"
    second = decided(file, known, {"news/0": (2, 9), "news/1": (3, 4)})
    assert second["ingest"].action == second["match"].action == "append"
    assert dict(second["ingest"].runs[2].files) == {"1:news/0": (5, 9), "1:news/1": (3, 4)}
    third = decided(file, after(second), {"news/0": (2, 10), "news/1": (3, 4)})["ingest"]
    assert dict(third.runs[3].files) == {"1:news/0": (9, 10)}
    anew = decided(file, known, {"news/0": (0, 1), "news/1": (0, 0)})["ingest"]
    assert anew.action == "run" and dict(anew.runs[2].files)["1:news/0"] == (0, 1)


WRONG = [
    ("kafka: {topic: x}, format: json", "needs the option servers"),
    ("kafka: {servers: x, topc: x}, format: json", "did you mean 'topic'"),
    ("kafka: {servers: x, topic: x}, format: csv", "json or cloudevents or rss"),
    ("kafka: {servers: x, topic: x}", "format: is missing"),
    ("nats: {servers: x}, format: json", "needs the option stream"),
    ("delta: t, format: csv", "a table has none"),
    ("iceberg: {table: t}", "namespace and a name"),
    ("delta: t, path: x, format: json", "expected one of path, kafka, nats, delta, iceberg"),
    ("format: json", "expected one of path"),
]


@pytest.mark.parametrize(("source", "told"), WRONG)
def test_a_source_that_says_something_wrong_is_refused_by_key(
    file: Path, source: str, told: str
) -> None:
    edit(file, "subscriptions:", f"  - {{{source}}}\nsubscriptions:")
    with pytest.raises(InvalidInputError) as refused:
        load_config(file)
    assert told in str(refused.value) and "notifications[1]" in str(refused.value)


WRONG_DELIVERY = [
    ("{table: matches}", "expected one of kafka, nats, delta, iceberg"),
    ("{table: maches, delta: t}", "did you mean 'matches'"),
    ("{table: counts, delta: t}", "only without `expand: true`"),
    ("{table: matches, nats: {servers: x, steam: y}}", "did you mean 'stream'"),
]


@pytest.mark.parametrize(("target", "told"), WRONG_DELIVERY)
def test_a_delivery_that_says_something_wrong_is_refused_by_key(
    file: Path, target: str, told: str
) -> None:
    edit(file, "output:", f"deliver: [{target}]\noutput:")
    with pytest.raises(InvalidInputError) as refused:
        load_config(file)
    assert told in str(refused.value) and "deliver[0]" in str(refused.value)


def test_a_queue_that_cannot_be_reached_is_told_before_spark_starts(file: Path) -> None:
    source = "kafka: {servers: '127.0.0.1:1', topic: x, giveUpAfter: 1}, format: json"
    edit(file, "subscriptions:", f"  - {{{source}}}\nsubscriptions:")
    with pytest.raises(KbnError, match=r"Kafka at 127\.0\.0\.1:1"):
        plan(file)


# What is done.


class Killed(BaseException):
    """Nobody catches it, as nobody catches a kill."""


def rows(spark: SparkSession, file: Path, name: str) -> list[str]:
    found = table(spark, load_config(file), name).collect()
    return sorted(json.dumps(row.asDict(recursive=True), default=str) for row in found)


def files_of(out: Path, name: str, number: int) -> dict[str, int]:
    part = out / "tables" / name / f"run={number}"
    return {entry.name: entry.inode() for entry in os.scandir(part)}


@pytest.fixture
def matched(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, int]]]:
    """How many notifications were matched against how many subscriptions, time after time."""
    found: list[tuple[int, int]] = []
    match = stages.match

    def counted(given: DataFrame, store: SubscriptionStore, **how: Any) -> DataFrame:
        found.append((given.count(), sum(each.num_rows for each in store.at().rows())))
        return match(given, store, **how)

    monkeypatch.setattr(stages, "match", counted)
    yield found


@pytest.mark.slow
def test_a_new_day_and_late_subscriptions_cost_what_is_new(
    file: Path, spark: SparkSession, matched: list[tuple[int, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    out = file.parent / "out"
    run(file, spark, until="match")
    assert matched == [(30, 4)]  # one of the five subscriptions cannot be compiled
    parts = {n: files_of(out, n, 1) for n in ("notifications", "annotated", "matches")}

    # A new day: the parts of the first are not touched, and 10 notifications are matched.
    write_posts(file.parent / "posts" / "b.jsonl", 100, 10, 2)
    did = {one.stage: one for one in run(file, spark, until="match")}
    assert did["ingest"].new == {"notifications": 10, "quarantine": 1}
    assert did["ingest"].rows == {"notifications": 40, "quarantine": 2}
    assert did["annotate"].new["annotated"] == 10
    assert did["compile"].action == "skip" and did["compile"].new == {}
    assert matched[1:] == [(10, 4)]
    assert parts == {n: files_of(out, n, 1) for n in parts}

    # One comes, one goes, one changes: those two are matched against all 40, and nobody else.
    wants = file.parent / "wants.txt"
    edit(wants, 'bob: category #>/@> {podcast:ScienceAndMedicine} and keywords #> {"python"}\n', "")
    edit(wants, "cyd: duration <= 1200", "cyd: duration <= 1500\nfay: duration >= 600")
    write = Tables.write

    def until_killed(self: Tables, frame: DataFrame, name: str, number: int | None = None) -> None:
        write(self, frame, name, number)
        if (name, number) == ("matches", 1):
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Tables, "write", until_killed)
        with pytest.raises(Killed):
            run(file, spark, until="match")
    assert {one.stage: one.action for one in plan(file)}["match"] == "backfill"
    before = len(matched)
    run(file, spark, until="match")
    assert matched[before:] == [(30, 2), (10, 2)]
    assert {one.action for one in run(file, spark, until="match")} == {"skip"}

    scratch = file.parent.parent / "scratch"
    shutil.copytree(file.parent, scratch, ignore=shutil.ignore_patterns("out"))
    run(scratch / "pipeline.yaml", spark, until="match")
    for name in ("matches", "totals", "subscribed"):
        assert rows(spark, file, name) == rows(spark, scratch / "pipeline.yaml", name), name

    # Without the option, late subscriptions count from the next day on.
    edit(file, "expand: true", "expand: true, backfill: false")
    run(file, spark, until="match")
    kept = rows(spark, file, "matches")
    edit(wants, "fay: duration >= 600", "fay: duration >= 600\ngil: duration >= 0")
    run(file, spark, until="match")
    assert rows(spark, file, "matches") == kept
    write_posts(file.parent / "posts" / "c.jsonl", 200, 5, 2)
    run(file, spark, until="match")
    late = table(spark, load_config(file), "matches").where("subscriber = 'gil'").collect()
    assert sorted(row.notification for row in late) == [f"n{n}" for n in range(200, 205)]


class Posts:
    """Notifications that come to a topic and to a Delta table."""

    def __init__(self, file: Path, kafka: MockKafka) -> None:
        self._file = file
        self._kafka = kafka
        self.sources = (
            f'  - {{kafka: {{servers: "{kafka.servers}", topic: posts}}, format: json, '
            "mapping: mapping.yaml}\n"
            "  - {delta: lake, mapping: {id: id, attributes: {duration: {as: integer}}}}\n"
        )

    def post(self, first: int, count: int) -> None:
        ids = [f"k{n}" for n in range(first, first + count)]
        records = [json.dumps({"id": id, "duration": 700}).encode() for id in ids]
        self._kafka.publish("posts", records)
        rows = pa.table({"id": [f"d{id}" for id in ids], "duration": [700] * count})
        write_deltalake(self._file.parent / "lake", rows, mode="append")


def matches_of(spark: SparkSession, file: Path) -> list[dict[str, Any]]:
    return [row.asDict() for row in table(spark, load_config(file), "matches").collect()]


@pytest.mark.slow
def test_queues_and_tables_are_sources_and_sinks_of_a_pipeline(
    file: Path, spark: SparkSession, matched: list[tuple[int, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    kafka = MockKafka()
    posted = Posts(file, kafka)
    posted.post(0, 6)
    sources, post = posted.sources, posted.post
    edit(file, "subscriptions:", f"{sources}subscriptions:")
    sinks = (
        "deliver:\n  - {table: matches, delta: theirs}\n"
        f'  - {{table: matches, kafka: {{servers: "{kafka.servers}", topic: matches}}}}\n'
    )
    edit(file, "output:", f"{sinks}output:")
    kafka.publish("matches", [b"{}"])
    run(file, spark, until="deliver")
    assert matched == [(42, 4)]
    assert {one.action for one in run(file, spark, until="deliver")} == {"skip"}
    post(6, 3)
    # Killed after the table has the rows, and before that is written down: they are not doubled.
    write = stages._write_to

    def until_killed(job: stages.Job, target: Any, *about: Any) -> None:
        if target.connector == "kafka":
            raise Killed
        write(job, target, *about)

    with monkeypatch.context() as patch:
        patch.setattr(stages, "_write_to", until_killed)
        with pytest.raises(Killed):
            run(file, spark, until="deliver")
    assert matched[1:] == [(6, 4)]  # only the news is read
    did = {one.stage: one for one in run(file, spark, until="deliver")}
    assert did["ingest"].action == "skip" and did["deliver"].action == "append"
    assert len(matched) == 2
    pairs = sorted((r["notification"], r["subscription"]) for r in matches_of(spark, file))
    theirs = DeltaTable(file.parent / "theirs").to_pyarrow_dataset().to_table().to_pylist()
    assert sorted((r["notification"], r["subscription"]) for r in theirs) == pairs
    sent = [json.loads(value) for value in kafka.values("matches")]
    assert sorted((r["notification"], r["subscription"]) for r in sent if r) == pairs
    assert len(pairs) == len(set(pairs)) > 18
    # A late subscription changes earlier runs: the table is made anew.
    edit(file.parent / "wants.txt", "cyd: duration <= 1200", "cyd: duration <= 0")
    run(file, spark, until="deliver")
    theirs = DeltaTable(file.parent / "theirs").to_pyarrow_dataset().to_table().to_pylist()
    pairs = sorted((r["notification"], r["subscription"]) for r in matches_of(spark, file))
    assert sorted((r["notification"], r["subscription"]) for r in theirs) == pairs
    assert "cyd" not in {subscription for _, subscription in pairs}
