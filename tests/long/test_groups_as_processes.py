"""A small group as processes over slow links; `tests.long.groups_run` runs a large one."""

from __future__ import annotations

import pytest
from tests.long import groups_run


@pytest.mark.slow
def test_bounds_are_kept_and_kills_lose_nothing() -> None:
    run = groups_run.run_all(groups_run.SMALL, seed=7)
    print(groups_run.report(run))
    groups_run.check(run)
