"""More than 16 attributes: nothing is lost, and what arrives in vain is counted exactly."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbn.errors import InvalidInputError
from kbn.grouping import Delivery, Groups, hashed_families, learned_families, publisher_groups

FORTY = [f"a{number:02}" for number in range(40)]
TWO_HUNDRED = [f"a{number:03}" for number in range(200)]


def drawn(seed: int, names: list[str] = FORTY, strategy: str = "4") -> Groups:
    """Publishers and subscribers come and go; attributes are not known before."""
    rng = Random(seed)
    groups = Groups(strategy=strategy, seed=seed)
    limit = None if strategy in "12" else 6
    for number in range(30):
        groups.arrive(number, rng.sample(names, rng.randint(1, 4)), limit)
        groups.subscribe(number, rng.sample(names, rng.randint(1, 2)))
    for number in range(0, 30, 3):
        groups.depart(number)
        groups.unsubscribe(number + 1)
    return groups


def counted(groups: Groups, sent: dict[object, int]) -> Delivery:
    """By the definition: who is connected to the cluster of the combination sends to it."""
    received = in_vain = 0
    for combination, subscribers in groups.wanted.items():
        cluster = groups.cluster_of(combination)
        for publisher, clusters in groups.connections.items():
            if cluster in clusters:
                arriving = subscribers * sent[publisher]
                received += arriving
                in_vain += arriving * (not combination <= groups.attributes_of(publisher))
    return Delivery(received, in_vain)


@pytest.mark.parametrize("strategy", ["1", "2", "3", "3.1", "4"])
@settings(max_examples=6)
@given(seed=st.integers(0, 500), are_many=st.booleans())
def test_whoever_has_what_is_wanted_sends_it_there(
    strategy: str, seed: int, are_many: bool
) -> None:
    groups = drawn(seed, TWO_HUNDRED if are_many else FORTY, strategy)
    groups.check_invariants()
    for combination in groups.wanted:
        cluster = groups.cluster_of(combination)
        for publisher, clusters in groups.connections.items():
            if combination <= groups.attributes_of(publisher):
                assert cluster is not None and cluster in clusters


@settings(max_examples=10)
@given(seed=st.integers(0, 500))
def test_what_arrives_in_vain_is_counted_by_attributes(seed: int) -> None:
    groups = drawn(seed)
    rng = Random(seed)
    sent = {publisher: rng.randint(0, 5) for publisher in groups.connections}
    expected = counted(groups, sent)
    assert groups.deliveries(groups.wanted, sent) == groups.deliveries(None, sent) == expected
    each = [groups.deliver(publisher, count) for publisher, count in sent.items()]
    assert Delivery(*map(sum, zip(*each, strict=True))) == expected
    to = [groups.delivered_to(subscriber, sent) for subscriber in groups.subscribers]
    assert Delivery(*map(sum, zip(*to, strict=True))) == expected
    of = groups.deliveries_by_cluster(groups.wanted, sent).values()
    assert Delivery(*map(sum, zip(*of, strict=True))) == expected


def test_up_to_16_attributes_are_exact_though_nobody_knew_them() -> None:
    groups = Groups(strategy="1")
    rng = Random(3)
    for number in range(40):
        groups.arrive(number, rng.sample(FORTY[:16], 3))
    assert groups.attributes.is_exact and groups.false_positive_rate() == 0
    groups.arrive("one more", [FORTY[16], FORTY[17]])
    assert not groups.attributes.is_exact
    groups.check_invariants()


def test_attributes_of_the_same_publishers_become_a_family() -> None:
    topics = [frozenset(TWO_HUNDRED[start : start + 10]) for start in range(0, 200, 10)]
    advertised = Counter(frozenset(part) for topic in topics for part in (sorted(topic),))
    families = learned_families(advertised, {})
    assert len(set(families.values())) == 16
    assert all(len({families[name] for name in topic}) == 1 for topic in topics)
    assert learned_families({frozenset("ab"): 1}, {}) == {"a": 0, "b": 1}


def test_learned_families_disturb_less_than_hashed_ones_where_there_is_something_to_learn() -> None:
    rng = Random(5)
    groups = Groups(TWO_HUNDRED)
    for number in range(60):
        topic = 10 * rng.randrange(20)
        groups.arrive(number, rng.sample(TWO_HUNDRED[topic : topic + 10], 4), 8)
        groups.subscribe(number, rng.sample(sorted(groups.attributes_of(number)), 2))
    before = groups.deliveries()
    assert groups.learn_families()
    groups.check_invariants()
    assert groups.deliveries().false_positives < 0.7 * before.false_positives
    assert groups.deliveries() == counted(groups, dict.fromkeys(range(60), 1))
    assert not groups.learn_families()


def test_one_call_learns_by_itself() -> None:
    groups = publisher_groups([FORTY[start : start + 4] for start in range(0, 40, 4)])
    groups.check_invariants()
    assert len(groups.connections) == 10 and len(groups.attributes.names) == 40


def test_an_advertisement_that_changes_is_as_if_it_had_arrived_so() -> None:
    groups = Groups(strategy="1")
    groups.arrive("p", ["a", "b"])
    groups.arrive("q", ["b", "c"])
    groups.subscribe("ann", ["d"])
    groups.change("p", ["c", "d"])
    groups.check_invariants()
    assert groups.attributes_of("p") == {"c", "d"} and groups.cluster_of(["a"]) is None
    assert groups.deliver("p") == Delivery(1, 0)
    before = groups.connections
    groups.change("p", ["d", "c"])
    assert groups.connections == before


def test_a_change_that_is_invalid_changes_nothing() -> None:
    groups = Groups(["a", "b"])
    groups.arrive("p", ["a"], 3)
    for advertisement, connections, said in (
        (["x"], 3, "attribute 'x'"),
        ([], 3, "no attribute"),
        (["b"], 0, "at least one connection, not 0"),
    ):
        with pytest.raises(InvalidInputError, match=said):
            groups.change("p", advertisement, connections)
    with pytest.raises(InvalidInputError, match="no publisher 'q'"):
        groups.change("q", ["a"])
    assert groups.attributes_of("p") == {"a"} and groups.limits == {"p": 3}


def test_a_limit_of_0_is_refused_with_what_is_needed() -> None:
    groups = Groups()
    with pytest.raises(InvalidInputError, match="'p' needs at least one connection, not 0"):
        groups.arrive("p", ["a"], 0)
    assert groups.connections == {}


def test_families_are_numbers_from_0_to_15() -> None:
    with pytest.raises(InvalidInputError, match="from 0 to 15"):
        Groups(families={"a": 16})
    assert set(hashed_families(TWO_HUNDRED).values()) == set(range(16))
