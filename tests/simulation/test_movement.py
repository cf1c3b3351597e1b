"""Clients and brokers move while notifications are published: none lost, none doubled, in order."""

from __future__ import annotations

from random import Random

import pytest

from kbn import InvalidInputError, Network
from kbn.broker import administration
from kbn.broker.access import AllowAll
from kbn.broker.neighbour_traffic import FORWARDED_AHEAD_MAX
from kbn.broker.topology import Topology
from kbn.simulation.client import SimulatedClient

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
    chief.admin(administration.MoveClients("b", "b"))
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


def test_a_subscription_made_during_a_move_is_in_force_when_the_old_broker_has_let_go() -> None:
    network = Network({"r": None, "a": "r", "b": "r"}, ticks=True)
    ann = network.client("ann", at="a", durable=True)
    bob = network.client("bob", at="r")
    ann.subscribe("k >= 10")
    network.run_for(1)
    ann.move("b")
    network.run_until(lambda: ann.broker == "b", at_most_s=5)
    network.cut("a", "r")  # the old broker cannot let go
    ann.subscribe("k < 10")
    request = ann.barrier()
    network.run_for(3)
    assert not ann.has("barrier", request)
    # One that only the new subscription wants, and a newer one of the same publisher that both
    # brokers deliver: confirming the barrier now would promise the first, which comes second.
    bob.publish({"k": 1}, durable=True)
    bob.publish({"k": 11}, durable=True)
    network.run_for(1)
    network.heal()
    assert network.run_until(lambda: ann.has("barrier", request), at_most_s=30)
    assert not ann.core.is_moving
    bob.publish({"k": 2}, durable=True)
    bob.publish({"k": 12}, durable=True)
    network.run_for(5)
    numbers = [each.id.number for each in ann.received]
    assert numbers == sorted(set(numbers))
    assert received(ann)[-2:] == [{"k": 2}, {"k": 12}]
    assert {"k": 11} in received(ann)


def test_what_a_broker_had_before_it_moved_is_not_brought_to_it_again() -> None:
    network = Network(Topology.peers([("x", "a"), ("a", "r"), ("r", "b")]), ticks=True)
    ann = network.client("ann", at="x", durable=True)
    bob = network.client("bob", at="x")
    far = network.client("far", at="b", durable=True)
    ann.subscribe("k >= 10")
    far.subscribe("k >= 0")
    network.run_for(1)
    network.cut("a", "r")  # so they reach the new neighbour when x is there
    bob.publish({"k": 1}, durable=True)
    bob.publish({"k": 11}, durable=True)
    network.run_for(1)
    ann.subscribe("k < 10")
    network.move_broker("x", "r")
    network.run_for(1)
    network.heal()
    network.run_for(10)
    assert network.broker_moves == [("x", "r", None)]
    assert received(ann) == [{"k": 11}], "the other one was published before she wanted it"
    assert received(far) == [{"k": 1}, {"k": 11}]


def test_what_is_past_stays_past_when_the_broker_that_moved_crashes() -> None:
    network = Network({"r": None, "a": "r", "b": "r", "x": "a"}, ticks=True)
    ann, all_of_it = (network.client(name, at="x", durable=True) for name in ("ann", "all"))
    bob = network.client("bob", at="a")
    ann.subscribe("k >= 10")
    all_of_it.subscribe("k >= 0")
    network.run_for(1)
    network.move_broker("x", "b")
    for n in range(200):  # some are on both ways when x leaves the old broker
        network.at(network.now + n / 5000, lambda n=n: bob.publish({"k": n % 2 * 10}, durable=True))
    assert network.run_until(lambda: bool(network.broker_moves), at_most_s=5)
    network.crash("x")
    network.cut("x", "b")
    network.restart("x")
    ann.subscribe("k < 10")
    network.run_for(1)
    network.heal()
    network.run_for(10)
    numbers = [each.id.number for each in ann.received]
    assert numbers == sorted(numbers)
    assert len(all_of_it.received) == 200


@pytest.mark.parametrize("after_ms", range(4, 24, 4))
def test_a_broker_that_crashes_remembers_who_was_moving_to_it(after_ms: int) -> None:
    network = Network({"r": None, "a": "r", "b": "r", "x": "a"}, ticks=True)
    ann = network.client("ann", at="x", durable=True)
    bob = network.client("bob", at="r")
    ann.subscribe("k >= 0")
    network.run_for(1)
    network.move_broker("x", "b")
    network.run_for(after_ms / 1000)
    network.crash("b")
    network.run_for(1)
    network.heal()
    for n in range(100):
        network.at(network.now + n / 50, lambda n=n: bob.publish({"k": n}, durable=True))
    network.run_for(10)
    assert received(ann) == [{"k": n} for n in range(100)]


