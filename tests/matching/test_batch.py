"""Arrow tables in: every column type that holds values, and clear errors for those that do not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.matching import worlds
from tests.matching.agreement import assert_batch_agrees, keys_of
from tests.matching.worlds import World, load

from kbn.errors import InvalidInputError
from kbn.filters import Bag, Constraint, Filter, Notification, Subscription
from kbn.matching import Matcher, notification_table
from kbn.matching.batch import CHUNK, count_batch
from kbn.matching.matcher import subscriptions_of
from kbn.ontology import Class, Individual, Property, Term

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def asking(**constraints: tuple[str, tuple[str, Any]]) -> Matcher:
    """A matcher with one subscription per key: asking(cheap=("price", ("<", 3)))."""
    matcher = Matcher()
    for key, (attribute, (operator, operand)) in constraints.items():
        matcher.add(Filter([Constraint(attribute, operator, operand)]), key)
    return matcher


def found(matcher: Matcher, table: pa.Table) -> dict[int, set[Any]]:
    """Row to keys, checked against the grouped answer."""
    expanded = keys_of(matcher.match_batch(table))
    grouped = matcher.match_batch(table, expand=False).to_pydict()
    by_group: dict[int, set[Any]] = {}
    for row, group in zip(grouped["notification"], grouped["group"], strict=True):
        keys = set(matcher.keys_of_groups([group]))
        by_group.setdefault(row, set()).update(keys)
    assert by_group == expanded
    return expanded


def numbers() -> Matcher:
    return asking(
        low=("x", ("<", 3)),
        three=("x", ("=", 3)),
        other=("x", ("!=", 3)),
        any=("x", ("any", None)),
        high=("x", (">=", 100)),
    )


def expected_numbers(values: list[Any]) -> dict[int, set[Any]]:
    matcher = numbers()
    rows = {
        row: set(matcher.match({"x": value}))
        for row, value in enumerate(values)
        if value is not None
    }
    return {row: keys for row, keys in rows.items() if keys}


NUMBER_TYPES = [
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.uint8(),
    pa.uint16(),
    pa.uint32(),
    pa.uint64(),
    pa.float16(),
    pa.float32(),
    pa.float64(),
]


@pytest.mark.parametrize("type_", NUMBER_TYPES, ids=str)
@pytest.mark.parametrize("encoded", [False, True], ids=["plain", "dictionary"])
def test_numbers_of_every_width(type_: pa.DataType, encoded: bool) -> None:
    values = [0, 3, None, 7, 100, 3, None, 2]
    given: Any = [None if v is None else np.float16(v) for v in values]
    array = pa.array(given if type_ == pa.float16() else values, type_)
    if encoded:
        if type_ == pa.float16():
            pytest.skip("Arrow does not encode half floats")
        array = array.dictionary_encode()
    assert found(numbers(), pa.table({"x": array})) == expected_numbers(values)


def test_large_integers_are_compared_exactly_in_a_column() -> None:
    values = [2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1, 2**63 - 2, -(2**63), -(2**53) - 1, None]
    matcher = Matcher()
    for number, bound in enumerate(v for v in values if v is not None):
        for operator in ("<", "<=", ">", ">=", "="):
            matcher.add(Filter([Constraint("x", operator, bound)]), f"{operator}{number}")
    expected = {
        row: set(matcher.match({"x": value}))
        for row, value in enumerate(values)
        if value is not None
    }
    for type_ in (pa.int64(), pa.float64()):
        exact = values if type_ == pa.int64() else [2.0**53, 2.0**53 + 2, None]
        if type_ == pa.float64():
            expected = {row: set(matcher.match({"x": v})) for row, v in enumerate(exact) if v}
        assert found(matcher, pa.table({"x": pa.array(exact, type_)})) == expected


def test_unsigned_numbers_past_64_bits_signed_are_no_values() -> None:
    table = pa.table({"x": pa.array([1, 2**64 - 1], pa.uint64())})
    with pytest.raises(InvalidInputError, match="x"):
        numbers().match_batch(table)


def test_nan_is_no_value() -> None:
    for type_ in (pa.float32(), pa.float64()):
        table = pa.table({"x": pa.array([1.0, float("nan")], type_)})
        with pytest.raises(InvalidInputError, match="x"):
            numbers().match_batch(table)


def test_infinite_numbers_are_values() -> None:
    values = [float("inf"), -float("inf"), -0.0]
    table = pa.table({"x": pa.array(values)})
    assert found(numbers(), table) == expected_numbers(values)


def test_booleans_are_no_numbers() -> None:
    matcher = asking(
        true=("x", ("=", True)), one=("x", ("=", 1)), other=("x", ("!=", True)), low=("x", ("<", 3))
    )
    table = pa.table({"x": [True, False, None]})
    assert found(matcher, table) == {0: {"true"}, 1: {"other"}}


def strings() -> Matcher:
    return asking(
        tea=("x", ("=", "tea")),
        te=("x", (">*", "te")),
        not_te=("x", ("!>*", "te")),
        after=("x", (">", "tea")),
        everything=("x", ("*", "")),
    )


STRING_TYPES = [
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.dictionary(pa.int8(), pa.string()),
    pa.dictionary(pa.uint16(), pa.large_string()),
]


@pytest.mark.parametrize("type_", STRING_TYPES, ids=str)
def test_strings_of_every_layout(type_: pa.DataType) -> None:
    values = ["tea", "teapot", "", None, "zoo", "tea"]
    if pa.types.is_dictionary(type_):
        array = pa.array(values, type_.value_type).dictionary_encode().cast(type_)
    else:
        array = pa.array(values, type_)
    matcher = strings()
    expected = {
        row: set(matcher.match({"x": value}))
        for row, value in enumerate(values)
        if value is not None
    }
    assert found(matcher, pa.table({"x": array})) == expected


@pytest.mark.parametrize("type_", [pa.binary(), pa.large_binary(), pa.binary(2)], ids=str)
def test_binary_columns_hold_bytes(type_: pa.DataType) -> None:
    matcher = asking(ab=("x", ("=", b"ab")), other=("x", ("!=", b"ab")), text=("x", ("=", "ab")))
    table = pa.table({"x": pa.array([b"ab", b"cd", None], type_)})
    assert found(matcher, table) == {0: {"ab"}, 1: {"other"}}


def times() -> Matcher:
    return asking(
        noon=("x", ("=", NOON)),
        before=("x", ("<", NOON)),
        after=("x", (">", NOON)),
        other=("x", ("!=", NOON)),
        number=("x", ("<", 10**18)),
    )


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", ["UTC", "+05:30", "America/New_York", None])
@pytest.mark.parametrize("encoded", [False, True], ids=["plain", "dictionary"])
def test_timestamps_of_every_unit_and_zone(unit: str, zone: str | None, encoded: bool) -> None:
    """Without a zone they are UTC."""
    values = [NOON, NOON - timedelta(seconds=1), None, NOON + timedelta(days=400)]
    plain = [None if v is None else v.replace(tzinfo=None) for v in values]
    array = pa.array(plain, pa.timestamp(unit))
    if zone is not None:
        array = pa.array(values, pa.timestamp(unit, zone))
    if encoded:
        array = array.dictionary_encode()
    assert found(times(), pa.table({"x": array})) == {
        0: {"noon"},
        1: {"before", "other"},
        3: {"after", "other"},
    }


def test_nanoseconds_are_cut_to_microseconds_alike_by_ranges_and_equality() -> None:
    """Python's times have no nanoseconds; whatever is made of them must be made of them once."""
    array = pa.array([int(NOON.timestamp()) * 10**9 + 999], pa.int64()).cast(
        pa.timestamp("ns", "UTC")
    )
    matcher = asking(noon=("x", ("=", NOON)), not_after=("x", ("<=", NOON)))
    assert found(matcher, pa.table({"x": array})) == {0: {"noon", "not_after"}}


