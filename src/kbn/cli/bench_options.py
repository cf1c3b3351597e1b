"""The options of `kbn bench`: what is measured, and how large it is."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbn.cli.ontology import OntologyOptions
from kbn.cli.options import option_group
from kbn.errors import InvalidInputError

if TYPE_CHECKING:
    from kbn.lab import Mixture, Workload, load_bench, match_bench

Seed = Annotated[int, typer.Option("--seed", help="The same seed gives the same input.")]

# What a file holds is all used unless a number is given.
DEFAULT_SUBSCRIPTIONS, DEFAULT_EVENTS = 100_000, 10_000
GRID_SIZES = 200_000, 5_000


@option_group
class MixedOptions:
    """What `--workload mixed` mixes; each is that of the workload unless it is given."""

    attributes: Annotated[
        int | None, typer.Option(help="mixed: how many attributes there are (default 20).")
    ] = None
    constraints: Annotated[
        str | None, typer.Option(help="mixed: constraints per filter, as in 1-6 (default) or 20.")
    ] = None
    values: Annotated[
        int | None, typer.Option(help="mixed: distinct values to be equal to (default 10).")
    ] = None
    equalities: Annotated[
        float | None, typer.Option(help="mixed: share of equalities, 0 to 1 (default 0.3).")
    ] = None
    skew: Annotated[
        float | None, typer.Option(help="mixed: exponent of Zipf's law; 0 (default) is even.")
    ] = None
    present: Annotated[
        float | None,
        typer.Option(help="mixed: share of the attributes a notification has (default 1)."),
    ] = None
    selectivity: Annotated[
        float | None,
        typer.Option(help="mixed: share of notifications a filter accepts (default 0.001)."),
    ] = None

    def given(self) -> dict[str, Any]:
        """The options that were given, as fields of a `Mixture`."""
        given = {name: value for name, value in asdict(self).items() if value is not None}
        constraints = given.pop("constraints", None)
        if constraints is not None:
            given |= _least_and_most(constraints)
        return given

    def mixture(self, workload: str | None) -> Mixture | None:
        """What was given of the workload `mixed`; an error beside another workload."""
        from kbn.lab import Mixture

        given = self.given()
        if given and workload != "mixed":
            raise InvalidInputError(f"--{next(iter(given))} goes with --workload mixed only")
        return Mixture(**given) if given else None


def _least_and_most(text: str) -> dict[str, int]:
    least, _, most = text.partition("-")
    try:
        return {"least": int(least), "most": int(most or least)}
    except ValueError:
        raise InvalidInputError(
            f"--constraints is a number or two, as in 1-6, not {text!r}"
        ) from None


@option_group
class Input:
    """What is matched: a named workload, or files."""

    workload: Annotated[
        str | None,
        typer.Option(
            "--workload",
            "-w",
            help="podcast (default), operators, equalities, ranges, wide, service, mixed, u20, "
            "z20, u100, z100, s20, w20, literature, literature-plain or literature-negated.",
        ),
    ] = None
    subscriptions: Annotated[
        int | None, typer.Option("--subscriptions", "-s", help="How many (default 100000).")
    ] = None
    events: Annotated[
        int | None, typer.Option("--events", "-e", help="How many notifications (default 10000).")
    ] = None
    seed: Seed = 0
    grid: Annotated[
        bool,
        typer.Option(
            "--grid",
            help="Index and pivot on every mixture of equalities, values, skew and present; "
            "those you give are the same in all (200000 subscriptions, 5000 events).",
        ),
    ] = False
    subscriptions_file: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="Subscriptions of your own: text, one a line, or JSON.",
        ),
    ] = None
    events_file: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, help="Notifications of your own: JSON or JSON Lines."
        ),
    ] = None
    mixed: MixedOptions
    reasoning: OntologyOptions

    def sizes(self) -> tuple[int, int]:
        """How many subscriptions and notifications."""
        from kbn.lab import match_bench

        whole = (match_bench.EVERYTHING, match_bench.EVERYTHING)
        defaults = GRID_SIZES if self.grid else (DEFAULT_SUBSCRIPTIONS, DEFAULT_EVENTS)
        subscriptions, events = defaults if self.subscriptions_file is None else whole
        return _given_or(self.subscriptions, subscriptions), _given_or(self.events, events)

    def mixtures(self) -> list[Mixture]:
        """Those of the grid."""
        from kbn.lab import match_grid

        if self.workload or self.subscriptions_file or self.events_file:
            raise InvalidInputError("--grid makes its own input: give no --workload and no files")
        return list(match_grid.mixtures(**self.mixed.given()))

    def load(self) -> Workload:
        """The workload that was named, or that of the files."""
        from kbn.lab import FromFiles, Mixed, workload

        mixture = self.mixed.mixture(self.workload)
        if mixture is not None:
            return Mixed(mixture)
        if self.subscriptions_file is None and self.events_file is None:
            if self.reasoning.ontology:
                raise InvalidInputError(
                    "--ontology goes with --subscriptions-file and --events-file; "
                    "a named workload has its own"
                )
            return workload(
                self.workload or "podcast", _given_or(self.subscriptions, DEFAULT_SUBSCRIPTIONS)
            )
        if self.subscriptions_file is None or self.events_file is None:
            raise InvalidInputError("give both --subscriptions-file and --events-file, or neither")
        if self.workload is not None:
            raise InvalidInputError("give --workload or files, not both")
        return FromFiles(self.subscriptions_file, self.events_file, self.reasoning.load())


@option_group
class Engines:
    """Which engines run, and how much the slow ones get."""

    engines: Annotated[str, typer.Option(help="The engines to run, separated by commas.")] = (
        "index,scan,poset"
    )
    baseline: Annotated[
        str | None,
        typer.Option(help="Run the index and this engine only: scan, poset or pivot."),
    ] = None
    slow_subscriptions: Annotated[
        int, typer.Option(help="How many subscriptions scan and poset get at most.")
    ] = 2_000
    slow_events: Annotated[
        int, typer.Option(help="How many notifications scan and poset get at most.")
    ] = 100
    time_cap: Annotated[
        float, typer.Option(help="Seconds that scan and poset get at most, each.")
    ] = 10.0

    def settings(self, given: Input) -> match_bench.Settings:
        """How large the run is."""
        from kbn.lab import match_bench

        subscriptions, events = given.sizes()
        named = self.engines if self.baseline is None else f"index,{self.baseline}"
        return match_bench.Settings(
            subscriptions=subscriptions,
            events=events,
            seed=given.seed,
            engines=tuple(name.strip() for name in named.split(",") if name.strip()),
            slow_subscriptions=self.slow_subscriptions,
            slow_events=self.slow_events,
            time_cap_s=self.time_cap,
        )


def _given_or(given: int | None, otherwise: int) -> int:
    return otherwise if given is None else given


@option_group
class LoadInput:
    """What is loaded, and in which forms."""

    workload: Annotated[str, typer.Option("--workload", "-w", help="As for kbn bench match.")] = (
        "u20"
    )
    subscriptions: Annotated[
        int, typer.Option("--subscriptions", "-s", help="How many subscriptions.")
    ] = 200_000
    forms: Annotated[
        str, typer.Option(help="Of arrow, objects, text and json, separated by commas.")
    ] = "arrow,objects,text,json"
    seed: Seed = 0
    mixed: MixedOptions

    def settings(self) -> load_bench.Settings:
        """How large the run is."""
        from kbn.lab import load_bench

        return load_bench.Settings(
            workload=self.workload,
            mixture=self.mixed.mixture(self.workload),
            subscriptions=self.subscriptions,
            seed=self.seed,
            forms=tuple(name.strip() for name in self.forms.split(",") if name.strip()),
        )


@option_group
class SparkInput:
    """How large a match on Spark is."""

    subscriptions: Annotated[int, typer.Option(help="How many subscriptions.")] = 100_000
    notifications: Annotated[int, typer.Option(help="How many notifications.")] = 100_000
    pairs: Annotated[int, typer.Option(help="How many of them are expanded to pairs.")] = 500
    relational: Annotated[
        int, typer.Option(help="How many of them Spark SQL gets; 0 leaves it out.")
    ] = 100
    cores: Annotated[str, typer.Option(help="Numbers of cores, separated by commas.")] = "1,2"
    shards: Annotated[int, typer.Option(help="In how many shards to compile.")] = 1
    why: Annotated[
        bool,
        typer.Option("--why", help="Also explain the pairs, and say how many times they cost."),
    ] = False
    memory: Annotated[str, typer.Option(help="The JVM's memory.")] = "2g"
    seed: Seed = 0


def numbers_of(option: str, text: str) -> tuple[int, ...]:
    """The numbers of an option that takes several."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InvalidInputError(f"{option} takes numbers by commas, not {text!r}") from None
