"""Everyone interested hears it once, and nobody else: against brute force, on perfect links."""

from __future__ import annotations

from random import Random

import pytest
from tests.matching.worlds import World, world_of

from kbn import Network, Subscription
from kbn.broker.topology import Topology
from kbn.filters import Filter, covers, resolve_terms
from kbn.simulation.client import SimulatedClient

ROUNDS = 3
SEEDS = range(12)


def shape(routing: str, random: Random, size: int) -> Topology:
    names = [f"b{n}" for n in range(size)]
    links = [(names[n], names[random.randrange(n)]) for n in range(1, size)]
    if routing == "hierarchical":
        return Topology.hierarchy({names[0]: None, **dict(links)})
    if routing == "acyclic":
        return Topology.peers(links, names)
    more = {tuple(random.sample(names, 2)) for _ in range(size)} if size > 1 else set()
    known = {frozenset(link) for link in links}
    return Topology.general(
        [
            *links,
            *sorted(pair for pair in more if frozenset(pair) not in known and pair[0] < pair[1]),
        ],
        names,
    )


class Overlay:
    """A network, and brute force beside it: who subscribed to what, who must get what."""

    def __init__(self, routing: str, seed: int, *, advertisements: bool) -> None:
        self.random = Random(f"{routing} {seed} {advertisements}")
        self.world: World = world_of(self.random.randrange(400))
        topology = shape(routing, self.random, self.random.randint(1, 8))
        self.network = Network(
            topology, self.world.ontology, seed, advertisements=advertisements, keeps_roots=True
        )
        self.wanted: dict[tuple[str, int], Subscription] = {}
        self.expected: dict[str, set[tuple[str, int, bool, tuple[int, ...]]]] = {}
        self.clients = [self.attach(n) for n in range(6)]
        self.network.run()

    def attach(self, number: int) -> SimulatedClient:
        at = self.random.choice(self.network.topology.brokers)
        durable = self.random.random() < 0.5
        client = self.network.client(f"c{number}", at=at, durable=durable)
        self.expected.setdefault(client.name, set())
        return client

    def churn(self) -> None:
        """Subscribe, unsubscribe, advertise, move: all without waiting in between."""
        for client in self.clients:
            for _ in range(self.random.randint(0, 3)):
                subscription = Subscription(
                    [
                        self.world.random_filter(self.random)
                        for _ in range(self.random.randint(1, 2))
                    ]
                )
                self.wanted[client.name, client.subscribe(subscription)] = subscription
            mine = [key for key in self.wanted if key[0] == client.name]
            if mine and self.random.random() < 0.4:
                key = self.random.choice(mine)
                del self.wanted[key]
                client.unsubscribe(key[1])
            if self.random.random() < 0.3:
                client.advertise(Subscription(self.world.random_filter(self.random, most=2)))
            if self.random.random() < 0.3:
                client.move(self.random.choice(self.network.topology.brokers))

    def publish(self, count: int = 12) -> None:
        for _ in range(count):
            publisher = self.random.choice(self.clients)
            notification = self.world.random_notification(self.random)
            durable = self.random.random() < 0.5
            number = publisher.publish(notification, durable=durable)
            for client in self.clients:
                ids = tuple(
                    sorted(
                        id
                        for (name, id), subscription in self.wanted.items()
                        if name == client.name
                        and subscription.matches(notification, self.world.ontology)
                    )
                )
                if ids:
                    self.expected[client.name].add((publisher.name, number, durable, ids))

    def check(self) -> None:
        for client in self.clients:
            assert not client.failed
            got = [
                (
                    each.id.publisher,
                    each.id.number,
                    each.id.durable,
                    tuple(sorted(each.subscriptions)),
                )
                for each in client.received
            ]
            assert len(got) == len(set(got)), "something came twice"
            assert set(got) == self.expected[client.name]


