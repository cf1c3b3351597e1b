"""Matching on Spark answers as the plain evaluator, whatever form the notifications come in."""

from __future__ import annotations

import json
import logging
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

from kbn import data
from kbn.errors import InvalidInputError
from kbn.filters import Notification, Subscription
from kbn.matching.store import SubscriptionStore
from kbn.ontology import Ontology
from kbn.spark import columns
from kbn.spark.compiling import compile_subscriptions
from kbn.spark.io import read_delivered
from kbn.spark.matching import match, problems
from kbn.spark.streaming import match_stream

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


TEXTS = [
    ("n1", '{"n": 1}'), ("n2", None), ("n3", '{"c": {"class": ""}, "n": 1}'), ("n4", "{"),
    (None, '{"n": 1}'), ("n5", '{"n": 1, "c": {"class": "urn:t#C0ne"}}'), ("n1", '{"n": 2}'),
]  # fmt: skip
MATCHED = [("n1", "a", "ann"), ("n1", "a", "ann"), ("n5", "a", "ann")]
LEFT_OUT = {("n2", True), ("n3", True), ("n4", True), (None, True)}


@pytest.fixture
def hurt(spark: SparkSession, tmp_path: Path) -> tuple[DataFrame, SubscriptionStore]:
    """Nulls, empty IRIs, no JSON, no id, an unknown term, an id twice: and who would match them."""
    store = SubscriptionStore.create(tmp_path / "store", world_of(0).ontology)
    store.change(add=[("a", "ann", "n < 3"), ("b", "bob", "c @> <urn:t#C0>")])
    return spark.createDataFrame(TEXTS, "id string, attributes string"), store


def test_a_bad_row_does_not_hurt_a_table(hurt: tuple[DataFrame, SubscriptionStore]) -> None:
    given, store = hurt
    assert rows_of(match(given, store)) == MATCHED
    found = problems(given, store, duplicates=True)
    assert found.schema == columns.PROBLEMS
    told = {(row.notification, row.left_out) for row in found.collect()}
    assert told == {*LEFT_OUT, ("n5", False), ("n1", False)}
    with pytest.raises(PythonException, match="notification 'n2': there are no attributes"):
        match(given.where("id = 'n2'"), store, bad_rows="refuse").collect()


@pytest.mark.slow
def test_a_bad_row_does_not_hurt_a_stream(
    spark: SparkSession,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    hurt: tuple[DataFrame, SubscriptionStore],
) -> None:
    given, store = hurt
    place = str(tmp_path / "rows")
    given.coalesce(1).write.parquet(place)
    stream = spark.readStream.schema(given.schema).parquet(place)
    with pytest.raises(InvalidInputError, match="duplicates are told of tables"):
        problems(stream, store, duplicates=True)
    query = problems(stream, store).writeStream.format("memory").queryName("told")
    query.trigger(availableNow=True).start().awaitTermination()
    told = {(row.notification, row.left_out) for row in spark.table("told").collect()}
    assert told == {*LEFT_OUT, ("n5", False)}
    out, bad, doubtful = (tmp_path / name for name in ("out", "bad", "doubtful"))
    with caplog.at_level(logging.WARNING, "kbn.spark"):
        match_stream(
            stream, store, out, tmp_path / "checkpoint",
            trigger={"availableNow": True}, quarantine=bad, problems=doubtful,
        ).awaitTermination()  # fmt: skip
    delivered = read_delivered(out).select(["notification", "subscription", "subscriber"])
    assert sorted(tuple(row.values()) for row in delivered.to_pylist()) == MATCHED
    kept = read_delivered(bad)
    assert kept.schema.names == columns.QUARANTINE.names
    assert "notification n2: there are no attributes, not even {}" in kept["reason"].to_pylist()
    assert kept.num_rows == 4
    assert sorted(read_delivered(doubtful)["left_out"].to_pylist()) == [False, *[True] * 4]
    assert "batch 0: 4 rows in quarantine" in caplog.text
    assert "batch 0: 5 rows with a problem" in caplog.text


