"""Places: clusters follow the brokers that are there, and clients find their seats."""

from __future__ import annotations

from collections import Counter

import pytest

from kbn import data
from kbn.clustering import plan
from kbn.management.places import AWAY_AFTER_S, SETTLE_S, Places
from kbn.ontology import Ontology

HERE = data.namespace("animals")


@pytest.fixture(scope="module")
def animals() -> Ontology:
    return Ontology.load(data.path("animals"))


def a_tree(places: Places, now: float = 0.0) -> None:
    places.heard_of("east", "root", ["root"], now)
    places.heard_of("root", None, ["east", "west"], now)
    places.heard_of("west", "root", ["root"], now)


def test_brokers_stand_from_the_top_down_in_whatever_order_they_came(animals: Ontology) -> None:
    places = Places(animals)
    a_tree(places)
    assert places.brokers == ("root", "east", "west")
    assert places.links == [("east", "root"), ("root", "west")]
    assert places.distances.hops("east", "west") == 3


def test_among_equals_the_top_is_the_broker_that_others_are_nearest_to(animals: Ontology) -> None:
    places = Places(animals)
    places.heard_of("a", None, ["b"], 0.0)
    places.heard_of("b", None, ["a", "c"], 0.0)
    places.heard_of("c", None, ["b"], 0.0)
    assert places.brokers == ("b", "a", "c")


def test_a_plan_is_made_when_brokers_have_been_the_same_for_a_moment(animals: Ontology) -> None:
    places = Places(animals)
    a_tree(places)
    assert not places.look(SETTLE_S / 2) and places.plan is None
    assert places.look(SETTLE_S)
    assert places.plan == plan(animals, ["root", "east", "west"])
    assert not places.look(2 * SETTLE_S), "nothing is new"


def test_a_broker_that_is_silent_or_spare_has_no_clusters(animals: Ontology) -> None:
    places = Places(animals)
    a_tree(places)
    places.look(SETTLE_S)
    places.set_spare("west", 2.0, is_spare=True)
    assert places.look(2.0 + SETTLE_S) and places.plan == plan(animals, ["root", "east"])
    later = AWAY_AFTER_S + 1.0
    places.heard_of("root", None, ["east", "west"], later)
    assert not places.look(later)
    assert places.look(later + SETTLE_S) and places.plan == plan(animals, ["root"])


def test_a_fixed_plan_stays(animals: Ontology) -> None:
    fixed = plan(animals, ["x", "y"])
    places = Places(animals, fixed)
    a_tree(places)
    assert not places.look(SETTLE_S) and places.plan is fixed
    assert not places.by_taxonomy()


def test_a_client_belongs_where_its_medoid_is_and_stays_where_it_belongs(animals: Ontology) -> None:
    places = Places(animals)
    a_tree(places)
    places.look(SETTLE_S)
    assert places.plan is not None
    home = places.plan.broker_for(HERE + "Gus")
    assert places.seat(HERE + "Gus", "root", Counter()) == home
    assert places.seat(HERE + "Gus", home, Counter({home: 99})) == home
    assert places.seat(None, "root", Counter()) is None
    assert places.seat("ex:unknown", "root", Counter()) is None


def test_of_several_seats_a_newcomer_takes_the_emptiest_and_a_sitter_moves_for_a_clear_gain(
    animals: Ontology,
) -> None:
    places = Places(animals)
    a_tree(places)
    places.look(SETTLE_S)
    assert places.plan is not None
    key = places.plan.cluster_for(HERE + "Gus")
    assert key is not None
    home = places.plan.broker_of(key)
    helper = next(name for name in places.brokers if name != home)
    places.use(places.plan.helped(key, helper))
    load = Counter({home: 5, helper: 2})
    assert places.seat(HERE + "Gus", None, load) == helper
    assert places.seat(HERE + "Gus", home, load) == helper
    assert places.seat(HERE + "Gus", home, Counter({home: 3, helper: 2})) == home


def test_by_traffic_clusters_that_hear_each_other_live_together(animals: Ontology) -> None:
    places = Places(animals)
    a_tree(places)
    places.heard_of("far", "west", ["west"], 0.0)
    places.set_spare("west", 0.0, is_spare=True)
    places.look(SETTLE_S)
    deliveries = {(HERE + "Gus", HERE + "Dixie"): 100.0}
    clients = {HERE + "Gus": 1.0, HERE + "Dixie": 1.0}
    assert places.by_traffic(deliveries, clients, load_max=3.0)
    assert places.plan is not None
    assert places.plan.broker_for(HERE + "Gus") == places.plan.broker_for(HERE + "Dixie")
    assert "west" not in {each.broker for each in places.plan.clusters}
