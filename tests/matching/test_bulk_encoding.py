"""Loading by columns gives what adding one by one gives: the same codes, answers and errors."""

from __future__ import annotations

import json
import re
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from tests.matching.worlds import world_of

from kbn.errors import InvalidInputError, KbnError
from kbn.filters import BulkReader, Constraint, Filter, Notification, Subscription, value_to_json
from kbn.matching import Matcher
from kbn.matching.bulk_encoding import BulkEncoder
from kbn.matching.constraint_columns import PartTable
from kbn.matching.index import encode_filters
from kbn.matching.matcher import subscriptions_of

PIECES = (
    *("a < 5", "a <= -0.0", "b>=12.50", "a > 007", "b < 123456789012345", "c<=0.1", " a  <  3 "),
    *("b < 1234567890123456", "a < 5.", "a < .5", "a < 1e3", "a < +5", "a < - 5", "a < inf"),
    *('kind = "book"', 'kind = "war and peace"', 'x != "a"', "flag = true", "a = 5", "a = 5.0"),
    *("not a = 3", "tags #> {1, 2}", "tags #< {1}", "tags #>/< {3}", "any a", "a any", "exists b"),
    *("t < 2026-11-15T10:00:00Z", "é = 1", "a-b < 3", "a.b >= 2", "not < 5", "or < 5", "a < b"),
    *("prefix < 4", 'name prefix "x"', "a # comment", "(a = 1)", "a = 1 or b = 2", "x = 'y'", ""),
    *("a <5", "a< 5", "a < 5 b", "a < 5 AND b < 6", "a < 9007199254740993", "A_1 > -1", "a <> 3"),
    *(
        "a >* 3",
        "a = ur:x",
        "a @> <urn:x>",
        "{",
        "[1]",
        "a < 5\tand b < 6",
        "a < 0.30000000000000004",
    ),
)


def texts(random: Random, count: int) -> list[str]:
    """Conjunctions of pieces, most of them plain, some with a letter changed."""
    made = []
    for _ in range(count):
        pieces = random.choices(
            PIECES[: random.choice((7, 20, len(PIECES)))], k=random.randint(1, 5)
        )
        text = random.choice((" and ", " and ", " and ", "  and ", " && ")).join(pieces)
        if text and random.random() < 0.2:
            at = random.randrange(len(text))
            text = text[:at] + random.choice(' <>=.5a"#\\(|\n0é-') + text[at + 1 :]
        made.append(text)
    return made


def one_by_one(rows: list[tuple[Any, Any]]) -> tuple[Matcher, KbnError | None]:
    matcher = Matcher()
    for row, key in rows:
        try:
            matcher.add(row, key)
        except KbnError as error:
            return matcher, error
    return matcher, None


def told(error: KbnError | None) -> tuple[type, str]:
    """What an error says, without the row it is in."""
    return type(error), re.sub(r"^row \d+, key .*?: ", "", str(error))


@pytest.mark.parametrize("seed", range(40))
def test_texts_in_bulk_mean_what_they_mean_one_by_one(seed: int) -> None:
    random = Random(seed)
    for text in texts(random, 60):
        rows = [("a < 1", 0), (text, 1), (text, 2)]
        single, wrong = one_by_one(rows)
        bulk = Matcher()
        if wrong is not None:
            with pytest.raises(KbnError) as caught:
                bulk.add_many(rows)
            assert told(caught.value) == told(wrong), (seed, text)
            assert str(caught.value).startswith("row 2, key 1: "), (seed, text)
            assert len(bulk) == 0
            continue
        assert bulk.add_many(rows) == 3
        for _, key in rows:
            assert bulk.subscription(key) == single.subscription(key), (seed, text)
        assert bulk.group_count == single.group_count, (seed, text)


@pytest.mark.parametrize("seed", range(20))
def test_the_first_row_that_is_wrong_is_the_error(seed: int) -> None:
    random = Random(seed)
    rows: list[tuple[Any, Any]] = [(text, n) for n, text in enumerate(texts(random, 8))]
    for _ in range(3):
        rows.insert(
            random.randrange(len(rows)),
            random.choice((("a = 1", 3), (5, "x"), ("a = 1", []), ("a = 1", None))),
        )
    _, wrong = one_by_one(rows)
    bulk = Matcher()
    with pytest.raises(KbnError) as caught:
        bulk.add_many(iter(rows))
    same = told(caught.value) == told(wrong)
    assert same or ("is in use" in str(wrong) and "is in use" in str(caught.value)), seed
    assert len(bulk) == 0