@pytest.mark.parametrize("after_ms", range(0, 40, 5))
def test_two_brokers_do_not_move_below_each_other(after_ms: int) -> None:
    network = Network({"r": None, "x": "r", "xx": "x", "y": "r", "yy": "y"}, ticks=True)
    ann = network.client("ann", at="xx", durable=True)
    bob = network.client("bob", at="r")
    ann.subscribe("k >= 0")
    network.run_for(1)
    network.move_broker("x", "yy")
    network.run_for(after_ms / 1000)
    network.move_broker("y", "xx")
    network.run_for(5)
    assert len(network.broker_moves) == 2
    assert [trouble for _, _, trouble in network.broker_moves].count(None) < 2
    bob.publish({"k": 1}, durable=True)
    network.run_for(5)
    assert received(ann) == [{"k": 1}]


@pytest.mark.parametrize("after_ms", range(0, 15, 5))
def test_two_brokers_on_the_move_do_not_wait_for_each_other(after_ms: int) -> None:
    network = Network({"r": None, "a": "r", "b": "r", "x": "a", "y": "b"}, ticks=True)
    ann = network.client("ann", at="r", durable=True)
    publishers = [network.client(f"of-{at}", at=at) for at in "xy"]
    ann.subscribe("k >= 0")
    network.run_for(1)
    for n in range(100):  # so that both put something aside
        network.at(network.now + n / 2000, lambda n=n: publishers[n % 2].publish({"k": n}))
    network.move_broker("x", "b")
    network.run_for(after_ms / 1000)
    network.move_broker("y", "a")
    network.run_for(5)
    assert sorted(network.broker_moves) == [("x", "b", None), ("y", "a", None)]
    assert len(ann.received) == 100


def test_a_broker_moves_however_much_is_published_meanwhile() -> None:
    network = Network({"r": None, "a": "r", "b": "r", "x": "a"}, ticks=True)
    ann = network.client("ann", at="x", durable=True)
    bob = network.client("bob", at="r")
    ann.subscribe("k >= 0")
    network.run_for(1)
    network.cut("a", "x")
    network.move_broker("x", "b")
    network.run_for(1)
    for n in range(FORWARDED_AHEAD_MAX + 100):
        bob.publish({"k": n}, durable=True)
    network.run_for(1)
    network.heal()
    network.run_for(5)
    assert network.broker_moves == [("x", "b", None)]
    assert len(ann.received) == FORWARDED_AHEAD_MAX + 100


def test_nothing_is_called_in_force_before_those_behind_a_moving_broker_know() -> None:
    links = [("x", "a"), ("a", "r"), ("r", "b"), ("y", "x")]
    network = Network(Topology.peers(links), ticks=True)
    ann = network.client("ann", at="r", durable=True)
    bob = network.client("bob", at="y")
    network.run_for(1)
    network.cut("x", "y")
    ann.subscribe("k >= 0")
    request = ann.barrier()
    network.run_for(0.1)
    network.move_broker("x", "b", leaving="a")
    network.run_for(3)
    assert not ann.has("barrier", request)
    network.heal()
    assert network.run_until(lambda: ann.has("barrier", request), at_most_s=5)
    bob.publish({"k": 1}, durable=True)
    network.run_for(5)
    assert network.broker_moves == [("x", "b", None)]
    assert received(ann) == [{"k": 1}]


def test_nor_before_the_side_that_a_broker_does_not_leave_after_all_knows() -> None:
    links = [("x", "a"), ("x", "y"), ("y", "z"), ("z", "zz")]
    network = Network(Topology.peers(links), ticks=True)
    ann = network.client("ann", at="z", durable=True)
    bob = network.client("bob", at="a")
    network.run_for(1)
    network.cut("z", "zz")  # so that x does not learn that z is below it
    network.move_broker("x", "z", leaving="a")
    network.run_for(0.5)
    network.cut("x", "a")
    ann.subscribe("k >= 0")
    request = ann.barrier()
    network.run_for(0.5)
    network.mend("z", "zz")
    network.run_for(3)
    [(_, _, trouble)] = network.broker_moves
    assert "below" in (trouble or "")
    assert not ann.has("barrier", request)
    network.heal()
    assert network.run_until(lambda: ann.has("barrier", request), at_most_s=5)
    bob.publish({"k": 1}, durable=True)
    network.run_for(3)
    assert received(ann) == [{"k": 1}]


