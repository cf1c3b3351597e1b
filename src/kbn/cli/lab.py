"""`kbn lab`: list experiments, run one, make a page of the results."""

from __future__ import annotations

from dataclasses import dataclass
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
ALL = "all"


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
    name: Annotated[str, typer.Argument(help="An experiment that `kbn lab list` names, or all.")],
    scale: Annotated[
        Scale, typer.Option(help="small: seconds; paper: the source's size; beyond: all it can.")
    ] = Scale.SMALL,
    out: Out = RESULTS,
    seed: Annotated[int, typer.Option(help="The same seed gives the same counts.")] = 0,
    ontologies: Annotated[
        Path | None,
        typer.Option(
            "--ontologies",
            exists=True,
            file_okay=False,
            metavar="FOLDER",
            help="For appendix-b and reasoning: a folder with the ontologies of the sources.",
        ),
    ] = None,
    cores: Annotated[
        int | None, typer.Option("--cores", min=1, help="How many cores a sweep takes.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run experiment NAME, print its tables and keep them, with plots, under --out.

    `all` runs every experiment that has the scale. One whose result is there already, from the same
    version, seed and parameters, is not run again, so a run that was ended goes on where it was.

    \b
    Examples:
      kbn lab run operator-cost
      kbn lab run appendix-b --ontologies ontologies
      kbn lab run all --scale paper --out results
      kbn lab run operator-cost --scale paper --seed 7 --out results --json
    """
    from kbn.lab import experiment, report
    from kbn.pages import plots

    plots.require()
    given = _Given(scale, seed, ontologies, cores)
    if name == ALL:
        out.mkdir(parents=True, exist_ok=True)
        require_folder(out)
        _run_all(given, out, as_json)
        return
    found = experiment.find(name)
    if ontologies is not None and not found.takes_ontologies:
        raise typer.BadParameter(f"{name} takes no --ontologies")
    out.mkdir(parents=True, exist_ok=True)
    require_folder(out)
    remark_on_compiling()
    result = _conducted(found, given)
    _print(result, as_json)
    drawn = report.save(result, found, out)
    kept = f"{counted(len(result.tables), 'table')}, {counted(len(drawn), 'plot')}"
    remark(f"kept in {out / name}: {kept}")


@dataclass(frozen=True, slots=True)
class _Given:
    """How experiments are to be run."""

    scale: Scale
    seed: int
    ontologies: Path | None
    cores: int | None


def _conducted(found: Experiment, given: _Given) -> Result:
    from kbn.lab import experiment

    with progress() as show:
        return experiment.conduct(
            found,
            given.scale,
            seed=given.seed,
            progress=show,
            ontologies=given.ontologies,
            cores=given.cores,
        )


def _run_all(given: _Given, out: Path, as_json: bool) -> None:
    """Every experiment of the scale that has no such result yet; one that fails stops no other."""
    from kbn.errors import KbnError
    from kbn.lab import experiment, report

    found = [
        each for each in map(experiment.find, experiment.names()) if given.scale in each.scales
    ]
    told: dict[str, str] = {}
    remark_on_compiling()
    for number, each in enumerate(found, start=1):
        parameters = experiment.chosen(each, given.scale, ontologies=given.ontologies)
        if report.is_kept(out, each.name, given.scale, given.seed, parameters):
            told[each.name] = "kept"
        else:
            remark(f"{number} of {len(found)}: {each.name}")
            try:
                report.save(_conducted(each, given), each, out)
                told[each.name] = "run"
            except KbnError as error:
                told[each.name] = f"failed: {error}"
    if as_json:
        print_json(told)
    else:
        print_table(([name, what] for name, what in told.items()), columns=["experiment", "result"])
    if any(what.startswith("failed") for what in told.values()):
        raise typer.Exit(1)


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
