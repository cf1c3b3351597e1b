"""Mappings: what they make of a record, and what they say when they are wrong."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbn.errors import InvalidInputError
from kbn.filters.json_form import notification_from_json
from kbn.spark.io.mapping import Mapping

DAY = datetime(2026, 11, 15, 10, tzinfo=UTC)


def attributes(mapping: dict[str, Any], record: dict[str, Any], **how: Any) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(Mapping.of(mapping).row(record, **how).attributes)
    return made


def one(as_: str | None, value: Any, **more: Any) -> Any:
    """The attribute that a field with this value becomes."""
    rule = {"as": as_, **more} if as_ else more
    return attributes({"attributes": {"x": {"field": "f", **rule}}}, {"f": value}).get("x")


def test_a_mapping_file_makes_a_notification_of_a_record(tmp_path: Path) -> None:
    path = tmp_path / "mapping.yaml"
    path.write_text(
        """
        id: guid
        publisher: {field: feed, constant: somebody}
        time: {field: published, format: "%d/%m/%Y %H:%M", zone: Europe/Paris}
        attributes:
          title: headline
          price: {as: number}
          category: {field: tags, as: term, split: ";"}
          topic: {field: about.name, as: class}
          live: {as: boolean, default: "no"}
        """
    )
    mapping = Mapping.load(path)
    row = mapping.row(
        {
            "guid": 7,
            "published": "15/11/2026 11:00",
            "headline": "Tea",
            "price": "2.50",
            "tags": " green; black ;;",
            "about": {"name": "Drinks"},
            "unasked": 1,
        }
    )
    assert (row.id, row.publisher, row.time) == ("7", "somebody", DAY)
    assert json.loads(row.attributes) == {
        "title": "Tea",
        "price": 2.5,
        "category": ["green", "black"],
        "topic": "Drinks",
        "live": False,
    }
    assert mapping.terms == {"category": "term", "topic": "class"}
    assert pickle.loads(pickle.dumps(mapping)) == mapping


def test_an_empty_mapping_takes_every_field_under_its_own_name() -> None:
    record = {"a": 1, "b": None, "c": {"d": [1, None], "e": {"class": "urn:x"}}, "id": "7"}
    assert attributes({}, record) == {"a": 1, "c.d": [1], "c.e": {"class": "urn:x"}, "id": "7"}
    assert attributes({"id": "id", "publisher": "c.d"}, {**record, "c": {"d": "p", "f": 1}}) == {
        "a": 1,
        "c.f": 1,
    }


def test_a_record_without_an_id_is_known_by_its_source_and_content() -> None:
    mapping = Mapping.of({"attributes": {"x": None}})
    first = mapping.row({"x": 1}, "file:/a")
    assert mapping.row({"x": 1}, "file:/a") == first
    assert mapping.row({"x": 2}, "file:/a").id != first.id
    assert mapping.row({"x": 1}, "file:/b").id != first.id
    assert mapping.row({"x": 1, "y": 1}, "file:/a").id != first.id


@pytest.mark.parametrize(
    ("as_", "value", "expected"),
    [
        ("string", 12, "12"),
        ("string", True, "true"),
        ("string", "", ""),
        ("string", 2.5, "2.5"),
        ("string", Decimal("1.50"), "1.50"),
        ("string", date(2026, 1, 2), "2026-01-02"),
        ("string", [1, None, "a"], ["1", "a"]),
        ("integer", "12", 12),
        ("integer", " -3 ", -3),
        ("integer", 3.0, 3),
        ("integer", "1e3", 1000),
        ("integer", "", None),
        ("integer", Decimal("9007199254740993"), 9007199254740993),
        ("number", "2", 2),
        ("number", "2.0", 2.0),
        ("number", ".5", 0.5),
        ("number", 1, 1),
        ("boolean", "Yes", True),
        ("boolean", "0", False),
        ("boolean", 1, True),
        ("boolean", "", None),
        ("time", "2026-11-15T11:00:00+01:00", {"time": "2026-11-15T10:00:00Z"}),
        ("time", DAY, {"time": "2026-11-15T10:00:00Z"}),
        ("term", " Green Tea ", "Green Tea"),
        ("class", ["a", ""], ["a"]),
        ("term", 20000002, "20000002"),
        ("class", {"class": "urn:x"}, {"class": "urn:x"}),
        ("individual", "   ", None),
        (None, "x", "x"),
        (None, [1, "a"], [1, "a"]),
        (None, b"\x00", {"bytes": "AA=="}),
        (None, Decimal("2"), 2),
        (None, {"float": "inf"}, {"float": "inf"}),
        (None, None, None),
    ],
)
def test_a_value_becomes_what_the_mapping_says_it_is(as_: str, value: Any, expected: Any) -> None:
    made = one(as_, value)
    assert made == expected
    assert type(made) is type(expected)


@pytest.mark.parametrize(
    ("as_", "value", "reason"),
    [
        ("integer", "2.5", "f: '2.5' is not an integer"),
        ("integer", "twelve", "f: 'twelve' is not a number"),
        ("integer", True, "f: True is not a number"),
        ("integer", "1_000", "not a number"),
        ("integer", "٣", "not a number"),
        ("integer", 2**63, "64 bits"),
        ("integer", "9" * 5000, "not a finite number"),
        ("number", "nan", "not a number"),
        ("number", float("nan"), "not a finite number"),
        ("number", "1e999", "not a finite number"),
        ("boolean", "perhaps", "f: 'perhaps' is neither true nor false"),
        ("time", "yesterday", "f: 'yesterday' is not a time"),
        ("time", "2026-11-15", "f: 2026-11-15 has no time zone; say which"),
        ("time", 12, "epoch_s"),
        ("term", {"a": 1, "b": 2}, "exactly one of"),
        ("string", {"a": 1}, "is not text"),
        (None, float("nan"), "NaN"),
        (None, {"a": 1}, "no kind of value 'a'"),
        (None, date(2026, 1, 1), "a date without a time zone"),
        (None, [[[]] * 3, {"a": 1}], "no kind of value"),
    ],
)
def test_a_value_that_is_something_else_is_refused_by_field(
    as_: str, value: Any, reason: str
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        one(as_, value)
    assert reason in str(caught.value)
    assert str(caught.value).startswith("f: ")


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        ({"format": "epoch_s"}, DAY.timestamp()),
        ({"format": "epoch_s"}, str(int(DAY.timestamp()))),
        ({"format": "epoch_ms"}, int(DAY.timestamp() * 1000)),
        ({"format": "rfc822"}, "Sun, 15 Nov 2026 10:00:00 GMT"),
        ({"format": "%Y%m%d %H", "zone": "UTC"}, "20261115 10"),
        ({"zone": "Europe/Berlin"}, "2026-11-15T11:00"),
        ({"zone": "Europe/Berlin"}, "2026-11-15T10:00Z"),
        ({"zone": "Etc/GMT+10"}, date(2026, 11, 15)),
        ({}, datetime(2026, 11, 15, 10, tzinfo=UTC)),
    ],
)
def test_times_are_written_in_many_ways(rule: dict[str, str], value: Any) -> None:
    mapping = Mapping.of({"time": {"field": "t", **rule}})
    assert mapping.row({"t": value}).time == DAY


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        ({"format": "epoch_s"}, 1e30),
        ({"format": "epoch_ms"}, "soon"),
        ({}, "9999-12-31T23:59:59-10:00"),
        ({"format": "%Y"}, "x"),
        ({}, [1]),
    ],
)
def test_times_that_are_none_are_refused(rule: dict[str, str], value: Any) -> None:
    mapping = Mapping.of({"time": {"field": "t", **rule}})
    with pytest.raises(InvalidInputError, match="t: "):
        mapping.row({"t": value})
    assert mapping.row({"t": None}).time is None
    assert mapping.row({"t": "  "}).time is None
    assert mapping.row({}).time is None


def test_a_way_into_lists_collects() -> None:
    record = {
        "a": [{"b": "x"}, {"c": 1}, {"b": None}, 5, {"b": ["y"]}],
        "p.q": "dotted",
        "p": {"q": 0},
    }
    mapping = {"attributes": {"all": "a.b", "dotted": "p.q"}}
    assert attributes(mapping, record) == {"all": ["x", ["y"]], "dotted": "dotted"}
    assert attributes({"attributes": {"z": "a.b.c.d"}}, {"a": {"b": 3}}) == {}


def test_a_missing_column_is_drift_and_a_missing_field_is_not() -> None:
    mapping = {"id": "no", "attributes": {"genre": None, "note": {"required": False}}}
    assert attributes(mapping, {"no": "1"}) == {}
    with pytest.raises(InvalidInputError, match=r"no column 'genre'; did you mean 'genres'\?"):
        attributes(mapping, {"no": "1", "genres": "x"}, columnar=True)
    assert attributes(mapping, {"no": "1", "genre": None}, columnar=True) == {}
    with pytest.raises(InvalidInputError, match="no column 'no'"):
        attributes(mapping, {"number": "1", "genre": "x"}, columnar=True)


def test_what_is_required_must_be_there() -> None:
    mapping = {"attributes": {"x": {"required": True}}}
    assert attributes(mapping, {"x": 0}) == {"x": 0}
    for record in ({}, {"x": None}):
        with pytest.raises(InvalidInputError, match="x: the mapping requires it"):
            attributes(mapping, record)
    assert attributes({"attributes": {"x": {"required": True, "default": 1}}}, {}) == {"x": 1}


def test_an_id_must_be_there_and_be_text() -> None:
    mapping = Mapping.of({"id": "no"})
    for value in (None, "", "  ", {"a": 1}, [1]):
        with pytest.raises(InvalidInputError, match="no: "):
            mapping.row({"no": value})
    with pytest.raises(InvalidInputError, match="the id is missing"):
        mapping.row({})
    assert mapping.row({"no": 12}).id == "12"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"atributes": {}}, "m: atributes: unknown key; did you mean 'attributes'?"),
        ([], "m: expected id, publisher, time, attributes, csv, not []"),
        ({"id": 5}, "m: id: expected a text, not 5; put it in quotes"),
        ({"id": False}, "put it in quotes"),
        (
            {"attributes": ["a"]},
            "m: attributes: expected attributes, each with its field, not ['a']",
        ),
        (
            {"attributes": {"x": {"splt": ";"}}},
            "m: attributes.x.splt: unknown key; did you mean 'split'?",
        ),
        (
            {"attributes": {"x": {"as": "integr"}}},
            "m: attributes.x.as: 'integr' is unknown; did you mean 'integer'?",
        ),
        ({"attributes": {"x": {"split": ""}}}, "m: attributes.x.split: expected a text"),
        (
            {"attributes": {"x": {"default": "x", "as": "integer"}}},
            "m: attributes.x.default: x: 'x' is not a number",
        ),
        (
            {"attributes": {"x": {"required": "yes"}}},
            "m: attributes.x.required: expected true or false",
        ),
        ({"attributes": {"x": {"zone": "UTC"}}}, "`format` and `zone` go with `as: time`"),
        ({"attributes": {"": "x"}}, "m: attributes.: as a name, expected a text"),
        (
            {"attributes": {3: "x"}},
            "m: attributes.3: as a name, expected a text, not 3; put it in quotes",
        ),
        ({"attributes": {"x" * 2000: "x"}}, "longer than 1024 characters"),
        ({"publisher": {}}, "m: publisher: say a `field`"),
        ({"publisher": {"const": "x"}}, "did you mean 'constant'?"),
        ({"time": {"zone": "UTC"}}, "m: time.field: is missing; expected a text"),
        (
            {"time": {"field": "t", "zone": "Mars/Phobos"}},
            "m: time.zone: no time zone is called 'Mars/Phobos'",
        ),
        ({"time": {"field": "t", "zone": "../etc/passwd"}}, "m: time.zone: no time zone"),
        ({"time": {"field": "t", "zone": 5}}, "m: time.zone: expected a text, not 5"),
        (
            {"time": {"field": "t", "format": "epoch"}},
            "m: time.format: 'epoch' is unknown; did you mean 'epoch_s' or 'epoch_ms'?",
        ),
        ({"csv": {"delimiter": "||"}}, "m: csv.delimiter: expected one character"),
        ({"csv": {"quote": "\n"}}, "m: csv.quote: expected one character"),
        ({"csv": {"delimiter": '"'}}, "different characters"),
        ({"csv": {"comment": ""}}, "m: csv.comment: expected a text"),
        ({"csv": {"encoding": "utf-99"}}, "m: csv.encoding: no encoding is called 'utf-99'"),
        ({"csv": {"encoding": "hex"}}, "m: csv.encoding: no encoding"),
        ({"csv": {"columns": ["a", "a"]}}, "m: csv.columns: a name occurs twice"),
        ({"csv": {"columns": []}}, "m: csv.columns: expected a list of names"),
        ({"csv": 5}, "m: csv: expected delimiter"),
    ],
)
def test_a_wrong_mapping_is_refused_by_key(data: Any, message: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        Mapping.of(data, "m")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"id: [", "not YAML"),
        (b"id: a\nid: b", "m.yaml:2: the key 'id' occurs twice"),
        (b"attributes:\n  x: a\n  x: b\n", "m.yaml:3: the key 'x' occurs twice"),
        (b"\xff\xfe\xff", "not UTF-8"),
        (b"!!python/object/apply:os.system ['true']", "not YAML"),
        (b"[" * 5000, "m.yaml:1: nested deeper than 64 levels"),
    ],
)
def test_a_file_that_is_no_mapping_is_refused_by_name(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "m.yaml"
    path.write_bytes(content)
    with pytest.raises(InvalidInputError) as caught:
        Mapping.load(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_missing_mapping_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidInputError, match=r"none\.yaml: cannot read the mapping: No such file"
    ):
        Mapping.load(tmp_path / "none.yaml")


def test_an_empty_file_is_the_empty_mapping(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text("# nothing\n")
    assert Mapping.load(path) == Mapping()


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
json_values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
rules = st.fixed_dictionaries(
    {},
    optional={
        "as": st.sampled_from(
            ["string", "integer", "number", "boolean", "time", "term", "class", "individual"]
        ),
        "split": st.sampled_from([";", ",", "x"]),
        "required": st.booleans(),
    },
)


@given(
    record=st.dictionaries(st.sampled_from("abc"), json_values), rule=rules, columnar=st.booleans()
)
def test_whatever_comes_in_a_notification_comes_out_or_a_reason(
    record: dict[str, Any], rule: dict[str, Any], columnar: bool
) -> None:
    for mapping in ({}, {"attributes": {"x": {"field": "a", **rule}}}, {"id": "a", "time": "b"}):
        try:
            row = Mapping.of(mapping).row(record, columnar=columnar)
        except InvalidInputError as error:
            assert str(error)
        else:
            notification_from_json({"attributes": json.loads(row.attributes)})
            assert row.id
