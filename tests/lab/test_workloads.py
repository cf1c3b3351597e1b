"""Workloads: seeded, in canonical form, and about what they say they are about."""

from __future__ import annotations

import pytest

from kbn.errors import InvalidInputError
from kbn.filters import Filter, Subscription
from kbn.filters.operators import Operator, split_bag_operator
from kbn.lab.workloads import NAMES, Mixed, Mixture, Pair, workload
from kbn.lab.workloads.mixed import NEUTRAL
from kbn.lab.workloads.operators import CASES
from kbn.matching import Matcher, count_batch


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


def test_service_has_disjunctions_and_every_kind_of_constraint() -> None:
    subscriptions = [subscription for subscription, _ in first("service", 500, 0)]
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
    with pytest.raises(InvalidInputError, match=r"did you mean podcast\?"):
        workload("podcasts")
    with pytest.raises(InvalidInputError, match="podcast, operators, equalities"):
        workload("nonsense")


def matches_per_event(made: Mixed, subscriptions: int = 4000, events: int = 400) -> float:
    matcher = Matcher()
    for chunk in made.subscriptions(subscriptions, 0):
        matcher.add_many(chunk)
    return float(count_batch(matcher, made.notifications(events, 0)).mean())


@pytest.mark.parametrize("name", ["u20", "z20", "u100", "z100", "s20"])
def test_a_neutral_filter_accepts_one_notification_in_a_thousand(name: str) -> None:
    assert 2.5 < matches_per_event(Mixed(NEUTRAL[name], name)) < 6.5


@pytest.mark.parametrize("skew", [0.0, 1.0])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 1.0])
def test_a_mixture_has_the_share_of_equalities_it_says(share: float, skew: float) -> None:
    made = Mixed(Mixture(attributes=40, equalities=share, skew=skew, values=3))
    asked = equalities = 0
    for chunk in made.subscriptions(2000, 0):
        for subscription, _ in chunk:
            constraints = subscription.filters[0].constraints
            asked += len({c.attribute for c in constraints})
            equalities += sum(c.operator is Operator.EQ for c in constraints)
    assert equalities / asked == pytest.approx(share, abs=0.12)


def test_a_mixture_has_as_many_attributes_constraints_and_values_as_it_says() -> None:
    made = Mixed(Mixture(attributes=30, least=20, most=20, equalities=0.5, values=3, present=0.2))
    for subscription, _ in next(made.subscriptions(200, 0)):
        constraints = subscription.filters[0].constraints
        assert len({c.attribute for c in constraints}) == 20
    codes = {
        c.operand
        for s, _ in next(made.subscriptions(200, 0))
        for c in s.filters[0]
        if c.operator is Operator.EQ
    }
    assert len(codes) == 3
    table = made.notifications(50, 0)
    assert len(table.column_names) == 30
    assert sum(column.null_count for column in table.columns) == 50 * 24


def test_a_skewed_mixture_prefers_some_values() -> None:
    def most_frequent(skew: float) -> int:
        made = Mixed(Mixture(attributes=6, most=3, equalities=1.0, skew=skew))
        values: list[int] = made.notifications(1000, 0)["a00"].to_pylist()
        return max(values.count(value) for value in set(values))

    assert most_frequent(0.0) < 200 < 280 < most_frequent(1.0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"attributes": 0}, "attributes must be at least 1"),
        ({"most": 21}, "cannot be drawn"),
        ({"least": 7}, "cannot be drawn"),
        ({"equalities": 1.1}, "equalities is a share"),
        ({"present": -0.1}, "present is a share"),
        ({"skew": 11}, "skew is 0"),
    ],
)
def test_a_mixture_that_cannot_be_is_refused(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Mixture(**wrong)  # type: ignore[arg-type]