def test_what_is_wrong_with_a_row_is_told_before_what_ended_the_rows() -> None:
    def rows() -> Any:
        yield "a < 1", 1
        yield "a <", 2
        raise OSError("the disk is gone")

    with pytest.raises(KbnError, match="a <"):
        Matcher().add_many(rows())
    with pytest.raises(OSError, match="the disk is gone"):
        Matcher().add_many(_failing())


def _failing() -> Any:
    yield "a < 1", 1
    raise OSError("the disk is gone")


@pytest.mark.parametrize("number", range(12))
def test_filters_in_bulk_have_the_codes_they_have_one_by_one(number: int) -> None:
    world = world_of(number)
    random = Random(number)
    filters = [world.random_filter(random, 6) for _ in range(150)]
    matcher = Matcher(world.ontology)
    words, starts = encode_filters(subscriptions_of(matcher).index, filters)
    encoder = BulkEncoder(subscriptions_of(matcher).index.encoder, BulkReader(world.ontology))
    ((bulk_words, bulk_starts),) = encoder.of_rows(filters, lambda one: (one,)).pieces
    assert bulk_starts.tolist() == starts.tolist(), world
    assert bulk_words.tolist() == words.tolist(), world


@pytest.mark.parametrize("number", range(12))
def test_worlds_loaded_as_texts_and_as_tables_answer_alike(number: int) -> None:
    world = world_of(number)
    random = Random(number)
    filters = [world.random_filter(random, 4) for _ in range(80)]
    single, by_text, by_table = (Matcher(world.ontology) for _ in range(3))
    for key, one in enumerate(filters):
        single.add(one, key)
    by_text.add_many([(one.to_text(), key) for key, one in enumerate(filters)])
    by_table.add_table(as_table(filters))
    for _ in range(30):
        notification = world.random_notification(random)
        wanted = set(single.match(notification))
        assert set(by_text.match(notification)) == wanted, world
        assert set(by_table.match(notification)) == wanted, world


def as_table(filters: list[Filter]) -> pa.Table:
    """The filters as lists of constraints."""
    rows = [[as_struct(constraint) for constraint in one.constraints] for one in filters]
    kind = pa.struct(
        [
            ("attribute", pa.dictionary(pa.int32(), pa.string())),
            ("op", pa.string()),
            ("integer", pa.int64()),
            ("number", pa.float64()),
            ("text", pa.string()),
            ("json", pa.string()),
        ]
    )
    plain = pa.struct([f.with_type(pa.string()) if f.name == "attribute" else f for f in kind])
    lists = pa.array(rows, pa.list_(plain))
    return pa.table({"key": list(range(len(rows))), "filter": lists})


def as_struct(constraint: Any) -> dict[str, Any]:
    operand = constraint.operand
    made: dict[str, Any] = {"attribute": constraint.attribute, "op": constraint.operator.symbol}
    if operand is None:
        return made
    name = {int: "integer", float: "number", str: "text"}.get(type(operand), "json")
    return made | {name: json.dumps(value_to_json(operand)) if name == "json" else operand}


CONSTRAINTS = pa.list_(
    pa.struct(
        [
            ("attribute", pa.string()),
            ("op", pa.string()),
            ("integer", pa.int64()),
            ("number", pa.float64()),
            ("text", pa.string()),
            ("json", pa.string()),
        ]
    )
)


def table_of(*rows: Any) -> pa.Table:
    return pa.table({"key": list(range(len(rows))), "filter": pa.array(rows, CONSTRAINTS)})


