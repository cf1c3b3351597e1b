"""`kbn bench`: how quickly this machine matches, beside two other ways of doing it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbn.cli.ontology import Level, Ontologies, Reasoning
from kbn.cli.output import (
    AsJson,
    print_facts,
    print_json,
    print_table,
    progress,
    remark_on_compiling,
    require_folder,
    write_json,
)
from kbn.errors import InvalidInputError

if TYPE_CHECKING:
    from kbn.lab.bench import Report
    from kbn.lab.overlay.broker_bench import Report as BrokerReport
    from kbn.lab.spark.bench import Report as SparkReport
    from kbn.lab.workloads import Workload

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Measure, with other engines beside ours."
)

_File = {"exists": True, "dir_okay": False}

Out = Annotated[
    Path | None, typer.Option("--out", dir_okay=False, help="Also write the JSON to this file.")
]

# What a file holds is all used unless a number is given.
DEFAULT_SUBSCRIPTIONS, DEFAULT_EVENTS = 100_000, 10_000


@app.callback()
def before_any_benchmark() -> None:
    """Measure, with other engines beside ours."""


@app.command("match")
def match(
    workload: Annotated[
        str | None,
        typer.Option(
            "--workload",
            "-w",
            help="podcast (default), operators, equalities, ranges, wide or mixed.",
        ),
    ] = None,
    subscriptions: Annotated[
        int | None, typer.Option("--subscriptions", "-s", help="How many (default 100000).")
    ] = None,
    events: Annotated[
        int | None, typer.Option("--events", "-e", help="How many notifications (default 10000).")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same input.")] = 0,
    subscriptions_file: Annotated[
        Path | None,
        typer.Option(**_File, help="Subscriptions of your own: text, one a line, or JSON."),
    ] = None,
    events_file: Annotated[
        Path | None,
        typer.Option(**_File, help="Notifications of your own: JSON or JSON Lines."),
    ] = None,
    ontology: Ontologies = None,
    reasoning: Level = Reasoning.RDFS,
    engines: Annotated[
        str, typer.Option(help="Which engines, by commas: index, scan, poset.")
    ] = "index,scan,poset",
    slow_subscriptions: Annotated[
        int, typer.Option(help="How many subscriptions scan and poset get at most.")
    ] = 2_000,
    slow_events: Annotated[
        int, typer.Option(help="How many notifications scan and poset get at most.")
    ] = 100,
    time_cap: Annotated[
        float, typer.Option(help="Seconds that scan and poset get at most, each.")
    ] = 10.0,
    as_json: AsJson = False,
    out: Out = None,
) -> None:
    """Match notifications with subscriptions: our index, the plain scan, a Siena-style poset.

    The slow two get the first of the input only, as their rows say, and are compared with the index
    on just that. Engines that disagree on one answer end the run with exit code 1.

    \b
    Examples:
      kbn bench match
      kbn bench match --workload ranges --subscriptions 1000000 --json
      kbn bench match --subscriptions-file wants.txt --events-file posts.jsonl -o podcast
    """
    from kbn.lab.bench import EVERYTHING, Settings, run

    given = _workload(workload, subscriptions, subscriptions_file, events_file, ontology, reasoning)
    from_files = subscriptions_file is not None
    settings = Settings(
        subscriptions=_size(subscriptions, EVERYTHING if from_files else DEFAULT_SUBSCRIPTIONS),
        events=_size(events, EVERYTHING if from_files else DEFAULT_EVENTS),
        seed=seed,
        engines=tuple(name.strip() for name in engines.split(",") if name.strip()),
        slow_subscriptions=slow_subscriptions,
        slow_events=slow_events,
        time_cap_s=time_cap,
    )
    if out is not None:
        require_folder(out.absolute().parent)
    if "index" in settings.engines:
        remark_on_compiling()
    with progress() as show:
        report = run(given, settings, show)
    if as_json:
        print_json(report.as_json())
    else:
        _print(report)
    if out is not None:
        write_json(report.as_json(), out)


def _size(given: int | None, otherwise: int) -> int:
    return otherwise if given is None else given


def _workload(
    name: str | None,
    subscriptions: int | None,
    subscriptions_file: Path | None,
    events_file: Path | None,
    ontology: list[Path] | None,
    reasoning: Reasoning,
) -> Workload:
    from kbn.lab.workloads import FromFiles, workload

    if subscriptions_file is None and events_file is None:
        if ontology:
            raise InvalidInputError(
                "--ontology goes with --subscriptions-file and --events-file; "
                "a named workload has its own"
            )
        return workload(name or "podcast", _size(subscriptions, DEFAULT_SUBSCRIPTIONS))
    if subscriptions_file is None or events_file is None:
        raise InvalidInputError("give both --subscriptions-file and --events-file, or neither")
    if name is not None:
        raise InvalidInputError("give --workload or files, not both")
    from kbn.ontology import Ontology

    loaded = Ontology.load(ontology, reasoning=reasoning.value) if ontology else None
    return FromFiles(subscriptions_file, events_file, loaded)


COLUMNS = (
    *("engine", "subscriptions", "events", "µs/event", "events/s", "matches/event"),
    *("build s", "memory", "rss", "× index"),
)


def _print(report: Report) -> None:
    from kbn.pages import shown

    rows = []
    for engine in report.engines:
        ratio = engine.details.get("times_index_same_subscriptions")
        rows.append(
            [
                engine.engine,
                shown(engine.subscriptions),
                shown(engine.events),
                shown(engine.microseconds_per_event),
                shown(engine.events_per_second),
                shown(engine.matches_per_event),
                shown(engine.build_seconds),
                _megabytes(engine.memory_bytes),
                _megabytes(engine.rss_bytes),
                "" if ratio is None else shown(ratio),
            ]
        )
    title = f"{report.workload}, seed {report.settings.seed}"
    print_table(rows, columns=COLUMNS, title=title)
    typer.echo("")
    print_facts(_facts(report))


def _facts(report: Report) -> dict[str, object]:
    """What stands below the table, a line each."""
    from kbn.pages import shown

    facts: dict[str, object] = {}
    for engine in report.engines:
        details = engine.details
        if engine.engine == "index":
            facts |= _index_facts(details)
            continue
        same = details["index_microseconds_per_event_same_subscriptions"]
        facts[f"{engine.engine} against index"] = (
            f"{shown(details['times_index_same_subscriptions'])} times as long per event, on the "
            f"same {engine.subscriptions:,} subscriptions (index {shown(same)} µs)"
        )
        if "extrapolated" in details:
            more = details["extrapolated"]
            facts[f"{engine.engine}, extrapolated"] = (
                f"{shown(more['microseconds_per_event'])} µs/event at "
                f"{more['subscriptions']:,} subscriptions ({more['how']})"
            )
    if len(report.engines) > 1:
        names = ", ".join(engine.engine for engine in report.engines)
        facts["answers agree"] = f"{names} (checksum {report.engines[0].checksum})"
    facts["machine"] = ", ".join(f"{name} {value}" for name, value in report.machine.items())
    return facts


def _index_facts(details: dict[str, Any]) -> dict[str, object]:
    from kbn.pages import shown

    facts: dict[str, object] = {
        "one match call": (
            f"p50 {shown(details['match_p50_microseconds'])} µs, "
            f"p99 {shown(details['match_p99_microseconds'])} µs "
            f"(groups found, not expanded; {details['match_calls']:,} calls)"
        ),
        "distinct filters": shown(details["groups"]),
        "bulk load": f"{shown(details['bulk_subscriptions_per_second'])} subscriptions/s",
        "one at a time": f"{shown(details['adds_per_second'])} subscriptions/s",
        "expanded": f"{shown(details['expanded_pairs_per_second'])} (notification, key) pairs/s",
    }
    if "covered_adds" in details:
        facts["with covering kept"] = f"{shown(details['covered_adds_per_second'])} subscriptions/s"
    return facts


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


@app.command("spark", short_help="Matching on Spark, beside Spark SQL.")
def bench_spark(
    subscriptions: Annotated[int, typer.Option(help="How many subscriptions.")] = 100_000,
    notifications: Annotated[int, typer.Option(help="How many notifications.")] = 100_000,
    pairs: Annotated[int, typer.Option(help="How many of them are expanded to pairs.")] = 500,
    relational: Annotated[
        int, typer.Option(help="How many of them Spark SQL gets; 0 leaves it out.")
    ] = 100,
    cores: Annotated[str, typer.Option(help="On how many cores, by commas.")] = "1,2",
    shards: Annotated[int, typer.Option(help="In how many shards to compile.")] = 1,
    memory: Annotated[str, typer.Option(help="The JVM's memory.")] = "2g",
    seed: Annotated[int, typer.Option(help="Seed of the workload.")] = 0,
    as_json: AsJson = False,
    out: Out = None,
) -> None:
    """Match the podcast workload on Spark, from Parquet; CPU is that of all processes.

    Spark SQL plans of the same match run beside, on a few notifications, and must count the same.

    \b
    Examples:
      kbn bench spark
      kbn bench spark --subscriptions 1000000 --notifications 1000000 --json
    """
    try:
        named = tuple(int(part) for part in cores.split(","))
    except ValueError:
        raise InvalidInputError(f"--cores takes numbers by commas, not {cores!r}") from None
    if out is not None:
        require_folder(out.absolute().parent)
    from kbn.lab.spark.bench import Settings, run

    remark_on_compiling()
    settings = Settings(
        subscriptions, notifications, pairs, relational, named, shards, seed, memory
    )
    with progress() as show:
        report = run(settings, show)
    if as_json:
        print_json(report.as_json())
    else:
        _print_spark(report)
    if out is not None:
        write_json(report.as_json(), out)


def _print_spark(report: SparkReport) -> None:
    from kbn.pages import shown

    rows = [
        [
            row.what,
            str(row.cores),
            shown(row.count),
            shown(row.wall_s),
            shown(row.cpu_s),
            shown(row.per_core_second),
            shown(row.per_second),
        ]
        for row in report.rows
    ]
    columns = ["what", "cores", "count", "wall s", "CPU s", "per core-second", "per second"]
    print_table(rows, columns=columns, title="podcast on Spark")
    typer.echo("")
    store = report.facts["store"]
    facts: dict[str, object] = {
        "store": f"{_megabytes(store['bytes'])}, {shown(store['groups'])} distinct filters, "
        f"opened in {shown(store['open_s'])} s",
    }
    for name, times in report.facts["times SQL"].items():
        facts[f"against {name}"] = f"{shown(times)} times the notifications per core-second"
    for name, share in report.facts["efficiency"].items():
        facts[f"efficiency, {name}"] = f"{share:.0%}"
    for name in (n for n in report.facts if n.startswith("workers")):
        facts[name] = [
            f"{_megabytes(w['resident'])} resident, {_megabytes(w['mapped'])} of it the mapped "
            f"store ({_megabytes(w['mapped_private'])} changed), {_megabytes(w['private'])} its own"
            for w in report.facts[name]
        ]
    print_facts(facts)


@app.command("stream", short_help="Matching a stream on Spark: how late matches are.")
def bench_stream(
    rate: Annotated[int, typer.Option(help="Notifications a second.")] = 10_000,
    subscriptions: Annotated[int, typer.Option(help="How many subscriptions.")] = 100_000,
    seconds: Annotated[float, typer.Option(help="For how long, after warming up.")] = 30.0,
    warm: Annotated[float, typer.Option(help="Seconds that are not counted.")] = 15.0,
    expand: Annotated[
        bool, typer.Option("--expand", help="Deliver pairs; without, counts by filter.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of the workload.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Publish at a steady rate, add a subscription every second, and measure source to sink.

    \b
    Example:
      kbn bench stream --rate 10000 --subscriptions 100000 --seconds 60
    """
    from kbn.lab.spark.stream_bench import Settings, run

    remark_on_compiling()
    settings = Settings(rate, subscriptions, seconds, warm, expand=expand, seed=seed)
    with progress() as show:
        report = run(settings, show)
    if as_json:
        print_json(report.as_json())
        return
    phases = ", ".join(f"{name} {ms:.0f}" for name, ms in report.phases_ms.items())
    print_facts(
        {
            "notifications": f"{report.notifications:,} at {rate:,}/s in {report.batches} batches",
            "source to sink": f"p50 {report.p50_s:.2f} s, p99 {report.p99_s:.2f} s, "
            f"longest {report.longest_s:.2f} s",
            "behind at the end": f"{report.behind_s:.2f} s",
            "subscriptions": f"{subscriptions:,}, and {report.added} added meanwhile, "
            f"{report.added_ms:.0f} ms each; {report.versions_seen} versions seen by batches",
            "ms per batch": phases,
        }
    )


