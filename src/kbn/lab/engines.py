"""The engines a benchmark runs, and what it measures of each.

`measure_index` and `measure_pivot` have the whole input; `measure_slow` as much as its caps allow,
in the order of the stream, so that what two engines had in common is simply where the smaller one
stopped. Seconds are of CPU time, but for single calls, which are too short for its clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kbn.filters import Filter, Notification
from kbn.lab.experiment import Progress
from kbn.lab.measuring import (
    Found,
    cpu_timed,
    found_in,
    quantile,
    require_agreement,
    resident_bytes,
    rows_as_notifications,
    undisturbed,
)
from kbn.lab.siena import SienaPoset
from kbn.lab.workloads import Pair, Workload
from kbn.matching import LinearScan, Matcher

if TYPE_CHECKING:
    import pyarrow as pa

    from kbn.lab.match_bench import Settings
    from kbn.ontology import Ontology

Item = TypeVar("Item")

ROUNDS = 3
ROUND_S_MAX = 5.0
SIDE_FIGURE_S = 2.0
WARM_SUBSCRIPTIONS = 3_000
WARM_EVENTS = 1_000
LATENCY_CALLS = 2_000
AGREEING_CALLS = 200
EXPANDED_PAIRS = 10_000_000
EXPANDED_ROUNDS = 3
ADDED_MAX = 20_000


@dataclass(slots=True)
class Measured:
    """One engine's figures. `details` are those that only this engine has."""

    engine: str
    subscriptions: int
    events: int
    events_per_second: float
    microseconds_per_event: float
    matches_per_event: float
    build_seconds: float
    memory_bytes: int
    rss_bytes: int
    checksum: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        flat = asdict(self)
        details = flat.pop("details")
        return {**flat, **details}


@dataclass(frozen=True, slots=True)
class IndexRun:
    """The index' figures, its answers for the first notifications, the first subscriptions."""

    measured: Measured
    found: Found
    first: list[Pair]
    counts: Any
    """Matches per notification; None where a disjunction may count twice."""


# --- the index ----------------------------------------------------------------------------------


def measure_index(
    workload: Workload, settings: Settings, table: pa.Table, progress: Progress
) -> IndexRun:
    """Figures of the index at full size."""
    before = resident_bytes()
    matcher = Matcher(workload.ontology)
    first: list[Pair] = []
    build_s, disjunctions = _load(matcher, workload, settings, first, progress)
    grown = resident_bytes() - before
    progress("index: batches", 0, 0)
    batch_s, counts = _time_batches(matcher, workload, settings, table)
    calls = rows_as_notifications(table, LATENCY_CALLS)
    progress("index: single calls", 0, 0)
    latencies, lengths = _time_calls(matcher, calls)
    # A subscription of two filters that both match is one match, and two entries.
    matches = sum(lengths) / len(lengths) if disjunctions else float(counts.mean())
    _check_batch_against_calls(matcher, table, calls[:AGREEING_CALLS])
    progress("index: expanding", 0, 0)
    details = {
        "groups": matcher.group_count,
        "match_p50_microseconds": quantile(latencies, 0.5) * 1e6,
        "match_p99_microseconds": quantile(latencies, 0.99) * 1e6,
        "match_calls": len(calls),
        "bulk_subscriptions_per_second": len(matcher) / build_s,
        **_expanding(matcher, table, matches, batch_s / table.num_rows),
        **_adding(workload, first, settings.time_cap_s / 2, progress),
    }
    measured = Measured(
        engine="index",
        subscriptions=len(matcher),
        events=table.num_rows,
        events_per_second=table.num_rows / batch_s,
        microseconds_per_event=batch_s / table.num_rows * 1e6,
        matches_per_event=matches,
        build_seconds=build_s,
        memory_bytes=matcher.memory(),
        rss_bytes=grown,
        details=details,
    )
    found = found_in(matcher, table.slice(0, settings.slow_events), settings.slow_subscriptions)
    counted = None if disjunctions else counts
    return IndexRun(measured, found, first[: settings.slow_subscriptions], counted)


def _load(
    matcher: Matcher,
    workload: Workload,
    settings: Settings,
    first: list[Pair],
    progress: Progress,
) -> tuple[float, bool]:
    """Seconds spent in `add_many` (making the subscriptions not counted); any disjunctions?"""
    seconds, disjunctions = 0.0, False
    wanted = max(settings.slow_subscriptions, ADDED_MAX)
    for chunk in workload.subscriptions(settings.subscriptions, settings.seed):
        first += chunk[: wanted - len(first)]
        seconds += cpu_timed(matcher.add_many, chunk)[0]
        disjunctions = disjunctions or any(len(s.filters) > 1 for s, _ in chunk)
        total = settings.subscriptions if settings.subscriptions < 2**40 else 0
        progress("index: loading", len(matcher), total)
    return seconds, disjunctions


