"""Tables fit the width there is, and no number is ever broken."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from kbn.cli import main
from kbn.cli.output import print_table
from kbn.cli.tables import Column, divided, tables, widths

QUESTION = "how long does a filter with one semantic constraint take, beside one without?"
WIDE = (
    *("engine", "subscriptions", "events", "µs/event", "events/s", "matches/event"),
    *("build s", "memory", "rss", "× index"),
)
ROWS = [
    ["index", "100,000", "10,000", "4.464", "224,014", "1,234", "0.1187", "120.5 MB", "8 MB", ""],
    ["scan", "2,000", "100", "1,093", "914.9", "0.56", "0", "0.0 MB", "1.2 MB", "244.8"],
]  # fmt: skip


def printed(rows: list[list[str]], columns: tuple[str, ...], width: int) -> list[str]:
    out = io.StringIO()
    screen = Console(file=out, width=width, color_system=None)
    for table in tables(rows, columns, width):
        screen.print(table)
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
def test_numbers_are_whole_at_every_width(width: int) -> None:
    lines = printed(ROWS, WIDE, width)
    assert max(map(len, lines)) <= width
    for cell in (cell for row in ROWS for cell in row):
        assert any(cell in line for line in lines), cell


def test_a_table_that_does_not_fit_goes_on_below_with_its_first_column() -> None:
    columns = [Column(name, tuple(row[n] for row in ROWS)) for n, name in enumerate(WIDE)]
    parts = divided(columns, 80)
    assert len(parts) == 2 and all(part[0].name == "engine" for part in parts)
    assert [column.name for part in parts for column in part[1:]] == list(WIDE[1:])
    assert len(divided(columns, 200)) == 1


def test_each_part_of_a_table_tells_its_rows_apart() -> None:
    columns = [
        Column("filters", ("semantic", "semantic", "plain")),
        Column("clusters", ("1", "3", "1")),
        *(Column(f"within {n} hops", ("0.1083", "0.3333", "1")) for n in range(9)),
    ]
    parts = divided(columns, 60)
    assert len(parts) > 1
    assert all([each.name for each in part[:2]] == ["filters", "clusters"] for part in parts)
    assert [each for part in parts for each in part[2:]] == columns[2:]
    assert all(part[0] == columns[0] and part[1] != columns[1] for part in divided(columns, 20)[1:])


def test_numbers_stand_on_the_right_and_text_on_the_left() -> None:
    lines = printed([["a", "1"], ["bb", "1,000"]], ("name", "count"), 80)
    assert [line.rstrip() for line in lines[2:]] == ["a         1", "bb    1,000"]


def test_text_wraps_into_what_numbers_leave() -> None:
    columns = [Column("what", (QUESTION,)), Column("seconds", ("12,345.678",))]
    text, number = widths(columns, 40)
    assert (text, number) == (28, 10)
    lines = printed([[QUESTION, "12,345.678"]], ("what", "seconds"), 40)
    assert " ".join(line[:28].strip() for line in lines[2:]) == QUESTION


@pytest.mark.parametrize("cell", ["1", "-0.5", "1,234.5", "3e-06", "12.3%", "4.5 MB", "0.2 s"])
def test_a_number_is_known_with_or_without_its_unit(cell: str) -> None:
    assert Column("n", (cell, "")).is_number
    assert not Column("n", (cell, "a word")).is_number


def test_a_column_of_nothing_is_text() -> None:
    assert not Column("n", ("", "")).is_number
    assert not Column("n", ()).is_number


def test_what_looks_like_markup_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([["[red]", "1"]], columns=("[bold]", "n"), title="[title]")
    told = capsys.readouterr().out
    assert "[red]" in told and "[bold]" in told and "[title]" in told


@pytest.mark.parametrize(
    "command",
    ["lab list", "policy list", "ontology clusters conference", "plan animals --brokers a,b"],
)
def test_what_a_command_prints_fits_80_columns(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(command.split()) == 0
    told = capsys.readouterr().out
    assert told and max(map(len, told.splitlines())) <= 80
