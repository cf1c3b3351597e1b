"""What an experiment is, how one is found, and how one is run.

An experiment is data and two functions. The data say where the question comes from and how large
each scale is; `run` measures and returns tables; `plot` draws them. Neither function reads the
command line, prints or decides where files go, so the same experiment runs in a test, from a
notebook and under `kbn lab run`.

    EXPERIMENT = Experiment(
        name="bags",
        source="book chapter",
        question="what do composite bag operators cost as bags grow?",
        scales={Scale.SMALL: {"sizes": [2, 4, 8]}, Scale.PAPER: {"sizes": [2, 4, 8, 16]}},
        run=run,
        plot=plot,
    )

Counts are exact for a seed. Times are ratios to a baseline of the same run, absolute values beside.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from kbn.errors import InvalidInputError
from kbn.lab.scale import Scale as Scale
from kbn.wording import close_names, did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa

EXPERIMENTS = "kbn.lab.experiments"

Parameters = Mapping[str, Any]
Progress = Callable[[str, int, int], None]  # what is being done, how much is done, of how much


@dataclass(frozen=True, slots=True)
class Table:
    """One table of results: our figures, the source's beside them, and what a reader must know.

    `name` is a short file name; `title` is what stands above the table. `theirs` holds the figures
    the source printed, in whatever columns it had, and is empty when it printed none.
    """

    name: str
    data: pa.Table
    title: str = ""
    notes: tuple[str, ...] = ()
    theirs: pa.Table | None = None


@dataclass(frozen=True, slots=True)
class Experiment:
    """A question from a source, its sizes, and how to answer and draw it."""

    name: str
    source: str
    question: str
    scales: Mapping[Scale, Parameters]
    run: Callable[[Parameters, int, Progress], Sequence[Table]]
    plot: Callable[[Sequence[Table], Path], Sequence[Path]] | None = None
    takes_ontologies: bool = False
    """Whether it can use a folder of ontologies, the parameter `ontologies` of a run."""

    def parameters(self, scale: Scale) -> Parameters:
        """The parameters of a scale, or an error that names the scales there are."""
        if scale not in self.scales:
            there_are = ", ".join(self.scales)
            raise InvalidInputError(f"{self.name} has no scale '{scale}'; it has {there_are}")
        return self.scales[scale]


@dataclass(frozen=True, slots=True)
class Result:
    """What one run of an experiment gave, and everything needed to run it again."""

    experiment: str
    source: str
    question: str
    scale: str
    seed: int
    parameters: Parameters
    seconds: float
    tables: tuple[Table, ...]
    machine: Mapping[str, str] = field(default_factory=dict)


def silent(what: str, done: int, total: int) -> None:
    """Progress nobody watches."""


def conduct(
    experiment: Experiment,
    scale: Scale,
    *,
    seed: int = 0,
    progress: Progress = silent,
    ontologies: Path | None = None,
    cores: int | None = None,
) -> Result:
    """Run an experiment at a scale; the same seed gives the same counts.

    `ontologies` is a folder, for an experiment that can use one. `cores` are taken instead of those
    its scale names; they change no count.
    """
    parameters = chosen(experiment, scale, ontologies=ontologies, cores=cores)
    given = dict(parameters)
    if ontologies is not None and experiment.takes_ontologies:
        given["ontologies"] = ontologies
    started = perf_counter()
    tables = tuple(experiment.run(given, seed, progress))
    seconds = perf_counter() - started
    _check_names(experiment, tables)
    return Result(
        experiment=experiment.name,
        source=experiment.source,
        question=experiment.question,
        scale=scale.value,
        seed=seed,
        parameters=parameters,
        seconds=seconds,
        tables=tables,
        machine=describe_machine(),
    )


def chosen(
    experiment: Experiment,
    scale: Scale,
    *,
    ontologies: Path | None = None,
    cores: int | None = None,
) -> Parameters:
    """The parameters of a run, as they are kept: of a folder only the names of its files."""
    found = dict(experiment.parameters(scale))
    if cores is not None:
        found |= {name: cores for name in ("cores", "processes") if name in found}
    if ontologies is not None and experiment.takes_ontologies:
        found["ontologies"] = sorted(path.name for path in ontologies.iterdir() if path.is_file())
    return found


def _check_names(experiment: Experiment, tables: Sequence[Table]) -> None:
    names = [table.name for table in tables]
    assert names, f"{experiment.name} returned no table"
    assert len(set(names)) == len(names), f"{experiment.name}: two tables share a name: {names}"


def describe_machine() -> dict[str, str]:
    """What a reader needs to judge an absolute time. No host name, no path, no user."""
    import os
    import platform

    import kbn

    return {
        "kbn": kbn.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": str(os.cpu_count()),
    }


def names(package: str = EXPERIMENTS) -> tuple[str, ...]:
    """The names of the experiments there are, sorted; none of them is imported."""
    folder = import_module(package).__path__
    modules = (module.name for module in pkgutil.iter_modules(folder))
    return tuple(sorted(name.replace("_", "-") for name in modules if not name.startswith("_")))


def find(name: str, package: str = EXPERIMENTS) -> Experiment:
    """The experiment of that name, or an error that suggests the nearest one."""
    known = names(package)
    if name not in known:
        hint = did_you_mean(close_names(name, known))
        raise InvalidInputError(
            f"there is no experiment '{name}'{hint or '; kbn lab list names those there are'}"
        )
    module = import_module(f"{package}.{name.replace('-', '_')}")
    experiment = module.EXPERIMENT
    assert isinstance(experiment, Experiment), f"{module.__name__}.EXPERIMENT is not an Experiment"
    assert experiment.name == name, f"{module.__name__} calls itself {experiment.name}"
    return experiment