@pytest.mark.parametrize(
    ("type_", "advice"),
    [
        ("date", "no time zone"),
        ("timestamp_ntz", "no time zone"),
        ("decimal(10,2)", r'.*cast\("double"\)'),
        ("map<string,int>", "select the parts"),
        ("struct<a:int>", "select the parts"),
        ("array<date>", "no time zone"),
    ],
)
def test_a_column_of_a_type_that_no_value_has_is_refused_by_the_driver(
    type_: str, advice: str, spark: SparkSession, tmp_path: Path
) -> None:
    store = SubscriptionStore.create(tmp_path / "store")
    store.change(add=[("a", "ann", "x any")])
    given = spark.createDataFrame([], f"id string, x {type_}, y {type_}")
    with pytest.raises(InvalidInputError, match=f"the column 'x' of type .* {advice}"):
        match(given, store)
    packed = given.selectExpr("id", "struct(x, y) AS attributes")
    with pytest.raises(InvalidInputError, match=f"the column 'x' of type .* {advice}"):
        match(packed, store)
    assert match(given.drop("x"), store).collect() == []  # nobody asks about y


def test_names_in_terms_that_are_no_columns_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    store = SubscriptionStore.create(tmp_path / "store", world_of(0).ontology)
    given = spark.createDataFrame([], "id string, category string, n int")
    with pytest.raises(InvalidInputError, match=r"'categry'.*did you mean 'category'"):
        match(given, store, terms={"categry": "class"})
    packed = given.selectExpr("id", "struct(category, n) AS attributes")
    with pytest.raises(InvalidInputError, match=r"no field of attributes.*'category'"):
        problems(packed, store, terms={"categry": "class"})
    text = spark.createDataFrame([], "id string, attributes string")
    with pytest.raises(InvalidInputError, match="is for columns, and the attributes are JSON"):
        match(text, store, terms={"category": "class"})
    store.change(add=[("a", "ann", "n any")])
    with pytest.raises(InvalidInputError, match=r"'n' of type int is said to hold IRIs \(class\)"):
        match(given, store, terms={"n": "class"})
    for name in ("unknown_terms", "bad_rows"):
        with pytest.raises(InvalidInputError, match=f"{name}: 'ignor' is unknown"):
            match(given, store, **{name: "ignor"})  # type: ignore[arg-type]


def test_a_stream_that_cannot_follow_the_store_says_so(spark: SparkSession, tmp_path: Path) -> None:
    store = SubscriptionStore.create(tmp_path / "store")
    store.change(add=[("a", "ann", "n < 3")])
    stream = spark.readStream.format("rate").load().selectExpr("value AS id", "value AS n")
    with pytest.warns(UserWarning, match=r"version 1 of the store for as.*match_stream"):
        match(stream, store)
    match(stream, store, version=1)
    table = spark.createDataFrame([("a", "ann", "n < 3")], columns.SUBSCRIPTIONS)
    match(stream, table)  # a table is what it is
    with pytest.raises(InvalidInputError, match="no version 7"):
        match(stream, store, version=7)


def test_prefixes_of_the_ontology_are_expanded_in_columns_and_in_json(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Every form that rows may have: `test_row_problems.py`."""
    store = SubscriptionStore.create(tmp_path / "store", Ontology.load(data.path("podcast")))
    store.change(add=[("a", "ann", "topics #>/@> {podcast:Technology}")])
    in_columns = spark.createDataFrame([("n", ["podcast:Podcasting"])], ["id", "topics"])
    told = StructField("topics", ArrayType(StringType()), metadata={"kbn": "class"})
    by_metadata = StructType([StructField("id", StringType()), told])
    in_json = spark.createDataFrame(
        [("n", '{"topics": [{"class": "podcast:Podcasting"}]}')], ["id", "attributes"]
    )
    found = [
        match(in_columns, store, terms={"topics": "class"}, why=True),
        match(spark.createDataFrame(in_columns.collect(), by_metadata), store, why=True),
        match(in_json, store, why=True),
    ]
    (row,) = {tuple(map(str, row)) for each in found for row in each.collect()}
    assert row == ("n", "a", "ann", "['topics: Podcasting is a kind of Technology']")
