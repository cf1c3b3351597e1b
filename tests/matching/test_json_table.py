"""Attributes as JSON texts match as the notifications they stand for."""

from __future__ import annotations

import json
from random import Random

import pyarrow as pa
import pytest
from tests.matching.worlds import ATTRIBUTES, VALUES_MAX, world_of

from kbn.errors import InvalidInputError
from kbn.filters import Notification
from kbn.filters.json_form import value_to_json
from kbn.matching import Matcher, json_table
from kbn.matching.columns import AttributeColumn
from kbn.matching.json_table import table_from_json


@pytest.mark.parametrize("number", range(20))
def test_json_texts_match_as_their_notifications(number: int, seed: int) -> None:
    random = Random(seed + number)
    world = world_of(random.randrange(1000))
    matcher = Matcher(world.ontology)
    for key in range(60):
        matcher.add(world.random_filter(random), key)
    given = [world.random_notification(random) for _ in range(30)]
    texts = pa.array([json.dumps(n.to_json()["attributes"]) for n in given])
    found = matcher.match_batch(table_from_json(texts, ATTRIBUTES)).to_pylist()
    assert {(row["notification"], row["key"]) for row in found} == {
        (row, key) for row, n in enumerate(given) for key in matcher.match(n)
    }


@pytest.mark.parametrize("number", range(20))
def test_every_value_comes_back(number: int, seed: int) -> None:
    """Columns of one kind and of several: what is in the table is what was in the texts."""
    random = Random(seed + number)
    world = world_of(random.randrange(1000))
    name = random.choice(ATTRIBUTES)
    values = [random.choice(world.values[name][:VALUES_MAX]) for _ in range(random.randrange(1, 6))]
    texts = pa.array([json.dumps({name: value_to_json(v), "other": 1}) for v in values])
    table = table_from_json(texts, [name])
    column = AttributeColumn(table.field(name), table[name])
    back = [Notification({"x": column.value(row)}) for row in range(len(values))]
    assert back == [Notification({"x": value}) for value in values]


@pytest.mark.parametrize("number", range(12))
def test_the_quick_way_reads_what_the_plain_way_reads(
    number: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batch after batch, of one theme and then another, so that what was seen fits or does not."""
    random = Random(seed + number)
    world = world_of(random.randrange(1000))
    pool = {name: random.sample(world.values[name], 3) for name in ATTRIBUTES}
    for batch in range(8):
        if batch % 3 == 2:
            pool[random.choice(ATTRIBUTES)] = random.sample(world.values[random.choice("nscim")], 2)
        rows = [
            {
                name: value_to_json(random.choice(pool[name]))
                for name in ATTRIBUTES
                if random.random() < 0.8
            }
            for _ in range(70)
        ]
        texts = pa.array([json.dumps(row) for row in rows])
        quick = table_from_json(texts, ATTRIBUTES)
        monkeypatch.setattr(json_table, "_WORTH_IT", 10**9)
        plain = table_from_json(texts, ATTRIBUTES)
        monkeypatch.setattr(json_table, "_WORTH_IT", 64)
        assert values_of(quick) == values_of(plain)


def values_of(table: pa.Table) -> dict[str, list[object]]:
    columns = {
        name: AttributeColumn(table.field(name), table[name]) for name in table.column_names if name
    }
    return {name: [c.value(row) for row in range(table.num_rows)] for name, c in columns.items()}


@pytest.mark.parametrize(
    "odd",
    [
        '{"a": 9007199254740993}',
        '{"a": 1e400}',
        '{"a": "text"}',
        '{"a": {"class": "urn:x"}}',
        '{"b": [1, "x"]}',
        '{"b": [{"class": "urn:x"}, {"individual": "urn:y"}]}',
        '{"b": [{"class": null}]}',
        '{"c": 1}',
        '{"a": 1.5} {"a": 2.5}',
        ' {"a":\n1.5 }',
        "[1]",
        "",
    ],
)
def test_one_odd_row_among_many_is_read_as_it_is(odd: str) -> None:
    """The quick way was told other types: it must not bend, drop or shift what does not fit."""
    usual = ['{"a": 1.5, "b": [{"class": "urn:x"}], "z": 3}', '{"a": 2.5}'] * 50
    names = ["a", "b", "c"]
    table_from_json(pa.array(usual), names)
    rows = [*usual, odd, *usual]
    quick = _outcome(pa.array(rows), names)
    json_table._seen.clear()
    assert quick == _outcome(pa.array(rows), names)


def _outcome(texts: pa.Array, names: list[str]) -> object:
    try:
        return values_of(table_from_json(texts, names))
    except InvalidInputError as error:
        return str(error)


def test_only_what_is_wanted_becomes_a_column_and_null_is_absent() -> None:
    texts = pa.array(['{"a": 1, "b": [], "c": null}', '{"a": null, "d": {"x": 1}}', "{}"])
    table = table_from_json(texts, ["a", "c", "e"])
    assert table.to_pydict() == {"a": [1, None, None]}
    assert table_from_json(texts, []).num_rows == 3


@pytest.mark.parametrize(
    ("text", "reason"),
    [("{", "not attributes in JSON"), ("[1]", "not attributes in JSON"), (None, "no attributes")],
)
def test_what_is_no_json_object_is_refused_with_its_row(text: str | None, reason: str) -> None:
    with pytest.raises(InvalidInputError, match=f"row 1: .*{reason}"):
        table_from_json(pa.array(["{}", text]), ["a"])
