"""Plots say what they measure, in figures that people read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kbn.pages import plots


@pytest.fixture(autouse=True)
def readable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep text as text in the SVG file, and not as outlines."""
    monkeypatch.setitem(plots.STYLE, "svg.fonttype", "none")


def texts(path: Path) -> list[str]:
    found = re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text(encoding="utf-8"))
    return [text.replace("&amp;", "&") for text in found]


def numbers(path: Path) -> list[str]:
    return [text for text in texts(path) if re.fullmatch(r"[−\d.,]+", text)]


def test_both_axes_are_named(tmp_path: Path) -> None:
    drawn = plots.lines(
        tmp_path / "a.svg", {"": [(1, 2), (2, 3)]}, title="Growth", x="brokers", y="time (ms)"
    )
    assert {"Growth", "brokers", "time (ms)"} <= set(texts(drawn))
    drawn = plots.bars(tmp_path / "b.svg", {"": {"a": 1}}, title="Sizes", x="kind", y="clients")
    assert {"Sizes", "kind", "clients"} <= set(texts(drawn))


def test_a_plot_with_a_nameless_axis_is_our_bug(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="axis"):
        plots.bars(tmp_path / "b.svg", {"": {"a": 1}}, title="Sizes", x="", y="clients")


@pytest.mark.parametrize("highest", [1, 2, 3, 7, 40])
def test_counts_have_whole_ticks(tmp_path: Path, highest: int) -> None:
    heights = {"": {"few": 1, "many": highest}}
    drawn = plots.bars(tmp_path / "b.svg", heights, title="t", x="x", y="y")
    ticks = numbers(drawn)
    assert ticks and all(tick.isdigit() for tick in ticks) and len(set(ticks)) == len(ticks)


def test_thousands_stand_apart(tmp_path: Path) -> None:
    heights = {"": {"a": 25_000, "b": 1}}
    drawn = plots.bars(tmp_path / "b.svg", heights, title="t", x="x", y="y")
    assert "25,000" in numbers(drawn)


def test_ticks_are_values_and_not_offsets(tmp_path: Path) -> None:
    points = [(0, 0.99901), (1, 0.99902)]
    drawn = plots.lines(tmp_path / "a.svg", {"": points}, title="t", x="x", y="y")
    assert all(tick.startswith("0.999") for tick in numbers(drawn) if "." in tick)


def test_long_names_stand_level_beside_their_bars(tmp_path: Path) -> None:
    names = [f"Government & Organizations {n}" for n in range(12)]
    drawn = plots.bars(
        tmp_path / "b.svg", {"": dict.fromkeys(names, 3)}, title="t", x="cluster", y="clients"
    )
    lines = drawn.read_text(encoding="utf-8").splitlines()
    named = [line for line in lines if "Organizations" in line and "<text" in line]
    assert len(named) == 12 and not any("rotate(-90" in line for line in named)


def test_the_names_of_many_series_are_all_there(tmp_path: Path) -> None:
    series = {f"strategy {n}, 13-15 connections": [(0, n), (1, n)] for n in range(9)}
    drawn = plots.lines(tmp_path / "a.svg", series, title="t", x="x", y="y")
    assert series.keys() <= set(texts(drawn))
