"""The experiment on publisher groups at its small scale."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kbn.lab.experiment import Result, Scale, conduct, find
from kbn.lab.publishers import Setting, grown
from kbn.lab.report import save, write_report


@pytest.fixture(scope="module")
def result() -> Result:
    return conduct(find("publisher-groups"), Scale.SMALL, seed=1)


def rows(result: Result, table: str) -> list[dict[str, Any]]:
    found = next(each for each in result.tables if each.name == table)
    return list(found.data.to_pylist())


def test_every_figure_is_drawn_and_the_run_reported(result: Result, tmp_path: Path) -> None:
    plots = save(result, find("publisher-groups"), tmp_path)
    drawn = {path.stem.removeprefix("figure-") for path in plots}
    # 5.15 and 5.16 are one histogram of two strategies here.
    assert drawn == {f"5.{number}" for number in range(2, 21)} - {"5.16"}
    assert all(path.stat().st_size > 0 for path in plots)
    assert result.question in write_report(tmp_path).read_text(encoding="utf-8")


def test_what_does_not_depend_on_size_is_as_in_the_thesis(result: Result) -> None:
    told = {row["what"]: (row["ours"], row["thesis"]) for row in rows(result, "told")}
    for what in ("strategy 2, 9-9 of 10", "strategy 2, 3-4 of 5", "strategy 2, 10-10 of 10"):
        ours, theirs = told[f"clusters, {what}"]
        assert ours == theirs
    assert told["rate, strategy 2, 10-10 of 10"] == (0, 0)
    assert told["rate, strategy 3 descending, 15-15 connections, 3-4 of 10"] == (0, 0)
    assert told["clusters, strategy 1, 9-9 of 10"][0] <= 1022


def test_strategy_4_gains_at_each_limit(result: Result) -> None:
    gains = {
        row["connections"]: row["under the best of 3 and 3.1"]
        for row in rows(result, "means")
        if row["strategy"].startswith("4")
    }
    assert gains.pop("15-15") is None
    assert all(gain > 0.3 for gain in gains.values())


def test_clusters_grow_and_never_shrink_under_strategy_1(result: Result) -> None:
    curves: dict[str, list[int]] = {}
    for row in rows(result, "growth"):
        if row["curve"].startswith("strategy 1,"):
            curves.setdefault(row["figure"] + row["curve"], []).append(row["clusters"])
    assert curves and all(curve == sorted(curve) for curve in curves.values())


def test_all_strategies_meet_the_same_publishers() -> None:
    setting = Setting("3", 30, connections=(11, 15))
    drawn = [
        [attributes for attributes, _ in setting.by(strategy).drawn(7)]
        for strategy in ("1", "2", "3", "3.1", "4")
    ]
    assert all(each == drawn[0] for each in drawn)
    assert grown(setting, 7).connections == grown(setting, 7).connections
