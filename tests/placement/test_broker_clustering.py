"""Broker clustering: which group of clients goes elsewhere, and where a broker had better hang."""

from __future__ import annotations

from functools import cache
from random import Random

import pytest

from kbn.data import namespace, path
from kbn.errors import InvalidInputError
from kbn.ontology import Ontology
from kbn.placement import (
    Group,
    SemanticMap,
    Split,
    apart_from,
    overlay_distances,
    propose_move,
    propose_split,
)
from kbn.placement.broker_clustering import WORTH_IT
from kbn.placement.graph import NO_WAY

HERE = namespace("animals")


@cache
def animals() -> SemanticMap:
    return SemanticMap(Ontology.load(path("animals")))


def group(name: str, clients: int, spread: float = 0.0) -> Group:
    return Group(HERE + name, spread, clients)


def test_the_smaller_of_two_groups_that_lie_apart_goes_where_it_suits() -> None:
    groups = [group("Dogs", 5), group("Cats", 2)]
    medoids = {"east": HERE + "Burmese", "west": HERE + "GermanShepherd"}
    room = {"east": 2.0, "west": 9.0}
    split = propose_split(groups, medoids, room, animals())
    assert split == Split(HERE + "Cats", HERE + "Dogs", "east")


def test_nobody_goes_where_there_is_no_room_or_that_is_no_nearer() -> None:
    groups = [group("Dogs", 5), group("Cats", 2)]
    assert propose_split(groups, {"east": HERE + "Burmese"}, {"east": 1.0}, animals()) is None
    assert propose_split(groups, {"west": HERE + "Dogs"}, {"west": 9.0}, animals()) is None
    assert propose_split(groups, {}, {}, animals()) is None


def test_groups_that_do_not_lie_apart_stay_together() -> None:
    medoids, room = {"east": HERE + "Burmese"}, {"east": 9.0}
    assert propose_split([group("Dogs", 5)], medoids, room, animals()) is None
    near = [group("Dogs", 5, spread=120.0), group("Cats", 2, spread=80.0)]
    assert propose_split(near, medoids, room, animals()) is None


def test_groups_with_no_way_between_them_lie_apart() -> None:
    assert apart_from(HERE + "Food", [HERE + "Cats"], animals()) == [NO_WAY]
    groups = [group("Dogs", 5, spread=500.0), group("Food", 2)]
    split = propose_split(groups, {"east": HERE + "Food"}, {"east": 2.0}, animals())
    assert split == Split(HERE + "Food", HERE + "Dogs", "east")


@pytest.mark.parametrize("number", range(60))
def test_on_random_trees_it_is_what_trying_every_neighbour_gives(number: int, seed: int) -> None:
    rng = Random(f"{seed} {number}")
    count = rng.randint(2, 12)
    brokers = [f"b{n}" for n in range(count)]
    links = [(brokers[n], brokers[rng.randrange(n)]) for n in range(1, count)]
    traffic = {
        (rng.choice(brokers), rng.choice(brokers)): float(rng.randint(1, 9))
        for _ in range(rng.randint(0, 8))
    }
    broker, leaving = rng.choice(links)[:: rng.choice([1, -1])]
    closed = set(rng.sample(brokers, rng.choice([0, 1])))
    distances = overlay_distances(brokers, links)
    found = propose_move(
        broker, leaving, distances, links, traffic, closed=closed, neighbours_max=4
    )
    kept = [link for link in links if set(link) != {broker, leaving}]

    def crossing(links: list[tuple[str, str]]) -> float:
        """Hops of what passes between the two sides."""
        parted = {}
        apart = overlay_distances(brokers, links)
        for (one, other), times in traffic.items():
            if _is_parted(one, other, kept):
                parted[one, other] = times * apart.hops(one, other)
        return sum(parted.values())

    now = crossing(links)
    ways = {
        other: crossing([*kept, (broker, other)])
        for other in brokers
        if _is_parted(broker, other, kept)
        and other not in closed
        and (other == leaving or sum(other in link for link in links) < 4)
    }
    least = min(ways.values(), default=0.0)
    if found is None:
        assert not now or not ways or least > WORTH_IT * now
    else:
        assert found.hops == pytest.approx(least) == pytest.approx(ways[found.to])
        assert found.before == pytest.approx(now) and found.hops <= WORTH_IT * now
        assert found.to != leaving


def _is_parted(one: str, other: str, links: list[tuple[str, str]]) -> bool:
    reached, waiting = {one}, [one]
    while waiting:
        here = waiting.pop()
        for link in links:
            if here in link:
                new = set(link) - reached
                reached |= new
                waiting += new
    return other not in reached


def test_a_link_that_parts_nothing_is_not_cut_and_one_that_is_not_there_is_refused() -> None:
    brokers = ["a", "b", "c"]
    links = [("a", "b"), ("b", "c"), ("c", "a")]
    apart = overlay_distances(brokers, links)
    assert propose_move("a", "b", apart, links, {("a", "b"): 1.0}) is None
    with pytest.raises(InvalidInputError, match="does not hang on"):
        propose_move("a", "a", apart, links, {})
