"""Experiments on attribute families and on splitting by what is observed, at their small scales."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from kbn.grouping import publisher_groups
from kbn.lab.baselines.exact_groups import exact_deliveries
from kbn.lab.experiment import Scale, conduct, find
from kbn.lab.report import save, write_report


def test_families_cost_false_positives_and_learned_ones_fewer(tmp_path: Path) -> None:
    result = conduct(find("attribute-families"), Scale.SMALL, seed=1)
    found = result.tables[0].data.to_pylist()
    assert len(found) == 6
    for row in found:
        assert row["exact"] <= row["learned"] < row["hashed"] < 1
        assert row["received, hashed"] >= row["received, learned"] >= 1
    assert [path.stem for path in save(result, find("attribute-families"), tmp_path)] == [
        "families"
    ]
    assert result.question in write_report(tmp_path).read_text(encoding="utf-8")


def test_reacting_lowers_false_positives_as_traffic_drifts(tmp_path: Path) -> None:
    result = conduct(find("reactive-splitting"), Scale.SMALL, seed=1)
    found = result.tables[0].data.to_pylist()
    assert found[0]["rate reacting"] == found[0]["rate as they came"] > 0.1
    assert all(row["false positives against"] < 0.7 for row in found[1:])
    assert [path.stem for path in save(result, find("reactive-splitting"), tmp_path)] == ["drift"]


@pytest.mark.parametrize("limit", [None, 3, 5])
def test_the_exact_baseline_counts_as_groups_do(limit: int | None) -> None:
    """With one combination per cluster both agree; with limits it is no worse than strategy 2."""
    rng = Random(4)
    advertised = [frozenset(rng.sample("abcdef", 3)) for _ in range(12)]
    wanted = {frozenset(part): 1 for each in advertised for part in (sorted(each)[:2], each)}
    found = exact_deliveries(advertised, [limit] * 12, wanted)
    apart = publisher_groups(advertised, "1").deliveries(wanted)
    joined = publisher_groups(advertised, "2").deliveries(wanted)
    if limit is None:
        assert found == apart
    assert apart.received <= found.received <= joined.received
