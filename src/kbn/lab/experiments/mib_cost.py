"""mib-cost: what do managed objects cost, and policies over all of them?

The thesis (section 6.4.1, Figures 26 and 27) puts 500 to 2500 managed objects into its MIB, a third
each of brokers, subscribers and publishers, and finds that memory grows by 0.2 MB; then it runs
five policies over all of them (two about subscribers, two about brokers, one about publishers) and
finds times that grow linearly. It asks every policy of every object at every message. Here a report
is asked about its own object only, and a policy over all objects works by columns; the same five
policies, to a million objects. A policy's time is that of a whole tick: its condition over all,
those that it means put in order, and what is done for the first hundred of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from kbn.lab.experiment import Experiment, Parameters, Progress, Scale, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kbn.management import Mib, PolicySet, Report

CLASSES = 5_000
REPORTS_TIMED = 2_000
NOW = 1_000.0

# Asked by the clock, so over all objects. What each does is little, and bounded by its rate.
POLICIES = """\
policies:
  - name: place-subscribers
    every: 1 h
    of: subscriber
    when: overlay.brokers >= 2 && subscriber.medoid != '' && subscriber.placed_on == ''
    do: {action: log, message: found}
    at_most: 100 per minute
  - name: misplaced-subscribers
    every: 1 h
    of: subscriber
    when: subscriber.mean_hops > 1.5 && subscriber.notifications >= 10
    do: {action: log, message: found}
    at_most: 100 per minute
  - name: place-publishers
    every: 1 h
    of: publisher
    when: publisher.medoid.startsWith('https://kbn.example/') && publisher.name.endsWith('7')
    do: {action: log, message: found}
    at_most: 100 per minute
  - name: widest-broker
    every: 1 h
    of: broker
    when: broker.subscribers > 0
    choose: {highest: broker.spread}
    do: {action: log, message: found}
    at_most: 100 per minute
  - name: smaller-group
    every: 1 h
    of: broker
    when: broker.spread > 3.5 && broker.smaller_group != ''
    do: {action: log, message: found}
    at_most: 100 per minute
