"""`kbn bench match`: how quickly notifications find their subscriptions, ours against three others.

Engines of one run, over the same seeded workload:

* `index`: `Matcher`, at the size asked for. Batches are timed as counts by group; one `match` call,
  bulk loading, adding one at a time with covering kept, and expanding to pairs are told apart.
* `scan`: the plain evaluator, every subscription asked in turn.
* `poset`: a walk of the covering poset from its roots, as Siena does (`siena.py`).
* `pivot`: a compiled scan of what is filed under a notification's values (`baselines/pivot.py`), at
  the size asked for, for conjunctions of equalities and ranges.

Scan and poset are slow, so they get the first few subscriptions and notifications and a time cap,
and say how many they managed. Two figures of different sizes make no ratio; so the index is also
timed on just the subscriptions the slow engine had, and the ratio is of those two.

Answers are compared twice, and one (notification, subscription) pair that differs is an error: each
slow engine's with those of an index of the same subscriptions, and all engines' on the common part
of their input, where the index is the one at full size. The pivot scan's count of matches must
equal the index' for every notification. The checksum in the report is of the common part, so it is
the same for every engine.

What is timed has run before: kernels are compiled, and the notifications used for warming up are
not those timed. The least of up to three rounds counts, each over other notifications; rounds end
early when one takes long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from kbn.errors import InvalidInputError
from kbn.lab.engines import (
    ROUNDS,
    SLOW,
    WARM_EVENTS,
    WARM_SUBSCRIPTIONS,
    Measured,
    affordable_rows,
    measure_index,
    measure_pivot,
    measure_slow,
)
from kbn.lab.experiment import Progress, silent
from kbn.lab.measuring import (
    EnginesDisagreeError,
    Found,
    checksum,
    cpu_timed,
    found_in,
    peak_bytes,
    require_agreement,
    rows_as_notifications,
    undisturbed,
    versions,
)
from kbn.lab.workloads import Pair, Workload
from kbn.matching import Matcher
from kbn.wording import counted

if TYPE_CHECKING:
    import pyarrow as pa

ENGINES = ("index", "scan", "poset", "pivot")
DEFAULT_ENGINES = ("index", "scan", "poset")

# As a number of subscriptions or events: all there are, in a workload that ends.
EVERYTHING = 2**40


@dataclass(frozen=True, slots=True)
class Settings:
    """How large a run is. The slow engines get `slow_…` of the input and `time_cap_s` each."""

    subscriptions: int = 100_000
    events: int = 10_000
    seed: int = 0
    engines: tuple[str, ...] = DEFAULT_ENGINES
    slow_subscriptions: int = 2_000
    slow_events: int = 100
    time_cap_s: float = 10.0

    def __post_init__(self) -> None:
        for name in ("subscriptions", "events", "slow_subscriptions", "slow_events"):
            if getattr(self, name) < 1:
                raise InvalidInputError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not self.time_cap_s > 0:
            raise InvalidInputError(f"the time cap must be positive, not {self.time_cap_s}")
        if self.seed < 0:
            raise InvalidInputError(f"the seed must not be negative, not {self.seed}")
        unknown = [name for name in self.engines if name not in ENGINES]
        if unknown or not self.engines:
            named = f"there is no engine '{unknown[0]}'" if unknown else "no engine was named"
            raise InvalidInputError(f"{named}; there are {', '.join(ENGINES)}")


@dataclass(frozen=True, slots=True)
class Report:
    """A whole run: what was asked for, on what, and each engine's figures."""

    workload: str
    settings: Settings
    engines: tuple[Measured, ...]
    machine: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        return {
            "workload": self.workload,
            **asdict(self.settings),
            "machine": self.machine,
            "cpu_count": int(self.machine["cores"]),
            "process_peak_bytes": peak_bytes(),
            "engines": [engine.as_json() for engine in self.engines],
        }


