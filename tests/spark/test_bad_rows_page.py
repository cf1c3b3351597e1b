"""The page on bad rows is true: every line of its tables is tried, in a batch and in a stream."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from kbn import Ontology, data
from kbn.matching import SubscriptionStore
from kbn.spark import ingest, match, notifications, problems, quarantine

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "bad-rows.md"
MAPPING = {"id": "id", "attributes": {"n": {"as": "number"}, "x": {}}}

RECORDS: dict[str, str | None] = {
    "not JSON": "{",
    "a null record": None,
    "an empty record": " ",
    "without the id that the mapping names": '{"n": 1}',
    "a text where the mapping wants a number": '{"id": "?", "n": "cheap"}',
    "one name twice": '{"id": "?", "n": 1, "n": 2}',
    "a number beyond 64 bits": '{"id": "?", "n": 1, "x": 99999999999999999999}',
    "an empty IRI": '{"id": "?", "n": 1, "x": {"class": ""}}',
    "a null attribute": '{"id": "?", "n": 1, "x": null}',
    "a misspelt term": '{"id": "?", "n": 1, "x": {"class": "animals:Cwo"}}',
}
ROWS: dict[str, str | None] = {
    "a null id": '{"n": 1}',
    "null attributes": None,
    "attributes that are not JSON": "{",
    "attributes that are no object": "[1]",
    "a value of no type": '{"n": 1, "x": {"clas": "animals:Cow"}}',
    "an empty IRI": '{"n": 1, "x": {"class": ""}}',
    "an impossible time": '{"n": 1, "x": {"time": "2026-02-30T00:00:00Z"}}',
    "a misspelt term": '{"n": 1, "x": {"class": "animals:Cwo"}}',
    "an unknown prefix": '{"n": 1, "x": {"class": "animal:Cow"}}',
    "a class where an individual is wanted": '{"n": 1, "y": {"class": "animals:Cow"}}',
    "a null attribute": '{"n": 1, "x": null}',
    "no attributes": "{}",
    "an id twice": '{"n": 1}',
}


def table_of(title: str) -> dict[str, tuple[str, str]]:
    """The lines of the table below a title: what, and where it ends in a batch and a stream."""
    section = PAGE.read_text(encoding="utf-8").split(f"## {title}\n")[1].split("\n## ")[0]
    lines = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \|$", section, re.MULTILINE)
    return {what: (batch, stream) for what, batch, stream in lines[1:]}


@pytest.fixture
def store(tmp_path: Path) -> SubscriptionStore:
    made = SubscriptionStore.create(tmp_path / "store", Ontology.load(data.path("animals")))
    wanted = [("s", "n = 1"), ("x", "x @> animals:Mammal"), ("y", "y @= animals:Mammal")]
    made.change(add=[(key, "ann", text) for key, text in [*wanted, ("at", "x any")]])
    return made


class Ways:
    """A DataFrame as it is, and as a stream; `rows` runs what is made of it."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder

    def of(self, given: DataFrame) -> Iterator[tuple[str, DataFrame]]:
        yield "batch", given
        given.coalesce(1).write.parquet(str(self._folder))
        yield "stream", self._spark.readStream.schema(given.schema).parquet(str(self._folder))

    def rows(self, made: DataFrame, names: list[str]) -> list[tuple[object, ...]]:
        if made.isStreaming:
            query = made.writeStream.format("memory").queryName("ended")
            query.trigger(availableNow=True).start().awaitTermination()
            made = self._spark.table("ended")
        return [tuple(row) for row in made.select(*names).collect()]


def ended(ways: Ways, given: DataFrame, store: SubscriptionStore) -> dict[object, str]:
    """Where rows ended, by id."""
    version = {"version": store.version} if given.isStreaming else {}
    twice = not given.isStreaming
    matched = {id for (id,) in ways.rows(match(given, store, **version), ["notification"])}
    found = problems(given, store, duplicates=twice)
    told = dict(ways.rows(found, ["notification", "left_out"]))
    where: dict[object, str] = dict.fromkeys(matched, "matched")
    for id, left_out in told.items():
        assert (id in matched) is not left_out
        where[id] = "left out, told" if left_out else "matched, told"
    return where


@pytest.mark.slow
def test_records_end_where_the_page_says(
    spark: SparkSession, tmp_path: Path, store: SubscriptionStore
) -> None:
    said = table_of("Records that are ingested")
    assert said.keys() == RECORDS.keys()
    ways = Ways(spark, tmp_path / "rows")
    values = [
        (None if text is None else text.replace('"?"', json.dumps(what)), place)
        for place, (what, text) in enumerate(RECORDS.items())
    ]
    given = spark.createDataFrame(values, "value string, offset long")
    for place, (way, frame) in enumerate(ways.of(given)):
        ingested = ingest(frame, "json", MAPPING)
        refused = {n for (n,) in ways.rows(quarantine(ingested), ["position"])}
        where = ended(ways, notifications(ingested), store)
        for number, what in enumerate(RECORDS):
            found = "quarantine" if number in refused else where[what]
            assert found == said[what][place], (what, way)


@pytest.mark.slow
def test_rows_end_where_the_page_says(
    spark: SparkSession, tmp_path: Path, store: SubscriptionStore
) -> None:
    said = table_of("Rows that are matched")
    assert said.keys() == ROWS.keys()
    ways = Ways(spark, tmp_path / "rows")
    rows = [(None if what == "a null id" else what, text) for what, text in ROWS.items()]
    rows.append(("an id twice", ROWS["an id twice"]))
    given = spark.createDataFrame(rows, "id string, attributes string")
    for place, (way, frame) in enumerate(ways.of(given)):
        where = ended(ways, frame, store)
        for what in ROWS:
            found = where.get(None if what == "a null id" else what, "matched")
            if what == "no attributes":
                assert what not in where
            assert found == said[what][place], (what, way)


def test_empty_tables_have_no_matches_and_no_problems(
    spark: SparkSession, store: SubscriptionStore
) -> None:
    nothing = spark.createDataFrame([], "id string, attributes string")
    assert match(nothing, store).collect() == []
    assert problems(nothing, store).collect() == []
