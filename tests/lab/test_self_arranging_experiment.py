"""self-arranging at its small scale: the management plane brings hops down and keeps the limit."""

from __future__ import annotations

from pathlib import Path

from kbn.lab.experiment import Scale, conduct, find
from kbn.lab.report import save


def test_policies_bring_the_hops_down_and_keep_the_load_limit(tmp_path: Path) -> None:
    """That every round delivers the same is asserted in the experiment itself."""
    result = conduct(find("self-arranging"), Scale.SMALL, seed=1)
    rows = result.tables[0].data.to_pylist()
    first, last = rows[0], rows[-1]
    assert (first["when"], last["when"]) == ("unmanaged", "4 min")
    assert last["mean hops"] < 2 < first["mean hops"]
    assert last["largest load / limit"] <= 1.0
    assert save(result, find("self-arranging"), tmp_path)
