"""What every shell of a node keeps: the same story in the simulator and over TCP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.transport.overlay import make_server, run, take, until

import kbn
from kbn.broker import LinkTo, Topology

PUBLISHED = [{"price": price} for price in (5, 50, 7)]
WANTED = [{"price": 5}, {"price": 7}]


def in_the_simulator(routing: str) -> tuple[list[Any], list[str]]:
    """What a subscriber two hops away gets, and the neighbours of the broker between."""
    names = {"a": None, "b": "a"}
    network = (
        kbn.Network(names)
        if routing == "hierarchical"
        else kbn.Network(Topology.peers([("b", "a")]))
    )
    ann, bob = network.client("ann", at="a"), network.client("bob", at="b")
    ann.subscribe("price < 10")
    network.run()
    for notification in PUBLISHED:
        bob.publish(notification)
    network.run()
    return [dict(each.notification) for each in ann.received], [*network.broker("a").neighbours]


def over_tcp(routing: str) -> tuple[list[Any], list[str]]:
    async def story() -> tuple[list[Any], list[str]]:
        role: Any = "parent" if routing == "hierarchical" else "peer"
        options: dict[str, Any] = {"routing": routing}
        async with (
            make_server("a", **options) as a,
            make_server("b", links=(LinkTo(a.url, role),), **options) as b,
            kbn.connect(a.url) as ann,
            kbn.connect(b.url) as bob,
        ):
            await until(lambda: "b" in a.broker.neighbours and a.broker.is_complete)
            feed = await ann.subscribe("price < 10").in_force()
            for notification in PUBLISHED:
                await bob.publish(notification)
            return await take(feed, len(WANTED)), [*a.broker.neighbours]

    found: tuple[list[Any], list[str]] = run(story())
    return found


@pytest.mark.parametrize("routing", ["hierarchical", "acyclic"])
@pytest.mark.parametrize("shell", [in_the_simulator, over_tcp])
def test_a_subscriber_gets_what_it_wants_from_the_next_broker(
    shell: Callable[[str], tuple[list[Any], list[str]]], routing: str
) -> None:
    assert shell(routing) == (WANTED, ["b"])
