"""collection-cost at its small scale: real processes, asked for reports while they work."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbn.lab.experiment import Scale, conduct, find
from kbn.lab.report import save


@pytest.mark.slow
def test_every_rate_is_measured_kept_and_drawn(tmp_path: Path) -> None:
    result = conduct(find("collection-cost"), Scale.SMALL, seed=1)
    rows = result.tables[0].data.to_pylist()
    found = [(row["requests a minute"], row["kind"]) for row in rows]
    kinds = [("240", "medoids"), ("240", "utilisation")]
    assert found == [("unmanaged", "unmanaged"), ("0", "none"), *kinds]
    for row in rows:
        assert row["publication ms"] > 0 and row["subscription ms"] > 0
    none = rows[1]
    assert {none[f"{name} × none"] for name in ("publication ms", "subscription ms")} == {1.0}
    assert save(result, find("collection-cost"), tmp_path)
