"""A broker is given another ontology while it runs; neighbours may have another meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbn import Class, Network, Ontology
from kbn.broker.topology import Topology

PREFIXES = """
@prefix : <urn:t#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:Vehicle a owl:Class . :Boat a owl:Class . :Car a owl:Class ; rdfs:subClassOf :Vehicle .
"""


@pytest.fixture
def old(tmp_path: Path) -> Ontology:
    path = tmp_path / "old.ttl"
    path.write_text(PREFIXES)
    return Ontology.load(path, reasoning="rdfs")


@pytest.fixture
def new(tmp_path: Path) -> Ontology:
    path = tmp_path / "new.ttl"
    path.write_text(PREFIXES + ":Boat rdfs:subClassOf :Vehicle . :Train a owl:Class .")
    return Ontology.load(path, reasoning="rdfs")


def boats(network: Network, name: str) -> int:
    return len(network.clients[name].received)


def test_what_follows_from_the_new_ontology_is_delivered_and_clients_are_told(
    old: Ontology, new: Ontology
) -> None:
    network = Network(Topology.peers([("a", "b"), ("b", "c")]), old)
    ann, bob = network.client("ann", at="a"), network.client("bob", at="c")
    ann.subscribe("kind @> <urn:t#Vehicle>")
    network.run()
    bob.publish({"kind": Class("urn:t#Boat")})
    network.run()
    assert boats(network, "ann") == 0
    for name in "abc":
        network.use_ontology(name, new, "new")
    network.run()
    bob.publish({"kind": Class("urn:t#Boat")})
    network.run()
    assert boats(network, "ann") == 1
    assert ann.ontologies == ["new"]
    assert all(broker.is_complete for broker in network.brokers.values())


@pytest.mark.parametrize("upgraded", ["a", "ab", "c", "b", "ac"])
def test_while_ontologies_differ_each_client_gets_what_its_own_broker_finds(
    upgraded: str, old: Ontology, new: Ontology
) -> None:
    network = Network(Topology.peers([("a", "b"), ("b", "c")]), old)
    ann, bob = network.client("ann", at="a"), network.client("bob", at="c")
    ann.subscribe("kind @> <urn:t#Vehicle>")
    ann.subscribe("kind @> <urn:t#Boat>")
    network.run()
    for name in upgraded:
        network.use_ontology(name, new, "new")
    network.run()
    bob.publish({"kind": Class("urn:t#Boat")})
    bob.publish({"kind": Class("urn:t#Car")})
    network.run()
    knows = "a" in upgraded
    assert [each.subscriptions for each in ann.received] == [(1, 2) if knows else (2,), (1,)]


def test_a_subscription_the_new_ontology_cannot_serve_is_told_and_served_again_later(
    old: Ontology, new: Ontology
) -> None:
    network = Network({"a": None}, new)
    ann = network.client("ann", at="a")
    ann.subscribe("kind @> <urn:t#Train>")
    network.run()
    network.use_ontology("a", old, "old")
    network.run()
    assert [each.kind for each in ann.failed] == ["UnknownTermError"]
    network.use_ontology("a", new, "new")
    ann.publish({"kind": Class("urn:t#Train")})
    network.run()
    assert len(ann.received) == 1


def test_a_table_made_beforehand_is_brought_up_to_date(old: Ontology, new: Ontology) -> None:
    network = Network(Topology.peers([("a", "b")]), old)
    ann, bob = network.client("ann", at="a"), network.client("bob", at="b")
    gone, _ = ann.subscribe("x = 1"), ann.subscribe("x = 2")
    network.run()
    rebuild = network.broker("a").rebuilding(new)
    table = rebuild()
    ann.unsubscribe(gone)
    ann.subscribe("x = 3")
    network.run()
    network.use_ontology("a", new, "", table)
    network.run()
    for x in (1, 2, 3):
        bob.publish({"x": x})
    network.run()
    assert [each.notification["x"] for each in ann.received] == [2, 3]
    assert len(network.broker("b").table) == 2
