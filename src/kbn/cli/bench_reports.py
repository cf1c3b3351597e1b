"""What `kbn bench` prints for people: a table for each benchmark, and facts below it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from kbn.cli.output import print_facts, print_table
from kbn.wording import counted

if TYPE_CHECKING:
    from kbn.lab import cover_bench, load_bench, match_bench, match_grid
    from kbn.lab.overlay import broker_bench, move_bench
    from kbn.lab.spark import batch_bench, stream_bench

MATCH_COLUMNS = (
    *("engine", "subscriptions", "events", "µs/event", "events/s", "matches/event"),
    *("build s", "memory", "rss", "× index"),
)


GRID_COLUMNS = (
    *("equalities", "values", "skew", "present", "matches/event", "index µs", "pivot µs"),
    *("bytes/subscription", "loaded/s", "holds"),
)


def print_grid(report: match_grid.GridReport) -> None:
    """A row for each mixture."""
    from kbn.pages import shown

    rows = []
    for cell in report.cells:
        made = cell.mixture
        figures = (
            *(made.equalities, made.values, made.skew, made.present, cell.matches_per_event),
            *(cell.index_us, cell.pivot_us, cell.bytes_per_subscription),
            cell.bulk_subscriptions_per_second,
        )
        rows.append([*map(shown, figures), "yes" if cell.holds else "no"])
    settings = report.settings
    title = (
        f"{counted(settings.subscriptions, 'subscription')}, "
        f"{counted(settings.events, 'event')}, seed {settings.seed}"
    )
    print_table(rows, columns=GRID_COLUMNS, title=title)
    holding = sum(cell.holds for cell in report.cells)
    typer.echo("")
    print_facts({"within the bounds": f"{holding} of {counted(len(rows), 'mixture')}"})


LOAD_COLUMNS = (
    *("input", "CPU s", "subscriptions/s", "constraints/s", "index", "peak", "peak × index"),
)


def print_load(report: load_bench.Report) -> None:
    """A row for each form of the input."""
    from kbn.pages import shown

    rows = []
    for row in report.rows:
        speeds = (row.cpu_s, row.subscriptions_per_second, row.constraints_per_second)
        sizes = (row.index_bytes, row.peak_bytes)
        ratio = "" if row.peak_ratio is None else shown(row.peak_ratio)
        memory = ("" if size is None else _megabytes(size) for size in sizes)
        rows.append([row.form, *map(shown, speeds), *memory, ratio])
    first = report.rows[0]
    title = (
        f"{first.subscriptions:,} subscriptions ({first.groups:,} distinct filters), "
        f"{first.constraints:,} constraints, seed {report.settings.seed}"
    )
    print_table(rows, columns=LOAD_COLUMNS, title=title)


COVER_COLUMNS = ("workload", "filters", "roots", "bulk CPU s", "filters/s", "changes/s")


def print_cover(report: cover_bench.Report) -> None:
    """A row for each workload."""
    from kbn.pages import shown

    rows = []
    for row in report.rows:
        figures = (
            *(row.filters, row.roots, row.bulk_s),
            *(row.bulk_filters_per_second, row.changes_per_second),
        )
        rows.append([row.workload, *map(shown, figures)])
    settings = report.settings
    title = (
        f"{counted(settings.subscriptions, 'subscription')}, "
        f"{counted(settings.changes, 'change')}, seed {settings.seed}"
    )
    print_table(rows, columns=COVER_COLUMNS, title=title)


def print_match(report: match_bench.Report) -> None:
    """A row for each engine, and how they compare."""
    from kbn.pages import shown

    rows = []
    for engine in report.engines:
        same = engine.details.get("times_index")
        ratio = engine.details.get("times_index_same_subscriptions", same)
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
    print_table(rows, columns=MATCH_COLUMNS, title=title)
    typer.echo("")
    print_facts(_facts(report))


def _facts(report: match_bench.Report) -> dict[str, object]:
    """What stands below the table, a line each."""
    from kbn.pages import shown

    facts: dict[str, object] = {}
    for engine in report.engines:
        details = engine.details
        if engine.engine == "index":
            facts |= _index_facts(details)
            continue
        if engine.engine == "pivot":
            if "times_index" in details:
                facts["pivot against index"] = (
                    f"{shown(details['times_index'])} times as long per event, on the same input"
                )
            continue
        same = details["index_microseconds_per_event_same_subscriptions"]
        facts[f"{engine.engine} against index"] = (
            f"{shown(details['times_index_same_subscriptions'])} times as long per event, on the "
            f"same {counted(engine.subscriptions, 'subscription')} (index {shown(same)} µs)"
        )
        if "extrapolated" in details:
            more = details["extrapolated"]
            facts[f"{engine.engine}, extrapolated"] = (
                f"{shown(more['microseconds_per_event'])} µs/event at "
                f"{counted(more['subscriptions'], 'subscription')} ({more['how']})"
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
            f"(groups found, not expanded; {counted(details['match_calls'], 'call')})"
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


def print_batch(report: batch_bench.Report) -> None:
    """A row for each measurement, and how it compares with Spark SQL."""
    from kbn.pages import shown

    rows = [
        [
            row.what,
            str(row.cores),
            shown(row.count),
            f"{shown(row.wall_s)} ± {shown(row.wall_spread_s / 2)}",
            f"{shown(row.cpu_s)} ± {shown(row.cpu_spread_s / 2)}",
            shown(row.per_core_second),
            shown(row.per_second),
        ]
        for row in report.rows
    ]
    columns = ["what", "cores", "count", "wall s", "CPU s", "per core-second", "per second"]
    print_table(rows, columns=columns, title="podcast on Spark")
    typer.echo("")
    print_facts(_batch_facts(report.facts))


def _batch_facts(told: dict[str, Any]) -> dict[str, object]:
    from kbn.pages import shown

    store = told["store"]
    facts: dict[str, object] = {
        "store": f"{_megabytes(store['bytes'])}, {counted(store['groups'], 'distinct filter')}, "
        f"opened in {shown(store['open_s'])} s",
    }
    for name, times in told["times SQL"].items():
        facts[f"against {name}"] = f"{shown(times)} times the notifications per core-second"
    for name, times in told.get("times pairs", {}).items():
        facts[name] = f"{shown(times)} times the CPU of pairs"
    for name, share in told["efficiency"].items():
        facts[f"efficiency, {name}"] = f"{share:.0%}"
    for name in (n for n in told if n.startswith("workers")):
        facts[name] = [_worker(worker) for worker in told[name]]
    return facts


def _worker(worker: dict[str, int]) -> str:
    """Where the memory of a Spark worker goes."""
    resident, mapped, changed, private = (
        _megabytes(worker[name]) for name in ("resident", "mapped", "mapped_private", "private")
    )
    return (
        f"{resident} resident, {mapped} of it the mapped store ({changed} changed), "
        f"{private} its own"
    )


def print_stream(report: stream_bench.Report) -> None:
    """How late matches were, and what the batches spent their time on."""
    asked = report.settings
    phases = ", ".join(f"{name} {ms:.0f}" for name, ms in report.phases_ms.items())
    print_facts(
        {
            "notifications": f"{report.notifications:,} at {asked.rate:,}/s in "
            f"{counted(report.batches, 'batch')}",
            "source to sink": f"p50 {report.p50_s:.2f} s, p99 {report.p99_s:.2f} s, "
            f"longest {report.longest_s:.2f} s",
            "behind at the end": f"{report.behind_s:.2f} s",
            "subscriptions": f"{asked.subscriptions:,}, and {report.added} added meanwhile, "
            f"{report.added_ms:.0f} ms each; "
            f"{counted(report.versions_seen, 'version')} seen by batches",
            "ms per batch": phases,
        }
    )


def print_broker(report: broker_bench.Report) -> None:
    """A row for each broker and number of subscribers."""
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


def print_move(report: move_bench.Report) -> None:
    """A row for each way of moving."""
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
