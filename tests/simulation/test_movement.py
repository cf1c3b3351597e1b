"""Clients and brokers move while notifications are published: none lost, none doubled, in order."""

from __future__ import annotations

from random import Random

import pytest

from kbn import InvalidInputError, Network
from kbn.broker.topology import Topology
from kbn.simulation.network import SimulatedClient

HIERARCHY = Topology.hierarchy({"r": None, "a": "r", "b": "r", "x": "a", "y": "x", "c": "b"})
PEERS = Topology.peers([("r", "a"), ("r", "b"), ("x", "a"), ("b", "c"), ("x", "y")])
GENERAL = Topology.general([("r", "a"), ("r", "b"), ("x", "a"), ("b", "c"), ("a", "b"), ("x", "y")])
COUNT = 60


class Moving:
    """Publishers and subscribers everywhere, who all want everything; publishing never stops."""

    def __init__(self, topology: Topology, seed: int) -> None:
        self.random = Random(seed)
        self.network = Network(topology, seed=seed, advertisements=self.random.random() < 0.3)
        self.network.run()
        self.publishers = [self.network.client(f"p{n}", at=at) for n, at in enumerate("raxc")]
        self.subscribers = [
            self.network.client(f"s{n}", at=at, durable=self.random.random() < 0.5)
            for n, at in enumerate("raxycb")
        ]
        for subscriber in self.subscribers:
            subscriber.subscribe(f"k < {self.random.randint(3, 8)}")
            subscriber.subscribe("k >= 0")
        self.network.run()
        durable = self.random.random() < 0.5
        for n in range(COUNT):
            self.network.at(
                self.network.now + 0.0004 * n,
                lambda n=n: self.publishers[n % 4].publish({"k": n % 9, "n": n}, durable=durable),
            )

    def at_some_moment(self, action: object) -> None:
        self.network.at(self.network.now + 0.0004 * self.random.randint(0, 40), action)

    def check(self) -> None:
        for subscriber in self.subscribers:
            numbers = [each.notification["n"] for each in subscriber.received]
            assert sorted(numbers) == list(range(COUNT)), subscriber.name
            for start in range(4):
                of_one = [number for number in numbers if number % 4 == start]
                assert of_one == sorted(of_one), subscriber.name


@pytest.mark.parametrize("number", range(10))
@pytest.mark.parametrize("topology", [HIERARCHY, PEERS, GENERAL], ids=lambda t: t.routing)
def test_clients_move_and_nothing_is_lost_doubled_or_disordered(
    topology: Topology, number: int, seed: int
) -> None:
    moving = Moving(topology, seed + number)
    for client in [*moving.subscribers, *moving.publishers]:
        to = moving.random.choice(topology.brokers)
        moving.at_some_moment(lambda client=client, to=to: client.move(to))
    moving.network.run()
    moving.check()


@pytest.mark.parametrize("number", range(10))
@pytest.mark.parametrize("topology", [HIERARCHY, PEERS], ids=lambda t: t.routing)
def test_a_broker_moves_with_all_that_hangs_on_it_and_nothing_is_lost_doubled_or_disordered(
    topology: Topology, number: int, seed: int
) -> None:
    moving = Moving(topology, seed + number)
    name, to = "y", moving.random.choice("rabc")
    if topology is HIERARCHY:
        name, to = "x", moving.random.choice("rbc")
    moving.at_some_moment(lambda: moving.network.move_broker(name, to))
    moving.network.run()
    assert moving.network.broker_moves == [(name, to, None)]
    moving.check()


def test_a_broker_told_to_move_its_clients_redirects_them_all() -> None:
    network = Network({"r": None, "a": "r", "b": "r"})
    clients = [network.client(f"s{n}", at="a", durable=n % 2 == 0) for n in range(6)]
    for client in clients:
        client.subscribe("k >= 0")
    network.run()
    chief = network.client("chief", at="a")
    _, effects = chief.core.ask("move", {"broker": "b", "url": "b"})
    network.carry_out(chief, effects)
    network.run()
    assert [client.broker for client in clients] == ["b"] * 6
    assert chief.broker == "a", "it subscribes to nothing, so it stays"
    assert len(network.broker("a").table) == 0


def test_a_broker_does_not_move_below_itself() -> None:
    network = Network({"r": None, "x": "r", "y": "x", "z": "y"})
    network.run()
    network.move_broker("x", "z")
    network.run()
    [(name, to, trouble)] = network.broker_moves
    assert (name, to) == ("x", "z")
    assert "below" in (trouble or "")
    assert set(network.broker("x").neighbours) == {"r", "y"}
    assert set(network.broker("z").neighbours) == {"y"}


def test_a_broker_moves_from_a_neighbour_to_another_one_at_a_time() -> None:
    network = Network({"r": None, "x": "r", "y": "x"})
    network.run()
    with pytest.raises(InvalidInputError, match="must be a neighbour and the second none"):
        network.move_broker("x", "y")


def test_a_client_sent_to_a_broker_that_is_not_there_stays() -> None:
    network = Network({"r": None})
    ann = network.client("ann", at="r")
    ann.subscribe("k >= 0")
    network.run()
    ann.move("nowhere")
    network.run()
    ann.publish({"k": 1})
    network.run()
    assert (ann.broker, len(ann.received)) == ("r", 1)
    assert [each.what for each in ann.failed] == ["move"]


def received(client: SimulatedClient) -> list[object]:
    return [dict(each.notification) for each in client.received]


def test_a_durable_client_that_was_away_gets_what_it_missed() -> None:
    network = Network({"r": None, "a": "r"}, ticks=True)
    ann = network.client("ann", at="a", durable=True)
    bob = network.client("bob", at="r")
    ann.subscribe("k >= 0")
    network.run_for(1)
    network.detach("ann")
    network.run_for(10)
    bob.publish({"k": 1})
    bob.publish({"k": 2}, durable=True)
    network.run_for(1)
    network.crash("a")
    network.restart("a")
    ann = network.client("ann", at="a", durable=True)
    network.run_for(5)
    assert received(ann) == [{"k": 1}, {"k": 2}]


def test_what_is_wished_in_the_middle_of_a_move_is_settled_when_the_old_broker_has_let_go() -> None:
    network = Network({"r": None, "a": "r", "b": "r"}, ticks=True)
    ann = network.client("ann", at="a", durable=True)
    bob = network.client("bob", at="r")
    ann.subscribe("k >= 10")
    network.run_for(1)
    ann.move("b")
    network.run_until(lambda: ann.broker == "b", at_most_s=5)
    network.cut("a", "r")  # the old broker cannot let go
    ann.subscribe("k < 10")
    request = ann.settle()
    network.run_for(3)
    assert not ann.has("settle", request)
    # One that only the new wish wants, and a newer one of the same publisher that both brokers
    # deliver: calling the wish settled now would promise the first, which comes second.
    bob.publish({"k": 1}, durable=True)
    bob.publish({"k": 11}, durable=True)
    network.run_for(1)
    network.heal()
    assert network.run_until(lambda: ann.has("settle", request), at_most_s=30)
    assert not ann.core.is_moving
    bob.publish({"k": 2}, durable=True)
    bob.publish({"k": 12}, durable=True)
    network.run_for(5)
    numbers = [each.id.number for each in ann.received]
    assert numbers == sorted(set(numbers))
    assert received(ann)[-2:] == [{"k": 2}, {"k": 12}]
    assert {"k": 11} in received(ann)