def test_early_and_late_times_keep_their_microseconds() -> None:
    edges = [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)]
    matcher = asking(
        first=("x", ("<=", edges[0])), last=("x", (">=", edges[1])), before=("x", ("<", edges[1]))
    )
    table = pa.table({"x": pa.array(edges, pa.timestamp("us", "UTC"))})
    assert found(matcher, table) == {0: {"first", "before"}, 1: {"last"}}


# Bags.


def bags() -> Matcher:
    return asking(
        has_one=("x", ("#>", Bag(1))),
        has_both=("x", ("#>", Bag(1, 2))),
        twice=("x", ("#>", Bag(1, 1))),
        below=("x", ("#</<", Bag(3, 3))),
        exactly=("x", ("#=", Bag(1, 2))),
        bag=("x", ("#>", Bag())),
        some=("x", ("#>/>", Bag(5))),
        any=("x", ("any", None)),
        number=("x", ("<", 9)),
    )


ONLY_ELEMENTS = ("has_one", "has_both", "bag", "some", "any", "number")
ROWS: list[list[int | None] | None] = [[1, 2], [], None, [1, 1], [6], None, [2, 1, 9], [1]]
LIST_TYPES = [
    pa.list_(pa.int64()),
    pa.large_list(pa.int64()),
    pa.list_(pa.int8()),
    pa.large_list(pa.float32()),
    pa.list_(pa.dictionary(pa.int32(), pa.int64())),
]


