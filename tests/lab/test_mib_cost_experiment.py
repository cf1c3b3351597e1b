"""The experiment on the MIB at its small scale: it runs, draws, and counts the same every time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kbn.lab.experiment import Result, Scale, conduct, find
from kbn.lab.experiments.mib_cost import reports
from kbn.lab.report import save, write_report
from kbn.management.mib import Mib


@pytest.fixture(scope="module")
def result() -> Result:
    return conduct(find("mib-cost"), Scale.SMALL, seed=1)


def rows(result: Result, table: int) -> list[dict[str, Any]]:
    return list(result.tables[table].data.to_pylist())


def test_a_run_is_kept_drawn_and_reported(result: Result, tmp_path: Path) -> None:
    plots = save(result, find("mib-cost"), tmp_path)
    assert {path.stem for path in plots} == {"memory", "policies"}
    assert result.question in write_report(tmp_path).read_text(encoding="utf-8")


def test_memory_grows_with_the_objects_and_stays_small(result: Result) -> None:
    small, large = rows(result, 0)
    assert (small["objects"], large["objects"]) == (500, 2_500)
    assert small["held MB"] < large["held MB"] < 3
    assert all(row["µs per report"] > 0 and row["reopen s"] > 0 for row in (small, large))


def test_each_policy_finds_what_it_means_and_does_as_much_as_its_rate_allows(
    result: Result,
) -> None:
    found = rows(result, 1)
    assert len(found) == 10
    mib = Mib()
    for report in reports(2_500, 1):
        mib.apply(report, 0.0)
    by_name = {row["policy"]: row for row in found if row["objects"] == 2_500}
    expected = {
        "misplaced-subscribers": sum(
            each.mean_hops > 1.5 and each.notifications >= 10 for each in mib.objects("subscriber")
        ),
        "place-publishers": sum(
            each.medoid != "" and each.name.endswith("7") for each in mib.objects("publisher")
        ),
        "widest-broker": 1,
    }
    for name, count in expected.items():
        assert by_name[name]["found"] == count > 0
        assert by_name[name]["done"] == min(count, 100)


def test_all_scales_are_there_and_the_largest_has_a_million_objects() -> None:
    scales = find("mib-cost").scales
    assert set(scales) == set(Scale) and max(scales[Scale.BEYOND]["sizes"]) == 1_000_000
