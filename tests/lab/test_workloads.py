"""Workloads: seeded, in canonical form, and about what they say they are about."""

from __future__ import annotations

import pytest

from kbn.errors import InvalidInputError
from kbn.filters import Filter, Subscription
from kbn.filters.operators import Operator, split_bag_operator
from kbn.lab.workloads import NAMES, Pair, workload
from kbn.lab.workloads.operators import CASES


def first(name: str, count: int, seed: int) -> list[Pair]:
    return [pair for chunk in workload(name, count).subscriptions(count, seed) for pair in chunk]


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_stream(name: str) -> None:
    assert first(name, 50, 7) == first(name, 50, 7) != first(name, 50, 8)
    made = workload(name, 50)
    assert made.notifications(20, 7).equals(made.notifications(20, 7))
    assert not made.notifications(20, 7).equals(made.notifications(20, 8))


@pytest.mark.parametrize("name", NAMES)
def test_subscriptions_are_numbered_and_in_canonical_form(name: str) -> None:
    pairs = first(name, 150, 0)
    assert [key for _, key in pairs] == list(range(150))
    for subscription, _ in pairs:
        assert subscription == Subscription([Filter(f.constraints) for f in subscription.filters])


def test_a_stream_longer_than_a_chunk_goes_on_counting() -> None:
    chunks = list(workload("equalities").subscriptions(50_003, 0))
    assert [len(chunk) for chunk in chunks] == [50_000, 3]
    assert chunks[1][-1][1] == 50_002


def test_operators_has_every_operator_there_is() -> None:
    symbols = {symbol for _, symbol in CASES}
    assert {operator.symbol for operator in Operator} <= symbols
    assert {"#>/@>", "#</@>", "#=/<"} <= symbols
    wanted = [s.filters[0].constraints for s, _ in first("operators", len(CASES), 0)]
    assert {c.operator.symbol for pair in wanted for c in pair} == symbols | {"="}


def test_ids_of_operators_meet_a_subscription_about_six_times_in_ten() -> None:
    ids = workload("operators", 1000).notifications(1000, 0)["id"].to_pylist()
    assert 500 < sum(number < 1000 for number in ids) < 700


def test_mixed_has_disjunctions_and_every_kind_of_constraint() -> None:
    subscriptions = [subscription for subscription, _ in first("mixed", 500, 0)]
    assert 20 < sum(len(subscription.filters) == 2 for subscription in subscriptions) < 80
    operators = {c.operator for s in subscriptions for f in s.filters for c in f.constraints}
    assert {op.symbol for op in operators} == {"@>", "=", "#>", "<", ">=", "!=", ">*"}
    assert any(split_bag_operator(operator) for operator in operators)


def test_literature_has_seven_kinds_in_turn_and_distinct_terms_below_the_roots() -> None:
    pairs = first("literature", 700, 0)
    kinds = [{c.operator.symbol for c in s.filters[0].constraints} for s, _ in pairs[:7]]
    for found, symbol in zip(
        kinds, ("#>/@>", "#>/@>", "#</@>", "#>", "!#>/@>", "#>/@<", "<="), strict=True
    ):
        assert symbol in found
    narrowed = [len(s.filters[0].constraints) > 1 for s, _ in pairs[::7]]
    assert 30 < sum(narrowed) < 70
    articles = workload("literature").notifications(50, 0)["terms"].to_pylist()
    assert all(8 <= len(set(terms)) == len(terms) <= 15 for terms in articles)


def test_an_unknown_name_lists_those_there_are() -> None:
    with pytest.raises(InvalidInputError, match="podcast, operators, equalities"):
        workload("podcasts")
