"""`kbn bench match --grid`: the index beside the pivot scan, on every mixture of a grid.

A mixture is a share of equalities, a number of distinct values, a skew and a share of attributes
present. Both engines get the same subscriptions and take turns over the same notifications; the
least of a few rounds counts, in CPU time. Their counts of matches must be equal for every
notification. A mixture *holds* if the index takes no longer than the pivot scan, or than
`FLOOR_US`, and no more than `BYTES_MAX` for a subscription.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from kbn.lab.baselines.pivot import PivotScan
from kbn.lab.experiment import Progress, silent
from kbn.lab.match_bench import Settings, require_equal_counts, warm_up
from kbn.lab.measuring import cpu_timed, peak_bytes, undisturbed, versions
from kbn.lab.workloads import Mixed, Mixture
from kbn.matching import Matcher, count_batch

if TYPE_CHECKING:
    import pyarrow as pa

EQUALITIES = (0.0, 0.3, 0.7, 1.0)
VALUES = (3, 10, 1000)
SKEWS = (0.0, 1.0)
PRESENT = (1.0, 0.2)
ROUNDS = 3
FLOOR_US = 15.0
BYTES_MAX = 600
PIVOT_BYTES_MAX = 2 << 30


@dataclass(frozen=True, slots=True)
class Cell:
    """What one mixture gave."""

    mixture: Mixture
    index_us: float
    pivot_us: float
    matches_per_event: float
    groups: int
    bytes_per_subscription: float
    pivot_bytes_per_subscription: float
    pivot_cells: int
    bulk_subscriptions_per_second: float

    @property
    def holds(self) -> bool:
        """Whether the index is within its bounds."""
        quick = self.index_us <= max(self.pivot_us, FLOOR_US)
        return quick and self.bytes_per_subscription <= BYTES_MAX

    def as_json(self) -> dict[str, Any]:
        figures = asdict(self)
        return {**figures.pop("mixture"), **figures, "holds": self.holds}


@dataclass(frozen=True, slots=True)
class GridReport:
    """The whole grid."""

    settings: Settings
    cells: tuple[Cell, ...]
    machine: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        given = self.settings
        return {
            "workload": "grid",
            "subscriptions": given.subscriptions,
            "events": given.events,
            "seed": given.seed,
            "machine": self.machine,
            "process_peak_bytes": peak_bytes(),
            "holds": all(cell.holds for cell in self.cells),
            "cells": [cell.as_json() for cell in self.cells],
        }


def mixtures(**given: Any) -> Iterator[Mixture]:
    """Every mixture of the grid; a field of `Mixture` that is given is the same in all of them.

    >>> len(list(mixtures())), len(list(mixtures(skew=1.0, attributes=100)))
    (48, 24)
    """
    axes = {"equalities": EQUALITIES, "values": VALUES, "skew": SKEWS, "present": PRESENT}
    varied = {name: choices for name, choices in axes.items() if name not in given}
    for chosen in product(*varied.values()):
        fields: dict[str, Any] = dict(zip(varied, chosen, strict=True))
        yield Mixture(**given, **fields)


def run(every: Sequence[Mixture], settings: Settings, progress: Progress = silent) -> GridReport:
    """Measure the mixtures; EnginesDisagreeError if index and pivot scan differ on one."""
    progress("compiling", 0, 0)
    warm_up(Mixed(), settings.seed)
    cells = []
    for number, mixture in enumerate(every):
        progress("mixtures", number, len(every))
        cells.append(measure(mixture, settings))
    return GridReport(settings, tuple(cells), versions())


def measure(mixture: Mixture, settings: Settings) -> Cell:
    """Both engines on one mixture."""
    workload = Mixed(mixture)
    table = workload.notifications(settings.events, settings.seed)
    matcher, pivot = Matcher(), PivotScan(PIVOT_BYTES_MAX)
    build_s = 0.0
    for chunk in workload.subscriptions(settings.subscriptions, settings.seed):
        build_s += cpu_timed(matcher.add_many, chunk)[0]
        pivot.add_many(chunk)
    pivot.build(table)
    count_batch(matcher, workload.notifications(settings.events, settings.seed + ROUNDS))
    index_s, pivot_s, matches = _in_turns(matcher, pivot, table)
    return Cell(
        mixture=mixture,
        index_us=index_s / table.num_rows * 1e6,
        pivot_us=pivot_s / table.num_rows * 1e6,
        matches_per_event=matches,
        groups=matcher.group_count,
        bytes_per_subscription=matcher.memory() / len(matcher),
        pivot_bytes_per_subscription=pivot.memory() / len(matcher),
        pivot_cells=pivot.cells,
        bulk_subscriptions_per_second=len(matcher) / build_s,
    )


def _in_turns(matcher: Matcher, pivot: PivotScan, table: pa.Table) -> tuple[float, float, float]:
    """The least seconds of the index and of the pivot scan, and the mean of the matches."""
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(ROUNDS):
        with undisturbed():
            index_s, counts = cpu_timed(count_batch, matcher, table)
            pivot_s, expected = cpu_timed(pivot.counts, table)
        require_equal_counts(counts, expected)
        ours.append(index_s)
        theirs.append(pivot_s)
    return min(ours), min(theirs), float(counts.mean())
