"""What every test of this room gets: compiled kernels."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

COMPILE = Path(__file__).parents[2] / "scripts" / "compile_kernels"


@pytest.fixture(scope="session", autouse=True)
def kernels() -> None:
    """Compile first, where that was not done before.

    All brokers, clients and publishers of a test share one event loop. A kernel that is compiled in
    it stops them all, for longer than some of them wait for an answer.
    """
    runpy.run_path(str(COMPILE))