def _time_batches(
    matcher: Matcher, workload: Workload, settings: Settings, table: pa.Table
) -> tuple[float, Any]:
    """The least seconds a round took, and the matches per notification of `table`."""
    from kbn.matching import count_batch

    count_batch(matcher, workload.notifications(WARM_EVENTS, settings.seed + ROUNDS))
    seconds: list[float] = []
    counts = None
    for number in range(ROUNDS):
        if number:
            table = workload.notifications(settings.events, settings.seed + number)
        with undisturbed():
            took, counted = cpu_timed(count_batch, matcher, table)
        seconds.append(took)
        counts = counted if counts is None else counts
        if took > ROUND_S_MAX:
            break
    return min(seconds), counts


def _time_calls(matcher: Matcher, calls: Sequence[Notification]) -> tuple[list[float], list[int]]:
    """The seconds of each `match` call, groups found and not expanded, and how many it found."""
    match = matcher.match
    seconds: list[float] = []
    lengths: list[int] = []
    with undisturbed():
        for notification in calls:
            started = perf_counter()
            found = match(notification)
            seconds.append(perf_counter() - started)
            lengths.append(len(found))
    return seconds, lengths


def _expanding(matcher: Matcher, table: pa.Table, matches: float, row_s: float) -> dict[str, Any]:
    """How many (notification, key) pairs a second, over as many rows as give a fair number."""
    rows = min(affordable_rows(table, row_s), max(1, int(EXPANDED_PAIRS / max(1.0, matches))))
    seconds = []
    for _ in range(EXPANDED_ROUNDS):
        # The first result takes its memory from the system, page by page: that is most of its time.
        with undisturbed():
            took, pairs = cpu_timed(matcher.match_batch, table.slice(0, rows))
        seconds.append(took)
    return {
        "expanded_pairs": pairs.num_rows,
        "expanded_pairs_per_second": pairs.num_rows / min(seconds),
    }


def affordable_rows(table: pa.Table, row_s: float) -> int:
    """How many of the rows to take where a row takes that long and the result is a side figure."""
    return min(int(table.num_rows), max(1, int(SIDE_FIGURE_S / row_s)))


def _adding(
    workload: Workload, pairs: Sequence[Pair], cap_s: float, progress: Progress
) -> dict[str, Any]:
    """One `add` after another to a matcher and, where there is one, to the covering poset."""
    figures: dict[str, Any] = {}
    makers = {"adds": Matcher, "covered_adds": _covering()}
    for name, maker in makers.items():
        if maker is not None:
            progress(f"index: {name}", 0, 0)
            made = maker(workload.ontology)
            added, seconds = _until(cap_s, pairs[:ADDED_MAX], partial(_add, made))
            figures[name] = added
            figures[f"{name}_per_second"] = added / seconds
    return figures


def _add(engine: SlowEngine, pair: Pair) -> None:
    engine.add(*pair)


def _covering() -> Any:
    """The poset that keeps covering, if this version has it."""
    import kbn.matching

    return getattr(kbn.matching, "Poset", None)


# --- the pivot scan ------------------------------------------------------------------------------


def measure_pivot(
    workload: Workload, settings: Settings, table: pa.Table, progress: Progress
) -> tuple[Measured, Found, Any]:
    """Figures and answers of the pivot scan at full size, and its matches per notification."""
    from kbn.lab.baselines.pivot import PivotScan

    before = resident_bytes()
    engine = PivotScan()
    build_s = 0.0
    for chunk in workload.subscriptions(settings.subscriptions, settings.seed):
        build_s += cpu_timed(engine.add_many, chunk)[0]
        progress("pivot: loading", len(engine), settings.subscriptions)
    build_s += cpu_timed(engine.build, table)[0]
    grown = resident_bytes() - before
    progress("pivot: batches", 0, 0)
    engine.counts(table.slice(0, 1))
    with undisturbed():
        rounds = [cpu_timed(engine.counts, table)]
        if rounds[0][0] < ROUND_S_MAX:
            rounds.append(cpu_timed(engine.counts, table))
    seconds, counts = min(rounds, key=lambda one: one[0])
    measured = Measured(
        engine="pivot",
        subscriptions=len(engine),
        events=table.num_rows,
        events_per_second=table.num_rows / seconds,
        microseconds_per_event=seconds / table.num_rows * 1e6,
        matches_per_event=float(counts.mean()),
        build_seconds=build_s,
        memory_bytes=engine.memory(),
        rss_bytes=grown,
    )
    found = engine.found(table.slice(0, settings.slow_events), settings.slow_subscriptions)
    return measured, found, counts


