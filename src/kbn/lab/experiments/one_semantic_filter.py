"""one-semantic-filter: what does one semantic filter cost per hop, against 17 filters of names?

The 2006 paper (section 4, Figure 5) sends CIM event indications through a chain of routers to a
subscriber that wants them all, either with one filter (the class of the event is CIM_Indication or
more specific) or with 17 filters that compare its name with CIM_Indication's and those of its 16
subclasses. The figure is a picture; in words, the semantic filter costs a little more, and the more
the more routers a notification passes.

Here the routers are peers in a chain; the subscriber is at one end, and the publisher so many
brokers away. Every notification carries the event's class and its name, and the events are the 17
classes in turn and one alert that nobody wants. The ontology is the shipped `events`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbn.lab.experiment import Experiment, Parameters, Progress, Scale, Table

if TYPE_CHECKING:
    from kbn.filters import Notification, Subscription
    from kbn.ontology import Ontology
    from kbn.simulation import Network

KINDS = ("17 names", "one semantic")  # the first is what the others are compared with
WANTED, UNWANTED = "CIM_Indication", "LinkDown"


def run(parameters: Parameters, seed: int, progress: Progress) -> list[Table]:
    import pyarrow as pa

    from kbn import data
    from kbn.ontology import Ontology

    ontology = Ontology.load(data.path("events"))
    rows: list[dict[str, Any]] = []
    for hops in parameters["hops"]:
        progress("hops", hops, max(parameters["hops"]))
        rows += _at(ontology, hops, parameters["rounds"])
    _against_names(rows)
    theirs = pa.table(
        {
            "filters": ["one semantic", "17 names"],
            "end-to-end time": ["a little more, growing with the hops", "the baseline"],
        }
    )
    return [
        Table("hops", pa.Table.from_pylist(rows), "Cost by hops", _NOTES, theirs),
        Table(
            "per-hop",
            pa.Table.from_pylist([_slope(rows, kind) for kind in KINDS]),
            "What one more hop costs",
            ("The slope of a straight line through µs by hops.",),
        ),
    ]


_NOTES = (
    "µs: processor time from publishing to the subscriber, all brokers and both clients, the "
    "median of all wanted notifications. × names: the ratio to 17 names at as many hops.",
    "announced: filters that brokers told each other; table entries: those in all tables at the "
    "end; messages to subscribe: all messages from subscribing until all is quiet.",
)


def plot(tables: Sequence[Table], folder: Path) -> list[Path]:
    from kbn.pages import plots

    drawn = []
    for name, column, y in (("time", "µs", "time (µs)"), ("tables", "table entries", "entries")):
        series: dict[str, list[tuple[float, float]]] = {}
        for row in tables[0].data.to_pylist():
            series.setdefault(row["filters"], []).append((row["hops"], row[column]))
        path = folder / f"{name}.svg"
        drawn.append(plots.lines(path, series, title=f"{y.capitalize()} by hops", x="hops", y=y))
    return drawn


def subscriptions(ontology: Ontology, kind: str) -> list[Subscription]:
    """What the subscriber asks for."""
    from kbn import data
    from kbn.filters import Constraint, Filter, Subscription
    from kbn.ontology import Class

    if kind == "one semantic":
        wanted = Class(data.namespace("events") + WANTED)
        return [Subscription(Filter([Constraint("event", "@>", wanted)]))]
    names = indications(ontology)
    return [Subscription(Filter([Constraint("name", "=", name)])) for name in names]


def indications(ontology: Ontology) -> list[str]:
    """CIM_Indication and its 16 subclasses."""
    from kbn import data

    wanted = data.namespace("events") + WANTED
    below = [iri for iri in ontology.classes if wanted in ontology.ancestors(iri)]
    return [iri.partition("#")[2] for iri in below]


def event(name: str) -> Notification:
    from kbn import data
    from kbn.filters import Notification
    from kbn.ontology import Class

    return Notification({"event": Class(data.namespace("events") + name), "name": name})


def _at(ontology: Ontology, hops: int, rounds: int) -> list[dict[str, Any]]:
    """Both kinds over so many brokers, taking turns, so that neither has the better moments."""
    networks = {kind: _chain(ontology, hops) for kind in KINDS}
    told = {kind: _subscribe(networks[kind], ontology, kind) for kind in KINDS}
    work: dict[str, list[float]] = {kind: [] for kind in KINDS}
    events = [event(name) for name in indications(ontology)]
    for number in range(rounds + 1):
        for kind, network in networks.items():
            took = [_publish(network, each) for each in events]
            _publish(network, event(UNWANTED))
            work[kind] += took if number else []  # the first round warms up
    return [
        {"filters": kind, "hops": hops, **told[kind], **_measured(networks[kind], work[kind])}
        for kind in KINDS
    ]


def _chain(ontology: Ontology, hops: int) -> Network:
    from itertools import pairwise

    from kbn.broker import Topology
    from kbn.simulation import Network

    names = [f"b{number}" for number in range(1, hops + 1)]
    network = Network(Topology.peers(pairwise(names), names), ontology)
    network.client("subscriber", "b1")
    network.client("publisher", f"b{hops}")
    network.run()
    return network


def _subscribe(network: Network, ontology: Ontology, kind: str) -> dict[str, Any]:
    before = network.messages
    asked = subscriptions(ontology, kind)
    for subscription in asked:
        network.clients["subscriber"].subscribe(subscription)
    network.run()
    brokers = list(network.brokers.values())
    entries = sum(len(broker.table) for broker in brokers)
    return {
        "subscriptions": len(asked),
        "announced": entries - len(asked),
        "table entries": entries,
        "messages to subscribe": network.messages - before,
    }


def _publish(network: Network, notification: Notification) -> float:
    from time import process_time

    started = process_time()
    network.clients["publisher"].publish(notification)
    network.run()
    return process_time() - started


def _measured(network: Network, work: list[float]) -> dict[str, Any]:
    from kbn.lab.measuring import quantile

    received = network.clients["subscriber"].received
    names = [each.notification["name"] for each in received]
    assert UNWANTED not in names, "the subscriber got what it did not ask for"
    assert {each.hops for each in received} == {len(network.brokers)}
    return {"delivered": len(received), "µs": quantile(work, 0.5) * 1e6}


def _against_names(rows: list[dict[str, Any]]) -> None:
    base = {row["hops"]: row["µs"] for row in rows if row["filters"] == KINDS[0]}
    for row in rows:
        row["× names"] = row["µs"] / base[row["hops"]]


def _slope(rows: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    import numpy as np

    mine = [row for row in rows if row["filters"] == kind]
    hops, work = [row["hops"] for row in mine], [row["µs"] for row in mine]
    slope, start = np.polyfit(hops, work, 1)
    return {"filters": kind, "µs per hop": float(slope), "µs without any": float(start)}


EXPERIMENT = Experiment(
    name="one-semantic-filter",
    source="2006 paper, section 4, Figure 5",
    question="what does one semantic filter cost per hop, against 17 filters of names?",
    scales={
        Scale.SMALL: {"hops": [1, 2, 4], "rounds": 3},
        Scale.PAPER: {"hops": [1, 2, 3, 4, 5, 6, 7, 8], "rounds": 30},
        Scale.BEYOND: {"hops": [1, 2, 4, 8, 16, 32, 64], "rounds": 30},
    },
    run=run,
    plot=plot,
)
