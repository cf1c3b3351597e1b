"""The traffic planner: against every assignment there is, and never worse than taxonomic."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ontology.ontology_oracle import PREFIXES, Entailed, Written
from tests.ontology.test_ontology_agrees_with_oracle import ontologies

from kbn.data import namespace, path
from kbn.errors import InvalidInputError
from kbn.ontology import Ontology
from kbn.placement import Plan, Rating, clusters, overlay_distances, plan, rate_plan
from kbn.placement.traffic import _Problem, _searched

A = namespace("animals")
BROKERS = ["top", "left", "right", "far"]
LINKS = [("left", "top"), ("right", "top"), ("far", "right")]


@cache
def animals() -> Ontology:
    return Ontology.load(path("animals"), cache=False)


@dataclass
class Case:
    """What a planner is given."""

    ontology: Ontology
    brokers: list[str]
    links: list[tuple[str, str]]
    deliveries: dict[tuple[str, str], float]
    clients: dict[str, float] | None
    load_max: float

    def by_traffic(self, seed: int = 0) -> Plan:
        given: dict[str, Any] = {"links": self.links, "deliveries": self.deliveries, "seed": seed}
        given |= {"clients": self.clients, "load_max": self.load_max}
        return plan(self.ontology, self.brokers, "traffic", **given)

    def rating(self, made: Plan) -> Rating:
        apart = overlay_distances(self.brokers, self.links)
        return rate_plan(made, apart, self.deliveries, self.clients, self.load_max)

    def best(self) -> Rating:
        """Of all ways to give each cluster one broker, worked out delivery by delivery."""
        parts, apart = clusters(self.ontology), overlay_distances(self.brokers, self.links)
        ends = [(parts.cluster_of(p), parts.cluster_of(s), n) for (p, s), n in self._given()]
        known = [(one, other, n) for one, other, n in ends if one and other]
        draw: Counter[str] = Counter()
        if self.clients is None:
            for one, other, n in known:
                draw.update({one: n})
                draw.update({other: n})
        for term, load in (self.clients or {}).items():
            draw.update({parts.cluster_of(term) or "": load})
        del draw[""]
        limit = self.load_max * draw.total() / len(self.brokers)
        found = []
        for way in product(self.brokers, repeat=len(parts)):
            at = dict(zip(parts, way, strict=True))
            hops = sum(n * apart.hops(at[one], at[other]) for one, other, n in known)
            on = Counter(dict.fromkeys(self.brokers, 0.0))
            for key, load in draw.items():
                on[at[key]] += load
            found.append(Rating(sum(max(0.0, load - limit) for load in on.values()), hops))
        return min(found)

    def _given(self) -> list[tuple[tuple[str, str], float]]:
        return list(self.deliveries.items())


def case(ontology: Ontology, rng: Random, brokers_max: int = 5) -> Case:
    """A case with a random overlay (a tree, and at times another link) and random figures."""
    brokers = [f"b{n}" for n in range(rng.randint(1, brokers_max))]
    links = [(brokers[n], brokers[rng.randrange(n)]) for n in range(1, len(brokers))]
    if len(brokers) > 3 and rng.random() < 0.3:
        links.append((brokers[0], brokers[-1]))
    terms = [*ontology.classes, *ontology.individuals, "urn:elsewhere"]
    pairs = [(rng.choice(terms), rng.choice(terms)) for _ in range(rng.randrange(12))]
    deliveries: dict[tuple[str, str], float] = {pair: rng.randrange(20) for pair in pairs}
    clients: dict[str, float] = {term: rng.randrange(5) for term in terms}
    load_max = rng.choice([1.0, 1.25, 2.0, 4.0])
    return Case(
        ontology, brokers, links, deliveries, clients if rng.random() < 0.7 else None, load_max
    )


def loaded(written: Written) -> Ontology:
    with TemporaryDirectory() as folder:
        place = Path(folder) / "given.ttl"
        place.write_text(PREFIXES + written.to_turtle(), encoding="utf-8")
        return Ontology.load(place, cache=False)


def at_most(one: Rating, other: Rating) -> bool:
    """Whether the first is as good, but for rounding."""
    if one.excess < other.excess - 1e-6:
        return True
    return one.excess <= other.excess + 1e-6 and one.hops <= other.hops + 1e-6


@given(written=ontologies, number=st.integers(0, 2**32))
def test_on_any_ontology_and_overlay_it_never_loses_to_taxonomic(
    written: Written, number: int
) -> None:
    if not Entailed(written, "rdfs").is_consistent():
        return
    given_ = case(loaded(written), Random(number), brokers_max=9)
    made = given_.by_traffic()
    assert at_most(given_.rating(made), given_.rating(plan(given_.ontology, given_.brokers)))
    assert given_.by_traffic() == made


@given(number=st.integers(0, 2**32))
def test_with_few_clusters_no_assignment_of_one_broker_each_is_better(number: int) -> None:
    given_ = case(animals(), Random(number), brokers_max=3)
    found, best = given_.rating(given_.by_traffic()), given_.best()
    assert at_most(found, best), (found, best)


def test_a_search_finds_the_best_of_all_in_nearly_every_small_case(seed: int) -> None:
    """And never reports a better one than there is."""
    rng, missed = np.random.default_rng(seed), 0
    for _ in range(12):
        brokers = [f"b{n}" for n in range(4)]
        links = [(brokers[n], brokers[rng.integers(n)]) for n in range(1, 4)]
        flows = rng.integers(0, 9, (5, 5)).astype(float)
        loads = rng.integers(0, 9, 5).astype(float)
        limit = 1.5 * loads.sum() / 4
        problem = _Problem.of(flows, loads, overlay_distances(brokers, links), limit)
        found = problem.rating(_searched(problem, np.arange(5) % 4, rng))
        best = min(problem.rating(np.array(at)) for at in product(range(4), repeat=5))
        assert at_most(best, found)
        missed += not at_most(found, best)
    assert missed <= 1, f"seed {seed}"


def heard(*rows: tuple[str, str, int]) -> dict[tuple[str, str], float]:
    return {(A + one, A + other): count for one, other, count in rows}


def test_clusters_that_exchange_much_come_near_each_other() -> None:
    deliveries = heard(("Gus", "Dixie", 50), ("Food", "Food", 3), ("Animal", "Mammal", 2))
    clients = {A + name: 1.0 for name in ("Gus", "Dixie", "Food", "Animal", "Mammal")}
    made = plan(animals(), BROKERS, "traffic", links=LINKS, deliveries=deliveries, clients=clients)
    assert made.planner == "traffic"
    assert made.broker_for(A + "Gus") == made.broker_for(A + "Dixie")
    assert made.broker_for(A + "Animal") == made.broker_for(A + "Mammal")
    # Two of five clients are as much as a broker may have, so one more pair cannot join.
    assert len({made.broker_for(A + name) for name in ("Gus", "Animal")}) == 2


def test_without_deliveries_the_taxonomic_plan_stays() -> None:
    made = plan(animals(), BROKERS, "traffic", links=LINKS, deliveries={})
    assert made.clusters == plan(animals(), BROKERS).clusters


def test_a_cluster_larger_than_the_limit_gets_helpers_nearby() -> None:
    clients = {A + "Cats": 10.0, A + "Dogs": 1.0, A + "Food": 1.0}
    given: dict[str, Any] = {"links": LINKS, "deliveries": {}, "clients": clients}
    made = plan(animals(), BROKERS, "traffic", load_max=1.5, **given)
    assignments = made.brokers_for(A + "Dixie")
    assert len(assignments) == 3 and assignments[0] == made.broker_for(A + "Dixie")
    assert rate_plan(made, overlay_distances(BROKERS, LINKS), {}, clients, 1.5).excess == 0
    assert Plan.from_json(made.to_json()) == made


def test_the_shorter_way_counts_where_there_are_several() -> None:
    around = overlay_distances(BROKERS, [*LINKS, ("far", "left")])
    assert around.hops("far", "left") == 2
    assert around.hops("far", "top") == 3
    assert around.nearest("far") == ("far", "left", "right", "top")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "missing a required"),
        ({"links": [], "deliveries": {}}, "no links lead from 'top'"),
        ({"links": [("top", "nowhere")], "deliveries": {}}, "to 'nowhere' leads to no broker"),
        ({"links": LINKS, "deliveries": {}, "load_max": 0.5}, "at least 1, not 0.5"),
        ({"links": LINKS, "deliveries": heard(("Gus", "Gus", -1))}, "counted from 0 up"),
        ({"links": LINKS, "deliveries": {}, "clients": {A + "Gus": float("nan")}}, "not nan"),
    ],
)
def test_what_cannot_be_planned_is_told(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        plan(animals(), BROKERS, "traffic", **options)


def test_distances_are_between_brokers_that_are_there_once() -> None:
    with pytest.raises(InvalidInputError, match="listed twice"):
        overlay_distances(["a", "a"], [])
    with pytest.raises(InvalidInputError, match="'c': it is no broker"):
        overlay_distances(["a", "b"], [("a", "b")]).hops("a", "c")
