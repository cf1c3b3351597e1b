"""Planners after other systems: what each promises."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from kbn.data import path
from kbn.ontology import Ontology
from kbn.placement import PLANNERS, clusters, overlay_distances, plan, relink

BROKERS = ["top", "left", "right", "far"]
LINKS = [("left", "top"), ("right", "top"), ("far", "right")]


@pytest.fixture(scope="module")
def conference() -> Ontology:
    return Ontology.load(path("conference"))


def test_balanced_gives_the_heaviest_cluster_a_broker_of_its_own(conference: Ontology) -> None:
    keys = list(clusters(conference))
    clients = {key: 1.0 for key in keys} | {keys[3]: 50.0}
    made = plan(conference, BROKERS, "balanced", clients=clients)
    assert [each.key for each in made.clusters if each.broker == made.broker_of(keys[3])] == [
        keys[3]
    ]
    loads = Counter(each.broker for each in made.clusters if each.key != keys[3])
    assert max(loads.values()) - min(loads.values()) <= 1
    by_terms = plan(conference, BROKERS, "balanced")
    sizes: Counter[str] = Counter()
    for each in by_terms.clusters:
        sizes[each.broker] += len(each.members)
    assert max(sizes.values()) <= sum(sizes.values()) / 4 + max(
        len(each.members) for each in by_terms.clusters
    )


def test_rendezvous_moves_only_the_clusters_of_a_broker_that_goes(conference: Ontology) -> None:
    before = plan(conference, BROKERS, "rendezvous")
    for gone in BROKERS:
        after = plan(conference, [name for name in BROKERS if name != gone], "rendezvous")
        for one, other in zip(before.clusters, after.clusters, strict=True):
            assert one.broker in (gone, other.broker)
    assert plan(conference, BROKERS[::-1], "rendezvous").clusters == before.clusters


def test_topics_with_the_same_subscribers_are_on_one_broker(conference: Ontology) -> None:
    keys = list(clusters(conference))
    deliveries = {(keys[0], keys[5]): 3.0, (keys[7], keys[5]): 9.0, (keys[1], keys[2]): 1.0}
    made = plan(conference, keys[:10], "topic", deliveries=deliveries)
    assert made.broker_of(keys[0]) == made.broker_of(keys[7])
    nothing = plan(conference, ["one"], "topic", deliveries={})
    assert {each.broker for each in nothing.clusters} == {"one"}


@pytest.mark.parametrize("number", range(20))
def test_relinking_keeps_a_tree_and_never_costs_hops(number: int, seed: int) -> None:
    rng = Random(f"{seed} {number}")
    brokers = [f"b{n}" for n in range(rng.randint(2, 10))]
    links = [(brokers[n], brokers[rng.randrange(n)]) for n in range(1, len(brokers))]
    traffic = {
        (rng.choice(brokers), rng.choice(brokers)): float(rng.randint(1, 9)) for _ in range(9)
    }
    new = relink(brokers, links, traffic)
    assert len(new) == len(links)
    before, after = (overlay_distances(brokers, each) for each in (links, new))  # both connected

    def hops(apart: object) -> float:
        return sum(n * apart.hops(*pair) for pair, n in traffic.items())  # type: ignore[attr-defined]

    assert hops(after) <= hops(before)


def test_all_planners_have_names() -> None:
    assert list(PLANNERS) == ["taxonomic", "traffic", "balanced", "topic", "rendezvous"]
