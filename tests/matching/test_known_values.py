"""What values hit is kept from one batch to the next: right after every change, and bounded."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kbn.filters import Bag, Notification
from kbn.matching import Matcher, count_batch, notification_table
from kbn.matching.known_values import KnownValues
from kbn.matching.matcher import subscriptions_of
from kbn.matching.memos import Memory


def test_a_cell_is_asked_about_once() -> None:
    known, asked = KnownValues(Memory(1 << 20)), []  # type: KnownValues, list[Any]

    def hits(cell: Any) -> list[int]:
        asked.append(cell)
        return [cell, cell + 1]

    for cells in ([3, 5], [5, 4, 3]):
        starts, ends, tokens = known.runs_of("int64", cells, hits, version=1)
        runs = [tokens[start:end].tolist() for start, end in zip(starts, ends, strict=True)]
        assert runs == [[cell, cell + 1] for cell in cells]
    assert asked == [3, 5, 4]


def test_columns_of_different_types_are_told_apart() -> None:
    matcher = Matcher()
    matcher.add("x = 1", "number")
    matcher.add("x = true", "truth")
    tables = [pa.table({"x": pa.array([one])}) for one in (1, True, 1.0, True, 1)]
    found = [matcher.match_batch(table)["key"].to_pylist() for table in tables]
    assert found == [["number"], ["truth"], ["number"], ["truth"], ["number"]]


def test_a_new_constraint_is_hit_by_a_known_value() -> None:
    matcher = Matcher()
    table = notification_table([{"x": "tea", "words": Bag("a", "b")}])
    for number, text in enumerate(("x >* 't'", "x = 'tea'", "words #> {'b'}", "words #> {'a'}")):
        matcher.add(text, number)
        assert count_batch(matcher, table).tolist() == [number + 1]


def test_what_is_kept_is_bounded_in_bytes() -> None:
    known = KnownValues(Memory(20_000))
    for first in range(0, 5_000, 50):
        cells = [f"cell {number}" for number in range(first, first + 50)]
        starts, ends, tokens = known.runs_of("string", cells, lambda cell: [len(cell)], version=1)
        assert tokens[starts].tolist() == [len(cell) for cell in cells]
        assert (ends - starts == 1).all()
        assert known.bytes <= 20_000 + 50 * 200


def test_an_answer_outlives_what_is_forgotten() -> None:
    known = KnownValues(Memory(1 << 20))
    starts, _, tokens = known.runs_of("string", ["a"], lambda cell: [7], version=1)
    known.runs_of("string", ["b"], lambda cell: [8], version=2)
    assert tokens[starts].tolist() == [7]


def test_a_dictionary_of_more_entries_than_rows_is_not_asked_about_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    matcher = Matcher()
    matcher.add("x >* 'v'", "all")
    index = subscriptions_of(matcher).index.table.index("x")
    asked: list[str] = []
    hits = index.hits

    def asking(value: str) -> tuple[int, ...]:
        asked.append(value)
        return hits(value)

    monkeypatch.setattr(index, "hits", asking)
    entries = pa.array([f"v{number}" for number in range(100)])
    column = pa.DictionaryArray.from_arrays(pa.array([7, 90, 7]), entries)
    assert count_batch(matcher, pa.table({"x": column})).tolist() == [1, 1, 1]
    assert asked == ["v7", "v90"]


def test_a_cell_in_json_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from kbn.matching import columns

    parsed: list[Any] = []
    parse = columns.value_from_json
    monkeypatch.setattr(columns, "value_from_json", lambda form: parsed.append(form) or parse(form))
    matcher = Matcher()
    matcher.add("x #>/#> {{1}, {2, 3}} and x !#>/#> {{9}}", "nested")
    # A truth value is nothing that the kernel for bags within bags reads.
    inner = Bag.of([Bag(number % 7, number % 5, True) for number in range(1000)])
    table = notification_table([Notification({"x": Bag(Bag(1, True), Bag(2, 3))}), {"x": inner}])
    assert count_batch(matcher, table).tolist() == [1, 1]
    assert len(parsed) == 2
