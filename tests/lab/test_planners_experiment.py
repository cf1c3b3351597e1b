"""planners at its small scale: all planners side by side, with what each promises."""

from __future__ import annotations

from pathlib import Path

from kbn.lab.experiment import Scale, conduct, find
from kbn.lab.experiments.planners import NAMES
from kbn.lab.report import save, write_report


def test_all_planners_are_compared(tmp_path: Path) -> None:
    result = conduct(find("planners"), Scale.SMALL, seed=1)
    rows = {row["planner"]: row for row in result.tables[0].data.to_pylist()}
    assert tuple(rows) == NAMES
    assert rows["traffic"]["mean hops"] < rows["taxonomic"]["mean hops"]
    assert rows["traffic"]["largest load"] <= 2.1 < rows["topic"]["largest load"]
    assert rows["relinking"]["mean hops"] < rows["taxonomic"]["mean hops"]
    assert rows["rendezvous"]["moves"] == 0 < rows["taxonomic"]["moves"]
    assert rows["balanced"]["largest load"] <= rows["taxonomic"]["largest load"]
    assert {name: row["links changed"] > 0 for name, row in rows.items()} == {
        name: name == "relinking" for name in NAMES
    }
    assert save(result, find("planners"), tmp_path)
    assert result.question in write_report(tmp_path).read_text(encoding="utf-8")