def run(workload: Workload, settings: Settings, progress: Progress = silent) -> Report:
    """Measure the engines on the workload; EnginesDisagreeError if their answers differ."""
    progress("compiling", 0, 0)
    if "pivot" in settings.engines:
        warm_up_pivot(workload, settings.seed)
    warm_up(workload, settings.seed)
    table = workload.notifications(settings.events, settings.seed)
    measured: dict[str, Measured] = {}
    answers: dict[str, Found] = {}
    if "index" in settings.engines:
        index = measure_index(workload, settings, table, progress)
        measured["index"], answers["index"], first = index.measured, index.found, index.first
        total = index.measured.subscriptions
    else:
        first, total = _first(workload, settings)
    settings = replace(settings, subscriptions=total, events=table.num_rows)
    if "pivot" in settings.engines:
        measured["pivot"], answers["pivot"], counts = measure_pivot(
            workload, settings, table, progress
        )
        if "index" in settings.engines:
            require_equal_counts(index.counts, counts)
            ratio = measured["pivot"].microseconds_per_event / index.measured.microseconds_per_event
            measured["pivot"].details["times_index"] = ratio
    for name in settings.engines:
        if name in SLOW:
            measured[name], answers[name] = measure_slow(
                name, workload, settings, table, first, progress
            )
            _compare_with_index(measured[name], answers[name], first, table, workload)
    _compare_on_common_input(measured, answers)
    rows = tuple(measured[name] for name in dict.fromkeys(settings.engines))
    return Report(workload.name, settings, rows, versions())


def warm_up_pivot(workload: Workload, seed: int) -> None:
    """Compile the kernels of the pivot scan; a workload that it cannot take is refused here."""
    from kbn.lab.baselines.pivot import PivotScan

    engine = PivotScan()
    for chunk in workload.subscriptions(WARM_SUBSCRIPTIONS, seed + 1):
        engine.add_many(chunk)
    table = workload.notifications(WARM_EVENTS, seed + 100)
    engine.build(table)
    engine.counts(table)


def warm_up(workload: Workload, seed: int) -> None:
    """Compile every kernel the measurement will use, on input it will not use."""
    from kbn.matching import count_batch

    matcher = Matcher(workload.ontology)
    for chunk in workload.subscriptions(WARM_SUBSCRIPTIONS, seed + 1):
        matcher.add_many(chunk)
    table = workload.notifications(WARM_EVENTS, seed + 100)
    count_batch(matcher, table)
    matcher.match_batch(table.slice(0, 10), expand=True)
    matcher.match_batch(table.slice(0, 10), expand=False)
    for notification in rows_as_notifications(table, 10):
        len(matcher.match(notification))


def _first(workload: Workload, settings: Settings) -> tuple[list[Pair], int]:
    """What the slow engines get, and how many there are in all."""
    first: list[Pair] = []
    total = 0
    for chunk in workload.subscriptions(settings.subscriptions, settings.seed):
        first += chunk[: settings.slow_subscriptions - len(first)]
        total += len(chunk)
        if settings.subscriptions < EVERYTHING and len(first) == settings.slow_subscriptions:
            return first, settings.subscriptions
    return first, total


def _compare_with_index(
    slow: Measured, found: Found, first: Sequence[Pair], table: pa.Table, workload: Workload
) -> None:
    """Answer what the slow engine answered with an index as large, demand the same, and time it."""
    from kbn.matching import count_batch

    matcher = Matcher(workload.ontology)
    matcher.add_many(first[: slow.subscriptions])
    ours = found_in(matcher, table.slice(0, slow.events))
    require_agreement("index", ours, slow.engine, found)
    warming_s, _ = cpu_timed(count_batch, matcher, table.slice(0, WARM_EVENTS))
    warmed = min(WARM_EVENTS, table.num_rows)
    rows = affordable_rows(table, warming_s / warmed)
    with undisturbed():
        rounds = [cpu_timed(count_batch, matcher, table.slice(0, rows)) for _ in range(ROUNDS)]
    same = min(seconds for seconds, _ in rounds) / rows * 1e6
    slow.details["index_microseconds_per_event_same_subscriptions"] = same
    slow.details["times_index_same_subscriptions"] = slow.microseconds_per_event / same


def require_equal_counts(ours: Any, theirs: Any) -> None:
    """The pivot scan takes conjunctions only, so the index has counted each match once."""
    differing = [] if ours is None else (ours != theirs).nonzero()[0].tolist()
    if differing:
        row = differing[0]
        raise EnginesDisagreeError(
            f"index and pivot disagree on {counted(len(differing), 'notification')}: "
            f"notification {row} matches {ours[row]} subscriptions, or {theirs[row]}"
        )


def _compare_on_common_input(
    measured: Mapping[str, Measured], answers: Mapping[str, Found]
) -> None:
    """All engines must agree on the subscriptions and notifications that all of them had."""
    slow = [one for name, one in measured.items() if name in SLOW] or list(measured.values())
    keys, rows = min(one.subscriptions for one in slow), min(one.events for one in slow)
    common = {
        name: [(row, key) for row, key in found if row < rows and key < keys]
        for name, found in answers.items()
    }
    one = next(iter(common))
    for other, found in common.items():
        require_agreement(one, common[one], other, found)
        measured[other].checksum = checksum(found)
