"""self-arranging: how few hops do notifications take when a policy server arranges the overlay?

`dynamic-clustering` asks what plans and re-clustering can do. Here the same worlds (11 brokers, 250
subscribers, 1000 publishers, random terms: the thesis' 6.5) are arranged by the management plane as
it is: agents report to a trigger broker, a policy server goes by the policies that come with kbn,
publishers ask where to publish. Only sockets and the clock are simulated.

Clients attach at random brokers, and all publish once before the policy server is there
(*unmanaged*). Then it starts, and everybody goes on publishing the same every 15 simulated seconds.
A row tells of the last round of a minute. Every round must deliver what the first did, to the same
subscribers. Load is the number of clients at a broker; the limit is two fair shares.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbn.lab.experiment import Experiment, Parameters, Progress, Scale, Table
from kbn.lab.processes import in_processes

if TYPE_CHECKING:
    from kbn.lab.experiments.dynamic_clustering import World
    from kbn.management import PolicyServer
    from kbn.simulation import ManagedNetwork, ManagedPublisher

ATTRIBUTES = (1, 6)
LOAD_MAX = 2.0
ROUND_S = 15.0
ROUNDS_A_MINUTE = 4

Row = dict[str, Any]


def run(parameters: Parameters, seed: int, progress: Progress) -> list[Table]:
    import pyarrow as pa

    cases = [(parameters, seed + number) for number in range(parameters["seeds"])]
    rows: list[Row] = []
    for done, found in enumerate(in_processes(_case, cases, parameters["processes"])):
        rows += found
        progress("worlds", done + 1, len(cases))
    return [Table("minutes", pa.Table.from_pylist(_means(rows)), "Hops as time goes by", _NOTES)]


_NOTES = (
    "Means over the seeds, but for the worst seed and the largest load of all seeds.",
    "moves: clients told to go elsewhere since the minute before.",
)


def _case(case: tuple[Parameters, int]) -> list[Row]:
    from random import Random

    from kbn.lab.experiments.dynamic_clustering import drawn

    parameters, seed = case
    world = drawn(parameters, ATTRIBUTES, Random(seed))
    arranged = _Arranged(world)
    rows = [arranged.row("unmanaged")]
    arranged.begin()
    for minute in range(1, parameters["minutes"] + 1):
        for _ in range(ROUNDS_A_MINUTE):
            arranged.publish()
        rows.append(arranged.row(f"{minute} min"))
    return [{"seed": seed} | row for row in rows]


class _Arranged:
    """A world in a managed network; publishes once when it is made."""

    def __init__(self, world: World) -> None:
        from kbn.lab.experiments.dynamic_clustering import PARENTS
        from kbn.simulation import ManagedNetwork

        self._world = world
        self._managed: ManagedNetwork = ManagedNetwork(PARENTS, world.ontology)
        for name, subscription in world.subscriptions.items():
            self._managed.network.client(name, world.began[name]).subscribe(subscription)
        self._publishers: dict[str, ManagedPublisher] = {
            name: self._managed.publisher(name, world.began[name]) for name in world.notifications
        }
        self._managed.network.run()
        self._first: set[tuple[str, str]] | None = None
        self._moved = 0
        self._server: PolicyServer | None = None
        self.publish()

    def begin(self) -> None:
        """Have a policy server, with the policies that come with kbn."""
        from kbn.management import Assignments, Mib, PolicyEngine, PolicyServer, PolicySet

        engine = PolicyEngine(Mib(), PolicySet.shipped())
        self._server = PolicyServer("policies", engine, Assignments(self._world.ontology), LOAD_MAX)
        self._managed.serve(self._server)

    def publish(self) -> None:
        """A round: everybody publishes what it always does, and time passes."""
        network = self._managed.network
        for client in network.clients.values():
            client.received.clear()
        for name, notification in self._world.notifications.items():
            self._publishers[name].publish(notification)
        network.run()
        heard = [
            (name, each.id.publisher, each.hops)
            for name in self._world.subscriptions
            for each in network.clients[name].received
        ]
        self._hops = [hops for _, _, hops in heard]
        pairs = {(subscriber, publisher) for subscriber, publisher, _ in heard}
        self._first = self._first or pairs
        assert len(heard) == len(pairs) and pairs == self._first, "a round delivered other things"
        self._managed.run(ROUND_S)

    def row(self, when: str) -> Row:
        clients = self._managed.network.clients
        everybody = [*self._world.subscriptions, *self._world.notifications]
        loads = Counter(clients[name].broker for name in everybody)
        limit = LOAD_MAX * len(everybody) / len(self._managed.network.brokers)
        moved = sum(len(clients[name].moves) for name in everybody)
        moves, self._moved = moved - self._moved, moved
        return {
            "when": when,
            "mean hops": sum(self._hops) / len(self._hops),
            "within 4": sum(hops <= 4 for hops in self._hops) / len(self._hops),
            "deliveries": len(self._hops),
            "largest load / limit": max(loads.values()) / limit,
            "moves": moves,
        }


def _means(rows: Sequence[Row]) -> list[Row]:
    from statistics import fmean

    found = []
    for when in dict.fromkeys(row["when"] for row in rows):
        group = [row for row in rows if row["when"] == when]
        means = ("mean hops", "within 4", "deliveries", "moves")
        row: Row = {"when": when} | {name: fmean(each[name] for each in group) for name in means}
        row["worst seed"] = max(each["mean hops"] for each in group)
        row["largest load / limit"] = max(each["largest load / limit"] for each in group)
        found.append(row)
    return found


def plot(tables: Sequence[Table], folder: Path) -> list[Path]:
    from kbn.pages import plots

    rows = tables[0].data.to_pylist()
    series = {
        name: [(float(minute), row[name]) for minute, row in enumerate(rows)]
        for name in ("mean hops", "worst seed", "largest load / limit")
    }
    return [
        plots.lines(
            folder / "minutes.svg",
            series,
            title="An overlay arranges itself",
            x="minutes with a policy server",
            y="hops; share of the load limit",
        )
    ]


EXPERIMENT = Experiment(
    name="self-arranging",
    source="beyond the thesis: its 6.5 by the whole management plane",
    question="how few hops do notifications take when a policy server arranges the overlay?",
    scales={
        Scale.SMALL: {
            "subscribers": 40, "publishers": 100, "seeds": 1, "minutes": 4, "processes": 1,
        },
        Scale.PAPER: {
            "subscribers": 250, "publishers": 1000, "seeds": 20, "minutes": 8, "processes": 2,
        },
        Scale.BEYOND: {
            "subscribers": 1000, "publishers": 4000, "seeds": 4, "minutes": 15, "processes": 2,
        },
    },
    run=run,
    plot=plot,
)  # fmt: skip
