"""Load balancing: helpers come when a broker has too much, go when it has not, and never flap."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbn.data import namespace, path
from kbn.errors import InvalidInputError
from kbn.ontology import Ontology
from kbn.placement import Plan, balance_plan, overlay_distances, plan
from kbn.placement.balancing import CALM, excess, load_limit, spread

A = namespace("animals")
BROKERS = ["b1", "b2", "b3", "b4", "b5"]
CHAIN = overlay_distances(BROKERS, pairwise(BROKERS))
KEYS = [A + name for name in ("Animal", "Food", "Cats", "Dogs", "Mammal")]


@cache
def made() -> Plan:
    """Each cluster on a broker of its own, in the order of `KEYS`."""
    return plan(Ontology.load(path("animals"), cache=False), BROKERS)


def on_brokers(found: Plan, loads: dict[str, float]) -> dict[str, float]:
    assignments = {cluster.key: cluster.brokers for cluster in found.clusters}
    return spread(assignments, loads, found.brokers)


def test_loads_spread_over_the_brokers_like_water() -> None:
    assignments = {"a": ["x"], "b": ["x", "y", "z"], "c": ["z"]}
    assert spread(assignments, {"a": 5, "b": 4, "c": 1}, "xyz") == {"x": 5, "y": 2.5, "z": 2.5}
    assert spread(assignments, {"a": 5, "b": 7, "c": 1}, "xyz") == {"x": 5, "y": 4, "z": 4}
    assert spread(assignments, {"a": 2, "b": 9, "c": 1}, "xyz") == {"x": 4, "y": 4, "z": 4}
    assert spread(assignments, {}, "xyz") == {"x": 0, "y": 0, "z": 0}


def test_the_nearest_broker_with_room_helps() -> None:
    loads = {KEYS[2]: 60.0, KEYS[0]: 38.0, KEYS[3]: 2.0}
    found = balance_plan(made(), loads, 2.0, CHAIN)
    assert found.brokers_of(KEYS[2]) == ("b3", "b2")
    # b2 and b4 are as near to b3, but b2 is nearly full.
    loads = {KEYS[2]: 60.0, KEYS[1]: 38.0, KEYS[3]: 2.0}
    assert balance_plan(made(), loads, 2.0, CHAIN).brokers_of(KEYS[2]) == ("b3", "b4")


def test_a_helper_stays_until_it_is_calm_and_then_the_farthest_goes_first() -> None:
    crowded = balance_plan(made(), {KEYS[2]: 95.0, KEYS[0]: 5.0}, 1.5, CHAIN)
    assert crowded.brokers_of(KEYS[2]) == ("b3", "b2", "b4", "b1")
    still = {KEYS[2]: 58.0, KEYS[0]: 21.0, KEYS[4]: 21.0}
    # Two assignments would do with 29 each, but 24 of 30 is what is calm.
    assert balance_plan(crowded, still, 1.5, CHAIN).brokers_of(KEYS[2]) == ("b3", "b2", "b4")
    quiet = dict.fromkeys(KEYS, 20.0)
    assert balance_plan(crowded, quiet, 1.5, CHAIN) == made()


@given(number=st.integers(0, 2**32))
def test_what_is_balanced_needs_no_more_and_has_never_more_over_the_limit(number: int) -> None:
    rng = Random(number)
    found = made()
    for _ in range(4):
        loads = {key: float(rng.choice([0, 1, 5, 20, 60])) for key in KEYS}
        load_max = rng.choice([1.0, 1.2, 2.0])
        limit = load_limit(load_max, sum(loads.values()), len(BROKERS))
        before = excess(on_brokers(found, loads), limit)
        found = balance_plan(found, loads, load_max, CHAIN)
        assert excess(on_brokers(found, loads), limit) <= before + 1e-6
        assert balance_plan(found, loads, load_max, CHAIN) == found
        assert [cluster.broker for cluster in found.clusters] == BROKERS


def test_a_load_that_goes_up_and_down_a_little_moves_nobody() -> None:
    def loads(of_cats: float) -> dict[str, float]:
        return {KEYS[2]: of_cats, KEYS[0]: 50 - of_cats / 2, KEYS[4]: 50 - of_cats / 2}

    # The limit is 50 and 40 is calm: 52 is too much for one, and 41 would not be calm for it.
    assert CALM * 50 == 40
    helped = balance_plan(made(), loads(52), 2.5, CHAIN)
    assert len(helped.brokers_of(KEYS[2])) == 2
    for of_cats in (48, 52, 50.5, 41, 52):
        assert balance_plan(helped, loads(of_cats), 2.5, CHAIN) == helped
    assert balance_plan(helped, loads(39), 2.5, CHAIN) == made()


def test_a_limit_under_a_fair_share_and_an_unknown_cluster_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="at least 1"):
        balance_plan(made(), {KEYS[0]: 1.0}, 0.9, CHAIN)
    with pytest.raises(InvalidInputError, match="no cluster with the key"):
        balance_plan(made(), {"urn:x": 1.0}, 2.0, CHAIN)
