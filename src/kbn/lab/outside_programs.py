"""Programs from outside in turns with the index, on the same neutral workload.

A program reads `WORKLOAD.subs` and `WORKLOAD.events` from a folder and prints a line with
`us/event` and `matches/event` for each of its rounds, of which the last counts. The files:

    subs     number, how many constraints, then for each: attribute, operator, low and high
    events   number, how many attributes, then for each: attribute and value

Operators are `=`, `[]`, `<=` and `>=`, bounds are closed. Texts are written `v<attribute>_<code>`,
and an equality of texts has its operand once. Each turn times the index in this process, then each
program in its own, in CPU time: what else runs on the machine meets all of them alike. Of the
index, too, the last of two rounds counts.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from kbn.errors import KbnError
from kbn.filters import Filter, Operator
from kbn.lab.baselines.pivot import PivotScan
from kbn.lab.measuring import cpu_timed, undisturbed
from kbn.lab.workloads import Mixed, Pair
from kbn.lab.workloads.mixed import TOP
from kbn.matching import Matcher, count_batch

if TYPE_CHECKING:
    import pyarrow as pa

INDEX, PIVOT = "index", "pivot in Numba"
COUNTS_DIFFER = 0.051
"""Programs print matches per event with one decimal."""
_FIGURES = re.compile(r"us/event ([0-9.]+) matches/event ([0-9.]+)")


@dataclass
class Turns:
    """What came of one workload: per engine the µs per event of each turn, and its matches."""

    workload: str
    bytes_per_subscription: float = 0.0
    times: dict[str, list[float]] = field(default_factory=dict)
    matches: dict[str, float] = field(default_factory=dict)

    def add(self, engine: str, microseconds: float, matches: float) -> None:
        self.times.setdefault(engine, []).append(microseconds)
        self.matches[engine] = matches

    def median(self, engine: str) -> float:
        """The median of the engine's turns, in µs per event."""
        return median(self.times[engine])

    @property
    def counts_equal(self) -> bool:
        """Whether all engines found as many matches, as far as programs print them.

        >>> turns = Turns("u20")
        >>> turns.add("index", 60.0, 1000.04)
        >>> turns.add("pivot", 500.0, 1000.0)
        >>> turns.counts_equal
        True
        """
        found = list(self.matches.values())
        return max(found) - min(found) <= COUNTS_DIFFER


class Contest:
    """One workload, loaded into the index and the pivot scan and written for programs."""

    def __init__(
        self, workload: Mixed, sizes: tuple[int, int], folder: Path, *, pivot: bool = True
    ) -> None:
        """`sizes` are the numbers of subscriptions and of notifications."""
        self.workload = workload
        self._table = workload.notifications(sizes[1], seed=0)
        self._matcher = Matcher(workload.ontology)
        self._pivot = PivotScan() if pivot else None
        self._load(sizes[0], folder)

    def _load(self, subscriptions: int, folder: Path) -> None:
        texts = self.workload.mixture.texts
        with (folder / f"{self.workload.name}.subs").open("w") as file:
            for chunk in self.workload.subscriptions(subscriptions, seed=0):
                file.writelines(subscription_lines(chunk, texts))
                self._matcher.add_many(chunk)
                if self._pivot is not None:
                    self._pivot.add_many(chunk)
        with (folder / f"{self.workload.name}.events").open("w") as file:
            file.writelines(event_lines(self._table, texts))
        count_batch(self._matcher, self._table)
        if self._pivot is not None:
            self._pivot.build(self._table)
            self._pivot.counts(self._table)

    def run(self, programs: Mapping[str, Sequence[str]], rounds: int) -> Turns:
        """Time all engines in turns; `programs` are commands by name."""
        turns = Turns(self.workload.name, self._matcher.memory() / len(self._matcher))
        for _ in range(rounds):
            turns.add(INDEX, *self._figures(partial(count_batch, self._matcher)))
            if self._pivot is not None:
                turns.add(PIVOT, *self._figures(self._pivot.counts))
            for name, command in programs.items():
                turns.add(name, *figures_of(command))
        return turns

    def _figures(self, counts_of: Callable[[pa.Table], Any]) -> tuple[float, float]:
        """The µs and the matches per event of the second of two rounds, as of the programs."""
        counts_of(self._table)
        with undisturbed():
            seconds, counts = cpu_timed(counts_of, self._table)
        return seconds / int(self._table.num_rows) * 1e6, float(counts.mean())


def figures_of(command: Sequence[str]) -> tuple[float, float]:
    """Run a program: the µs per event and the matches per event of its last round."""
    done = subprocess.run(command, capture_output=True, text=True)
    found = _FIGURES.findall(done.stdout)
    if done.returncode or not found:
        said = (done.stderr or done.stdout).strip()[-200:]
        raise KbnError(f"{command[0]} ended with {done.returncode} and gave no figures: {said}")
    return float(found[-1][0]), float(found[-1][1])


def subscription_lines(pairs: Sequence[Pair], texts: bool) -> Iterator[str]:
    """The lines of subscriptions, each of one filter."""
    for subscription, key in pairs:
        parts = list(_parts(subscription.filters[0], texts))
        yield f"{key} {len(parts)} {' '.join(parts)}\n"


def _parts(asked: Filter, texts: bool) -> Iterator[str]:
    """What a filter asks of each of its attributes."""
    bounds: dict[str, list[int | None]] = {}
    for constraint in asked.constraints:
        name, operand = constraint.attribute, constraint.operand
        if texts:
            yield f"{int(name[1:])} = {_text(name, str(operand))}"
            continue
        low, high = bounds.setdefault(name, [None, None])
        value = int(operand)  # type: ignore[arg-type]
        if constraint.operator is not Operator.LE:
            low = value
        if constraint.operator is not Operator.GE:
            high = value
        bounds[name] = [low, high]
        if constraint.operator is Operator.EQ:
            bounds[name] = [value, value]
    for name, (low, high) in bounds.items():
        sign = "=" if low == high else ">=" if high is None else "<=" if low is None else "[]"
        least, most = (0 if low is None else low), (TOP - 1 if high is None else high)
        yield f"{int(name[1:])} {sign} {least} {most}"


def event_lines(table: pa.Table, texts: bool) -> Iterator[str]:
    """The lines of notifications, a row each."""
    names = table.column_names
    for number, row in enumerate(zip(*(table[n].to_pylist() for n in names), strict=True)):
        parts = [
            f"{int(name[1:])} {_text(name, value) if texts else value}"
            for name, value in zip(names, row, strict=True)
            if value is not None
        ]
        yield f"{number} {len(parts)} {' '.join(parts)}\n"


def _text(name: str, value: str) -> str:
    """A text as programs read it: `v003` of attribute `a07` is `v7_3`."""
    return f"v{int(name[1:])}_{int(value[1:])}"
