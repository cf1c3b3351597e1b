"""Interests and medoids as jobs: the same as the pure functions say, and nobody lost."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from kbn.data import namespace, path
from kbn.errors import InvalidInputError
from kbn.filters.bulk import BulkReader
from kbn.ontology import Ontology
from kbn.placement import MapSettings, SemanticMap, Weights, clusters
from kbn.spark.columns import INTERESTS, MEDOIDS, NOTIFICATIONS, SUBSCRIPTIONS
from kbn.spark.medoids import (
    find_medoids,
    interests,
    medoids,
    name_terms,
    named_in_attributes,
    named_in_filter,
)
from kbn.spark.shared import ontology_path

C = namespace("conference")
PREFIXES = {"c": C}


@cache
def conference() -> Ontology:
    return Ontology.load(path("conference"), cache=False)


# In the workers, without Spark.


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("x @> c:Paper and y #> {c:Dublin, c:Dublin}", ["Dublin", "Dublin", "Paper"]),
        ('[{"attribute": "x", "op": "@>", "value": {"class": "' + C + 'Paper"}}]', ["Paper"]),
        (f"prefix k: <{C}> x @= k:City", ["City"]),
        ("price < 3", []),
        ("x @> nowhere:Paper", []),
        ("x @> ", []),
        ("{not json", []),
        ("", []),
        (None, []),
    ],
)
def test_a_filter_names_terms_and_one_that_cannot_be_read_none(
    text: str | None, names: list[str]
) -> None:
    assert sorted(named_in_filter(text, BulkReader(prefixes=PREFIXES))) == [
        C + name for name in names
    ]


@pytest.mark.parametrize(
    ("attributes", "names"),
    [
        ({"x": {"class": C + "Paper"}, "y": 3, "z": C + "City"}, ["Paper"]),
        ({"x": [{"individual": C + "Dublin"}, 3, [{"term": C + "City"}]]}, ["Dublin", "City"]),
        ({"x": {"clas": C + "Paper"}, "y": {"property": C + "hasCity"}, "z": None}, ["hasCity"]),
        ({"attributes": {"class": C + "Paper"}}, ["Paper"]),
        ([1], []),
        (7, []),
    ],
)
def test_attributes_name_terms_and_those_that_cannot_be_read_none(
    attributes: Any, names: list[str]
) -> None:
    assert named_in_attributes(json.dumps(attributes)) == tuple(C + name for name in names)


def test_texts_that_are_no_json_name_nothing() -> None:
    for text in (None, "", "{", "[" * 100_000, '{"x": ' + "[" * 500 + "]" * 500 + "}"):
        assert named_in_attributes(text) == ()


def test_a_row_that_names_nothing_keeps_its_client() -> None:
    given = pa.RecordBatch.from_pydict(
        {"subscriber": ["ann", "bob", "ann"], "filter": ["x @> c:Paper", "x <", "price < 3"]}
    )
    (named,) = name_terms([given], filters=True, prefixes=PREFIXES)
    assert named.to_pydict() == {
        "client": ["ann", "bob", "ann"],
        "term": [C + "Paper", None, None],
    }
    (none,) = name_terms([given.slice(0, 0)], filters=True, prefixes={})
    assert none.num_rows == 0 and none.schema == named.schema


def test_batches_are_worked_on_in_lots() -> None:
    rows = [{"client": f"c{n}", "mentions": [{"term": C + "Paper", "times": 1}]} for n in range(9)]
    kind = pa.list_(pa.struct([("term", pa.string()), ("times", pa.int64())]))
    schema = pa.schema([("client", pa.string()), ("mentions", kind)])
    batches = pa.Table.from_pylist(rows, schema).to_batches(max_chunksize=3)
    found = list(find_medoids(batches, ontology_path(conference()), MapSettings(), lot_size=4))
    assert [len(batch) for batch in found] == [6, 3]
    assert [row["client"] for batch in found for row in batch.to_pylist()] == [
        f"c{n}" for n in range(9)
    ]


# On Spark.


def some_terms(rng: random.Random) -> list[str]:
    known = [*conference().classes, *conference().individuals, *conference().properties]
    return rng.choices([*known, "urn:elsewhere#X"], k=rng.choice([0, 1, 2, 5]))


def some_subscriptions(rng: random.Random) -> list[tuple[str, str, str]]:
    rows = []
    for number in range(120):
        terms = ", ".join(f"<{term}>" for term in some_terms(rng))
        text = rng.choice(["x #> {%s}", "x #> {%s} and price < 3", "x #> {%s} and and"]) % terms
        rows.append((f"s{number}", f"client{rng.randrange(30)}", text))
    return rows


def expected_rows(
    named: dict[str, list[str]], weights: Weights | None = None
) -> dict[str, tuple[object, ...]]:
    semantic_map, parts = SemanticMap(conference(), weights), clusters(conference())
    rows: dict[str, tuple[object, ...]] = {}
    for client, terms in named.items():
        medoid = semantic_map.medoid(terms)
        counts = medoid.terms, medoid.reached
        if medoid.term is None:
            rows[client] = (None, None, None, *counts, None)
        else:
            cost, place = float(medoid.cost), parts.cluster_of(medoid.term)
            rows[client] = (medoid.term, medoid.spread, cost, *counts, place)
    return rows


def rows_of(table: DataFrame) -> dict[str, tuple[object, ...]]:
    rows = table.collect()
    assert len({row.client for row in rows}) == len(rows)
    return {row.client: tuple(row)[1:] for row in rows}


def test_medoids_of_subscribers_are_those_of_the_map(spark: SparkSession, seed: int) -> None:
    rows = some_subscriptions(random.Random(seed))
    named: dict[str, list[str]] = defaultdict(list)
    for _, client, text in rows:
        named[client].extend(named_in_filter(text, BulkReader()))
    table = spark.createDataFrame(rows, SUBSCRIPTIONS)
    weights = Weights(to_superclass=30)
    found = medoids(table, conference(), weights)
    assert found.schema == MEDOIDS
    assert rows_of(found) == expected_rows(named, weights)
    from_interests = medoids(interests(table), ontology_path(conference()), weights)
    assert rows_of(from_interests) == expected_rows(named, weights)


def test_medoids_of_publishers_are_those_of_the_map(spark: SparkSession, seed: int) -> None:
    rng = random.Random(seed)
    named: dict[str, list[str]] = defaultdict(list)
    rows: list[tuple[str, str | None, None, str]] = [("n", None, None, '{"x": {"class": "urn:a"}}')]
    for number in range(80):
        client, terms = f"client{rng.randrange(20)}", some_terms(rng)
        bag = [{"term": term} for term in terms]
        broken = rng.random() < 0.2
        text = json.dumps({"x": bag, "y": 7, "z": {"odd": 1}})[: -1 if broken else None]
        named[client] += [] if broken else terms
        rows.append((f"n{number}", client, None, text))
    table = spark.createDataFrame(rows, NOTIFICATIONS)
    assert rows_of(medoids(table, conference())) == expected_rows(named)


def test_the_prefixes_of_the_ontology_count(spark: SparkSession) -> None:
    table = spark.createDataFrame([("s", "ann", "x @> conference:Paper")], SUBSCRIPTIONS)
    (row,) = medoids(table, conference()).collect()
    assert (row.medoid, row.cluster) == (C + "Paper", C + "Contribution")


def test_medoids_follow_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    rows = [("s1", "ann", f"x @> <{C}Paper>"), ("s2", "ann", f"x @> <{C}Paper>")]
    spark.createDataFrame(rows, SUBSCRIPTIONS).coalesce(1).write.json(str(folder))
    stream = spark.readStream.schema(SUBSCRIPTIONS).json(str(folder))
    query = (
        medoids(stream, conference())
        .writeStream.format("memory")
        .queryName("medoids_of_a_stream")
        .outputMode("complete")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    (row,) = spark.table("medoids_of_a_stream").collect()
    assert (row.client, row.medoid, row.terms) == ("ann", C + "Paper", 2)


def test_a_table_of_something_else_is_refused(spark: SparkSession) -> None:
    with pytest.raises(InvalidInputError, match=r"subscriber and filter.*this one has id"):
        interests(spark.range(1))
    structs = spark.createDataFrame(
        [("p", {"x": "y"})], "publisher string, attributes map<string,string>"
    )
    with pytest.raises(InvalidInputError, match="attributes holds texts"):
        medoids(structs, conference())
    already = spark.createDataFrame([("ann", C + "Paper")], INTERESTS)
    assert interests(already).collect() == already.collect()
