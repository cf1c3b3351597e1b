"""`kbn lab`: list experiments, run one, make a page of the results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kbn.cli.output import (
    AsJson,
    print_json,
    print_table,
    print_text,
    progress,
    remark,
    remark_on_compiling,
    require_folder,
)
from kbn.lab import Scale
from kbn.wording import counted

if TYPE_CHECKING:
    from kbn.lab import Experiment, Result

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Run the experiments and report on them."
)

Out = Annotated[
    Path, typer.Option("--out", file_okay=False, help="Folder the results are kept in.")
]
RESULTS = Path("lab-results")


@app.command("list", short_help="List the experiments and what each asks.")
def list_(as_json: AsJson = False) -> None:
    """List the experiments: what each asks and where it comes from.

    \b
    Example:
      kbn lab list
    """
    from kbn.lab import experiment

    found = [experiment.find(name) for name in experiment.names()]
    if as_json:
        print_json([_as_json(each) for each in found])
    elif not found:
        remark("no experiment yet: they are modules of kbn.lab.experiments")
    else:
        rows = ([each.name, each.question, each.source] for each in found)
        print_table(rows, columns=["name", "question", "source"])


def _as_json(experiment: Experiment) -> dict[str, object]:
    return {
        "name": experiment.name,
        "source": experiment.source,
        "question": experiment.question,
        "scales": {scale.value: dict(sizes) for scale, sizes in experiment.scales.items()},
    }


@app.command("run", short_help="Run an experiment, print its tables and keep them.")
def run(
    name: Annotated[str, typer.Argument(help="An experiment that `kbn lab list` names.")],
    scale: Annotated[
        Scale, typer.Option(help="small: seconds; paper: the source's size; beyond: all it can.")
    ] = Scale.SMALL,
    out: Out = RESULTS,
    seed: Annotated[int, typer.Option(help="The same seed gives the same counts.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Run experiment NAME, print its tables and keep them, with plots, under --out.

    \b
    Examples:
      kbn lab run operator-cost
      kbn lab run operator-cost --scale paper --seed 7 --out results --json
    """
    from kbn.lab import experiment, report
    from kbn.pages import plots

    found = experiment.find(name)
    plots.require()
    out.mkdir(parents=True, exist_ok=True)
    require_folder(out)
    remark_on_compiling()
    with progress() as show:
        result = experiment.conduct(found, scale, seed=seed, progress=show)
    _print(result, as_json)
    drawn = report.save(result, found, out)
    kept = f"{counted(len(result.tables), 'table')}, {counted(len(drawn), 'plot')}"
    remark(f"kept in {out / name}: {kept}")


@app.command("report", short_help="Make one page of all results.")
def report_(out: Out = RESULTS, as_json: AsJson = False) -> None:
    """Make one page of every result under --out: report.html, which needs no other file.

    \b
    Example:
      kbn lab report --out results
    """
    from kbn.lab import report

    path = report.write_report(out)
    if as_json:
        print_json({"report": str(path)})
    else:
        typer.echo(path)


def _print(result: Result, as_json: bool) -> None:
    from kbn.lab import report
    from kbn.pages import shown

    if as_json:
        print_json(report.as_json(result))
        return
    for table in result.tables:
        columns = table.data.column_names
        rows = ([shown(row[c]) for c in columns] for row in table.data.to_pylist())
        print_table(rows, columns=columns, title=table.title or table.name)
        for note in table.notes:
            print_text(note)