def expected_bags(matcher: Matcher, rows: list[Any]) -> dict[int, set[Any]]:
    answers = {
        row: set(matcher.match({"x": Bag(*(one for one in value if one is not None))}))
        for row, value in enumerate(rows)
        if value is not None
    }
    return {row: keys for row, keys in answers.items() if keys}


def only_elements() -> Matcher:
    matcher = bags()
    keys = subscriptions_of(matcher).subscribers.numbers()
    for key in [key for key in keys if key not in ONLY_ELEMENTS]:
        matcher.remove(key)
    fresh = Matcher()
    for key in ONLY_ELEMENTS:
        fresh.add(matcher.subscription(key), key)
    return fresh


@pytest.mark.parametrize("type_", LIST_TYPES, ids=str)
@pytest.mark.parametrize("make", [bags, only_elements])
def test_lists_are_bags_and_null_lists_are_absent(type_: pa.DataType, make: Any) -> None:
    matcher = make()
    value_type = type_.value_type
    if pa.types.is_dictionary(value_type):
        flat = pa.array([1, 2, 1, 1, 6, 2, 1, 9, 1]).dictionary_encode()
        offsets = pa.array([0, 2, None, 2, 4, None, 5, 8, 9], pa.int32())
        array = pa.ListArray.from_arrays(offsets, flat)
        rows = array.to_pylist()
    else:
        rows = ROWS
        array = pa.array(rows, type_)
    assert found(matcher, pa.table({"x": array})) == expected_bags(matcher, rows)


@pytest.mark.parametrize("make", [bags, only_elements])
def test_a_null_row_over_values_is_still_absent(make: Any) -> None:
    matcher = make()
    values = pa.array([1, 2, 1, 1, 6])
    array = pa.ListArray.from_arrays(
        pa.array([0, 2, 4, 5], pa.int32()), values, mask=pa.array([False, True, False])
    )
    assert array.to_pylist() == [[1, 2], None, [6]]
    expected = expected_bags(matcher, [[1, 2], None, [6]])
    assert found(matcher, pa.table({"x": array})) == expected
    assert found(matcher, pa.table({"x": array.slice(1)})) == {
        row - 1: keys for row, keys in expected.items() if row >= 1
    }


@pytest.mark.parametrize("make", [bags, only_elements])
def test_nulls_inside_a_bag_are_left_out(make: Any) -> None:
    rows = [[1, None, 2], [None], [None, 6]]
    table = pa.table({"x": pa.array(rows, pa.list_(pa.int64()))})
    matcher = make()
    assert found(matcher, table) == expected_bags(matcher, rows)


@pytest.mark.parametrize("make", [bags, only_elements])
def test_other_list_layouts_are_bags(make: Any) -> None:
    matcher = make()
    rows = [[1, 2], None, [6, 6]]
    expected = expected_bags(matcher, rows)
    for type_ in (
        pa.list_(pa.int64(), 2),
        pa.list_view(pa.int64()),
        pa.large_list_view(pa.int64()),
    ):
        assert found(matcher, pa.table({"x": pa.array(rows, type_)})) == expected, type_


