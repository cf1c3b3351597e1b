"""JSON texts to outcomes: every record in exactly one half, and each as the JSON form says."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbn.errors import InvalidInputError
from kbn.filters import Bag, Notification
from kbn.filters.cloudevents import from_cloudevent, to_cloudevent
from kbn.filters.json_form import notification_from_json, notification_to_json
from kbn.ontology import Class, Individual
from kbn.spark.io import json_texts
from kbn.spark.io.json_texts import JsonReader
from kbn.spark.io.mapping import Mapping
from kbn.spark.io.outcomes import INGESTED_ARROW, Outcome, Refused, Row, batches
from kbn.spark.io.records import json_content

S = "file:/in.json"
EVENTS = JsonReader(cloudevents=True)


def read(*lines: bytes, reader: JsonReader | None = None) -> list[Outcome]:
    """The outcomes of a file of these lines."""
    return list((reader or JsonReader()).file(enumerate(lines, start=1), S))


def rows(outcomes: Iterable[Outcome]) -> list[Row]:
    return [one for one in outcomes if isinstance(one, Row)]


def refused(outcomes: Iterable[Outcome]) -> list[Refused]:
    return [one for one in outcomes if isinstance(one, Refused)]


# Agreement with the JSON form.

names = st.text(min_size=1, max_size=6)
iris = st.sampled_from(["urn:x#Tea", "http://e/é", "urn:y"])
times = st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))
plain = (
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.binary(max_size=4)
    | times
    | iris.map(Class)
    | iris.map(Individual)
)
values = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=3).map(lambda items: Bag(*items)), max_leaves=6
)
notifications = st.builds(
    lambda attributes, id_, publisher, time: Notification(
        attributes, id=id_, publisher=publisher, time=time
    ),
    st.dictionaries(names, values, max_size=4),
    names,
    st.none() | names,
    st.none() | times,
)


@given(notifications, st.booleans())
def test_kbns_own_form_is_read_as_the_form_says(made: Notification, compact: bool) -> None:
    separators = (",", ":") if compact else (" , ", " : ")
    (row,) = read(json.dumps(notification_to_json(made), separators=separators).encode())
    assert isinstance(row, Row)
    attributes = notification_from_json({"attributes": json.loads(row.attributes)}).attributes
    assert made == Notification(attributes, id=row.id, publisher=row.publisher, time=row.time)


@given(notifications)
def test_cloudevents_are_read_as_the_events_they_are(made: Notification) -> None:
    try:
        event = to_cloudevent(made, source="/here")
    except InvalidInputError:
        return
    (row,) = read(json.dumps(event).encode(), reader=EVENTS)
    expected = from_cloudevent(event)
    assert isinstance(row, Row)
    assert (row.id, row.publisher, row.time) == (expected.id, expected.publisher, expected.time)
    found = notification_from_json({"attributes": json.loads(row.attributes)})
    assert found.attributes == expected.attributes


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "class", "time", "id"]), inner, max_size=3)
    ),
    max_leaves=10,
)
junk = st.binary(min_size=1, max_size=12).filter(lambda text: b"[" not in text and text.strip())


@given(st.lists(json_values | junk, max_size=6), st.booleans())
def test_every_line_has_its_outcome_and_never_an_error(given: list[Any], events: bool) -> None:
    lines = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in given]
    outcomes = list(JsonReader(events).lines(enumerate(lines, start=1), S))
    expected = [
        len(one) if isinstance(one, list) and is_strict(line) else 1
        for one, line in zip(given, lines, strict=True)
    ]
    assert len(outcomes) == sum(expected)
    for row in rows(outcomes):
        notification_from_json({"attributes": json.loads(row.attributes)})
    assert all(one.reason and one.record for one in refused(outcomes))
    assert sum(batch.num_rows for batch in batches(outcomes)) == len(outcomes)


def is_strict(line: bytes) -> bool:
    """Whether the text is JSON without NaN and Infinity."""

    def refuse(name: str) -> None:
        raise ValueError(name)

    try:
        json.loads(line, parse_constant=refuse)
    except ValueError:
        return False
    return True


# Names that stand twice.


class Pairs(list[tuple[str, Any]]):
    """An object whose names may stand twice."""


def written(data: Any, colon: str, escape: bool) -> str:
    if isinstance(data, Pairs):
        inside = (f"{written(k, colon, escape)}{colon}{written(v, colon, escape)}" for k, v in data)
        return "{" + ",".join(inside) + "}"
    if isinstance(data, list):
        return "[" + ",".join(written(item, colon, escape) for item in data) + "]"
    text = json.dumps(data)
    return text.replace(":", "\\u003A") if escape else text


def has_twice(data: Any) -> bool:
    if isinstance(data, Pairs):
        keys = [key for key, _ in data]
        return len(set(keys)) < len(keys) or any(has_twice(item) for _, item in data)
    return isinstance(data, list) and any(map(has_twice, data))


pairs = st.recursive(
    st.sampled_from([1, "x", ":", "a:b:c", '":', "\\", "\\u003a", None]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(st.tuples(st.sampled_from(["a", "b", "a:b", "é"]), inner), max_size=3).map(Pairs)
    ),
    max_leaves=8,
)


@given(pairs, st.sampled_from([":", " : ", ": "]), st.booleans())
def test_a_name_that_stands_twice_is_always_seen(data: Any, colon: str, escape: bool) -> None:
    text = written(data, colon, escape)
    if has_twice(data):
        with pytest.raises(InvalidInputError, match="twice"):
            json_content(text.encode())
    else:
        content, _ = json_content(text.encode())
        assert content == json.loads(text)


# Bad records.


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "not JSON: Input data was truncated"),
        (b'{"a":1}}', "not JSON: trailing characters"),
        (b'{"a":NaN}', "not JSON"),
        (b'{"a":1e999}', "not a value: Number out of range"),
        (b'{"a":"\xff"}', "not UTF-8 text"),
        (b'{"a":"\xed\xa0\x80"}', "not UTF-8 text"),
        (b'{"a":"\\ud800x"}', "not JSON"),
        (b'{"a":1,"a":2}', "an object has the name 'a' twice"),
        (b'{"a":{"time":"x","time":"y"}}', "an object has the name 'time' twice"),
        (b"5", "a notification is an object, not int 5"),
        (b'"text"', "a notification is an object, not a string"),
        (b"null", "a notification is an object, not null"),
        (b'{"":1}', "an attribute has a name of 1 to 1024 characters"),
        (b'{"%s":1}' % (b"n" * 1025), "an attribute has a name of 1 to 1024 characters"),
        (b'{"a":9223372036854775808}', "a: 9223372036854775808 does not fit in 64 bits"),
        (b'{"a":%s}' % (b"9" * 5000), "not a value: Integer value out of range"),
        (b'{"a":{"b":1}}', "a: there is no kind of value 'b'"),
        (b'{"a":{"class":""}}', "a: .class: a term's IRI is empty"),
        (b'{"a":{"time":"2026-01-01"}}', "a: .time: 2026-01-01T00:00:00 has no time zone"),
        (b'{"a":%s1%s}' % (b"[" * 17, b"]" * 17), "a: the JSON is nested too deep"),
        (b'{"a":' + b"[" * 100_000, "the JSON is nested too deep"),
        (b'{"a":' + b'{"b":' * 900 + b"1" + b"}" * 901, "a: there is no kind of value 'b'"),
        (b'{"id":7,"attributes":{}}', "id: expected a string that is not empty, not int 7"),
        (b'{"id":"","attributes":{}}', "id: expected a string that is not empty, not an empty"),
        (b'{"publisher":{},"attributes":{}}', "publisher: expected a string that is not empty"),
        (b'{"time":"now","attributes":{}}', "time: not a time"),
        (b'{"time":5,"attributes":{}}', "time: a time is a string, not int 5"),
        (b'{"time":"2026-01-01T00:00:00","attributes":{}}', "time: 2026-01-01T00:00:00 has no"),
    ],
)
def test_a_bad_record_is_refused_with_its_place_and_its_text(line: bytes, reason: str) -> None:
    good = b'{"id":"g","attributes":{}}'
    outcomes = read(good, line, good)
    assert len(rows(outcomes)) == 2
    (bad,) = refused(outcomes)
    assert (bad.source, bad.position) == (S, 2)
    assert bad.record == line.decode("utf-8", "backslashreplace")
    assert reason in bad.reason


def test_too_many_attributes_and_too_large_bags_are_refused() -> None:
    wide = {f"a{n}": n for n in range(4097)}
    outcomes = read(json.dumps(wide).encode(), json.dumps({"a": [0] * 100_001}).encode())
    reasons = [one.reason for one in refused(outcomes)]
    assert "4097 attributes; the limit is 4096" in reasons[0]
    assert "100001 elements; the limit is 100000" in reasons[1]


def test_a_record_over_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_texts, "RECORD_BYTES_MAX", 10)
    (bad,) = read(b'{"a":"0123456789"}')
    assert isinstance(bad, Refused)
    assert bad.reason == "a record of 18 bytes; the limit is 10"


def test_nulls_are_absent_attributes_also_in_bags() -> None:
    (row,) = read(b'{"a":null,"b":[null,1,[null]],"c":0}')
    assert isinstance(row, Row)
    assert json.loads(row.attributes) == {"b": [1, []], "c": 0}


def test_a_record_without_an_id_gets_one_that_stays() -> None:
    (first,) = rows(read(b'{"a":1}'))
    assert rows(read(b' {"a" : 1}\r'))[0].id == first.id
    assert rows(read(b'{"a":2}'))[0].id != first.id
    assert rows(read(b'{"attributes":{"a":1}}'))[0].id != first.id
    assert len(first.id) == 32


# Shapes of files.


def test_blank_lines_and_a_byte_order_mark_are_no_records() -> None:
    outcomes = read(b"\xef\xbb\xbf", b"", b"  \r", b'{"a":1}\r', b"", b"x")
    assert len(rows(outcomes)) == 1
    assert [one.position for one in refused(outcomes)] == [6]
    assert len(rows(read(b'\xef\xbb\xbf{"a":1}'))) == 1


def test_a_file_without_lines_has_no_records() -> None:
    assert read() == []
    assert read(b"", b" ") == []


@pytest.mark.parametrize(
    "lines",
    [
        [b'[{"a":1},{"a":{"x":1}},{"a":3}]'],
        [b"", b"[", b'  {"a":1},', b'  {"a":{"x":1}},', b'  {"a":3}', b"]", b""],
        [b'[{"a":', b"1},", b'{"a":{"x":1}},{"a":3}]'],
    ],
)
def test_an_array_is_as_many_records_as_it_has_elements(lines: list[bytes]) -> None:
    outcomes = read(*lines)
    assert [json.loads(row.attributes) for row in rows(outcomes)] == [{"a": 1}, {"a": 3}]
    (bad,) = refused(outcomes)
    assert bad.record == '{"a":{"x":1}}'
    assert bad.reason.startswith("item 2: a: ")


def test_one_object_may_be_written_over_many_lines() -> None:
    text = json.dumps({"id": "7", "attributes": {"a": {"class": "urn:x"}, "b": [1, 2]}}, indent=2)
    (row,) = read(*text.encode().split(b"\n"))
    assert isinstance(row, Row)
    assert row.id == "7"


def test_a_broken_first_line_does_not_take_the_others_with_it() -> None:
    lines = [b'{"a":', b'{"a":1}', b"nonsense", b'{"a":2}']
    outcomes = read(*lines)
    assert [json.loads(row.attributes) for row in rows(outcomes)] == [{"a": 1}, {"a": 2}]
    assert [(one.position, one.record) for one in refused(outcomes)] == [
        (1, '{"a":'),
        (3, "nonsense"),
    ]


def test_an_array_that_breaks_off_is_refused_line_by_line() -> None:
    lines = [b"[", b'{"a":1},', b'{"a":2}']
    outcomes = read(*lines)
    assert len(outcomes) == 3
    assert [one.position for one in refused(outcomes)] == [1, 2]


# Mappings and CloudEvents.


def test_plain_objects_go_through_a_mapping() -> None:
    mapping = Mapping.of({"id": "no", "attributes": {"day": None, "tags": {"split": ";"}}})
    reader = JsonReader(mapping=mapping)
    lines = iter(enumerate([b'{"no":1,"tags":"a;b"}', b'{"tags":"a"}', b"[3]"], start=1))
    outcomes = list(reader.file(lines, "file:/in/day=2026-11-15/x.json"))
    (row,) = rows(outcomes)
    assert (row.id, json.loads(row.attributes)) == ("1", {"day": "2026-11-15", "tags": ["a", "b"]})
    assert [one.reason for one in refused(outcomes)] == [
        "no: the id is missing",
        "item 1: a record is an object of fields, not a single value",
    ]


EVENT = {"specversion": "1.0", "id": "7", "source": "/shop", "type": "sold"}


def test_cloudevents_with_a_mapping_are_seen_as_their_data_and_their_context() -> None:
    event = {**EVENT, "time": "2026-11-15T10:00:00Z", "data": {"tags": "a;b", "n": "3"}}
    rules = {"tags": {"split": ";"}, "n": {"as": "integer"}, "kind": "ce.type"}
    reader = JsonReader(True, Mapping.of({"attributes": rules}))
    (row,) = read(json.dumps(event).encode(), reader=reader)
    assert isinstance(row, Row)
    assert row[:3] == ("7", "/shop", datetime(2026, 11, 15, 10, tzinfo=UTC))
    assert json.loads(row.attributes) == {"tags": ["a", "b"], "n": 3, "kind": "sold"}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"specversion": "0.3"}, "$.specversion: expected '1.0'"),
        ({"id": None}, "$.id: a CloudEvent needs a non-empty string here"),
        ({"source": 5}, "$.source: a CloudEvent needs"),
        ({"time": "soon", "data": {}}, "time: not a time"),
        ({"time": "soon"}, "$.time: not a time"),
        ({"data": {"a": {"b": 1}}}, "a: there is no kind of value 'b'"),
        ({"data": {}, "data_base64": "AA=="}, "an event has data or data_base64, not both"),
        ({"Big": 1, "data": {}}, "$.Big: context attributes have lower-case names"),
    ],
)
def test_an_event_that_is_none_is_refused(change: dict[str, Any], reason: str) -> None:
    (bad,) = read(json.dumps({**EVENT, **change}).encode(), reader=EVENTS)
    assert isinstance(bad, Refused)
    assert reason in bad.reason


def test_an_events_data_may_hold_nulls_and_be_no_object() -> None:
    lines = [{**EVENT, "data": {"a": None, "b": 1}}, {**EVENT, "data": 5}, EVENT]
    outcomes = read(*(json.dumps(line).encode() for line in lines), reader=EVENTS)
    assert [json.loads(row.attributes) for row in rows(outcomes)] == [
        {"b": 1, "ce.type": "sold"},
        {"data": 5, "ce.type": "sold"},
        {"ce.type": "sold"},
    ]


# Arrow.


def test_outcomes_become_batches_of_bounded_size() -> None:
    row = Row("i", None, datetime(2026, 1, 1, tzinfo=UTC), "{}")
    bad = Refused(S, 3, "x", "because")
    made = list(batches([row, bad] * 10_000))
    assert [batch.num_rows for batch in made] == [8192, 8192, 3616]
    assert all(batch.schema == INGESTED_ARROW for batch in made)
    for batch in made:
        ids, reasons = batch.column("id"), batch.column("reason")
        assert ids.is_null().to_pylist() == reasons.is_valid().to_pylist()
    huge = Refused(S, 1, "x" * 20_000_000, "because")
    assert [batch.num_rows for batch in batches([huge] * 3)] == [2, 1]
