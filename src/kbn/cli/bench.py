"""`kbn bench`: how quickly this machine matches, beside other ways of doing it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeVar

import typer

from kbn.cli import bench_reports
from kbn.cli.bench_options import Engines, Input, LoadInput, Seed, SparkInput, numbers_of
from kbn.cli.options import with_options
from kbn.cli.output import (
    AsJson,
    print_json,
    progress,
    remark_on_compiling,
    require_folder,
    write_json,
)
from kbn.cli.pipeline import require_spark

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Measure, with other engines beside ours."
)

Out = Annotated[
    Path | None, typer.Option("--out", dir_okay=False, help="Also write the JSON to this file.")
]


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


@app.command("cover", short_help="Keeping covering: in bulk, and change by change.")
def bench_cover(
    workloads: Annotated[
        str,
        typer.Option(
            "--workloads",
            "-w",
            help="Those of bench match, and chain, below-one, incomparable; by commas.",
        ),
    ] = "u20,ranges,podcast",
    subscriptions: Annotated[
        int, typer.Option("--subscriptions", "-s", help="How many subscriptions.")
    ] = 100_000,
    changes: Annotated[int, typer.Option(help="How many single changes.")] = 5_000,
    seed: Seed = 0,
    as_json: AsJson = False,
    out: Out = None,
) -> None:
    """Load subscriptions into the covering poset in bulk, then let one come, one go, and so on.

    \b
    Examples:
      kbn bench cover
      kbn bench cover --workloads chain,below-one --subscriptions 20000
    """
    from kbn.lab import cover_bench

    names = tuple(name.strip() for name in workloads.split(",") if name.strip())
    settings = cover_bench.Settings(names, subscriptions, changes, seed)
    remark_on_compiling()
    _measure(lambda show: cover_bench.run(settings, show), bench_reports.print_cover, as_json, out)


@app.command("spark", short_help="Matching on Spark, beside Spark SQL.")
@with_options
def bench_spark(*, given: SparkInput, as_json: AsJson = False, out: Out = None) -> None:
    """Match the podcast workload on Spark, from Parquet; CPU is that of all processes.

    Spark SQL plans of the same match run beside, on a few notifications, and must count the same.

    \b
    Examples:
      kbn bench spark
      kbn bench spark --subscriptions 1000000 --notifications 1000000 --json
      kbn bench spark --why --relational 0 --cores 1
    """
    cores = numbers_of("--cores", given.cores)
    require_spark()
    from kbn.lab.spark import batch_bench

    settings = batch_bench.Settings(**{**asdict(given), "cores": cores})
    remark_on_compiling()
    _measure(lambda show: batch_bench.run(settings, show), bench_reports.print_batch, as_json, out)


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

    numbers = numbers_of("--subscribers", subscribers)
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