def test_a_table_of_constraints() -> None:
    cheap = [
        {"attribute": "price", "op": "<", "integer": 20},
        {"attribute": "kind", "op": "=", "text": "book"},
    ]
    big = [{"attribute": "n", "op": ">=", "integer": 2**53 + 1}]
    bag = [{"attribute": "tags", "op": "#>", "json": '["a", 1]'}, {"attribute": "n", "op": "any"}]
    matcher = Matcher()
    assert matcher.add_table(table_of(cheap, big, bag, [])) == 4
    assert matcher.subscription(0) == Subscription.parse('price < 20 and kind = "book"')
    assert matcher.subscription(1) == Subscription.parse("n >= 9007199254740993")
    assert set(matcher.match({"n": 1, "tags": ["a", 1, 1]})) == {2, 3}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (None, "null"),
        ([None], "null"),
        ([{"attribute": "a", "op": "<<", "integer": 1}], "<<"),
        ([{"attribute": None, "op": "<", "integer": 1}], "attribute|name|string"),
        ([{"attribute": "a", "op": None, "integer": 1}], "operator"),
        ([{"attribute": "a", "op": "<", "number": float("nan")}], "NaN|nan|not a number"),
        ([{"attribute": "a", "op": "<"}], "operand|<"),
        ([{"attribute": "a", "op": "=", "json": "{"}], "JSON"),
        ([{"attribute": "a", "op": "=", "json": "null"}], "null"),
        ([{"attribute": f"a{n}", "op": "=", "integer": 1} for n in range(257)], "257"),
    ],
)
def test_a_row_of_a_table_that_is_wrong_adds_nothing(row: Any, message: str) -> None:
    good = [{"attribute": "price", "op": "<", "integer": 20}]
    matcher = Matcher()
    with pytest.raises(InvalidInputError, match=message):
        matcher.add_table(table_of(good, row))
    assert len(matcher) == 0 and not set(matcher.match({"price": 1}))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pa.table({"key": [1]}), "filter is missing"),
        (pa.table({"key": [1], "filter": [5]}), "texts or lists of constraints"),
        (pa.table({"key": [1], "filter": [[{"attribute": "a"}]]}), "has attribute, op"),
    ],
)
def test_a_table_of_another_shape_is_refused(table: pa.Table, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Matcher().add_table(table)


def test_a_table_of_texts_and_one_of_no_rows() -> None:
    matcher = Matcher()
    table = pa.table({"key": ["ann", "bob"], "filter": ["price < 20", "price < 5 or a = 1"]})
    assert matcher.add_table(table.slice(1)) == 1
    assert matcher.add_table(table.slice(0, 1)) == 1
    assert matcher.add_table(table.slice(0, 0)) == 0
    assert set(matcher.match(Notification({"price": 10}))) == {"ann"}
    with pytest.raises(InvalidInputError, match="null"):
        matcher.add_table(pa.table({"key": ["eve"], "filter": pa.array([None], pa.string())}))


def test_many_chunks_of_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kbn.matching.bulk_load.CHUNK", 7)
    rows = [(f"a > {n} and a <= {n + 2}", n) for n in range(30)]
    matcher = Matcher()
    assert matcher.add_many(rows) == 30
    assert set(matcher.match({"a": 11})) == {9, 10}
    with pytest.raises(InvalidInputError, match="in use"):
        matcher.add_many([("a > 1", 31), *[("a > 1", 100 + n) for n in range(9)], ("a > 1", 31)])
    assert len(matcher) == 30


VALUES = (5, 5.0, True, "5", -0.5, 2**60, [1, 1.0, "a"], {"time": "2026-11-15T10:00:00Z"}, [[1]])
FORMS = (
    *({"attribute": "a", "op": op, "value": 3} for op in ("<", "le", "=", "!=", "<<", ["<"], None)),
    *({"attribute": "a", "op": op, "value": 2.5, "not": True} for op in ("<", "=")),
    *({"attribute": name, "op": ">=", "value": 1} for name in ("b", "a-b", "", 7, None)),
    *({"attribute": "b", "op": "=", "value": value} for value in (*VALUES, None, {"no": 1})),
    *({"attribute": "c", "op": ">", "value": value} for value in VALUES),
    {"attribute": "d", "op": "any"}, {"attribute": "a", "op": "<"}, {"op": "<", "value": 1},
    {"attribute": "a", "op": "<", "value": 3, "more": 1}, [], "a < 3",
)  # fmt: skip


def forms(random: Random) -> Any:
    """A subscription in its JSON form, most of them right."""
    filters = []
    for _ in range(random.choice((1, 1, 1, 2, 0))):
        some = random.choices(FORMS[: random.choice((4, 4, len(FORMS)))], k=random.randint(0, 4))
        filters.append(random.choice((some, {"all": some}, {"all": some})))
    if len(filters) == 1 and random.random() < 0.5:
        return filters[0]
    return random.choice(({"any": filters}, {"any": filters}, {"any": filters, "x": 1}))


@pytest.mark.parametrize("seed", range(40))
def test_json_in_bulk_means_what_it_means_one_by_one(seed: int) -> None:
    random = Random(seed)
    for _ in range(40):
        form = forms(random)
        given = random.choice((form, json.dumps(form), json.dumps(form)[: random.randint(1, 60)]))
        rows = [('[{"attribute": "a", "op": "<", "value": 1}]', 0), (given, 1), (given, 2)]
        single, wrong = one_by_one(rows)
        bulk = Matcher()
        if wrong is not None:
            with pytest.raises(KbnError) as caught:
                bulk.add_many(rows)
            assert told(caught.value) == told(wrong), (seed, given)
            assert len(bulk) == 0
            continue
        assert bulk.add_many(rows) == 3
        for _, key in rows:
            assert bulk.subscription(key) == single.subscription(key), (seed, given)
        assert bulk.group_count == single.group_count, (seed, given)


def test_what_is_remembered_of_parts_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kbn.matching.bulk_encoding.REMEMBERED_BYTES_MAX", 100_000)
    monkeypatch.setattr("kbn.filters.bulk.REMEMBERED_BYTES_MAX", 100_000)
    matcher = Matcher()
    filters_of = subscriptions_of(matcher).filters_of
    encoder = BulkEncoder(subscriptions_of(matcher).index.encoder, reader := BulkReader())
    for kind in ("texts", "objects", "JSON"):
        for first in range(0, 2_000, 50):
            texts = [f'a = "{n}-{"x" * 500}" and a_{n} < 3' for n in range(first, first + 50)]
            read: list[Any] = [Subscription.parse(text) for text in texts]
            if kind == "texts":
                encoder.of_texts(pa.array(texts), filters_of)
            elif kind == "objects":
                encoder.of_rows(read, filters_of)
            else:
                encoder.of_rows([each.to_json() for each in read], filters_of)
            encoder.stay_within_bounds()
            assert encoder.remembered_bytes <= 100_000
            assert reader.remembered_bytes <= 100_000


def test_a_load_that_fails_late_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kbn.matching.bulk_load.CHUNK", 10)
    matcher = Matcher()
    matcher.add_many((f"a > {n}", n) for n in range(25))
    before = matcher.group_count, subscriptions_of(matcher).index.groups.group_count
    rows = [(f"a > {n} and b < {n}", 100 + n) for n in range(35)]
    for wrong in (("a >", 200), ("a > 1", 3), ("a > 1", 101), ("a > 1", None)):
        with pytest.raises(InvalidInputError, match=r"^row 36, key "):
            matcher.add_many([*rows, wrong])
        assert (matcher.group_count, subscriptions_of(matcher).index.groups.group_count) == before
        assert 101 not in matcher and len(matcher) == 25
        subscriptions_of(matcher).index.groups.check_invariants()
    assert matcher.add_many(rows) == 35
    assert set(matcher.match({"a": 3, "b": 1})) == {0, 1, 2, 102}
    subscriptions_of(matcher).index.groups.check_invariants()


def test_rows_that_change_the_matcher_while_it_loads_are_refused() -> None:
    matcher = Matcher()

    def rows() -> Any:
        yield "a > 1", 1
        matcher.add("a > 2", 2)
        yield "a > 3", 3

    with pytest.raises(InvalidInputError, match="changed by what it is loading"):
        matcher.add_many(rows())
    assert len(matcher) == 1 and set(matcher.match({"a": 9})) == {2}


def test_parts_may_come_while_somebody_holds_the_arrays_of_earlier_ones() -> None:
    parts = PartTable(subscriptions_of(Matcher()).index.encoder)
    parts.number(Constraint("a", "=", 1))
    held = parts.arrays()
    parts.number(Constraint("a", "=", 2))
    assert held.tokens.shape[0] == 1 and parts.arrays().tokens.shape[0] == 2
