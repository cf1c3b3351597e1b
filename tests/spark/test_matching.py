"""Matching on Spark answers as the plain evaluator, whatever form the notifications come in."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType
from tests.matching.worlds import World, world_of

from kbn.errors import InvalidInputError
from kbn.filters import Notification, Subscription
from kbn.matching.store import SubscriptionStore
from kbn.ontology import Ontology
from kbn.spark import columns
from kbn.spark.compiling import compile_subscriptions
from kbn.spark.matching import match

Wanted = dict[str, Subscription]


def notifications_of(spark: SparkSession, given: list[Notification]) -> DataFrame:
    rows = [
        (f"n{number}", "pub", datetime(2026, 11, 16, tzinfo=UTC), attributes_of(notification))
        for number, notification in enumerate(given)
    ]
    return spark.createDataFrame(rows, columns.NOTIFICATIONS)


def attributes_of(notification: Notification) -> str:
    return json.dumps(notification.to_json()["attributes"])


def subscriptions_of(spark: SparkSession, wanted: Wanted) -> DataFrame:
    rows = [(key, f"of {key}", json.dumps(asked.to_json())) for key, asked in wanted.items()]
    return spark.createDataFrame(rows, columns.SUBSCRIPTIONS)


def random_wanted(world: World, random: Random, count: int = 60) -> Wanted:
    filters = lambda: [world.random_filter(random) for _ in range(random.choice([1, 1, 1, 2]))]  # noqa: E731
    return {f"s{number}": Subscription(filters()) for number in range(count)}


def oracle(wanted: Wanted, given: list[Notification], ontology: Ontology | None) -> list[Any]:
    return sorted(
        (f"n{number}", key, f"of {key}")
        for number, notification in enumerate(given)
        for key, asked in wanted.items()
        if asked.matches(notification, ontology)
    )


def rows_of(found: DataFrame) -> list[Any]:
    return sorted(tuple(row) for row in found.collect())


@pytest.mark.parametrize("shards", [1, 3])
def test_matches_are_the_oracles(
    spark: SparkSession, seed: int, shards: int, tmp_path: Path
) -> None:
    random = Random(seed + shards)
    world = world_of(4 * random.randrange(100))
    wanted = random_wanted(world, random)
    given = [world.random_notification(random) for _ in range(80)]
    store = compile_subscriptions(
        subscriptions_of(spark, wanted), world.ontology, tmp_path / "store", shards=shards
    )
    table = notifications_of(spark, given).repartition(3)
    expected = oracle(wanted, given, world.ontology)
    assert expected
    assert rows_of(match(table, store)) == expected
    assert rows_of(match(table, store, by_shard=True)) == expected
    counted = match(table, store, expand=False).groupBy("notification").sum("subscriptions")
    entries = {
        f"n{number}": sum(
            part.matches(n, world.ontology) for asked in wanted.values() for part in asked.filters
        )
        for number, n in enumerate(given)
    }
    assert {row[0]: row[1] for row in counted.collect()} == entries


def test_a_table_of_subscriptions_is_compiled_on_the_way(spark: SparkSession, seed: int) -> None:
    world = world_of(4 * (seed % 100))
    random = Random(seed)
    wanted = random_wanted(world, random, 20)
    given = [world.random_notification(random) for _ in range(20)]
    found = match(notifications_of(spark, given), subscriptions_of(spark, wanted), world.ontology)
    assert found.schema == columns.MATCHES
    assert rows_of(found) == oracle(wanted, given, world.ontology)


def test_why_names_what_satisfied_each_constraint(spark: SparkSession) -> None:
    subscriptions = spark.createDataFrame(
        [("s1", "ann", 'price < 20 and kind = "book"')], columns.SUBSCRIPTIONS
    )
    books = spark.createDataFrame([("n1", '{"price": 5, "kind": "book"}')], ["id", "attributes"])
    found = match(books, subscriptions, why=True).collect()
    assert found == [
        Row(
            notification="n1",
            subscription="s1",
            subscriber="ann",
            why=['kind: "book" is "book"', "price: 5 is less than 20"],
        )
    ]


def test_ordinary_columns_are_attributes(spark: SparkSession) -> None:
    """Numbers, text, lists and structs as Spark has them; ids keep their type; NaN is absent."""
    subscriptions = spark.createDataFrame(
        [(1, 10, "price < 20"), (2, 20, 'tags #> {"new"}'), (3, 10, "price any")],
        StructType(
            [
                StructField("subscription", LongType()),
                StructField("subscriber", LongType()),
                StructField("filter", StringType()),
            ]
        ),
    )
    given = spark.createDataFrame(
        [(7, 5.0, ["new", "red"], "x"), (8, float("nan"), [], "y"), (9, None, None, "z")],
        ["number", "price", "tags", "unasked"],
    )
    found = match(given, subscriptions, id="number")
    assert rows_of(found) == [(7, 1, 10), (7, 2, 20), (7, 3, 10)]
    structs = given.selectExpr("number", "struct(price, tags) AS attributes")
    assert rows_of(match(structs, subscriptions, id="number")) == rows_of(found)


def test_columns_of_iris_are_terms_when_told_so(spark: SparkSession) -> None:
    world = world_of(0)
    assert world.ontology is not None
    wanted = {"s": Subscription.parse("c #>/@> {<urn:t#C0>}", ontology=world.ontology)}
    told = StructType(
        [
            StructField("id", StringType()),
            StructField("c", ArrayType(StringType()), metadata={"kbn": "class"}),
        ]
    )
    classes = [iri for iri in world.ontology.classes]
    rows = [(f"n{number}", [iri]) for number, iri in enumerate(classes)]
    expected = [
        (f"n{number}", "s", "of s")
        for number, iri in enumerate(classes)
        if world.ontology.is_subclass(iri, "urn:t#C0")
    ]
    subscriptions = subscriptions_of(spark, wanted)
    by_metadata = match(spark.createDataFrame(rows, told), subscriptions, world.ontology)
    assert rows_of(by_metadata) == sorted(expected)
    plain = spark.createDataFrame(rows, ["id", "c"])
    by_name = match(plain, subscriptions, world.ontology, terms={"c": "class"})
    assert rows_of(by_name) == sorted(expected)
    assert rows_of(match(plain, subscriptions, world.ontology)) == []


def test_rows_that_name_a_version_are_matched_at_it(spark: SparkSession, tmp_path: Path) -> None:
    store = SubscriptionStore.create(tmp_path / "store")
    store.change(add=[("a", "ann", "n < 3")])
    store.change(add=[("b", "bob", "n < 9")], remove=["a"])
    rows = [(f"n{v}", '{"n": 1}', v) for v in (0, 1, 2, 1)]
    given = spark.createDataFrame(rows, ["id", "attributes", "version"]).coalesce(1)
    assert rows_of(match(given, store)) == [
        ("n1", "a", "ann"),
        ("n1", "a", "ann"),
        ("n2", "b", "bob"),
    ]
    assert len(rows_of(match(given.drop("version"), store))) == 4


def test_rows_without_a_version_are_told_of_and_other_columns_of_that_name_too(
    spark: SparkSession, tmp_path: Path
) -> None:
    store = SubscriptionStore.create(tmp_path / "store")
    store.change(add=[("a", "ann", "n < 3")])
    rows = [("n1", '{"n": 1}', 1), ("n2", '{"n": 1}', None)]
    given = spark.createDataFrame(rows, "id string, attributes string, version int")
    with pytest.raises(PythonException, match="have no value in the column 'version'"):
        match(given, store).collect()
    named = given.withColumn("version", F.lit("v1"))
    with pytest.raises(InvalidInputError, match="whole numbers, not string; rename or drop it"):
        match(named, store)


def test_bad_subscriptions_are_told_of_and_the_good_ones_work(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = spark.createDataFrame(
        [("a", "ann", "n < 3"), ("b", "bob", "n <"), ("c", "cyd", "c = <urn:t#Nope>")],
        columns.SUBSCRIPTIONS,
    )
    ontology = world_of(0).ontology
    with pytest.warns(UserWarning, match="2 of the subscriptions cannot be compiled"):
        store = compile_subscriptions(table, ontology, tmp_path / "store")
    rejected = store.rejected()
    assert rejected is not None
    assert sorted(rejected["subscription"].to_pylist()) == ["b", "c"]
    given = spark.createDataFrame([("n", '{"n": 1}')], ["id", "attributes"])
    assert rows_of(match(given, store)) == [("n", "a", "ann")]
    with pytest.raises(InvalidInputError, match="2 of the subscriptions"):
        compile_subscriptions(table, ontology, tmp_path / "strict", strict=True)
    assert SubscriptionStore.open(tmp_path / "strict").version == 0


def test_a_second_compilation_is_a_new_version(spark: SparkSession, tmp_path: Path) -> None:
    given = spark.createDataFrame([("n", '{"n": 1}')], ["id", "attributes"])
    place = tmp_path / "store"
    for key in ("a", "b"):
        table = spark.createDataFrame([(key, key, "n < 3")], columns.SUBSCRIPTIONS)
        store = compile_subscriptions(table, directory=place)
    assert store.version == 2
    assert rows_of(match(given, str(place))) == [("n", "b", "b")]


def test_a_store_made_anew_in_the_same_place_is_not_the_old_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Workers remember what they have open; the version alone would not tell the two apart."""
    given = spark.createDataFrame([("n", '{"n": 1}')], ["id", "attributes"])
    place = tmp_path / "store"
    for key in ("a", "b"):
        shutil.rmtree(place, ignore_errors=True)
        table = spark.createDataFrame([(key, key, "n < 3")], columns.SUBSCRIPTIONS)
        store = compile_subscriptions(table, directory=place)
        assert store.version == 1
        assert rows_of(match(given, store)) == [("n", key, key)]


