"""What every test gets: repeatable randomness, a cache of its own, Java where it needs it.

A random test that fails must be repeatable by whoever reads the log. So every session has one seed,
chosen here unless given, used by all Hypothesis tests and by the `seed` fixture, and printed at the
end with the option that replays it.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

SEED_OPTION = "hypothesis_seed"
JAVA_WANTED = 17

# Kernels are named by their sources, so their cache may stay: compiling takes half a minute. Set
# before anything else is imported, for Numba reads it once.
os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(__file__).parent.parent / ".cache"))

# Timing is what benchmarks are for: a slow example on a busy machine is no failure.
_COMMON = settings(deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", _COMMON, max_examples=25)
settings.register_profile("quick", _COMMON, max_examples=15)
settings.register_profile("thorough", _COMMON, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    # Workers are handed the options of the session that starts them, and so its seed.
    if getattr(config.option, SEED_OPTION, None) is None:
        setattr(config.option, SEED_OPTION, str(random.SystemRandom().randrange(2**32)))
    # A fresh cache of ontologies, shared by the workers: what an earlier version left in the
    # user's own must not decide whether a test passes, and nothing is left behind there.
    if "KBN_CACHE_DIR" not in os.environ:
        folder = tempfile.mkdtemp(prefix="kbn-cache-")
        os.environ["KBN_CACHE_DIR"] = folder
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    used = getattr(terminalreporter.config.option, SEED_OPTION)
    terminalreporter.write_line(f"seed {used}; replay with --hypothesis-seed={used}")


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """The session's seed, for tests that make their own random numbers."""
    used = str(getattr(request.config.option, SEED_OPTION))
    return int(used) if used.isdigit() else 0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Pages come first: they take longest, and should not be what a run ends with.

    Tests marked `java` are skipped where there is none, except where that must not pass.
    """
    items.sort(key=lambda item: item.path.name != "test_docs.py")
    needing = [item for item in items if item.get_closest_marker("java")]
    if not needing or java_is_here() or os.environ.get("KBN_REQUIRE_JAVA") == "1":
        return
    for item in needing:
        item.add_marker(pytest.mark.skip(reason=f"needs Java {JAVA_WANTED}+: make java"))


@cache
def java_is_here() -> bool:
    java = shutil.which("java")
    if java is None:
        return False
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(?:1\.)?(\d+)', told.stderr + told.stdout)
    return version is not None and int(version[1]) >= JAVA_WANTED
