"""The notebooks in examples/ run, and show what they show."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.notebooks import code_cells, inside, run_notebook

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
PNG = b"\x89PNG"


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
def test_a_notebook_shows_what_its_cells_do(
    spark: SparkSession, path: Path, tmp_path: Path
) -> None:
    with inside(tmp_path):
        for cell, outputs in run_notebook(path):
            shown = [output for output in cell["outputs"] if not is_picture(output)]
            assert [output for output in outputs if not is_picture(output)] == shown
            # Pictures are drawn by another matplotlib, on another machine: that there is one.
            assert sum(map(is_picture, outputs)) == sum(map(is_picture, cell["outputs"]))


def is_picture(output: dict[str, object]) -> bool:
    return output["output_type"] == "display_data"