def test_lists_of_lists_are_bags_of_bags() -> None:
    rows: list[Any] = [[[1, 2], [1]], [[]], None, [[2], None, [1, 1]], []]
    matcher = Matcher()
    operands = {"#>/#>": Bag(Bag(1)), "#</#<": Bag(Bag(1, 2), Bag(1)), "#>": Bag(Bag(1, 2))}
    for operator, operand in operands.items():
        matcher.add(Filter([Constraint("x", operator, operand)]), operator)
    expected: dict[int, set[Any]] = {}
    for row, value in enumerate(rows):
        if value is not None:
            keys = set(matcher.match({"x": [one for one in value if one is not None]}))
            if keys:
                expected[row] = keys
    for type_ in (pa.list_(pa.list_(pa.int64())), pa.large_list(pa.large_list(pa.int64()))):
        assert found(matcher, pa.table({"x": pa.array(rows, type_)})) == expected
    assert found(asking(deep=("x", ("#>/#>", Bag(Bag(1))))), pa.table({"x": rows})) == {
        0: {"deep"},
        3: {"deep"},
    }


# Slices and chunks.


@pytest.mark.parametrize("make", [bags, only_elements])
def test_slices_and_chunks_of_list_columns(make: Any) -> None:
    matcher = make()
    table = pa.table({"x": pa.array(ROWS, pa.list_(pa.int64()))})
    chunked = pa.concat_tables([table.slice(0, 3), table.slice(3, 0), table.slice(3)])
    assert found(matcher, chunked) == expected_bags(matcher, ROWS)
    for start in range(len(ROWS)):
        for length in (1, 3):
            rows = ROWS[start : start + length]
            sliced = table.slice(start, length)
            assert found(matcher, sliced) == expected_bags(matcher, rows), (start, length)
            joined = pa.concat_tables([sliced, table.slice(1, 2)])
            assert found(matcher, joined) == expected_bags(matcher, rows + ROWS[1:3])


@pytest.mark.parametrize("encoded", [False, True], ids=["plain", "dictionary"])
def test_slices_and_chunks_of_plain_columns(encoded: bool) -> None:
    values = [0, 3, None, 7, 100, 3, None, 2]
    array = pa.array(values)
    if encoded:
        array = array.dictionary_encode()
    table = pa.table({"x": array})
    other = pa.array([100, None, 1])
    more = pa.table({"x": other.dictionary_encode() if encoded else other})
    matcher = numbers()
    for start in range(0, 8, 3):
        joined = pa.concat_tables([table.slice(start, 3), more, table.slice(7)])
        rows = [*values[start : start + 3], 100, None, 1, 2]
        assert found(matcher, joined) == expected_numbers(rows)


def test_more_rows_than_a_chunk(seed: int) -> None:
    random = Random(seed)
    values = [random.choice((0, 3, None, 7, 100)) for _ in range(2 * CHUNK + 17)]
    rows = [None if v is None else [v, 1] for v in values]
    table = pa.table({"x": pa.array(values), "y": pa.array(rows, pa.list_(pa.int64()))})
    matcher = numbers()
    matcher.add(Filter([Constraint("y", "#>/>", Bag(50, 0))]), "bag")
    expected = expected_numbers(values)
    for row, value in enumerate(values):
        if value == 100:
            expected[row].add("bag")
    assert found(matcher, table) == expected
    assert count_batch(matcher, table).tolist() == [
        len(expected.get(row, ())) for row in range(len(values))
    ]


def test_dictionaries_with_unused_repeated_and_null_entries() -> None:
    matcher = strings()
    dictionary = pa.array(["unused", "tea", None, "zoo", "tea"])
    indices = pa.array([1, 2, 3, None, 4], pa.int32())
    array = pa.DictionaryArray.from_arrays(indices, dictionary)
    expected = {
        row: set(matcher.match({"x": value}))
        for row, value in enumerate(["tea", None, "zoo", None, "tea"])
        if value is not None
    }
    assert found(matcher, pa.table({"x": array})) == expected


# Terms.

ONTOLOGY = """
:Animal a owl:Class . :Cow a owl:Class ; rdfs:subClassOf :Animal .
:eats a owl:ObjectProperty . :grazes a owl:ObjectProperty ; rdfs:subPropertyOf :eats .
:grass a owl:NamedIndividual . :colleen a owl:NamedIndividual , :Cow ; :grazes :grass .
"""


