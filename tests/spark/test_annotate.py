"""Annotate: names become terms, and what names none is told."""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from kbn.errors import InvalidInputError
from kbn.ontology import Ontology
from kbn.ontology.names import NameIndex
from kbn.spark.annotate import Annotator, annotate, annotate_batches, unrecognised
from kbn.spark.columns import ANNOTATED, NOTIFICATIONS, UNRECOGNISED

TEAS = """
@prefix : <urn:t#> . @prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
:Tea a owl:Class ; rdfs:label "Tea"@en , "Thé"@fr .
:GreenTea a owl:Class ; rdfs:subClassOf :Tea ; skos:altLabel "matcha" .
:assam1 a :Tea ; rdfs:label "Assam" .
:likes a owl:ObjectProperty .
"""
T = "urn:t#"


@pytest.fixture(scope="module")
def teas(tmp_path_factory: pytest.TempPathFactory) -> Ontology:
    path = tmp_path_factory.mktemp("teas") / "teas.ttl"
    path.write_text(TEAS, encoding="utf-8")
    return Ontology.load(path, cache=False)


def done(
    teas: Ontology, attributes: dict[str, Any], kind: str = "term", drop: bool = False
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    annotator = Annotator(NameIndex(teas), {"c": kind}, drop=drop)
    text, missing = annotator.annotate(json.dumps(attributes))
    assert text is not None
    assert annotator.annotate(json.dumps(attributes)) == (text, missing), "the memory agrees"
    return json.loads(text), missing


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("tea", {"class": T + "Tea"}),
        ("THE", {"class": T + "Tea"}),
        (":GreenTea", {"class": T + "GreenTea"}),
        ("urn:t#Tea", {"class": T + "Tea"}),
        ("assam", {"individual": T + "assam1"}),
        ("likes", {"property": T + "likes"}),
        (["Matcha", "tea", "tea"], [{"class": T + "GreenTea"}, *[{"class": T + "Tea"}] * 2]),
        ([["tea"], "Assam"], [[{"class": T + "Tea"}], {"individual": T + "assam1"}]),
        ({"class": T + "Tea"}, {"class": T + "Tea"}),
        ({"term": T + "Tea"}, {"class": T + "Tea"}),
        ([], []),
    ],
)
def test_names_become_terms(teas: Ontology, value: Any, expected: Any) -> None:
    assert done(teas, {"c": value, "other": "tea"}) == ({"c": expected, "other": "tea"}, [])


@pytest.mark.parametrize(
    ("value", "kind", "missing"),
    [
        ("coffee", "term", ["coffee"]),
        ("assam", "class", ["assam"]),
        ("tea", "individual", ["tea"]),
        (["tea", "milk", "milk"], "class", ["milk", "milk"]),
        ({"class": "urn:none"}, "term", ["urn:none"]),
        ({"individual": T + "Tea"}, "term", [T + "Tea"]),
        ({"class": T + "Tea"}, "individual", [T + "Tea"]),
        (17, "term", ["17"]),
        ({"time": "2026-01-01T00:00:00Z"}, "term", ['{"time":"2026-01-01T00:00:00Z"}']),
        ("", "term", [""]),
    ],
)
def test_what_names_no_term_stays_and_is_told(
    teas: Ontology, value: Any, kind: str, missing: list[str]
) -> None:
    kept, told = done(teas, {"c": value}, kind)
    assert told == [("c", text) for text in missing]
    if not isinstance(value, list):
        assert kept == {"c": value}
    dropped, told = done(teas, {"c": value, "d": 1}, kind, drop=True)
    assert told == [("c", text) for text in missing]
    assert "coffee" not in json.dumps(dropped)
    assert dropped == (
        {"c": [{"class": T + "Tea"}], "d": 1} if isinstance(value, list) else {"d": 1}
    )


def test_a_bag_of_which_nothing_is_left_is_dropped_too(teas: Ontology) -> None:
    assert done(teas, {"c": ["x", "y"]}, drop=True) == ({}, [("c", "x"), ("c", "y")])


