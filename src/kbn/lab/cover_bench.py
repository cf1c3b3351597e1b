"""`kbn bench cover`: how quickly the covering poset takes filters in, in bulk and one by one.

The poset is loaded in bulk with as many subscriptions as are asked for. Then subscriptions come and
go one by one: each that comes is new, each that goes is drawn from those that are there. Seconds
are of CPU time, with the collector running. A small poset is loaded first, so that no kernel is
compiled while time is taken.

Besides the workloads there are the worst shapes that we know of:

* `chain`: each filter covers all that are narrower;
* `below-one`: one filter covers all others, none of which covers another, and it goes and comes;
* `incomparable`: none covers another, one in ten is covered by all the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from random import Random
from typing import Any

from kbn.errors import InvalidInputError
from kbn.filters import Constraint, Filter, Subscription
from kbn.lab.experiment import Progress, silent
from kbn.lab.measuring import cpu_timed, versions
from kbn.lab.workloads import NAMES, Pair, workload
from kbn.matching import Poset
from kbn.ontology import Ontology

WARM_SUBSCRIPTIONS = 2_500


@dataclass(frozen=True, slots=True)
class Settings:
    """What the poset is loaded with, and how often it changes then."""

    workloads: tuple[str, ...] = ("u20", "ranges", "podcast")
    subscriptions: int = 100_000
    changes: int = 5_000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.subscriptions < 1 or self.changes < 2:
            raise InvalidInputError("give at least 1 subscription and 2 changes")
        if self.seed < 0:
            raise InvalidInputError(f"the seed must not be negative, not {self.seed}")
        for name in self.workloads:
            if name not in SHAPES and name not in NAMES:
                raise InvalidInputError(
                    f"there is no workload {name!r}; there are {', '.join((*NAMES, *SHAPES))}"
                )


@dataclass(frozen=True, slots=True)
class Covered:
    """The figures of one workload."""

    workload: str
    subscriptions: int
    filters: int
    roots: int
    bulk_s: float
    bulk_filters_per_second: float
    changes: int
    changes_per_second: float


@dataclass(frozen=True, slots=True)
class Report:
    """A whole run."""

    settings: Settings
    rows: tuple[Covered, ...]
    machine: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        rows = [asdict(row) for row in self.rows]
        return {"settings": asdict(self.settings), "machine": self.machine, "rows": rows}


def run(settings: Settings, progress: Progress = silent) -> Report:
    """Measure each workload in turn."""
    rows = []
    for number, name in enumerate(settings.workloads):
        progress(f"covering {name}", number, len(settings.workloads))
        rows.append(measure(settings, name))
    return Report(settings, tuple(rows), versions())


def measure(settings: Settings, name: str) -> Covered:
    """Load one workload and change it."""
    coming = settings.changes // 2
    ontology, pairs = _pairs(name, settings.subscriptions + coming, settings.seed)
    _warm(Poset(ontology), pairs[:WARM_SUBSCRIPTIONS])
    poset = Poset(ontology)
    first, later = pairs[: settings.subscriptions], pairs[settings.subscriptions :]
    bulk_s, _ = cpu_timed(poset.add_many, first)
    filters, roots = poset.entry_count, len(poset.roots)
    changes_s, _ = cpu_timed(_change, poset, first, later, settings.seed)
    return Covered(
        workload=name,
        subscriptions=settings.subscriptions,
        filters=filters,
        roots=roots,
        bulk_s=bulk_s,
        bulk_filters_per_second=filters / bulk_s,
        changes=2 * len(later),
        changes_per_second=2 * len(later) / changes_s,
    )


def _warm(poset: Poset, pairs: list[Pair]) -> None:
    """Have all kernels compiled."""
    poset.add_many(pairs)
    for subscription, key in pairs[:10]:
        poset.remove(key)
        poset.add(subscription, key)


def _change(poset: Poset, there: list[Pair], coming: list[Pair], seed: int) -> None:
    """One comes, one goes, and so on."""
    random = Random(seed)
    keys = [key for _, key in there]
    for subscription, key in coming:
        poset.add(subscription, key)
        place = random.randrange(len(keys))
        poset.remove(keys[place])
        keys[place] = key


def _pairs(name: str, count: int, seed: int) -> tuple[Ontology | None, list[Pair]]:
    if name in SHAPES:
        drawn = SHAPES[name](Random(seed))
        return None, [(Subscription([next(drawn)]), key) for key in range(count)]
    source = workload(name, count)
    return source.ontology, [pair for part in source.subscriptions(count, seed) for pair in part]


def _chain(random: Random) -> Iterator[Filter]:
    while True:
        yield Filter([Constraint("x", "<", random.random())])


def _below_one(random: Random) -> Iterator[Filter]:
    kind = Constraint("kind", "=", "book")
    yield Filter([kind])
    while True:
        place = random.random()
        bounds = [Constraint("x", ">", place), Constraint("x", "<", place + 1e-9)]
        yield Filter([kind, *bounds])


def _incomparable(random: Random) -> Iterator[Filter]:
    while True:
        place = random.random()
        if random.random() < 0.1:
            yield Filter([Constraint("x", "<", -1), Constraint("y", "<", -1 - place)])
        else:
            yield Filter([Constraint("x", "<", place), Constraint("y", "<", 1 - place)])


SHAPES = {"chain": _chain, "below-one": _below_one, "incomparable": _incomparable}
