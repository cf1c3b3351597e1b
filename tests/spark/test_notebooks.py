"""The notebooks in examples/ run, and show what they show."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.spark.notebooks import code_cells

ROOT = Path(__file__).parent.parent.parent
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
PNG = b"\x89PNG"
RUN_LIMIT_S = 300


def test_there_are_notebooks_and_they_were_run() -> None:
    assert NOTEBOOKS
    for path in NOTEBOOKS:
        cells = code_cells(path)
        counts = [cell["execution_count"] for cell in cells]
        assert counts == list(range(1, len(cells) + 1)), path.name
        pictures = [o["data"]["image/png"] for c in cells for o in c["outputs"] if is_picture(o)]
        assert pictures and all(base64.b64decode(each)[:4] == PNG for each in pictures)
        texts = str([o for c in cells for o in c["outputs"] if not is_picture(o)])
        assert "Traceback" not in texts and str(Path.home()) not in texts


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_shows_what_its_cells_do(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / path.name
    shutil.copyfile(path, copy)
    # In a process of its own: a JVM stays in the folder it was started in.
    told = subprocess.run(
        [sys.executable, "-m", "tests.spark.notebooks", str(copy)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
        capture_output=True,
        text=True,
        timeout=RUN_LIMIT_S,
        check=False,
    )
    assert told.returncode == 0, told.stderr[-6000:]
    for kept, now in zip(code_cells(path), code_cells(copy), strict=True):
        assert [o for o in now["outputs"] if not is_picture(o)] == [
            o for o in kept["outputs"] if not is_picture(o)
        ]
        # Pictures are drawn by another matplotlib, on another machine: that there is one.
        assert sum(map(is_picture, now["outputs"])) == sum(map(is_picture, kept["outputs"]))


def is_picture(output: dict[str, object]) -> bool:
    return output["output_type"] == "display_data"