def test_empty_tables_match_nothing(spark: SparkSession) -> None:
    nobody = spark.createDataFrame([], columns.SUBSCRIPTIONS)
    nothing = spark.createDataFrame([], columns.NOTIFICATIONS)
    one = spark.createDataFrame([("n", '{"n": 1}')], ["id", "attributes"])
    assert match(one, nobody).collect() == []
    some = spark.createDataFrame([("a", "a", "n < 3")], columns.SUBSCRIPTIONS)
    assert match(nothing, some).collect() == []


def test_wrong_arguments_are_refused_before_any_job(spark: SparkSession, tmp_path: Path) -> None:
    one = spark.createDataFrame([("n", '{"n": 1}')], ["id", "attributes"])
    some = spark.createDataFrame([("a", "a", "n < 3")], columns.SUBSCRIPTIONS)
    with pytest.raises(InvalidInputError, match="filter missing among subscription, subscriber"):
        match(one, some.drop("filter"))
    with pytest.raises(InvalidInputError, match="no column 'key' tells notifications apart"):
        match(one, some, id="key")
    with pytest.raises(InvalidInputError, match="is not a store of subscriptions"):
        match(one, tmp_path)
    with pytest.raises(InvalidInputError, match="terms are class, property"):
        match(one, some, terms={"n": "clas"})
    with pytest.raises(InvalidInputError, match="DataFrame or a store, not list"):
        match(one, [])  # type: ignore[arg-type]
    store = compile_subscriptions(some, directory=tmp_path / "store")
    with pytest.raises(InvalidInputError, match="compiled with another ontology"):
        match(one, store, world_of(0).ontology)
