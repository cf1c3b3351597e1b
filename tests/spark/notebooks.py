"""Notebooks run cell by cell, in one namespace, as a kernel does; no Jupyter is needed.

python -m tests.spark.notebooks examples/podcasts-on-spark.ipynb      run it, and keep its output
"""

from __future__ import annotations

import ast
import base64
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

Cell = dict[str, Any]


def run_notebook(path: Path) -> Iterator[tuple[Cell, list[Cell]]]:
    """Each code cell, and the outputs that it has when it is run after those before it."""
    import matplotlib

    matplotlib.use("Agg")
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(code_cells(path), start=1):
        yield cell, _run("".join(cell["source"]), names, number)


def code_cells(path: Path) -> list[Cell]:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def _run(source: str, names: dict[str, Any], number: int) -> list[Cell]:
    from matplotlib import pyplot

    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    said = io.StringIO()
    value = None
    with redirect_stdout(said):
        exec(compile(tree, f"<cell {number}>", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"<cell {number}>", "eval"), names)
    made: list[Cell] = []
    if said.getvalue():
        text = said.getvalue().splitlines(keepends=True)
        made.append({"output_type": "stream", "name": "stdout", "text": text})
    if value is not None and not pyplot.get_fignums():
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        shown = {"output_type": "execute_result", "execution_count": number, "metadata": {}}
        made.append({**shown, "data": data})
    for figure in map(pyplot.figure, pyplot.get_fignums()):
        drawn = io.BytesIO()
        figure.savefig(drawn, format="png", dpi=70, metadata={"Software": None})
        picture = base64.b64encode(drawn.getvalue()).decode()
        made.append({"output_type": "display_data", "metadata": {}, "data": {"image/png": picture}})
    pyplot.close("all")
    return made


@contextmanager
def inside(folder: Path) -> Iterator[None]:
    """A notebook writes where it runs."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def main(path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder, inside(Path(folder)):
        done = [outputs for _, outputs in run_notebook(path)]
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, (cell, outputs) in enumerate(zip(cells, done, strict=True), start=1):
        cell["outputs"], cell["execution_count"] = outputs, number
    text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