"""


def run(parameters: Parameters, seed: int, progress: Progress) -> list[Table]:
    import pyarrow as pa

    costs: list[dict[str, Any]] = []
    times: list[dict[str, Any]] = []
    with TemporaryDirectory() as folder:
        policies = five_policies(Path(folder))
        for size in parameters["sizes"]:
            progress(f"{size} objects", len(costs), len(parameters["sizes"]))
            path = Path(folder) / f"mib-{size}.db"
            cost, found = _measured(size, seed, path, policies, parameters["rounds"])
            costs.append(cost)
            times += found
    notes = (
        "A third each of brokers, subscribers and publishers; subscribers with notification "
        "reports. held: columns, names and texts, counted; resident: what the process grew by.",
        "A report with policies: one that changes an object and is asked about it by five.",
    )
    return [
        Table("cost", pa.Table.from_pylist(costs), "Managed objects", notes, _their_memory()),
        Table("policies", pa.Table.from_pylist(times), "Five policies over all objects"),
    ]


def plot(tables: Sequence[Table], folder: Path) -> list[Path]:
    from kbn.pages import plots

    cost, policies = tables[0].data.to_pylist(), tables[1].data.to_pylist()
    by_policy: dict[str, list[tuple[float, float]]] = {}
    for row in policies:
        by_policy.setdefault(row["policy"], []).append((row["objects"], row["ms"]))
    held = {"held": [(row["objects"], row["held MB"]) for row in cost]}
    logs = {"log_x": True, "log_y": True}
    return [
        plots.lines(
            folder / "memory.svg",
            held,
            title="Managed objects",
            x="objects",
            y="memory (MB)",
            **logs,
        ),
        plots.lines(
            folder / "policies.svg",
            by_policy,
            title="A policy over all objects",
            x="objects",
            y="time (ms)",
            **logs,
        ),
    ]


def five_policies(folder: Path, trigger: str = "every: 1 h") -> PolicySet:
    """The policies, asked by the clock or, with `on: …`, when something is reported."""
    from kbn.management import PolicySet

    path = folder / "five.yaml"
    path.write_text(POLICIES.replace("every: 1 h", trigger), encoding="utf-8")
    return PolicySet.load(path)


def reports(size: int, seed: int) -> Iterator[Report]:
    """Reports that make `size` objects, a third of each kind, and then tell how they fare."""
    import numpy as np

    from kbn.management import (
        BrokerInfo,
        BrokerMedoid,
        MedoidGroup,
        NotificationReport,
        PublisherInfo,
        SubscriberInfo,
    )

    chance = np.random.default_rng(seed)
    third = size // 3
    medoids = [f"https://kbn.example/ontology#C{number}" for number in range(CLASSES)]
    for number in range(third):
        name, spread = f"broker-{number}", float(chance.random() * 4)
        some, other = (medoids[each] for each in chance.integers(0, CLASSES, 2))
        groups = (MedoidGroup(some, spread, 5), MedoidGroup(other, 0.5, number % 6))
        yield BrokerInfo(name, f"kbn://10.0.{number % 250}.1:{number}", f"broker-{number // 2}")
        yield BrokerMedoid(name, some, spread, number % 9, groups)
    for number in range(third):
        medoid = medoids[int(chance.integers(0, CLASSES))] if number % 10 else None
        yield PublisherInfo(f"publisher-{number}", f"broker-{number % third}", medoid, 0.5)
    for number in range(size - 2 * third):
        name, broker = f"subscriber-{number}", f"broker-{number % third}"
        medoid = medoids[int(chance.integers(0, CLASSES))] if number % 10 else None
        near, far = (int(each) for each in chance.integers(0, 12, 2))
        heard = {f"publisher-{number % third}": near + far}
        yield SubscriberInfo(name, broker, medoid, float(chance.random() * 4), number % 7)
        yield NotificationReport.of(name, broker, {1: near, 3: far}, heard)


def _measured(
    size: int, seed: int, path: Path, policies: PolicySet, rounds: int
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    from kbn.lab.measuring import resident_bytes, timed, undisturbed
    from kbn.management import Mib

    given = reports(size, seed)
    before = resident_bytes()
    with Mib(path) as mib:
        with undisturbed():
            filling_s, count = _filled(mib, given)
        resident = resident_bytes() - before
        commit_s, _ = timed(mib.commit)
        held = mib.size_bytes()
        found = [_policy_row(mib, policies, number, size, rounds) for number in range(5)]
        reported_s = _reported(mib, path.parent)
    reopen_s, again = timed(Mib, path)
    with again:
        assert again.count("broker") + again.count("subscriber") + again.count("publisher") == size
    cost = {
        "objects": size,
        "held MB": held / 2**20,
        "bytes each": held / size,
        "resident MB": resident / 2**20,
        "µs per report": filling_s / count * 1e6,
        "µs per report with policies": reported_s * 1e6,
        "commit s": commit_s,
        "reopen s": reopen_s,
        "file MB": path.stat().st_size / 2**20,
    }
    return cost, found


def _filled(mib: Mib, given: Iterator[Report]) -> tuple[float, int]:
    """How long it takes to apply reports, without the time it takes to make them up."""
    from itertools import islice

    from kbn.lab.measuring import timed

    def apply_all(some: list[Report]) -> None:
        for report in some:
            mib.apply(report, NOW)

    seconds, count = 0.0, 0
    while some := list(islice(given, 20_000)):
        seconds += timed(apply_all, some)[0]
        count += len(some)
    return seconds, count


def _policy_row(
    mib: Mib, policies: PolicySet, number: int, size: int, rounds: int
) -> dict[str, Any]:
    """One policy over all objects: the least time of a few rounds, each as if it were the first."""
    from kbn.lab.measuring import timed
    from kbn.management import PolicyEngine

    policy = tuple(policies)[number]
    engines = [PolicyEngine(mib, [policy]) for _ in range(rounds)]
    least_s = min(timed(engine.tick, NOW)[0] for engine in engines)
    done = len(engines[0].log)
    return {
        "objects": size,
        "policy": policy.name,
        "asked": mib.count(policy.of or "broker"),
        "found": done + engines[0].suppressed[policy.name],
        "done": done,
        "ms": least_s * 1e3,
    }


def _reported(mib: Mib, folder: Path) -> float:
    """How long a report takes when five policies are asked about its object."""
    from kbn.lab.measuring import timed
    from kbn.management import PolicyEngine, SubscriberInfo

    engine = PolicyEngine(mib, five_policies(folder, "on: Report"))
    count = min(REPORTS_TIMED, mib.count("subscriber"))
    some = [SubscriberInfo(f"subscriber-{n}", "broker-0", None, 0.5, 1) for n in range(count)]

    def report_all() -> None:
        for report in some:
            engine.reported(report, NOW)

    return timed(report_all)[0] / max(1, count)


def _their_memory() -> Any:
    import pyarrow as pa

    rows = [
        {"objects": "500 to 2500", "memory": "+0.2 MB", "five policies": "linear, Figure 27"},
    ]
    return pa.Table.from_pylist(rows)


EXPERIMENT = Experiment(
    name="mib-cost",
    source="thesis, section 6.4.1, Figures 26 and 27",
    question="what do managed objects cost, and policies over all of them?",
    scales={
        Scale.SMALL: {"sizes": [500, 2_500], "rounds": 1},
        Scale.PAPER: {"sizes": [500, 1_000, 1_500, 2_000, 2_500, 100_000], "rounds": 5},
        Scale.BEYOND: {"sizes": [2_500, 10_000, 100_000, 1_000_000], "rounds": 3},
    },
    run=run,
    plot=plot,
)
