"""Rows that hurt: each is left out or told by its id, and hurts no other; mostly without Spark."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from tests.matching.worlds import world_of

from kbn import Matcher, Notification, Ontology, data
from kbn.errors import InvalidInputError, KbnError
from kbn.filters import Subscription, value_to_json
from kbn.matching import SubscriptionStore
from kbn.spark.columns import PROBLEMS
from kbn.spark.match_job import MatchJob, ProblemsJob, RowLayout

WANTS = [
    ("s1", "ann", "x @> animals:Mammal"),
    ("s2", "bob", "y @= animals:Mammal"),
    ("s3", "cyd", "price < 20"),
    ("s4", "dan", "many #>/@> {animals:Mammal}"),
    ("s5", "eve", "at < 2030-01-01T00:00:00Z"),
]


@pytest.fixture
def store(tmp_path: Path) -> SubscriptionStore:
    made = SubscriptionStore.create(tmp_path / "store", Ontology.load(data.path("animals")))
    made.change(add=WANTS)
    return made


def job_of(store: SubscriptionStore, layout: RowLayout, **how: Any) -> MatchJob:
    return MatchJob(str(store.directory), store.identity, store.version, layout, **how)


def pairs_of(job: MatchJob, batch: pa.RecordBatch) -> list[tuple[Any, Any]]:
    return sorted((row["notification"], row["subscription"]) for row in rows_of(job, batch))


def rows_of(job: MatchJob, batch: pa.RecordBatch) -> list[dict[str, Any]]:
    return [row for out in job(iter([batch])) for row in out.to_pylist()]


def problems_of(job: MatchJob, batch: pa.RecordBatch) -> list[dict[str, Any]]:
    return [row for out in ProblemsJob(job)(iter([batch])) for row in out.to_pylist()]


def json_batch(rows: Sequence[tuple[str | None, str | None]]) -> pa.RecordBatch:
    ids, texts = zip(*rows, strict=True)
    return pa.record_batch(
        [pa.array(ids, pa.string()), pa.array(texts, pa.string())], names=["id", "attributes"]
    )


JSON = RowLayout("json", "id")
BAD_TEXTS = {
    "no attributes": (None, "there are no attributes, not even {}"),
    "no JSON": ("{", "not attributes in JSON"),
    "no object": ("[1]", "not attributes in JSON"),
    "an empty IRI": ('{"x": {"class": ""}}', "x: "),
    "an empty IRI in a bag": ('{"many": [{"class": "animals:Cow"}, {"class": ""}]}', "many: "),
    "an unknown tag": ('{"x": {"clas": "animals:Cow"}}', "x: "),
    "a time that is none": ('{"at": {"time": "yesterday"}}', "at: "),
    "a number too large": ('{"price": 99999999999999999999999}', "price: "),
}


@pytest.mark.parametrize("name", BAD_TEXTS)
@pytest.mark.parametrize("rows", [1, 100])
def test_a_bad_row_in_json_is_left_out_alone(
    name: str, rows: int, store: SubscriptionStore
) -> None:
    bad, reason = BAD_TEXTS[name]
    good = [(f"n{n}", '{"price": 5, "x": {"class": "animals:Cow"}}') for n in range(rows)]
    job = job_of(store, JSON)
    mixed = json_batch([*good[: rows // 2], ("bad", bad), *good[rows // 2 :]])
    pairs_of(job, json_batch(good))  # what types there are is remembered: the quick way is next
    assert pairs_of(job, mixed) == pairs_of(job, json_batch(good)) != []
    (found,) = problems_of(job, mixed)
    assert (found["notification"], found["left_out"]) == ("bad", True)
    assert found["reason"].startswith(reason), found
    assert found["record"] == (bad or "{}")


def test_a_row_without_an_id_is_left_out_with_its_record(store: SubscriptionStore) -> None:
    batch = json_batch([("n1", '{"price": 5}'), (None, '{"price": 6}')])
    job = job_of(store, JSON)
    assert pairs_of(job, batch) == [("n1", "s3")]
    assert problems_of(job, batch) == [
        {
            "notification": None, "attribute": None, "reason": "it has no id",
            "record": '{"price": 6}', "left_out": True,
        }
    ]  # fmt: skip


def columns_batch(**columns: pa.Array) -> pa.RecordBatch:
    return pa.record_batch(list(columns.values()), names=list(columns))


def test_bad_cells_in_columns_and_structs_are_left_out_alone(store: SubscriptionStore) -> None:
    ids = pa.array([1, 2, 3, 4, 5])
    cells = {
        "x": pa.array(["animals:Cow", "", None, "animals:Cow", None]),
        "many": pa.array([None, None, ["animals:Cow", ""], [], ["animals:Cow"]]),
        "price": pa.array([float("nan"), 5.0, 5.0, 5.0, None]),
        "at": pa.array([0, 0, 0, 2**60, 0], pa.int64()).cast(pa.timestamp("us", "UTC")),
    }
    terms = {"x": "class", "many": "class"}
    expected = [(1, "s1"), (1, "s5"), (5, "s4"), (5, "s5")]
    in_columns = columns_batch(id=ids, **cells)
    struct = pa.StructArray.from_arrays(list(cells.values()), list(cells))
    in_struct = columns_batch(id=ids, attributes=struct)
    for kind, batch in (("columns", in_columns), ("struct", in_struct)):
        job = job_of(store, RowLayout(kind, "id", terms))  # type: ignore[arg-type]
        assert pairs_of(job, batch) == expected
        found = {row["notification"]: row["reason"] for row in problems_of(job, batch)}
        assert found.keys() == {2, 3, 4}
        assert "empty" in found[2] and "empty" in found[3], found
        assert found[4] == "at: the time is beyond the year 9999"


def test_a_struct_that_is_null_is_told_and_nan_in_a_list_is_nothing(tmp_path: Path) -> None:
    store = SubscriptionStore.create(tmp_path / "store")
    store.change(add=[("s", "ann", "sizes #> {1.5}")])
    sizes = pa.array([[1.5, float("nan")], [float("nan")], None])
    struct = pa.StructArray.from_arrays([sizes], ["sizes"], mask=pa.array([False, False, True]))
    job = job_of(store, RowLayout("struct", "id"))
    batch = columns_batch(id=pa.array(["a", "b", "c"]), attributes=struct)
    assert pairs_of(job, batch) == [("a", "s")]
    (found,) = problems_of(job, batch)
    assert (found["notification"], found["reason"]) == ("c", "there are no attributes, not even {}")


TOLD = {
    "a misspelt term": ("x", {"class": "animals:Cwo"}, "did you mean"),
    "an unknown prefix": ("x", {"class": "animal:Cow"}, "the prefix animal: is not declared"),
    "a class for an individual": ("y", {"class": "animals:Cow"}, "ask for an individual here"),
    "an individual for a class": ("x", {"individual": "animals:Cow"}, "Cow"),
    "a misspelt term in a bag": ("many", [{"class": "animals:Cwo"}], "did you mean"),
}


@pytest.mark.parametrize("name", TOLD)
def test_a_term_that_nobody_can_interpret_is_told_and_the_row_is_matched(
    name: str, store: SubscriptionStore, caplog: pytest.LogCaptureFixture
) -> None:
    attribute, value, sentence = TOLD[name]
    batch = json_batch([("n1", json.dumps({attribute: value, "price": 5})), ("n2", '{"price": 5}')])
    told = problems_of(job_of(store, JSON), batch)
    assert [(row["notification"], row["attribute"], row["left_out"]) for row in told] == [
        ("n1", attribute, False)
    ]
    assert sentence in told[0]["reason"], told
    with caplog.at_level(logging.WARNING, "kbn.spark"):
        assert pairs_of(job_of(store, JSON), batch) == [("n1", "s3"), ("n2", "s3")]
    assert "'n1' is matched" in caplog.text and sentence in caplog.text
    left_out = job_of(store, JSON, unknown_terms="leave_out")
    assert pairs_of(left_out, batch) == [("n2", "s3")]
    assert problems_of(left_out, batch)[0]["left_out"]
    with pytest.raises(KbnError, match=r"notification 'n1': .*(?s:.*)price"):
        pairs_of(job_of(store, JSON, unknown_terms="refuse"), batch)
    ignored = job_of(store, JSON, unknown_terms="ignore")
    assert problems_of(ignored, batch) == [] and len(pairs_of(ignored, batch)) == 2


def test_bad_rows_may_be_refused_by_name(store: SubscriptionStore) -> None:
    batch = json_batch([("n1", '{"price": 5}'), ("n7", None)])
    with pytest.raises(KbnError, match="notification 'n7': there are no attributes"):
        pairs_of(job_of(store, JSON, bad_rows="refuse"), batch)


def test_the_log_of_a_task_is_bounded_and_says_how_many_there_are(
    store: SubscriptionStore, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [(f"n{n}", json.dumps({"x": {"class": f"animals:Cwo{n}"}})) for n in range(200)]
    job = job_of(store, JSON)
    with caplog.at_level(logging.WARNING, "kbn.spark"):
        assert pairs_of(job, json_batch(rows)) == []
    assert len(caplog.records) == 6
    assert "200 problems of notifications in this task, 0 of them left out" in caplog.text
    assert len(problems_of(job, json_batch(rows))) == 200


def test_a_row_of_very_many_problems_has_some_of_them_told(store: SubscriptionStore) -> None:
    many = [{"class": f"urn:x:{n}"} for n in range(1_000)]
    found = problems_of(job_of(store, JSON), json_batch([("n", json.dumps({"many": many}))]))
    assert len(found) == 16
    assert all(len(row["record"]) == 1_000 for row in found)


@pytest.mark.parametrize("number", range(3))
def test_what_is_told_is_what_the_library_tells_row_by_row(number: int, tmp_path: Path) -> None:
    """Random worlds, with terms misspelt and rows broken at random: pairs and problems alike."""
    world, random = world_of(number), Random(number)
    assert world.ontology is not None
    store = SubscriptionStore.create(tmp_path / "store", world.ontology)
    matcher = Matcher(world.ontology)
    for key in range(20):
        wanted = Subscription([world.random_filter(random)])
        store.change(add=[(f"s{key}", "ann", json.dumps(wanted.to_json()))])
        matcher.add(wanted, f"s{key}")
    attributes = store.at().attributes
    rows: list[tuple[str | None, str | None]] = []
    expected: list[tuple[str, str]] = []
    told: set[tuple[str, str]] = set()
    bad: set[str] = set()
    for place in range(60):
        given = world.random_notification(random)
        text = json.dumps({name: value_to_json(value) for name, value in given.attributes.items()})
        spoil = random.random()
        if spoil < 0.4:
            text = text.replace("urn:t#C1", "urn:t#Cone").replace("urn:t#i", "urn:t#j")
        elif spoil < 0.5:
            text = text[:-2]
        rows.append((f"n{place}", text))
        try:
            read = Notification.from_json('{"attributes":' + text + "}")
        except InvalidInputError:
            bad.add(f"n{place}")
            continue
        expected += [(f"n{place}", str(key)) for key in matcher.match(read)]
        asked = {n: v for n, v in read.attributes.items() if n in attributes}
        told |= {(f"n{place}", each.attribute) for each in matcher.unknown_terms(asked)}
    job = job_of(store, JSON)
    batch = json_batch(rows)
    assert pairs_of(job, batch) == sorted(expected) != []
    found = problems_of(job, batch)
    assert {row["notification"] for row in found if row["left_out"]} == bad != set()
    assert (
        {(r["notification"], r["attribute"]) for r in found if not r["left_out"]} == told != set()
    )


def test_problems_are_rows_of_their_table(store: SubscriptionStore) -> None:
    batch = json_batch([("n7", None)])
    (out,) = ProblemsJob(job_of(store, JSON))(iter([batch]))
    assert out.schema.names == PROBLEMS.names


@pytest.mark.parametrize("prefix", ["animals:", data.namespace("animals")])
@pytest.mark.parametrize("form", ["columns", "struct", "json", "mixed"])
def test_prefixes_of_the_ontology_are_expanded_in_every_form(
    form: str, prefix: str, store: SubscriptionStore
) -> None:
    """`animals:Cow` is what its IRI is: in JSON, in a column, in a bag and in a struct."""
    cow = f"{prefix}Cow"
    ids, cells = pa.array(["n"]), [pa.array([cow]), pa.array([[cow]])]
    struct = pa.StructArray.from_arrays(cells, ["x", "many"])
    text = json.dumps({"x": {"class": cow}, "many": [{"class": cow}]})
    batches = {
        "columns": columns_batch(id=ids, x=cells[0], many=cells[1]),
        "struct": columns_batch(id=ids, attributes=struct),
        "json": json_batch([("n", text)]),
        "mixed": json_batch([("n", text), ("m", '{"x": 5, "many": [5, "five"]}')]),
    }
    layout = RowLayout(form, "id", {"x": "class", "many": "class"})  # type: ignore[arg-type]
    job = job_of(store, JSON if form in ("json", "mixed") else layout, why=True)
    assert pairs_of(job, batches[form]) == [("n", "s1"), ("n", "s4")]
    assert problems_of(job, batches[form]) == []
    why = {row["subscription"]: row["why"] for row in rows_of(job, batches[form])}
    assert why["s1"] == ["x: Cow is a kind of Mammal"]
