"""`kbn bench`: how quickly this machine matches, beside other ways of doing it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeVar

import typer

from kbn.cli import bench_reports
from kbn.cli.ontology import OntologyOptions
from kbn.cli.options import option_group, with_options
from kbn.cli.output import (
    AsJson,
    print_json,
    progress,
    remark_on_compiling,
    require_folder,
    write_json,
)
from kbn.cli.pipeline import require_spark
from kbn.errors import InvalidInputError

if TYPE_CHECKING:
    from kbn.lab import Mixture, Workload, load_bench, match_bench

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Measure, with other engines beside ours."
)

Out = Annotated[
    Path | None, typer.Option("--out", dir_okay=False, help="Also write the JSON to this file.")
]
Seed = Annotated[int, typer.Option("--seed", help="The same seed gives the same input.")]

# What a file holds is all used unless a number is given.
DEFAULT_SUBSCRIPTIONS, DEFAULT_EVENTS = 100_000, 10_000
GRID_SIZES = 200_000, 5_000


class Report(Protocol):
    """What a benchmark gives."""

    def as_json(self) -> dict[str, Any]: ...


R = TypeVar("R", bound=Report)


def _measure(
    run: Callable[[Callable[[str, int, int], None]], R],
    show: Callable[[R], None],
    as_json: bool,
    out: Path | None = None,
) -> None:
    """Run a benchmark with its progress on stderr, then print and keep what it gives."""
    if out is not None:
        require_folder(out.absolute().parent)
    with progress() as told:
        report = run(told)
    if as_json:
        print_json(report.as_json())
    else:
        show(report)
    if out is not None:
        write_json(report.as_json(), out)


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
        from kbn.lab import FromFiles, Mixed, Mixture, workload

        mixture = self.mixed.given()
        if mixture and self.workload != "mixed":
            raise InvalidInputError(f"--{next(iter(mixture))} goes with --workload mixed only")
        if mixture:
            return Mixed(Mixture(**mixture))
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


@app.callback()
def before_any_benchmark() -> None:
    """Measure, with other engines beside ours."""


@app.command("match", short_help="Matching in one process: our index beside others.")
@with_options
def match(*, given: Input, engines: Engines, as_json: AsJson = False, out: Out = None) -> None:
    """Match notifications with subscriptions: our index, the plain scan, a Siena-style poset.

    The slow two get the first of the input only, as their rows say, and are compared with the index
    on just that. A fourth engine, pivot, scans compiled arrays and gets all. Engines that disagree
    on one answer end the run with exit code 1.

    \b
    Examples:
      kbn bench match
      kbn bench match --workload ranges --subscriptions 1000000 --json
      kbn bench match --workload mixed --equalities 0.7 --skew 1 --baseline pivot
      kbn bench match --grid --skew 1
      kbn bench match --subscriptions-file wants.txt --events-file posts.jsonl \\
        -o podcast
    """
    from kbn.lab import match_bench, match_grid

    if given.grid:
        mixtures, sizes = given.mixtures(), engines.settings(given)
        remark_on_compiling()
        _measure(
            lambda show: match_grid.run(mixtures, sizes, show),
            bench_reports.print_grid,
            as_json,
            out,
        )
        return
    workload, settings = given.load(), engines.settings(given)
    if "index" in settings.engines:
        remark_on_compiling()
    _measure(
        lambda show: match_bench.run(workload, settings, show),
        bench_reports.print_match,
        as_json,
        out,
    )


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
        from kbn.lab import Mixture, load_bench

        mixture = self.mixed.given()
        if mixture and self.workload != "mixed":
            raise InvalidInputError(f"--{next(iter(mixture))} goes with --workload mixed only")
        return load_bench.Settings(
            workload=self.workload,
            mixture=Mixture(**mixture) if mixture else None,
            subscriptions=self.subscriptions,
            seed=self.seed,
            forms=tuple(name.strip() for name in self.forms.split(",") if name.strip()),
        )


@app.command("load", short_help="Loading subscriptions in bulk: how quickly, in how much memory.")
@with_options
def bench_load(*, given: LoadInput, as_json: AsJson = False, out: Out = None) -> None:
    """Load subscriptions from an Arrow table, from objects, from texts and from JSON.

    Each form gets a process of its own. Seconds are of CPU time, input to matcher; memory is what
    the process grew by, at its peak and in the end.

    \b
    Examples:
      kbn bench load
      kbn bench load --workload mixed --constraints 20 --subscriptions 20000
    """
    from kbn.lab import load_bench

    settings = given.settings()
    remark_on_compiling()
    _measure(lambda show: load_bench.run(settings, show), bench_reports.print_load, as_json, out)


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
    memory: Annotated[str, typer.Option(help="The JVM's memory.")] = "2g"
    seed: Seed = 0


@app.command("spark", short_help="Matching on Spark, beside Spark SQL.")
@with_options
def bench_spark(*, given: SparkInput, as_json: AsJson = False, out: Out = None) -> None:
    """Match the podcast workload on Spark, from Parquet; CPU is that of all processes.

    Spark SQL plans of the same match run beside, on a few notifications, and must count the same.

    \b
    Examples:
      kbn bench spark
      kbn bench spark --subscriptions 1000000 --notifications 1000000 --json
    """
    cores = _numbers("--cores", given.cores)
    require_spark()
    from kbn.lab.spark import batch_bench

    settings = batch_bench.Settings(**{**asdict(given), "cores": cores})
    remark_on_compiling()
    _measure(lambda show: batch_bench.run(settings, show), bench_reports.print_batch, as_json, out)


def _numbers(option: str, text: str) -> tuple[int, ...]:
    """The numbers of an option that takes several."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InvalidInputError(f"{option} takes numbers by commas, not {text!r}") from None


