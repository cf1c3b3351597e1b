"""Assignments: clusters follow the brokers that are there, and clients find their assignments."""

from __future__ import annotations

from collections import Counter

import pytest

from kbn import data
from kbn.management.assignments import AWAY_AFTER_S, STABLE_FOR_S, Assignments
from kbn.ontology import Ontology
from kbn.placement import plan

HERE = data.namespace("animals")


@pytest.fixture(scope="module")
def animals() -> Ontology:
    return Ontology.load(data.path("animals"))


def a_tree(assignments: Assignments, now: float = 0.0) -> None:
    assignments.heard_of("east", "root", ["root"], now)
    assignments.heard_of("root", None, ["east", "west"], now)
    assignments.heard_of("west", "root", ["root"], now)


def test_brokers_stand_from_the_top_down_in_whatever_order_they_came(animals: Ontology) -> None:
    assignments = Assignments(animals)
    a_tree(assignments)
    assert assignments.brokers == ("root", "east", "west")
    assert assignments.links == [("east", "root"), ("root", "west")]
    assert assignments.distances.hops("east", "west") == 3


def test_among_equals_the_top_is_the_broker_that_others_are_nearest_to(animals: Ontology) -> None:
    assignments = Assignments(animals)
    assignments.heard_of("a", None, ["b"], 0.0)
    assignments.heard_of("b", None, ["a", "c"], 0.0)
    assignments.heard_of("c", None, ["b"], 0.0)
    assert assignments.brokers == ("b", "a", "c")


def test_a_plan_is_made_when_brokers_have_been_the_same_for_a_moment(animals: Ontology) -> None:
    assignments = Assignments(animals)
    a_tree(assignments)
    assert not assignments.look(STABLE_FOR_S / 2) and assignments.plan is None
    assert assignments.look(STABLE_FOR_S)
    assert assignments.plan == plan(animals, ["root", "east", "west"])
    assert not assignments.look(2 * STABLE_FOR_S), "nothing is new"


def test_a_broker_that_is_silent_or_spare_has_no_clusters(animals: Ontology) -> None:
    assignments = Assignments(animals)
    a_tree(assignments)
    assignments.look(STABLE_FOR_S)
    assignments.set_spare("west", 2.0, is_spare=True)
    assert assignments.look(2.0 + STABLE_FOR_S) and assignments.plan == plan(
        animals, ["root", "east"]
    )
    later = AWAY_AFTER_S + 1.0
    assignments.heard_of("root", None, ["east", "west"], later)
    assert not assignments.look(later)
    assert assignments.look(later + STABLE_FOR_S) and assignments.plan == plan(animals, ["root"])


def test_a_fixed_plan_stays(animals: Ontology) -> None:
    fixed = plan(animals, ["x", "y"])
    assignments = Assignments(animals, fixed)
    a_tree(assignments)
    assert not assignments.look(STABLE_FOR_S) and assignments.plan is fixed
    assert not assignments.by_taxonomy()


def test_a_client_belongs_where_its_medoid_is_and_stays_where_it_belongs(animals: Ontology) -> None:
    assignments = Assignments(animals)
    a_tree(assignments)
    assignments.look(STABLE_FOR_S)
    assert assignments.plan is not None
    home = assignments.plan.broker_for(HERE + "Gus")
    assert assignments.broker_for(HERE + "Gus", "root", Counter()) == home
    assert assignments.broker_for(HERE + "Gus", home, Counter({home: 99})) == home
    assert assignments.broker_for(None, "root", Counter()) is None
    assert assignments.broker_for("ex:unknown", "root", Counter()) is None


def test_of_several_brokers_a_newcomer_takes_the_emptiest_and_others_move_for_a_clear_gain(
    animals: Ontology,
) -> None:
    assignments = Assignments(animals)
    a_tree(assignments)
    assignments.look(STABLE_FOR_S)
    assert assignments.plan is not None
    key = assignments.plan.cluster_for(HERE + "Gus")
    assert key is not None
    home = assignments.plan.broker_of(key)
    helper = next(name for name in assignments.brokers if name != home)
    assignments.use(assignments.plan.helped(key, helper))
    load = Counter({home: 5, helper: 2})
    assert assignments.broker_for(HERE + "Gus", None, load) == helper
    assert assignments.broker_for(HERE + "Gus", home, load) == helper
    assert assignments.broker_for(HERE + "Gus", home, Counter({home: 3, helper: 2})) == home


def test_by_traffic_clusters_that_hear_each_other_live_together(animals: Ontology) -> None:
    assignments = Assignments(animals)
    a_tree(assignments)
    assignments.heard_of("far", "west", ["west"], 0.0)
    assignments.set_spare("west", 0.0, is_spare=True)
    assignments.look(STABLE_FOR_S)
    deliveries = {(HERE + "Gus", HERE + "Dixie"): 100.0}
    clients = {HERE + "Gus": 1.0, HERE + "Dixie": 1.0}
    assert assignments.by_traffic(deliveries, clients, load_max=3.0)
    assert assignments.plan is not None
    assert assignments.plan.broker_for(HERE + "Gus") == assignments.plan.broker_for(HERE + "Dixie")
    assert "west" not in {each.broker for each in assignments.plan.clusters}