@pytest.mark.parametrize("advertisements", [False, True])
@pytest.mark.parametrize("routing", ["hierarchical", "acyclic", "general"])
@pytest.mark.parametrize("number", SEEDS)
def test_everyone_interested_hears_it_once_and_nobody_else_does(
    routing: str, advertisements: bool, number: int, seed: int
) -> None:
    overlay = Overlay(routing, seed + number, advertisements=advertisements)
    for _ in range(ROUNDS):
        overlay.churn()
        overlay.network.run()
        overlay.publish()
        overlay.network.run()
        overlay.check()


@pytest.mark.parametrize("routing", ["hierarchical", "acyclic", "general"])
@pytest.mark.parametrize("number", SEEDS)
def test_a_neighbour_is_told_of_no_filter_that_another_covers_and_of_all_others(
    routing: str, number: int, seed: int
) -> None:
    overlay = Overlay(routing, seed + number, advertisements=False)
    for _ in range(ROUNDS):
        overlay.churn()
        overlay.network.run()
    for broker in overlay.network.brokers.values():
        for neighbour in broker.neighbours.values():
            if neighbour.told.subscriptions is None or neighbour.link.channel is None:
                continue
            others = [
                resolve_terms(filter, overlay.world.ontology)
                for key, subscription in broker.table.entries.items()
                if key[0] != neighbour.peer
                for filter in subscription.filters
            ]
            check_minimal(list(neighbour.told.subscriptions.filters), others, overlay.world)
        assert broker.table.roots is not None
        every = [
            resolve_terms(filter, overlay.world.ontology)
            for subscription in broker.table.entries.values()
            for filter in subscription.filters
        ]
        check_minimal(list(broker.table.roots), every, overlay.world)


def check_minimal(told: list[Filter], all_of_them: list[Filter], world: World) -> None:
    assert set(told) <= set(all_of_them)
    for filter in all_of_them:
        assert any(covers(each, filter, world.ontology) for each in told)
    for one in told:
        assert not any(one is not o and covers(o, one, world.ontology) for o in told)


def test_a_covered_filter_is_announced_before_the_one_that_covered_it_is_withdrawn() -> None:
    network = Network({"root": None, "leaf": "root"})
    ann = network.client("ann", at="leaf")
    wide, _ = ann.subscribe("x < 20"), ann.subscribe("x < 10")
    network.run()
    ann.unsubscribe(wide)
    bob = network.client("bob", at="root")
    for n in range(40):
        bob.publish({"x": n % 15})
    network.run()
    assert {dict(each.notification)["x"] for each in ann.received} >= set(range(10))
    assert [
        str(f) for f in network.broker("leaf").neighbours["root"].told.subscriptions.filters
    ] == ["x < 10"]


def test_hops_and_paths_tell_the_way() -> None:
    network = Network(Topology.peers([("a", "b"), ("b", "c")]))
    ann = network.client("ann", at="a")
    bob = network.client("bob", at="c", with_path=True)
    ann.subscribe("x any")
    network.run()
    bob.publish({"x": 1})
    network.run()
    assert [(each.hops, each.path) for each in ann.received] == [(3, ("c", "b", "a"))]


def test_what_nobody_advertised_is_delivered_all_the_same() -> None:
    network = Network(Topology.peers([("a", "b"), ("b", "c")]), advertisements=True)
    ann, bob = network.client("ann", at="a"), network.client("bob", at="c")
    ann.subscribe("x = 1")
    bob.advertise("x = 2")
    network.run()
    assert len(network.broker("b").table) == 0, "nobody advertised what ann wants"
    bob.publish({"x": 1})
    bob.publish({"x": 2})
    network.run()
    assert [dict(each.notification) for each in ann.received] == [{"x": 1}]


def test_subscriptions_go_only_towards_publishers_that_may_satisfy_them() -> None:
    network = Network(Topology.peers([("a", "b"), ("b", "c"), ("b", "d")]), advertisements=True)
    ann, bob = network.client("ann", at="a"), network.client("bob", at="c")
    bob.advertise("x > 10")
    network.run()
    ann.subscribe("x < 5")
    ann.subscribe("x > 20")
    network.run()
    assert [str(s) for s in network.broker("c").table.entries.values()] == ["x > 20"]
    assert len(network.broker("d").table) == 0