# --- the slow engines ---------------------------------------------------------------------------


class SlowEngine(Protocol):
    """What the plain scan and the poset walk have in common."""

    def add(self, subscription: Any, key: Any) -> None: ...
    def match(self, notification: Any) -> Any: ...


def quick_scan(ontology: Ontology | None) -> LinearScan:
    """The plain scan at its best: not by definition, which tests use."""
    return LinearScan(ontology, Filter.matches)


SLOW: dict[str, Callable[[Any], SlowEngine]] = {"scan": quick_scan, "poset": SienaPoset}


def measure_slow(
    name: str,
    workload: Workload,
    settings: Settings,
    table: pa.Table,
    first: Sequence[Pair],
    progress: Progress,
) -> tuple[Measured, Found]:
    """Figures and answers of a slow engine, on as much of the input as its caps allow."""
    before = resident_bytes()
    engine = SLOW[name](workload.ontology)
    half_s = settings.time_cap_s / 2
    given = first[: settings.slow_subscriptions]
    added, build_s = _until(
        half_s,
        given,
        partial(_add, engine),
        lambda n: progress(f"{name}: building", n, len(given)),
    )
    grown = resident_bytes() - before
    asked = rows_as_notifications(table, settings.slow_events)
    answers: list[Any] = []
    with undisturbed():
        events, seconds = _until(
            half_s,
            asked,
            lambda notification: answers.append(engine.match(notification)),
            lambda n: progress(f"{name}: matching", n, len(asked)),
        )
    found = [(row, key) for row, keys in enumerate(answers) for key in keys]
    measured = Measured(
        engine=name,
        subscriptions=added,
        events=events,
        events_per_second=events / seconds,
        microseconds_per_event=seconds / events * 1e6,
        matches_per_event=len(found) / events,
        build_seconds=build_s,
        memory_bytes=_own_bytes(engine),
        rss_bytes=grown,
        details={"capped": _caps(added, events, settings)},
    )
    if name == "scan" and added < settings.subscriptions:
        measured.details["extrapolated"] = {
            "subscriptions": settings.subscriptions,
            "microseconds_per_event": seconds / events * 1e6 * settings.subscriptions / added,
            "how": "linear in subscriptions; not measured",
        }
    return measured, found


def _caps(added: int, events: int, settings: Settings) -> str:
    """Why the engine had less than was asked for; empty if it had all."""
    reasons = []
    if added < settings.subscriptions:
        by_time = added < min(settings.subscriptions, settings.slow_subscriptions)
        reasons.append(f"subscriptions by {'time' if by_time else 'size'}")
    if events < settings.events:
        by_time = events < min(settings.events, settings.slow_events)
        reasons.append(f"events by {'time' if by_time else 'size'}")
    return ", ".join(reasons)


def _until(
    cap_s: float,
    items: Sequence[Item],
    work: Callable[[Item], object],
    tell: Callable[[int], None] = lambda done: None,
) -> tuple[int, float]:
    """Work through the items till they or the time run out; how many, and the seconds it took."""
    started, told, used = perf_counter(), perf_counter(), process_time()
    for done, item in enumerate(items, start=1):
        work(item)
        now = perf_counter()
        if now - told > 0.2:
            tell(done)
            told = now
        if now - started > cap_s:
            return done, process_time() - used
    return len(items), process_time() - used


def _own_bytes(engine: SlowEngine) -> int:
    """The bytes of the engine's own tables, the filters in them not counted."""
    if isinstance(engine, SienaPoset):
        return engine.memory()
    from sys import getsizeof

    return getsizeof(engine) + sum(getsizeof(part) for part in vars(engine).values())


def _check_batch_against_calls(
    matcher: Matcher, table: pa.Table, calls: Sequence[Notification]
) -> None:
    """The index by table and the index call by call must find the same groups, at full size."""
    rows = matcher.match_batch(table.slice(0, len(calls)), expand=False)
    batch = list(zip(rows["notification"].to_pylist(), rows["group"].to_pylist(), strict=True))
    single = [
        (row, int(group))
        for row, notification in enumerate(calls)
        for group in matcher.match(notification).group_ids
    ]
    require_agreement("index in batch", batch, "index call by call", single)
