"""Covering on random worlds: sound, reflexive, transitive; bags agree with brute force."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.filters.small_worlds import (
    POOLS,
    SmallOntology,
    brute_force,
    random_bag,
    random_constraint,
    random_operand,
    random_operator,
    universe,
)

from kbn.errors import InvalidInputError
from kbn.filters.covering import covers
from kbn.filters.evaluation import accepts, matches
from kbn.filters.implication import implies
from kbn.filters.model import Constraint, Filter
from kbn.filters.notification import Notification
from kbn.filters.operators import Composite, Operator, negate_operator
from kbn.filters.semantics import accepts_by_definition, operator_accepts_by_definition
from kbn.filters.values import Bag

seeds = st.integers(0, 2**48)


@given(seeds)
@settings(max_examples=250)
def test_an_implied_constraint_accepts_what_its_premise_accepts(seed: int) -> None:
    random = Random(seed)
    ontology = SmallOntology(random)
    pool = random.choice(POOLS)
    constraints = [random_constraint(random, pool) for _ in range(14)]
    values = universe(random, pool)
    accepted = {c: [accepts(c, value, ontology) for value in values] for c in constraints}
    for premise in constraints:
        for conclusion in constraints:
            if implies(premise, conclusion, ontology):
                for value, first, second in zip(
                    values, accepted[premise], accepted[conclusion], strict=True
                ):
                    assert second or not first, (premise, conclusion, value)


@given(seeds)
@settings(max_examples=250)
def test_implication_is_reflexive_and_transitive(seed: int) -> None:
    random = Random(seed)
    ontology = SmallOntology(random)
    pool = random.choice(POOLS)
    constraints = [random_constraint(random, pool) for _ in range(20)]
    follows = {
        (a, b): implies(constraints[a], constraints[b], ontology)
        for a in range(len(constraints))
        for b in range(len(constraints))
    }
    for a, first in enumerate(constraints):
        assert follows[a, a], first
        for b, second in enumerate(constraints):
            if follows[a, b]:
                for c, third in enumerate(constraints):
                    assert follows[a, c] or not follows[b, c], (first, second, third)


@given(seeds)
@settings(max_examples=150)
def test_a_covering_filter_matches_what_the_covered_one_matches(seed: int) -> None:
    random = Random(seed)
    ontology = SmallOntology(random)
    pool = random.choice(POOLS)

    def random_filter() -> Filter:
        names = [random.choice("xy") for _ in range(random.randrange(4))]
        return Filter([random_constraint(random, pool, name) for name in names])

    filters = [random_filter() for _ in range(8)]
    values = universe(random, pool, bags=10)
    notifications = [
        Notification({name: random.choice(values) for name in random.choice(["x", "y", "xy", ""])})
        for _ in range(40)
    ]
    for wider in filters:
        assert covers(wider, wider, ontology)
        for narrower in filters:
            if covers(wider, narrower, ontology):
                for seen in notifications:
                    assert not matches(narrower, seen, ontology) or matches(wider, seen, ontology)


@given(seeds)
@settings(max_examples=300)
def test_composite_bags_agree_with_trying_every_permutation(seed: int) -> None:
    random = Random(seed)
    ontology = SmallOntology(random)
    pool = random.choice(POOLS) if random.random() < 0.8 else None
    bag = random.choice([Operator.EQUAL_BAG, Operator.SUB_BAG, Operator.SUPER_BAG])
    for _ in range(10):
        element = random_operator(random, 1)
        operator = Composite(bag, element)
        try:
            constraint = Constraint("x", operator, _operand(random, operator, pool))
        except InvalidInputError:
            continue
        x = Bag(*random_bag(random, pool, 1), *random_bag(random, pool, 1))
        expected = brute_force(
            bag,
            [*x],
            [*constraint.operand],
            lambda p, q, e=element: operator_accepts_by_definition(e, p, q, ontology),
        )
        assert accepts_by_definition(constraint, x, ontology) == expected, (x, constraint)
        assert accepts(constraint, x, ontology) == expected, (x, constraint)


@given(seeds)
@settings(max_examples=150)
def test_evaluation_agrees_with_the_definition(seed: int) -> None:
    random = Random(seed)
    ontology = SmallOntology(random)
    pool = random.choice(POOLS)
    values = universe(random, pool)
    for constraint in [random_constraint(random, pool) for _ in range(10)]:
        for value in values:
            expected = accepts_by_definition(constraint, value, ontology)
            assert accepts(constraint, value, ontology) == expected, (constraint, value)


def _operand(random: Random, operator: object, pool: object) -> object:
    first = random_operand(random, operator, pool or random.choice(POOLS))
    second = random_operand(random, operator, pool or random.choice(POOLS))
    return Bag(*first, *second)


@given(seeds)
@settings(max_examples=200)
def test_a_negated_operator_splits_what_the_operator_takes(seed: int) -> None:
    random = Random(seed)
    ontology = SmallOntology(random)
    constraint = random_constraint(random)
    if constraint.operator is Operator.EXISTS:
        return
    opposite = Constraint("x", negate_operator(constraint.operator), constraint.operand)
    assert negate_operator(opposite.operator) is constraint.operator
    families = {}
    for value in universe(random):
        yes, no = accepts(constraint, value, ontology), accepts(opposite, value, ontology)
        assert not (yes and no)
        families.setdefault(type(value), set()).add(yes or no)
