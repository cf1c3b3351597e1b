"""What every test gets: repeatable randomness, a cache of its own, Java where it needs it.

Every session has one seed. All Hypothesis tests and the `seed` fixture draw from it, and it is
fixed, so two runs are the same run. `KBN_TEST_SEED` gives another: `scripts/test-random` chooses
fresh ones for the tests it concerns, which are marked `random` here, and prints how to replay.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

SEED_VARIABLE = "KBN_TEST_SEED"
SEED_OPTION = "hypothesis_seed"
SEED = "20261116"
JAVA_WANTED = 17

# Kernels are named by their sources, so their cache may stay: compiling takes half a minute. Set
# before anything else is imported, for Numba reads it once.
os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(__file__).parent.parent / ".cache"))

# Timing is what benchmarks are for: a slow example on a busy machine is no failure. No database:
# what an earlier run found here must not decide what this one tries.
_COMMON = settings(
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("ci", _COMMON, max_examples=25)
settings.register_profile("quick", _COMMON, max_examples=15)
settings.register_profile("thorough", _COMMON, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if getattr(config.option, SEED_OPTION, None) is None:
        setattr(config.option, SEED_OPTION, os.environ.get(SEED_VARIABLE, SEED))
    # The order of a set of strings comes from here. It is read when a process starts: this is for
    # workers and commands, and scripts/test sets it for this one.
    os.environ.setdefault("PYTHONHASHSEED", getattr(config.option, SEED_OPTION))
    # A fresh cache of ontologies, shared by the workers: what an earlier version left in the
    # user's own must not decide whether a test passes, and nothing is left behind there.
    if "KBN_CACHE_DIR" not in os.environ:
        folder = tempfile.mkdtemp(prefix="kbn-cache-")
        os.environ["KBN_CACHE_DIR"] = folder
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def pytest_report_header(config: pytest.Config) -> str:
    return f"seed {getattr(config.option, SEED_OPTION)}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    used = getattr(terminalreporter.config.option, SEED_OPTION)
    failed = terminalreporter.stats.get("failed", []) + terminalreporter.stats.get("error", [])
    if failed and used != SEED:
        names = " ".join(f"'{report.nodeid}'" for report in failed)
        terminalreporter.write_line(f"replay: {SEED_VARIABLE}={used} scripts/test {names}")


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """The session's seed, for tests that make their own random numbers."""
    return int(getattr(request.config.option, SEED_OPTION))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Pages come first: they take longest, and should not be what a run ends with.

    Tests marked `java` are skipped where there is none, except where that must not pass.
    """
    items.sort(key=lambda item: item.path.name != "test_docs.py")
    for item in items:
        if draws_from_the_seed(item):
            item.add_marker(pytest.mark.random)
    needing = [item for item in items if item.get_closest_marker("java")]
    if not needing or java_is_here() or os.environ.get("KBN_REQUIRE_JAVA") == "1":
        return
    for item in needing:
        item.add_marker(pytest.mark.skip(reason=f"needs Java {JAVA_WANTED}+: make java"))


def draws_from_the_seed(item: pytest.Item) -> bool:
    """Whether another session seed is another test: Hypothesis chooses, or the test itself does."""
    if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
        return True
    given = getattr(getattr(item, "callspec", None), "params", {})
    return "seed" in getattr(item, "fixturenames", ()) and "seed" not in given


@cache
def java_is_here() -> bool:
    java = shutil.which("java")
    if java is None:
        return False
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(?:1\.)?(\d+)', told.stderr + told.stdout)
    return version is not None and int(version[1]) >= JAVA_WANTED
