"""Results in a folder, and one page of all of them.

    OUT/operator-cost/result.json        what was run: parameters, seed, machine, notes
    OUT/operator-cost/TABLE.parquet      our figures
    OUT/operator-cost/TABLE.theirs.parquet
    OUT/operator-cost/*.svg              plots
    OUT/report.html                      everything, in one file that needs nothing else

Running an experiment again replaces its folder, so the page never mixes two runs of one experiment.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from kbn.errors import InvalidInputError
from kbn.lab.experiment import Experiment, Parameters, Result, Table
from kbn.pages import MEDIA_TYPES, Section, figures, html_table, tables_beside, whole_page
from kbn.wording import in_order

RESULT_FILE = "result.json"
REPORT_FILE = "report.html"


@dataclass(frozen=True, slots=True)
class Saved:
    """A result read back from its folder, with the plots found beside it."""

    result: Result
    plots: tuple[Path, ...]


def save(result: Result, experiment: Experiment, out: Path) -> tuple[Path, ...]:
    """Write a result and its plots under `out`, in place of an earlier run; the plots' paths."""
    folder = out / result.experiment
    if (folder / RESULT_FILE).exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for table in result.tables:
        _write_table(table, folder)
    plots = tuple(experiment.plot(result.tables, folder)) if experiment.plot else ()
    text = json.dumps(_without_data(result), indent=2, ensure_ascii=False, default=str)
    (folder / RESULT_FILE).write_text(text + "\n", encoding="utf-8")
    return plots


def is_kept(out: Path, name: str, scale: str, seed: int, parameters: Parameters) -> bool:
    """Whether the result of this version, scale, seed and parameters is there; not the cores."""
    from kbn.lab.experiment import describe_machine

    try:
        kept = json.loads((out / name / RESULT_FILE).read_text(encoding="utf-8"))
        found = (kept["scale"], kept["seed"], kept["machine"]["kbn"], _counting(kept["parameters"]))
    except (OSError, ValueError, KeyError, TypeError):
        return False
    as_kept = json.loads(json.dumps(dict(parameters), default=str))
    return found == (str(scale), seed, describe_machine()["kbn"], _counting(as_kept))


def _counting(parameters: dict[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in parameters.items() if name not in ("cores", "processes")}


def load_all(out: Path) -> tuple[Saved, ...]:
    """Every result kept under `out`, sorted by name."""
    found = sorted(out.glob(f"*/{RESULT_FILE}"), key=lambda path: in_order(path.parent.name))
    if not found:
        raise InvalidInputError(f"{out} holds no results; first run: kbn lab run NAME --out {out}")
    return tuple(_load(path.parent) for path in found)


def write_report(out: Path) -> Path:
    """Write the page of everything under `out` and return its path."""
    path = out / REPORT_FILE
    path.write_text(page(load_all(out)), encoding="utf-8")
    return path


def as_json(result: Result) -> dict[str, Any]:
    """The result as JSON-ready data, rows included."""
    data = _without_data(result)
    for description, table in zip(data["tables"], result.tables, strict=True):
        description["rows"] = table.data.to_pylist()
        description["theirs"] = table.theirs.to_pylist() if table.theirs is not None else []
    return data


# Files


def _without_data(result: Result) -> dict[str, Any]:
    return {
        "experiment": result.experiment,
        "source": result.source,
        "question": result.question,
        "scale": result.scale,
        "seed": result.seed,
        "parameters": dict(result.parameters),
        "seconds": round(result.seconds, 3),
        "machine": dict(result.machine),
        "tables": [
            {"name": table.name, "title": table.title, "notes": list(table.notes)}
            for table in result.tables
        ],
    }


def _write_table(table: Table, folder: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(table.data, folder / f"{table.name}.parquet")
    if table.theirs is not None:
        pq.write_table(table.theirs, folder / f"{table.name}.theirs.parquet")


def _load(folder: Path) -> Saved:
    try:
        kept = json.loads((folder / RESULT_FILE).read_text(encoding="utf-8"))
        tables = tuple(_load_table(folder, about) for about in kept.pop("tables"))
        result = Result(**kept, tables=tables)
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        raise InvalidInputError(
            f"{folder} holds no result this version can read ({error}); run the experiment again"
        ) from error
    drawn = [path for path in folder.iterdir() if path.suffix in MEDIA_TYPES]
    plots = sorted(drawn, key=lambda path: in_order(path.name))
    return Saved(result, tuple(plots))


def _load_table(folder: Path, about: dict[str, Any]) -> Table:
    import pyarrow.parquet as pq

    theirs = folder / f"{about['name']}.theirs.parquet"
    return Table(
        name=about["name"],
        data=pq.read_table(folder / f"{about['name']}.parquet"),
        title=about["title"],
        notes=tuple(about["notes"]),
        theirs=pq.read_table(theirs) if theirs.exists() else None,
    )


# The page


def page(results: Sequence[Saved]) -> str:
    """One HTML page, plots and style inside it."""
    return whole_page("kbn lab", [_section(saved) for saved in results])


def _section(saved: Saved) -> Section:
    result = saved.result
    asked = f"{escape(result.question)} <span>({escape(result.source)})</span>"
    ran = escape(_how_it_ran(result))
    lead = f'<p class="question">{asked}</p>\n<p class="run">{ran}</p>'
    blocks = [figures(saved.plots), *(_table_block(table) for table in result.tables)]
    return Section(result.experiment, blocks, lead)


def _how_it_ran(result: Result) -> str:
    settings = {"scale": result.scale, "seed": result.seed, **result.parameters}
    told = ", ".join(f"{name} {value}" for name, value in settings.items())
    machine = ", ".join(f"{name} {value}" for name, value in result.machine.items())
    return f"{told}; {result.seconds:.1f} s; {machine}"


def _table_block(table: Table) -> str:
    ours = html_table(table.data, table.title or table.name)
    theirs = (
        [html_table(table.theirs, "The figures of the source")] if table.theirs is not None else []
    )
    notes = [f'<p class="note">{escape(note)}</p>' for note in table.notes]
    return "\n".join([tables_beside([ours, *theirs]), *notes])
