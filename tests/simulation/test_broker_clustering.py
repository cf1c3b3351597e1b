"""Broker clustering in a managed overlay: fewer hops where moving clients alone does not help."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from statistics import fmean

import pytest

from kbn import data
from kbn.management.assignments import Assignments
from kbn.management.engine import PolicyEngine
from kbn.management.mib import Mib
from kbn.management.policies import SHIPPED, PolicySet
from kbn.management.policy_server import PolicyServer
from kbn.ontology import Class, Ontology
from kbn.placement import plan
from kbn.simulation.client import SimulatedClient
from kbn.simulation.managed import ManagedNetwork

HERE = data.namespace("conference")
TREE = {
    "top": None, "left": "top", "right": "top", "far left": "left", "far right": "right",
}  # fmt: skip
HALF = 2


@pytest.fixture(scope="module")
def conference() -> Ontology:
    return Ontology.load(data.path("conference"))


def with_enabled(folder: Path, *names: str) -> PolicySet:
    """The shipped policies, with some of those enabled that are off."""
    for file in SHIPPED.glob("*.yaml"):
        parts = file.read_text(encoding="utf-8").split("  - name: ")
        for number, part in enumerate(parts):
            if part.split("\n")[0] in names:
                assert "enabled: false" in part
                parts[number] = part.replace("enabled: false", "enabled: true")
        (folder / file.name).write_text("  - name: ".join(parts), encoding="utf-8")
    return PolicySet.load(folder)


class FullOverlay:
    """As many clients at each broker as it may have.

    Those far left only hear those far right, who only publish; at the other brokers half of the
    clients publish for the other half, much more. What is published is about the cluster of the
    broker, so all publishers are at home; subscribers name no terms, and stay.
    """

    def __init__(self, ontology: Ontology, policies: PolicySet) -> None:
        fixed = plan(ontology, list(TREE))
        about = {cluster.broker: Class(cluster.key) for cluster in reversed(fixed.clusters)}
        self.managed = ManagedNetwork(TREE, ontology)
        engine = PolicyEngine(Mib(), policies)
        self.server = PolicyServer("one", engine, Assignments(ontology, fixed), load_max=1.0)
        self.managed.serve(self.server)
        self.managed.run(2.0)
        self.heard: dict[str, list[SimulatedClient]] = {broker: [] for broker in TREE}
        self.published: Counter[str] = Counter()
        self.publishers = []
        for broker in TREE:
            is_far = broker.startswith("far")
            listens_to = "far right" if broker == "far left" else broker
            count = HALF * (2 if is_far else 1)
            for number in range(0 if broker == "far right" else count):
                client = self.managed.network.client(f"s {broker} {number}", broker)
                client.subscribe(f'origin = "{listens_to}"')
                self.heard[listens_to].append(client)
            for number in range(0 if broker == "far left" else count):
                publisher = self.managed.publisher(f"p {broker} {number}", broker)
                publisher.intend({"topic": about[broker]})
                self.publishers.append((publisher, broker, {"topic": about[broker]}))
        self.managed.run(5.0)

    def publish(self, rounds: int) -> None:
        for _ in range(rounds):
            clients = [client for some in self.heard.values() for client in some]
            self.before = {client.name: len(client.received) for client in clients}
            for publisher, broker, content in self.publishers:
                for _ in range(1 if broker == "far right" else 4):
                    publisher.publish({**content, "origin": broker})
                    self.published[broker] += 1
            self.managed.run(20.0, step_s=2.0)

    def mean_hops(self) -> float:
        """Of all that came in the last round."""
        clients = [client for some in self.heard.values() for client in some]
        return fmean(
            each.hops for client in clients for each in client.received[self.before[client.name] :]
        )

    def loads(self) -> Counter[str]:
        clients = [client for some in self.heard.values() for client in some]
        brokers = [client.broker for client in clients]
        return Counter([*brokers, *(str(each.broker) for each, _, _ in self.publishers)])

    def check(self) -> None:
        """Everybody had everything, once, and no broker has more than its limit."""
        for broker, clients in self.heard.items():
            for client in clients:
                ids = [each.id for each in client.received]
                assert len(ids) == len(set(ids)) == self.published[broker], client.name
        assert set(self.loads().values()) == {2 * HALF}


@pytest.mark.slow
def test_a_broker_that_moves_saves_hops_where_moving_clients_does_not(
    conference: Ontology, tmp_path: Path
) -> None:
    means = {}
    for name, more in (("clients", ()), ("brokers", ("cluster-brokers",))):
        folder = tmp_path / name
        folder.mkdir()
        world = FullOverlay(conference, with_enabled(folder, *more))
        world.publish(8)  # a broker moves after two minutes, clients would after one
        world.check()
        means[name] = world.mean_hops()
        moved = [each for each in world.server.engine.log if each.action == "cluster-brokers"]
        tree = {name: world.server.engine.mib.get("broker", name) for name in TREE}
        parents = {name: each.parent or None for name, each in tree.items() if each is not None}
        if more:
            assert "done" in {each.status.value for each in moved}
            assert parents == TREE | {"far right": "far left"}
        else:
            assert not moved and parents == TREE
    # A quarter of the deliveries pass five brokers, and then two; all others one.
    assert means == {"clients": 2.0, "brokers": 1.25}


SPLIT = """
policies:
  - {name: ask, every: 2 s, do: {action: request-broker-medoids, groups: 2}}
  - name: split
    on: BrokerMedoid
    when: size(broker.groups) >= 2
    do: split-broker
    again_after: 10 s
"""


def test_a_group_that_lies_apart_goes_to_the_broker_that_suits_it(
    conference: Ontology, tmp_path: Path
) -> None:
    file = tmp_path / "split.yaml"
    file.write_text(SPLIT)
    managed = ManagedNetwork(TREE, conference)
    server = PolicyServer(
        "one", PolicyEngine(Mib(), PolicySet.load(file)), Assignments(conference), load_max=3.0
    )
    managed.serve(server)
    clients = {}
    wants = [("left", "Person", 5), ("left", "Paper", 2), ("right", "Paper", 3)]
    for at, term, count in wants:
        for number in range(count):
            name = f"{at} {term} {number}"
            clients[name] = managed.network.client(name, at)
            clients[name].subscribe(f"topic @> <{HERE}{term}>")
    managed.run(30.0)
    brokers = {name: client.broker for name, client in clients.items()}
    assert {brokers[name] for name in brokers if "Paper" in name} == {"right"}
    assert {brokers[name] for name in brokers if "Person" in name} == {"left"}
    tried = [each for each in server.engine.log if each.action == "split-broker"]
    assert ["2 about" in each.detail for each in tried if each.status.value == "done"] == [True]
