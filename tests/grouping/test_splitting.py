"""Splitting by observed false positives: within limits, and only where it pays."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbn.errors import InvalidInputError
from kbn.grouping import Groups, SplittingPolicy

NAMES = list("abcdefgh")


def drawn(seed: int, strategy: str = "4") -> tuple[Groups, dict[object, int]]:
    rng = Random(seed)
    groups = Groups(NAMES, strategy=strategy)
    for number in range(25):
        limit = rng.randint(3, 8)
        groups.arrive(number, rng.sample(NAMES, 3), None if strategy == "2" else limit)
    offered = sorted((c for each in groups.clusters for c in each.combinations), key=sorted)
    for number in range(30):
        groups.subscribe(number, rng.choice(offered))
    return groups, {number: rng.choice([0, 1, 40]) for number in range(25)}


@pytest.mark.parametrize("strategy", ["2", "3", "3.1", "4"])
@settings(max_examples=8)
@given(seed=st.integers(0, 300))
def test_reacting_never_adds_false_positives_to_what_was_observed(strategy: str, seed: int) -> None:
    groups, sent = drawn(seed, strategy)
    before, subscribers = groups.deliveries(groups.wanted, sent), groups.wanted
    clusters = {each: groups.cluster_of(each) for each in subscribers}
    policy = SplittingPolicy(rate_max=0.05, received_min=20)
    policy.observe(sent)
    moved = policy.react(groups)
    groups.check_invariants()
    after = groups.deliveries(groups.wanted, sent)
    assert after.false_positives <= before.false_positives
    assert after.received - after.false_positives == before.received - before.false_positives
    changed = {each for each in subscribers if groups.cluster_of(each) != clusters[each]}
    assert changed <= {each.combination for each in moved}
    assert all(groups.cluster_of(each.combination) is not None for each in moved)


def test_what_is_seldom_or_rightly_received_is_left_alone() -> None:
    groups, sent = drawn(1)
    policy = SplittingPolicy(rate_max=0.05, received_min=10**9)
    policy.observe(sent)
    assert policy.react(groups) == ()
    policy = SplittingPolicy(rate_max=0.99, received_min=1)
    policy.observe(sent)
    assert policy.react(groups) == ()


def test_what_was_sent_long_ago_fades_and_who_left_does_not_count() -> None:
    groups, sent = drawn(2)
    policy = SplittingPolicy(rate_max=0.01, received_min=20)
    policy.observe(sent)
    for _ in range(12):
        policy.observe({})
    assert policy.react(groups) == ()
    policy.observe(sent | {"who left": 1000})
    policy.react(groups)
    groups.check_invariants()


@pytest.mark.parametrize("sent", [{"p": -1}, {"p": 1.5}, {"p": True}])
def test_counts_are_numbers_from_0(sent: dict[object, int]) -> None:
    with pytest.raises(InvalidInputError, match="from 0"):
        SplittingPolicy().observe(sent)


@pytest.mark.parametrize(("rate", "received"), [(1.0, 5), (-0.1, 5), (0.1, 0)])
def test_a_policy_needs_a_rate_and_some_deliveries(rate: float, received: int) -> None:
    with pytest.raises(InvalidInputError, match="splitting needs"):
        SplittingPolicy(rate, received)