@app.command("stream", short_help="Matching a stream on Spark: how late matches are.")
def bench_stream(
    rate: Annotated[int, typer.Option(help="Notifications a second.")] = 10_000,
    subscriptions: Annotated[int, typer.Option(help="How many subscriptions.")] = 100_000,
    seconds: Annotated[float, typer.Option(help="How many seconds to measure.")] = 30.0,
    warm: Annotated[float, typer.Option(help="How many seconds to warm up before.")] = 15.0,
    expand: Annotated[
        bool, typer.Option("--expand", help="Deliver pairs instead of counts by filter.")
    ] = False,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Publish at a steady rate, add a subscription every second, and measure source to sink.

    \b
    Example:
      kbn bench stream --rate 10000 --subscriptions 100000 --seconds 60
    """
    require_spark()
    from kbn.lab.spark import stream_bench

    settings = stream_bench.Settings(rate, subscriptions, seconds, warm, expand=expand, seed=seed)
    remark_on_compiling()
    _measure(lambda show: stream_bench.run(settings, show), bench_reports.print_stream, as_json)


@app.command("broker", short_help="One broker over TCP: notifications a second, and how late.")
def bench_broker(
    subscribers: Annotated[
        str, typer.Option(help="Numbers of subscribers, separated by commas; a row each.")
    ] = "1,100,10000",
    loaded: Annotated[
        int, typer.Option(help="Subscriptions of one more row; 0 leaves it out.")
    ] = 1_000_000,
    notifications: Annotated[int, typer.Option(help="How many notifications.")] = 100_000,
    topics: Annotated[bool, typer.Option(help="Also run mosquitto, where it is installed.")] = True,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Measure one broker process over loopback, each notification to one of many subscribers.

    \b
    Examples:
      kbn bench broker
      kbn bench broker --subscribers 1,1000 --loaded 0 --json
    """
    from kbn.lab.overlay import broker_bench

    numbers = _numbers("--subscribers", subscribers)
    settings = broker_bench.Settings(numbers, loaded, notifications, topics, seed)
    remark_on_compiling()
    _measure(lambda show: broker_bench.run(settings, show), bench_reports.print_broker, as_json)


@app.command("move", short_help="Subscribers move between brokers while others publish.")
def bench_move(
    subscribers: Annotated[int, typer.Option(min=1, help="How many subscribers.")] = 1_000,
    rate: Annotated[int, typer.Option(min=1, help="Notifications a second.")] = 1_000,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Move subscribers with their broker and one by one, over TCP, and account for everything.

    \b
    Example:
      kbn bench move --subscribers 1000 --rate 1000
    """
    from kbn.lab.overlay import move_bench

    settings = move_bench.Settings(subscribers, rate, seed)
    remark_on_compiling()
    _measure(lambda show: move_bench.run(settings, show), bench_reports.print_move, as_json)
