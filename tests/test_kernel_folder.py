"""Whether kernels are compiled: by this Python, for this installation."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import kbn
from kbn.kernel_folder import is_kept

SOURCE = Path(kbn.__file__).parent
PYTHON = f"py{sys.version_info.major}{sys.version_info.minor}"


@pytest.mark.parametrize(
    ("file", "is_ours"),
    [
        (f"one.match_one-18.{PYTHON}.nbi", True),
        ("one.match_one-18.py27.nbi", False),
        (f"one.match_one_more-18.{PYTHON}.nbi", False),
        (f"elsewhere/one.match_one-18.{PYTHON}.nbi", False),
    ],
)
def test_code_that_another_python_or_another_installation_compiled_does_not_count(
    tmp_path: Path, file: str, is_ours: bool
) -> None:
    kernel = SimpleNamespace(__name__="match_one", stats=SimpleNamespace(cache_path=str(tmp_path)))
    assert not is_kept(kernel)
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).touch()
    assert is_kept(kernel) is is_ours


def test_a_kernel_that_was_called_is_kept() -> None:
    from kbn import Matcher, Notification
    from kbn.matching import kernels

    matcher = Matcher()
    matcher.add("price < 5", "ann")
    assert list(matcher.match(Notification({"price": 3}))) == ["ann"]
    assert kernels.are_compiled()


@pytest.mark.parametrize("folder", sorted(SOURCE.rglob("kernels")), ids=lambda f: f.parent.name)
def test_every_kernel_is_imported_where_its_code_is_kept(folder: Path) -> None:
    """One imported later is compiled into the folder of its source, or not at all."""
    package = ".".join(("kbn", *folder.relative_to(SOURCE).parts))
    wanted = {f"{package}.{each.stem}" for each in folder.glob("*.py") if each.stem != "__init__"}
    code = f"import sys, {package}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert wanted <= set(done.stdout.split())