def when_a_move_is_over(rehearsal: Network) -> float:
    assert rehearsal.run_until(lambda: bool(rehearsal.broker_moves), at_most_s=5)
    return rehearsal.now


def run_until_just_before(time: float, network: Network) -> None:
    network.run_for(time - network.now - 0.0001)


def test_a_broker_that_gave_up_its_move_is_no_neighbour_there_even_if_its_word_is_lost() -> None:
    def begun() -> Network:
        network = Network(Topology.peers([("x", "a"), ("x", "y"), ("y", "z")]), ticks=True)
        network.run_for(1)
        network.move_broker("x", "z", leaving="a")
        return network

    network = begun()
    run_until_just_before(when_a_move_is_over(begun()), network)
    network.cut("x", "z")
    network.run_for(1)
    [(_, _, trouble)] = network.broker_moves
    network.heal()
    network.run_for(3)
    assert "below" in (trouble or "")
    assert set(network.broker("x").neighbours) == {"a", "y"}
    assert set(network.broker("z").neighbours) == {"y"}


def test_a_broker_comes_back_to_one_that_did_not_hear_of_its_leaving() -> None:
    def begun() -> Network:
        network = Network({"r": None, "a": "r", "b": "r", "x": "a"}, ticks=True)
        network.run_for(1)
        network.move_broker("x", "b")
        return network

    network = begun()
    run_until_just_before(when_a_move_is_over(begun()), network)
    network.cut("x", "a")
    network.run_for(0.01)
    assert "x" in network.broker("a").neighbours
    network.heal()
    network.move_broker("x", "a")
    network.run_for(5)
    assert network.broker_moves == [("x", "b", None), ("x", "a", None)]
    ann, bob = network.client("ann", at="x", durable=True), network.client("bob", at="r")
    ann.subscribe("k >= 0")
    network.run_for(1)
    bob.publish({"k": 1}, durable=True)
    network.run_for(1)
    assert received(ann) == [{"k": 1}]


class NoMovers(AllowAll):
    """Admits everybody but broker x, once it is closed."""

    is_closed = False

    def admit_broker(self, name: str, token: str) -> bool:
        return name != "x" or not self.is_closed


def test_a_broker_that_is_refused_stays_and_may_move_elsewhere() -> None:
    door = NoMovers()
    network = Network({"r": None, "a": "r", "b": "r", "x": "a"}, ticks=True, authorizer=door)
    ann = network.client("ann", at="r", durable=True)
    bob = network.client("bob", at="x")
    ann.subscribe("k >= 0")
    network.run_for(1)
    door.is_closed = True
    for _ in range(2):
        network.move_broker("x", "b")
        bob.publish({"k": 1}, durable=True)
        network.run_for(3)
    assert [trouble is None for _, _, trouble in network.broker_moves] == [False, False]
    assert "not admitted" in (network.broker_moves[0][2] or "")
    assert set(network.broker("x").neighbours) == {"a"}
    assert len(ann.received) == 2


def test_what_is_published_while_a_slow_client_leaves_comes_also_when_the_old_broker_crashes() -> (
    None
):
    network = Network({"r": None, "a": "r", "b": "r"}, ticks=True)
    ann = network.client("ann", at="a", durable=True, window=1)
    bob = network.client("bob", at="b")
    ann.subscribe("k >= 0")
    network.run_for(1.0)

    def publish(*numbers: int) -> None:
        for number in numbers:
            bob.publish({"k": number}, durable=True)
        network.run_for(0.2)

    ann.stop_reading()
    publish(0, 1)
    ann.move("b")
    network.run_for(0.5)  # the old broker has nothing on its way to her, and waits for her
    publish(2, 3)
    network.crash("a")
    network.crash("r")  # it forgets what `a` wants, and sends it everything at first
    publish(4, 5)
    ann.read()
    network.heal()
    network.run_for(5.0)
    assert [each.notification["k"] for each in ann.received] == [0, 1, 2, 3, 4, 5]
    assert ann.broker == "b" and not ann.core.former
