"""mobility: what does it cost to move subscribers to another broker, and what is lost?

The thesis (6.4.3.1, Tables 24 and 25, Figure 31) moves 200 to 1000 subscribers, each with 2 filters
of 1 to 6 attributes, from one broker to another: with one instruction to their broker, or one by
one. With the broker took 3.6 to 9.6 s, one by one 5.1 to 16.3 s, and notifications published in the
meantime may be lost; none were published.

Here both brokers are below a parent, where a publisher sits and publishes throughout: before the
first leaves and after the last has come. Each subscriber must get every notification that its
filters match, once, in the order published. *Changing its parent* is the source's move with the
broker: it keeps its clients and hangs below the other broker afterwards. *With the broker*: one
instruction to the broker, which sends all its clients to the other one. *One by one*: the next is
told when the one before has arrived.
*Leaving first*, for comparison, is what the source's subscribers did: unsubscribe, go, subscribe.

Each size and way is run twice: quietly, for the messages and the time that moving alone takes, and
with notifications, for what is lost. The network is in memory, 1 ms for each link: `simulated s` is
what a network of such links would take, `s` what one core took for all brokers and clients.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbn.broker import administration
from kbn.lab.experiment import Experiment, Parameters, Progress, Scale, Table

if TYPE_CHECKING:
    from random import Random

    from kbn.filters import Notification, Subscription
    from kbn.ontology import Ontology
    from kbn.simulation import Network, SimulatedClient

KEEPING = "changing its parent"
WAYS = (KEEPING, "with the broker", "one by one", "leaving first")
FROM, TO = "source", "destination"
PARENTS: dict[str, str | None] = {"parent": None, FROM: "parent", TO: "parent"}
ATTRIBUTES = 6
AT_MOST_S = 3600.0

# Table 25: subscribers, then mean ms and its deviation with the broker, and one by one.
THEIRS = (
    (200, 3562, 387.96, 5126, 979),
    (400, 4496, 327.45, 12933, 1367),
    (600, 7496, 680.15, 15838, 1854),
    (800, 7324, 877.27, 14549, 1384),
    (1000, 9550, 1011.75, 16335, 1286),
)


def run(parameters: Parameters, seed: int, progress: Progress) -> list[Table]:
    import pyarrow as pa

    from kbn import data
    from kbn.ontology import Ontology

    ontology = Ontology.load(data.path("conference"))
    rows: list[dict[str, Any]] = []
    total = len(parameters["sizes"]) * len(WAYS)
    for size in parameters["sizes"]:
        for way in WAYS:
            progress(f"{size} subscribers, {way}", len(rows), total)
            moved = _quietly(ontology, size, way, seed, parameters["rounds"])
            every_s = parameters["every_s"][way]
            rows.append(
                {
                    "subscribers": size,
                    "way": way,
                    **moved,
                    **_while_published(ontology, size, way, seed, every_s),
                }
            )
    _against_the_broker(rows)
    columns = ("subscribers", "with broker, ms", "sd", "one by one, ms", "sd, one by one")
    theirs = pa.Table.from_pylist([dict(zip(columns, row, strict=True)) for row in THEIRS])
    return [Table("moves", pa.Table.from_pylist(rows), "Moving subscribers", _NOTES, theirs)]


_NOTES = (
    "messages, s and simulated s: of moving alone. s: the least of a few rounds, beside it mean "
    "and deviation; × with the broker: its ratio to that in this run.",
    "expected: how often a notification had to reach a subscriber, of those published while "
    "subscribers moved and just before and after; lost, doubled and out of order: how often it "
    "did not, did again, or did before an earlier one.",
    "The source published nothing meanwhile, and says that notifications may be lost.",
)


def plot(tables: Sequence[Table], folder: Path) -> list[Path]:
    from kbn.pages import plots

    series: dict[str, list[tuple[float, float]]] = {}
    for row in tables[0].data.to_pylist():
        series.setdefault(row["way"], []).append((row["subscribers"], row["s"]))
    series["source, changing its parent"] = [(row[0], row[1] / 1e3) for row in THEIRS]
    series["source, one by one"] = [(row[0], row[3] / 1e3) for row in THEIRS]
    path = folder / "moves.svg"
    title = "Time to move all subscribers"
    return [plots.lines(path, series, title=title, x="subscribers", y="time (s)", log_y=True)]


def subscription(ontology: Ontology, rng: Random) -> Subscription:
    """Two filters of 1 to 6 attributes: classes below a class, individuals of a class."""
    from kbn.filters import Constraint, Filter, Subscription
    from kbn.ontology import Class

    classes = list(ontology.classes)
    # Every other class is a wide one, so that most subscribers get something.
    wide = [iri for iri in classes if len(ontology.ancestors(iri)) == 1]

    def one() -> Filter:
        chosen = rng.sample(range(ATTRIBUTES), rng.randint(1, ATTRIBUTES))
        drawn = [(n, Class(rng.choice(rng.choice((classes, wide))))) for n in chosen]
        return Filter([Constraint(attribute(n), "@=" if n % 2 else "@>", c) for n, c in drawn])

    return Subscription([one(), one()])


def attribute(number: int) -> str:
    return f"ontInstance{number}" if number % 2 else f"ontClass{number}"


def publication(ontology: Ontology, number: int, rng: Random) -> Notification:
    """Terms drawn at random for all attributes, and a number by which to tell them apart."""
    from kbn.filters import Notification
    from kbn.ontology import Class, Individual

    classes, individuals = list(ontology.classes), list(ontology.individuals)
    content: dict[str, Any] = {"number": number}
    for n in range(ATTRIBUTES):
        term = Individual(rng.choice(individuals)) if n % 2 else Class(rng.choice(classes))
        content[attribute(n)] = term
    return Notification(content)


def _network(
    ontology: Ontology, size: int, seed: int
) -> tuple[Network, list[SimulatedClient], list[Subscription]]:
    from random import Random

    from kbn.simulation import Network

    rng = Random(f"{seed}/{size}")
    network = Network(PARENTS, ontology)
    wanted = [subscription(ontology, rng) for _ in range(size)]
    clients = [network.client(f"s{n}", FROM) for n in range(size)]
    for client, asked in zip(clients, wanted, strict=True):
        client.subscribe(asked)
    network.run()
    return network, clients, wanted


def _move(
    network: Network, clients: list[SimulatedClient], wanted: list[Subscription], way: str
) -> None:
    """Move all of them; at the end all are there, or their broker is below the other one."""
    if way == KEEPING:
        network.move_broker(FROM, TO)
        assert network.run_until(lambda: bool(network.broker_moves), AT_MOST_S)
        assert network.broker_moves == [(FROM, TO, None)], network.broker_moves
        assert all(client.broker == FROM for client in clients)
        return
    if way == "with the broker":
        manager = network.client("manager", FROM)
        manager.admin(administration.MoveClients(TO, TO))
        assert network.run_until(lambda: all(client.moves for client in clients), AT_MOST_S)
    for number, client in enumerate(clients):
        if way == "one by one":
            client.move(TO)
            assert network.run_until(lambda client=client: bool(client.moves), AT_MOST_S)  # type: ignore[misc]
        elif way == "leaving first":
            clients[number] = _leave_and_join(network, client, wanted[number])
    assert all(client.broker == TO for client in clients)


def _leave_and_join(
    network: Network, client: SimulatedClient, wanted: Subscription
) -> SimulatedClient:
    """A client goes as in the source; what it has received so far stays with it."""
    client.leave()
    assert network.run_until(lambda: len(client.confirmed) > 1, AT_MOST_S)  # subscribed, left
    again = network.client(client.name, TO)
    again.received = client.received
    number = again.subscribe(wanted)
    assert network.run_until(lambda: again.has("subscribe", number), AT_MOST_S)
    return again


def _quietly(ontology: Ontology, size: int, way: str, seed: int, rounds: int) -> dict[str, Any]:
    """What moving alone takes, over a few rounds that differ in nothing else."""
    from statistics import fmean, pstdev

    from kbn.lab.measuring import timed

    found: dict[str, Any] = {}
    took: list[float] = []
    for _ in range(rounds):
        network, clients, wanted = _network(ontology, size, seed)
        messages, began = network.messages, network.now
        seconds, _ = timed(_move, network, clients, wanted, way)
        took.append(seconds)
        found = {
            "messages": network.messages - messages,
            "messages each": (network.messages - messages) / size,
            "simulated s": network.now - began,
        }
    return found | {"s": min(took), "mean s": fmean(took), "sd s": pstdev(took)}


def _while_published(
    ontology: Ontology, size: int, way: str, seed: int, every_s: float
) -> dict[str, Any]:
    """Publish from before the first move until after the last, at random moments.

    Not at equal distances: moves have a rhythm of their own, and would always meet the same moment.
    """
    from random import Random

    rng = Random(f"{seed}/{size}/published")
    network, clients, wanted = _network(ontology, size, seed)
    publisher = network.client("publisher", "parent")
    network.run()
    sent: list[Notification] = []
    is_over = False

    def publish() -> None:
        sent.append(publication(ontology, len(sent), rng))
        publisher.publish(sent[-1])
        if not is_over:
            network.at(network.now + rng.expovariate(1 / every_s), publish)

    publish()
    network.run_for(every_s * 5)
    _move(network, clients, wanted, way)
    network.run_for(every_s * 5)
    is_over = True
    network.run()
    return {"published": len(sent), **_compared(ontology, clients, wanted, sent)}


def _compared(
    ontology: Ontology,
    clients: list[SimulatedClient],
    wanted: list[Subscription],
    sent: list[Notification],
) -> dict[str, int]:
    """What came, against what the plain evaluator says had to come."""
    from itertools import pairwise

    from kbn.matching import LinearScan

    scan = LinearScan(ontology)
    for number, asked in enumerate(wanted):
        scan.add(asked, number)
    expected: list[list[int]] = [[] for _ in clients]
    for notification in sent:
        for who in scan.match(notification):
            assert isinstance(who, int)
            expected[who].append(_number(notification))
    found = {"expected": 0, "lost": 0, "doubled": 0, "out of order": 0}
    for client, numbers in zip(clients, expected, strict=True):
        came = [_number(each.notification) for each in client.received]
        found["expected"] += len(numbers)
        found["lost"] += len(set(numbers) - set(came))
        found["doubled"] += len(came) - len(set(came))
        found["out of order"] += sum(b < a for a, b in pairwise(came))
        assert set(came) <= set(numbers), f"{client.name} got what it did not ask for"
    return found


def _number(notification: Notification) -> int:
    number = notification["number"]
    assert isinstance(number, int)
    return number


def _against_the_broker(rows: list[dict[str, Any]]) -> None:
    base = {row["subscribers"]: row["s"] for row in rows if row["way"] == "with the broker"}
    theirs = {row[0]: (row[1], row[3]) for row in THEIRS}
    for row in rows:
        row["× with the broker"] = row["s"] / base[row["subscribers"]]
        known = theirs.get(row["subscribers"])
        # Its subscribers that moved one by one left first; none were sent all at once.
        is_theirs = known is not None and row["way"] != "with the broker"
        of_way = known[row["way"] != KEEPING] if known is not None and is_theirs else None
        row["source s"] = None if of_way is None else of_way / 1e3


EXPERIMENT = Experiment(
    name="mobility",
    source="thesis, 6.4.3.1, Tables 24 and 25 and Figure 31",
    question="what does it cost to move subscribers to another broker, and what is lost?",
    scales={
        Scale.SMALL: {
            "sizes": [20, 40],
            "rounds": 1,
            "every_s": dict.fromkeys(WAYS, 0.0005),
        },
        Scale.PAPER: {
            "sizes": [200, 400, 600, 800, 1000],
            "rounds": 3,
            "every_s": {
                **{KEEPING: 0.0005, "with the broker": 0.0005},
                **{"one by one": 0.01, "leaving first": 0.01},
            },
        },
        Scale.BEYOND: {
            "sizes": [1000, 2000, 5000],
            "rounds": 1,
            "every_s": {
                **{KEEPING: 0.0005, "with the broker": 0.0005},
                **{"one by one": 0.2, "leaving first": 0.2},
            },
        },
    },
    run=run,
    plot=plot,
)
