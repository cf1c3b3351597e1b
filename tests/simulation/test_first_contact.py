"""What is acknowledged before a configured neighbour was ever reached is kept for it."""

from __future__ import annotations

import pytest

from kbn.broker import Topology, administration
from kbn.simulation import Network, SimulatedClient
from kbn.simulation.faults import Faults

SHAPES = {
    "hierarchical": Topology.hierarchy({"up": None, "here": "up", "beside": "here"}),
    "acyclic": Topology.peers([("here", "up"), ("beside", "here")]),
    "general": Topology.general([("here", "up"), ("beside", "here")]),
}
DOWN = "up"


def network(routing: str) -> Network:
    """Three brokers in a row that know addresses only; the one `up` there was never started."""
    return Network(SHAPES[routing], ticks=True, by_address=True, down=(DOWN,))


def published(client: SimulatedClient, count: int) -> list[int]:
    return [client.publish({"n": n}, durable=True) for n in range(count)]


def stored(client: SimulatedClient, numbers: list[int]) -> bool:
    return all(client.has("publish", number) for number in numbers)


def numbers_of(client: SimulatedClient) -> list[object]:
    return [received.notification["n"] for received in client.received]


@pytest.mark.parametrize("at", ["here", "beside"])
@pytest.mark.parametrize("routing", SHAPES)
def test_what_was_acknowledged_before_first_contact_reaches_durable_subscribers_there(
    routing: str, at: str
) -> None:
    net = network(routing)
    bob = net.client("bob", at=at)
    net.run_for(2.0)
    numbers = published(bob, 5)
    assert net.run_until(lambda: stored(bob, numbers), 5.0)
    net.crash("here")  # and it survives the broker that keeps it
    net.restart("here")
    net.run_for(2.0)
    # As a broker that was cut off finds its clients: it has ann before it has neighbours.
    net.cut("here", DOWN)
    net.restart(DOWN)
    ann = net.client("ann", at=DOWN, durable=True)
    subscription = ann.subscribe("n >= 0")
    assert net.run_until(lambda: ann.has("subscribe", subscription), 5.0)
    net.mend("here", DOWN)
    assert net.run_until(lambda: len(ann.received) == 5, 10.0)
    later = published(bob, 5)
    assert net.run_until(lambda: stored(bob, later) and len(ann.received) == 10, 10.0)
    assert numbers_of(ann) == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]


@pytest.mark.parametrize("routing", SHAPES)
def test_nothing_is_said_to_be_in_force_everywhere_before_a_neighbour_was_met(routing: str) -> None:
    net = network(routing)
    ann = net.client("ann", at="beside")
    ann.subscribe("n >= 0")
    request = ann.barrier()
    net.run_for(5.0)
    assert not ann.has("barrier", request)
    net.restart(DOWN)
    assert net.run_until(lambda: ann.has("barrier", request), 5.0)


@pytest.mark.parametrize("routing", SHAPES)
def test_one_that_will_never_come_is_given_up_by_its_address(routing: str) -> None:
    net = network(routing)
    bob, boss = net.client("bob", at="here"), net.client("boss", at="here")
    numbers = published(bob, 5)
    request = bob.barrier()
    assert net.run_until(lambda: stored(bob, numbers), 5.0)
    assert net.broker("here").kept_for(DOWN) == 5
    asked = boss.admin(administration.Unlink(DOWN))
    assert net.run_until(lambda: boss.has("admin-request", asked), 5.0)
    assert net.run_until(lambda: bob.has("barrier", request), 5.0)
    assert not net.broker("here").expected
    assert net.broker("here").is_complete


def test_two_that_are_to_connect_to_each_other_keep_nothing_twice() -> None:
    links = [("a", "b"), ("b", "a")]
    net = Network(
        Topology("acyclic", ("a", "b"), tuple(links)), ticks=True, by_address=True, down=("b",)
    )
    bob = net.client("bob", at="a")
    numbers = published(bob, 5)
    assert net.run_until(lambda: stored(bob, numbers), 5.0)
    net.cut("a", "b")
    net.restart("b")
    ann = net.client("ann", at="b", durable=True)
    subscription = ann.subscribe("n >= 0")
    assert net.run_until(lambda: ann.has("subscribe", subscription), 5.0)
    net.mend("a", "b")
    later = published(bob, 5)
    assert net.run_until(lambda: stored(bob, later) and len(ann.received) == 10, 10.0)
    net.run_for(2.0)
    assert numbers_of(ann) == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]
    assert not net.broker("a").expected
    assert not net.broker("b").expected
    assert net.broker("a").is_complete
    assert net.broker("b").is_complete


def test_lost_messages_change_nothing_of_that() -> None:
    net = Network(
        SHAPES["acyclic"], faults=Faults(loss=0.2, jitter_s=0.005), by_address=True, down=(DOWN,)
    )
    bob = net.client("bob", at="beside")
    net.run_for(2.0)
    numbers = published(bob, 20)
    assert net.run_until(lambda: stored(bob, numbers), 20.0)
    net.cut("here", DOWN)
    net.restart(DOWN)
    ann = net.client("ann", at=DOWN, durable=True)
    subscription = ann.subscribe("n >= 0")
    assert net.run_until(lambda: ann.has("subscribe", subscription), 5.0)
    net.mend("here", DOWN)
    assert net.run_until(lambda: len(ann.received) == 20, 20.0)
    assert numbers_of(ann) == list(range(20))