def term_field(name: str, type_: pa.DataType, kind: str) -> pa.Field:
    return pa.field(name, type_, metadata={"kbn": kind})


def terms() -> Matcher:
    matcher = Matcher(load(ONTOLOGY))
    matcher.add("x @> :Animal", "below")
    matcher.add("x @= :Animal", "isa")
    matcher.add("x @> :eats", "eats")
    matcher.add("x #>/@> {class(:Animal)}", "holds")
    matcher.add('x = "urn:t#Cow"', "string")
    return matcher


@pytest.mark.parametrize(
    ("kind", "name", "keys"),
    [
        ("class", "Cow", {"below"}),
        ("individual", "colleen", {"isa"}),
        ("property", "grazes", {"eats"}),
        ("term", "Cow", {"below"}),
        ("term", "colleen", {"isa"}),
        ("class", "Unknown", set()),
        ("term", "Unknown", set()),
    ],
)
@pytest.mark.parametrize("encoded", [False, True], ids=["plain", "dictionary"])
def test_metadata_says_what_kind_of_term(
    kind: str, name: str, keys: set[str], encoded: bool
) -> None:
    array = pa.array(["urn:t#" + name, None])
    if encoded:
        array = array.dictionary_encode()
    table = pa.table([array], schema=pa.schema([term_field("x", array.type, kind)]))
    assert found(terms(), table) == ({0: keys} if keys else {})


def test_lists_of_terms_are_bags_of_terms() -> None:
    for kind in ("class", "term"):
        array = pa.array([["urn:t#Cow", "urn:t#Unknown"], [], None, ["urn:t#Unknown"]])
        table = pa.table([array], schema=pa.schema([term_field("x", array.type, kind)]))
        assert found(terms(), table) == {0: {"holds"}}


def test_without_metadata_an_iri_is_a_string() -> None:
    assert found(terms(), pa.table({"x": ["urn:t#Cow"]})) == {0: {"string"}}


def test_other_metadata_is_nobodys_business() -> None:
    field = pa.field("x", pa.string(), metadata={"comment": "class"})
    table = pa.table([pa.array(["urn:t#Cow"])], schema=pa.schema([field]))
    assert found(terms(), table) == {0: {"string"}}


@pytest.mark.parametrize("kind", ["Class", "klass", "", "bag", "jsonld"])
def test_wrong_metadata_is_an_error_that_names_the_column(kind: str) -> None:
    table = pa.table(
        [pa.array(["urn:t#Cow"])], schema=pa.schema([term_field("x", pa.string(), kind)])
    )
    with pytest.raises(InvalidInputError, match="'x'"):
        terms().match_batch(table)


@pytest.mark.parametrize("kind", ["class", "term", "json"])
def test_metadata_on_a_column_that_holds_no_strings_is_an_error(kind: str) -> None:
    for array in (pa.array([1]), pa.array([[1]]), pa.array([True]), pa.array([b"x"])):
        table = pa.table([array], schema=pa.schema([term_field("x", array.type, kind)]))
        with pytest.raises(InvalidInputError, match="x"):
            terms().match_batch(table)


# JSON.


def json_table(texts: list[str | None]) -> pa.Table:
    array = pa.array(texts, pa.string())
    return pa.table([array], schema=pa.schema([term_field("x", pa.string(), "json")]))


def test_a_json_column_holds_values_of_every_type() -> None:
    matcher = numbers()
    matcher.add(Filter([Constraint("x", "#>", Bag("a"))]), "bag")
    matcher.add(Filter([Constraint("x", "=", NOON)]), "noon")
    matcher.add(Filter([Constraint("x", "<=", NOON)]), "until noon")
    matcher.add(Filter([Constraint("x", "=", Class("urn:c"))]), "class")
    matcher.add(Filter([Constraint("x", "=", "3")]), "text")
    table = json_table(
        [
            "3",
            "3.0",
            '"3"',
            None,
            '["a", 1, [2]]',
            '{"time": "2026-11-15T12:00:00Z"}',
            '{"class": "urn:c"}',
            "true",
            "2",
            "9007199254740993",
        ]
    )
    assert found(matcher, table) == {
        0: {"three", "any"},
        1: {"three", "any"},
        2: {"text", "any"},
        4: {"bag", "any"},
        5: {"noon", "until noon", "any"},
        6: {"class", "any"},
        7: {"any"},
        8: {"low", "other", "any"},
        9: {"other", "any", "high"},
    }


