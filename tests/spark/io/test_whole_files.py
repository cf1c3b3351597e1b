"""Files to outcomes, without Spark: CSV, Parquet, packed files, and what can be wrong with one."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import random
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from kbn.spark.io import csv_texts, whole_files
from kbn.spark.io.csv_texts import csv_outcomes
from kbn.spark.io.mapping import Mapping
from kbn.spark.io.outcomes import Outcome, Refused, Row
from kbn.spark.io.partitions import partition_fields
from kbn.spark.io.table_rows import batch_outcomes
from kbn.spark.io.whole_files import file_outcomes

GOOD = b'{"id":"1","attributes":{"a":1}}\n'


def of_csv(text: str | bytes, mapping: dict[str, Any] | None = None) -> list[Outcome]:
    content = text.encode() if isinstance(text, str) else text
    return list(csv_outcomes(io.BytesIO(content), "file:/x.csv", Mapping.of(mapping or {})))


def attributes(outcomes: list[Outcome]) -> list[dict[str, Any]]:
    return [json.loads(one.attributes) for one in outcomes if isinstance(one, Row)]


def refused(outcomes: list[Outcome]) -> list[tuple[int | None, str | None, str]]:
    return [one[1:] for one in outcomes if isinstance(one, Refused)]


# CSV.


def test_a_row_is_a_record_by_the_names_of_the_header() -> None:
    outcomes = of_csv('\ufeffa, b ,\r\n1,"x, ""y""\nz",\r\n\r\n2,é,last')
    assert attributes(outcomes) == [
        {"a": "1", "b": 'x, "y"\nz'},
        {"a": "2", "b": "é", "column_3": "last"},
    ]


def test_delimiter_quote_escape_encoding_and_columns_are_the_mappings() -> None:
    how = {
        "delimiter": ";",
        "quote": "'",
        "escape": "\\",
        "encoding": "latin-1",
        "columns": ["a", "b"],
    }
    outcomes = of_csv("x;'é;\\'z'\ny;,\n".encode("latin-1"), {"csv": how})
    assert attributes(outcomes) == [{"a": "x", "b": "é;'z"}, {"a": "y", "b": ","}]
    wide = of_csv("a,b\n1,é\n".encode("utf-16"), {"csv": {"encoding": "utf-16"}})
    assert attributes(wide) == [{"a": "1", "b": "é"}]


def test_lines_that_begin_with_the_comment_sign_are_no_rows() -> None:
    text = '#about "this"\n#a,b\na,b\n1,"x\n#y"\n# between\n\n#,\n2\n3,z\n#end'
    outcomes = of_csv(text, {"csv": {"comment": "#"}})
    assert attributes(outcomes) == [{"a": "1", "b": "x\n#y"}, {"a": "3", "b": "z"}]
    assert refused(outcomes) == [(9, "2", "1 fields where the header has 2")]


def test_without_a_quote_sign_quotes_mean_themselves() -> None:
    outcomes = of_csv('a\tb\n1\t"x" y\n2\t"open\n', {"csv": {"delimiter": "\t", "quote": None}})
    assert [one["b"] for one in attributes(outcomes)] == ['"x" y', '"open']


def test_rows_with_too_few_or_too_many_fields_are_refused_alone() -> None:
    outcomes = of_csv("a,b\n1\n1,2\n1,2,3\n")
    assert attributes(outcomes) == [{"a": "1", "b": "2"}]
    assert refused(outcomes) == [
        (2, "1", "1 fields where the header has 2"),
        (4, "1,2,3", "3 fields where the header has 2"),
    ]


def test_a_quote_that_is_never_closed_costs_one_row() -> None:
    outcomes = of_csv('a,b\n1,"open\n2,x\n3,"y"\n4,z\n')
    assert attributes(outcomes) == [{"a": n, "b": t} for n, t in ("2x", "3y", "4z")]
    ((line, record, reason),) = refused(outcomes)
    assert (line, record) == (2, '1,"open')
    assert reason.startswith("not CSV: ")


def test_a_quote_is_not_followed_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_texts, "LINES_MAX", 5)
    outcomes = of_csv('a,b\n1,"open\n' + "2,x\n" * 20)
    assert len(attributes(outcomes)) == 20
    assert refused(outcomes) == [
        (2, '1,"open', "not CSV: a quote is not closed within 5 lines"),
    ]


def test_bytes_that_are_no_text_are_refused_with_their_row() -> None:
    outcomes = of_csv(b"a,b\n1,\xff\n2,\xc3\xa9\n")
    assert attributes(outcomes) == [{"a": "2", "b": "é"}]
    assert refused(outcomes) == [(2, "1,\\xff", "not utf-8 text")]


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (b"a,a", "the header has the column 'a' twice"),
        (b"a,\xff", "the header is not utf-8 text"),
        (b'a,"b', "the header is not CSV: unexpected end of data"),
    ],
)
def test_a_file_with_a_bad_header_is_refused_as_a_whole(header: bytes, reason: str) -> None:
    ((position, record, told),) = refused(of_csv(header + b"\n1,2\n"))
    assert (position, told) == (None, reason)
    assert record == header.decode("utf-8", "backslashreplace")


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xef\xbb\xbf", b"a,b\n"])
def test_a_file_without_rows_has_no_records(content: bytes) -> None:
    assert of_csv(content) == []


def test_drift_is_seen_row_by_row() -> None:
    rules = {"id": "no", "attributes": {"price": {"as": "number"}, "note": {"required": False}}}
    assert attributes(of_csv("no,price,new\n1,2.5,x\n", rules)) == [{"price": 2.5}]
    assert refused(of_csv("no,prize\n1,2.5\n", rules)) == [
        (2, "1,2.5", "there is no column 'price'; did you mean 'prize'?; there are: no, prize")
    ]
    assert refused(of_csv("no,price\n1,n/a\n", rules)) == [
        (2, "1,n/a", "price: 'n/a' is not a number")
    ]
    assert attributes(of_csv("no,price\n1,\n", rules)) == [{}]


cells = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=6)


@given(st.lists(st.lists(cells, min_size=3, max_size=3), max_size=6), st.sampled_from(",;\t|"))
def test_what_is_written_as_csv_is_read_as_written(table: list[list[str]], sign: str) -> None:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=sign, quoting=csv.QUOTE_ALL)
    writer.writerows([["a", "b", "c"], *table])
    outcomes = of_csv(text.getvalue(), {"csv": {"delimiter": sign}})
    expected = [
        {name: cell for name, cell in zip("abc", row, strict=True) if cell} for row in table
    ]
    assert attributes(outcomes) == expected


@given(st.binary(max_size=60))
def test_whatever_the_bytes_are_no_line_is_lost(content: bytes) -> None:
    outcomes = of_csv(b"a,b\n" + content)
    lines = [line for line in content.splitlines() if line.strip(b"\r\n")]
    assert len(outcomes) <= len(lines)
    if lines and b'"' not in content:
        assert len(outcomes) >= 1


# Parquet and typed rows.


def test_typed_columns_become_values_of_their_types() -> None:
    batch = pa.RecordBatch.from_pylist(
        [
            {
                "text": "x",
                "whole": 7,
                "real": 2.5,
                "yes": True,
                "when": datetime(2026, 1, 1, tzinfo=UTC),
                "money": Decimal("9.50"),
                "bag": ["a", None, "b"],
                "raw": b"\x00",
                "inner": {"x": 1, "y": None},
                "nothing": None,
            }
        ]
    )
    (row,) = batch_outcomes(batch, None, None, None)
    assert isinstance(row, Row)
    assert json.loads(row.attributes) == {
        "text": "x",
        "whole": 7,
        "real": 2.5,
        "yes": True,
        "when": {"time": "2026-01-01T00:00:00Z"},
        "money": 9.5,
        "bag": ["a", "b"],
        "raw": {"bytes": "AA=="},
        "inner.x": 1,
    }


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (pa.array([float("nan")]), "x: NaN is not a value"),
        (pa.array([date(2026, 1, 1)]), "x: 2026-01-01 is a date without a time zone"),
        (pa.array([datetime(2026, 1, 1)]), "has no time zone"),
        (pa.array([2**63], pa.uint64()), "does not fit in 64 bits"),
        (pa.array([b"\xff"]).view(pa.string()), "not UTF-8 text"),
        (pa.array([2**62], pa.timestamp("us", "UTC")), "out of range"),
    ],
)
def test_a_value_that_is_none_is_refused_with_its_row(column: pa.Array, reason: str) -> None:
    good = pa.array([None], column.type)
    batch = pa.RecordBatch.from_arrays(
        [pa.array(["a", "b", "c"]), pa.concat_arrays([good, column, good])], ["n", "x"]
    )
    outcomes = list(batch_outcomes(batch, "file:/t", 10, None))
    assert attributes(outcomes) == [{"n": "a"}, {"n": "c"}]
    ((position, record, told),) = refused(outcomes)
    assert position == 11
    assert reason in told
    assert record is not None
    assert '"n":"b"' in record


def test_a_table_of_kbns_own_is_read_as_such() -> None:
    rows = [
        {
            "id": "1",
            "publisher": "p",
            "time": datetime(2026, 1, 1, tzinfo=UTC),
            "attributes": '{"a":1}',
        },
        {"id": None, "publisher": None, "time": None, "attributes": '{"a":{"class":"urn:x"}}'},
        {"id": "3", "publisher": None, "time": None, "attributes": "[]"},
        {"id": "4", "publisher": None, "time": None, "attributes": None},
    ]
    outcomes = list(batch_outcomes(pa.RecordBatch.from_pylist(rows), None, 1, None))
    first, second, third, fourth = outcomes
    assert first == Row("1", "p", datetime(2026, 1, 1, tzinfo=UTC), '{"a":1}')
    assert isinstance(second, Row)
    assert second.attributes == '{"a":{"class":"urn:x"}}'
    assert isinstance(third, Refused)
    assert isinstance(fourth, Refused)


def parquet(path: Path, rows: list[dict[str, Any]], **how: Any) -> str:
    pq.write_table(pa.Table.from_pylist(rows), path, **how)
    return path.as_uri()


def test_parquet_rows_are_read_with_what_their_path_says(tmp_path: Path) -> None:
    folder = tmp_path / "day=2026-11-15" / "at=a%2Fb"
    folder.mkdir(parents=True)
    source = parquet(folder / "x y.parquet", [{"n": 1}, {"n": 2}])
    outcomes = list(file_outcomes(source, None, "parquet", None))
    assert attributes(outcomes) == [{"day": "2026-11-15", "at": "a/b", "n": n} for n in (1, 2)]


def test_a_damaged_parquet_file_is_refused_whatever_is_damaged(tmp_path: Path, seed: int) -> None:
    chosen = random.Random(seed)
    rows = [{"n": n, "t": f"text {n}"} for n in range(2000)]
    parquet(tmp_path / "x.parquet", rows, row_group_size=500)
    whole = (tmp_path / "x.parquet").read_bytes()
    for cut in (0, 3, 4, len(whole) // 2, len(whole) - 1):
        outcomes = list(file_outcomes("s3://b/x.parquet", whole[:cut], "parquet", None))
        ((position, _, reason),) = refused(outcomes)
        assert position is None
        assert reason.startswith("the file cannot be read")
    for _ in range(30):
        broken = bytearray(whole)
        for _ in range(8):
            broken[chosen.randrange(len(broken))] ^= 1 << chosen.randrange(8)
        outcomes = list(file_outcomes("s3://b/x.parquet", bytes(broken), "parquet", None))
        assert outcomes


def test_a_column_that_stands_twice_is_refused(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"])
    pq.write_table(table, tmp_path / "x.parquet")
    outcomes = list(file_outcomes((tmp_path / "x.parquet").as_uri(), None, "parquet", None))
    assert refused(outcomes) == [(None, None, "the file has the column 'a' twice")]


# Packed files, and files that are not there.

PACKERS = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstandard.ZstdCompressor().compress,
}


@pytest.mark.parametrize("suffix", PACKERS)
def test_packed_files_are_unpacked(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"in #1.json.{suffix}"
    path.write_bytes(PACKERS[suffix](GOOD * 2) + PACKERS[suffix](GOOD))
    by_path = list(file_outcomes(path.as_uri(), None, "json", None))
    assert attributes(by_path) == [{"a": 1}] * 3
    handed = list(file_outcomes(f"s3://b/x.json.{suffix}", path.read_bytes(), "json", None))
    assert handed == by_path


@pytest.mark.parametrize("suffix", PACKERS)
def test_a_packed_file_that_is_damaged_counts_up_to_the_damage(suffix: str) -> None:
    lines = b"".join(
        b'{"id":"%d","attributes":{"a":"%d"}}\n' % (n, n * 7919) for n in range(50_000)
    )
    content = PACKERS[suffix](lines)
    for damaged in (content[: len(content) // 2], b"nonsense", b""):
        outcomes = list(file_outcomes(f"s3://b/x.json.{suffix}", damaged, "json", None))
        bad = refused(outcomes)
        assert len(bad) <= 1
        # What was read is right, and whatever was not read is told.
        assert [one.id for one in outcomes if isinstance(one, Row)] == [
            str(n) for n in range(len(outcomes) - len(bad))
        ]
        if damaged:
            assert "the file cannot be read" in bad[0][2]


def test_a_file_that_is_gone_is_refused(tmp_path: Path) -> None:
    source = (tmp_path / "gone.csv").as_uri()
    (outcome,) = file_outcomes(source, None, "csv", None)
    assert isinstance(outcome, Refused)
    assert outcome.source == source
    assert "No such file" in outcome.reason


def test_a_file_too_large_to_hand_over_is_refused_with_advice() -> None:
    (outcome,) = file_outcomes("s3://bucket/large.csv", None, "csv", None)
    assert isinstance(outcome, Refused)
    assert "split it, or read it with Spark" in outcome.reason


def test_a_line_without_end_is_refused_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_files, "RECORD_BYTES_MAX", 100)
    monkeypatch.setattr("kbn.spark.io.json_texts.RECORD_BYTES_MAX", 100)
    content = GOOD + b'{"a":"' + b"x" * 1000 + b'"}\n' + GOOD
    outcomes = list(file_outcomes("s3://b/x.json", content, "json", None))
    assert attributes(outcomes) == [{"a": 1}, {"a": 1}]
    ((position, record, reason),) = refused(outcomes)
    assert position == 2
    assert record is not None
    assert len(record) == 101
    assert "the limit is 100" in reason


def test_the_path_says_only_what_stands_right_above_the_file() -> None:
    assert partition_fields("file:/a=1/b/c=2/d=x%2520y/f") == {"c": "2", "d": "x y"}
    assert partition_fields("file:/c=__HIVE_DEFAULT_PARTITION__/f") == {}
    assert partition_fields(None) == {}
    assert partition_fields("topic/0") == {}