@app.command("broker", short_help="One broker over TCP: notifications a second, and how late.")
def bench_broker(
    subscribers: Annotated[
        str, typer.Option(help="How many subscribers, by commas; a row each.")
    ] = "1,100,10000",
    loaded: Annotated[
        int, typer.Option(help="One more row with so many subscriptions loaded; 0 leaves it out.")
    ] = 1_000_000,
    notifications: Annotated[int, typer.Option(help="How many notifications.")] = 100_000,
    topics: Annotated[
        bool, typer.Option(help="Run mosquitto beside, where it is installed.")
    ] = True,
    seed: Annotated[int, typer.Option(help="Seed of the workload.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Measure one broker process over loopback, each notification to one of many subscribers.

    \b
    Examples:
      kbn bench broker
      kbn bench broker --subscribers 1,1000 --loaded 0 --json
    """
    try:
        numbers = tuple(int(part) for part in subscribers.split(","))
    except ValueError:
        raise InvalidInputError(
            f"--subscribers takes numbers by commas, not {subscribers!r}"
        ) from None
    from kbn.lab.overlay.broker_bench import Settings, run

    remark_on_compiling()
    settings = Settings(numbers, loaded, notifications, topics, seed)
    with progress() as show:
        report = run(settings, show)
    if as_json:
        print_json(report.as_json())
    else:
        _print_broker(report)


def _print_broker(report: BrokerReport) -> None:
    rows = [
        [
            row.broker,
            f"{row.subscribers:,}",
            f"{row.subscriptions:,}",
            f"{row.per_second:,.0f}",
            f"{row.broker_cpu_us:.1f}",
            f"{row.p50_ms:.2f}",
            f"{row.p99_ms:.2f}",
            f"{row.at_rate:,.0f}",
            f"{row.loading_s:.1f}",
            _megabytes(row.memory_bytes),
        ]
        for row in report.rows
    ]
    columns = [
        "broker", "subscribers", "subscriptions", "per second", "CPU µs each", "p50 ms", "p99 ms",
        "at rate", "loading s", "memory",
    ]  # fmt: skip
    print_table(rows, columns=columns, title="one broker, loopback, to one of many")


@app.command("move", short_help="Subscribers move between brokers while others publish.")
def bench_move(
    subscribers: Annotated[int, typer.Option(help="How many subscribers.")] = 1_000,
    rate: Annotated[int, typer.Option(help="Notifications a second.")] = 1_000,
    seed: Annotated[int, typer.Option(help="Seed of the workload.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Move subscribers with their broker and one by one, over TCP, and account for everything.

    \b
    Example:
      kbn bench move --subscribers 1000 --rate 1000
    """
    from kbn.lab.overlay.moving import Settings, run

    remark_on_compiling()
    with progress() as show:
        report = run(Settings(subscribers, rate, seed), show)
    if as_json:
        print_json(report.as_json())
        return
    rows = [
        [
            row.how,
            f"{row.subscribers:,}",
            f"{row.seconds:.2f}",
            f"{row.source_seconds}",
            f"{row.published:,}",
            str(row.lost),
            str(row.doubled),
            str(row.disordered),
        ]
        for row in report.rows
    ]
    columns = [
        "how", "subscribers", "seconds", "the source's", "published", "lost", "doubled",
        "disordered",
    ]  # fmt: skip
    print_table(rows, columns=columns, title="moves between broker processes")