@pytest.mark.parametrize(
    "text",
    ["", "{", "null", '{"class": 3}', '{"klass": "x"}', "[null]", "NaN", "99999999999999999999"],
)
def test_bad_json_in_a_cell_is_an_error_that_names_the_column(text: str) -> None:
    with pytest.raises(InvalidInputError, match="x"):
        numbers().match_batch(json_table(["1", text]))


# Tables at the edge.


def test_an_empty_table_has_an_empty_answer_of_the_same_form() -> None:
    for matcher in (Matcher(), numbers()):
        for table in (pa.table({}), pa.table({"x": pa.array([], pa.int64())})):
            expanded = matcher.match_batch(table)
            assert expanded.column_names == ["notification", "key"]
            assert expanded.num_rows == 0
            grouped = matcher.match_batch(table, expand=False)
            assert grouped.column_names == ["notification", "group", "subscriptions"]
            assert grouped.num_rows == 0
            assert len(count_batch(matcher, table)) == 0


def test_answers_have_the_same_schema_whatever_is_found() -> None:
    matcher = numbers()
    full = matcher.match_batch(pa.table({"x": [1, 3]}))
    for table in (pa.table({"x": ["text"]}), pa.table({"x": pa.array([], pa.int64())})):
        assert matcher.match_batch(table).schema == full.schema
        nothing = matcher.match_batch(table, expand=False)
        assert nothing.schema == matcher.match_batch(pa.table({"x": [1]}), expand=False).schema


def test_an_empty_matcher_answers_nothing() -> None:
    assert Matcher().match_batch(pa.table({"x": [1, 2]})).num_rows == 0


def test_columns_nobody_asked_for_are_not_looked_at() -> None:
    strange = pa.array([{"a": 1}, {"a": 2}])
    decimals = pa.array([1, 2], pa.decimal128(10, 2))
    table = pa.table({"x": [3, 0], "odd": strange, "decimal": decimals, "none": pa.nulls(2)})
    assert found(numbers(), table) == expected_numbers([3, 0])
    matcher = numbers()
    matcher.add(Filter([Constraint("x", "!#>/<", Bag(1, 2))]), "checked in python")
    matcher.add(Filter([Constraint("y", "#>/<", Bag(1, 2)), Constraint("x", "any")]), "unasked")
    table = table.append_column("y", pa.array([[0, 0], [5]]))
    assert "unasked" in found(matcher, table)[0]


def test_a_column_of_nulls_is_absent() -> None:
    table = pa.table({"x": pa.nulls(3), "y": [1, 2, 3]})
    assert found(numbers(), table) == {}
    assert found(bags(), table) == {}


@pytest.mark.parametrize(
    "array",
    [
        pa.array([{"a": 1}]),
        pa.array([1], pa.decimal128(10, 2)),
        pa.array([datetime(2026, 1, 1).date()]),
        pa.array([timedelta(seconds=1)]),
        pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
    ],
    ids=lambda array: str(array.type),
)
def test_a_column_asked_for_that_holds_no_values_is_an_error(array: pa.Array) -> None:
    for matcher in (
        asking(equal=("x", ("=", 3))),
        asking(range=("x", ("<", 3))),
        asking(check=("x", ("#>/<", Bag(1, 2)))),
    ):
        with pytest.raises(InvalidInputError, match="x"):
            matcher.match_batch(pa.table({"x": array}))


def test_two_columns_of_one_name_are_an_error() -> None:
    table = pa.table([pa.array([1]), pa.array([2])], names=["x", "x"])
    with pytest.raises(InvalidInputError, match="x"):
        numbers().match_batch(table)


@pytest.mark.parametrize("given", [None, "table", [{"x": 1}], {"x": [1]}])
def test_what_is_no_table_is_an_error(given: object) -> None:
    with pytest.raises(InvalidInputError):
        numbers().match_batch(given)


# Keys.


