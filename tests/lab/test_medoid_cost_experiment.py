"""medoid-cost at its small scale: it runs and draws; that both ways agree is asserted inside."""

from __future__ import annotations

from pathlib import Path

from kbn.lab.experiment import Scale, conduct, find
from kbn.lab.report import save


def test_both_hierarchies_and_both_kinds_of_terms_are_measured(tmp_path: Path) -> None:
    result = conduct(find("medoid-cost"), Scale.SMALL, seed=1)
    batches, changes = (table.data.to_pylist() for table in result.tables)
    assert {(row["hierarchy"], row["terms"]) for row in batches} == {
        (shape, kind) for shape in ("tree", "two parents") for kind in ("anywhere", "near")
    }
    assert all(row["clients"] == 200 and row["s"] >= 0 for row in batches)
    assert len(changes) == 2
    assert save(result, find("medoid-cost"), tmp_path)