@pytest.mark.parametrize("text", [None, "", "nonsense", "[]", "5", '{"c":', '{"c":1e999}'])
def test_what_are_no_attributes_pass_as_they_are(teas: Ontology, text: str | None) -> None:
    assert Annotator(NameIndex(teas), {"c": "term"}).annotate(text) == (text, [])


def test_the_memory_is_bounded_and_changes_nothing(
    teas: Ontology, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(sys.modules[Annotator.__module__], "MEMORY_MAX", 3)
    chosen = random.Random(seed)
    words = ["tea", "Thé", "matcha", "assam", "coffee", "milk", ""]
    annotator = Annotator(NameIndex(teas), {"c": "term", "d": "class"})
    for _ in range(300):
        text = json.dumps({name: chosen.choices(words, k=chosen.randrange(4)) for name in "cd"})
        afresh = Annotator(NameIndex(teas), {"c": "term", "d": "class"}).annotate(text)
        assert annotator.annotate(text) == afresh


def test_a_batch_keeps_its_other_columns_and_its_order(teas: Ontology, tmp_path: Path) -> None:
    path = tmp_path / "teas.kbno"
    teas.save(path)
    columns = [
        ["1", "2", "3"],
        ["p", None, "q"],
        [None] * 3,
        ['{"c":"tea"}', '{"c":["x","x"]}', "{}"],
    ]
    types = [pa.string(), pa.string(), pa.timestamp("us", "UTC"), pa.string()]
    arrays = [pa.array(column, type_) for column, type_ in zip(columns, types, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, names=NOTIFICATIONS.names)
    (made,) = annotate_batches([batch], str(path), {"c": "term"}, False)
    assert made.schema.names == ANNOTATED.names
    assert made.columns[:3] == batch.columns[:3]
    assert [json.loads(text) for text in made.column("attributes").to_pylist()] == [
        {"c": {"class": T + "Tea"}},
        {"c": ["x", "x"]},
        {},
    ]
    twice = [{"attribute": "c", "text": "x"}] * 2
    assert made.column("unrecognised").to_pylist() == [[], twice, []]


def test_fields_that_are_none_are_refused(teas: Ontology, spark: SparkSession) -> None:
    frame = spark.createDataFrame([], NOTIFICATIONS)
    with pytest.raises(InvalidInputError, match=r"no kind of term 'clas'; did you mean 'class'\?"):
        annotate(frame, teas, {"c": "clas"})
    with pytest.raises(InvalidInputError, match="keep"):
        annotate(frame, teas, {"c": "class"}, unrecognised="lose")  # type: ignore[arg-type]


def test_notifications_are_annotated_and_the_unrecognised_counted(
    teas: Ontology, spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    chosen = random.Random(seed)
    words = ["tea", "Matcha", "assam", "coffee", "milk"]
    rows = [
        (
            str(n),
            "p",
            None,
            json.dumps({"c": chosen.choices(words, k=3), "d": chosen.choice(words)}),
        )
        for n in range(200)
    ]
    fields = {"c": "term", "d": "class"}
    plain = Annotator(NameIndex(teas), fields)
    expected = {id_: plain.annotate(text) for id_, _, _, text in rows}
    counts = Counter(pair for _, missing in expected.values() for pair in set(missing))

    frame = spark.createDataFrame(rows, NOTIFICATIONS)
    made = annotate(frame, teas, fields)
    assert made.schema == ANNOTATED
    assert {
        row.id: (row.attributes, [(a, t) for a, t in row.unrecognised]) for row in made.collect()
    } == expected
    assert unrecognised(made).schema.names == UNRECOGNISED.names
    assert {
        (row.attribute, row.text): row.notifications for row in unrecognised(made).collect()
    } == counts

    frame.coalesce(1).write.parquet(str(tmp_path / "in"))
    given = spark.readStream.schema(NOTIFICATIONS).parquet(str(tmp_path / "in"))
    writer = annotate(given, teas, fields).writeStream.format("memory").queryName("annotated")
    writer.trigger(availableNow=True).start().awaitTermination()
    assert {row.id: row.attributes for row in spark.table("annotated").collect()} == {
        id_: text for id_, (text, _) in expected.items()
    }