def test_integer_keys_stay_integers() -> None:
    matcher = Matcher()
    matcher.add(Filter([Constraint("x", "any")]), 7)
    matcher.add(Filter([Constraint("x", "<", 0)]), 8)
    answer = matcher.match_batch(pa.table({"x": [1, -1]}))
    assert answer.schema.field("key").type == pa.int64()
    assert keys_of(answer) == {0: {7}, 1: {7, 8}}
    matcher.remove(7)
    assert keys_of(matcher.match_batch(pa.table({"x": [1, -1]}))) == {1: {8}}


@pytest.mark.parametrize("keys", [("a", 1), (("t", 1), ("t", 2)), (None, "a"), (1, 2.5), (1, True)])
def test_keys_a_column_cannot_hold_are_an_error_not_a_null(keys: tuple[Any, ...]) -> None:
    matcher = Matcher()
    for number, key in enumerate(keys):
        try:
            matcher.add(Filter([Constraint("x", ">", number)]), key)
        except InvalidInputError:  # 1 and True are one key
            return
    with pytest.raises(InvalidInputError):
        matcher.match_batch(pa.table({"x": [5]}))
    assert matcher.match_batch(pa.table({"x": [5]}), expand=False).num_rows == 2


# There and back.


def test_notifications_without_attributes_keep_their_rows() -> None:
    matcher = Matcher()
    matcher.add(Filter(), "all")
    matcher.add(Filter([Constraint("x", "any")]), "x")
    assert_batch_agrees(matcher, [Notification({}), Notification({})])
    assert_batch_agrees(matcher, [Notification({}), Notification({"x": 1}), Notification({})])
    assert_batch_agrees(matcher, [])


@given(world=worlds.worlds, many=st.lists(worlds.filters, min_size=5, max_size=40), data=st.data())
def test_to_table_and_match_batch_agree_with_match(
    world: World, many: list[list[int]], data: st.DataObject
) -> None:
    matcher = Matcher(world.ontology)
    for number, at in enumerate(many):
        try:
            matcher.add(Subscription(world.filter(at)), number)
        except InvalidInputError:
            continue
    contents = data.draw(st.lists(worlds.contents, min_size=1, max_size=12))
    assert_batch_agrees(matcher, [world.notification(positions) for positions in contents])


@given(world=worlds.worlds, attribute=st.sampled_from(worlds.ATTRIBUTES), data=st.data())
def test_columns_of_one_type_agree_with_match(
    world: World, attribute: str, data: st.DataObject
) -> None:
    """Typed columns take other ways than JSON ones: keep to values of one type, or bags of one."""
    mine = [position for position, c in enumerate(world.constraints) if c.attribute == attribute]
    matcher = Matcher(world.ontology)
    for position in data.draw(st.lists(st.sampled_from(mine), min_size=1, max_size=25)):
        try:
            matcher.add(Subscription(world.filter([position])), len(matcher))
        except InvalidInputError:
            continue
    values = world.values[attribute]
    shape = data.draw(st.sampled_from(sorted({_shape(value) for value in values})))
    chosen = [value for value in values if _shape(value) == shape]
    drawn = data.draw(st.lists(st.sampled_from(chosen), min_size=1, max_size=10))
    assert_batch_agrees(matcher, [Notification({attribute: value}) for value in drawn])


def _shape(value: Any) -> str:
    if isinstance(value, Bag):
        return "bag of " + " ".join(sorted({_shape(item) for item in value}))
    return type(value).__name__


def test_terms_go_through_a_table_with_their_kinds() -> None:
    notifications = [
        Notification({"a": Class("u:x"), "b": [Individual("u:i")], "c": Property("u:p")}),
        Notification({"a": Class("u:y"), "b": [], "d": Term("u:t")}),
    ]
    matcher = Matcher()
    for attribute, value in [
        ("a", Class("u:x")),
        ("a", Individual("u:x")),
        ("b", Bag(Individual("u:i"))),
        ("b", Bag()),
        ("c", Property("u:p")),
        ("d", Term("u:t")),
        ("d", Class("u:t")),
    ]:
        matcher.add(Filter([Constraint(attribute, "=", value)]), repr((attribute, value)))
    assert_batch_agrees(matcher, notifications)
    assert notification_table(notifications).num_rows == 2
