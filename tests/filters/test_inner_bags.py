"""Bags in bags: quick ways agree with every arrangement, and try no pair in vain."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.filters.small_worlds import CLASSES, NOON, SCALARS, SmallOntology, brute_force

from kbn.errors import InvalidInputError
from kbn.filters import bags
from kbn.filters.evaluation import accepts
from kbn.filters.model import Constraint
from kbn.filters.operators import (
    AnyOperator,
    Composite,
    Negated,
    Operator,
    read_operator,
    split_bag_operator,
)
from kbn.filters.semantics import operator_accepts_by_definition
from kbn.filters.values import Bag, Value
from kbn.ontology.terms import Class

BAG_OPERATORS = [Operator.EQUAL_BAG, Operator.SUB_BAG, Operator.SUPER_BAG]
ORDERS = [Operator.LT, Operator.LE, Operator.GT, Operator.GE]
OTHERS = [
    Operator.NE,
    Operator.MORE_SPECIFIC,
    Operator.LESS_SPECIFIC,
    Operator.PREFIX,
    Operator.CONTAINS,
    Operator.EXISTS,
    Negated(Operator.LT),
    Negated(Operator.CONTAINS),
    Negated(Operator.MORE_SPECIFIC),
]


def few_values(random: Random) -> Callable[[], Value]:
    """Draws from a handful of values, so that equal ones and other families meet often."""
    families: list[list[Value]] = [
        [1, 1.0, 2, 2.5, 3, 4],
        ["", "a", "ab", "b"],
        [NOON + timedelta(seconds=n) for n in range(3)],
        [Class(name) for name in CLASSES[:4]],
    ]
    main = random.choice(families)
    others: list[Value] = [*SCALARS, *(value for family in families for value in family)]
    others += [Bag(1), Bag(2)]
    strange = random.choice([0.0, 0.0, 0.05, 0.3])
    return lambda: random.choice(others if random.random() < strange else main)


def nested_bag(random: Random, draw: Callable[[], Value], likely: int) -> Bag:
    """Up to four inner bags of up to three elements; now and then something that is no bag."""

    def inner() -> Value:
        if not random.randrange(likely):
            return draw()
        return Bag(*(draw() for _ in range(random.randrange(4))))

    return Bag(*(inner() for _ in range(random.randrange(5))))


def by_every_arrangement(operator: Composite, x: Bag, v: Bag, ontology: SmallOntology) -> bool:
    """`x operator v` for a composite over a composite, perhaps negated, over a plain operator."""
    negated = isinstance(operator.element, Negated)
    parts = split_bag_operator(operator.element.operator if negated else operator.element)
    assert parts is not None
    bag, element = parts

    def related(p: Value, q: Value) -> bool:
        if type(p) is not Bag or type(q) is not Bag:
            return False
        found = brute_force(
            bag,
            [*p],
            [*q],
            lambda a, b: operator_accepts_by_definition(element, a, b, ontology),
        )
        return found is not negated

    return brute_force(operator.bag, [*x], [*v], related)


@pytest.mark.parametrize("kinds", [ORDERS, [Operator.EQ], OTHERS], ids=["orders", "=", "others"])
@given(st.integers(0, 2**48))
@settings(max_examples=150)
def test_bags_in_bags_agree_with_every_arrangement(kinds: list[AnyOperator], seed: int) -> None:
    random = Random(seed)
    ontology = SmallOntology(random)
    draw = few_values(random)
    for _ in range(10):
        inner: AnyOperator = Composite(random.choice(BAG_OPERATORS), random.choice(kinds))
        if random.random() < 0.3:
            inner = Negated(inner)
        operator = Composite(random.choice(BAG_OPERATORS), inner)
        try:
            constraint = Constraint("x", operator, nested_bag(random, draw, 1000))
        except InvalidInputError:
            continue
        x = nested_bag(random, draw, 12)
        v = constraint.operand
        assert type(v) is Bag
        expected = by_every_arrangement(operator, x, v, ontology)
        assert accepts(constraint, x, ontology) is expected, (constraint, x)


@pytest.mark.parametrize("outer", ["#=", "#<", "#>"])
@pytest.mark.parametrize("inner", ["#</<", "#=/<", "#>/>", "#<", "!#>/<", "!#<"])
def test_where_sorting_decides_no_pair_of_inner_bags_is_tried(
    outer: str, inner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1,000 inner bags of ten on either side: nearly every pair has a partner for each element."""

    def tried(*given: object) -> None:
        raise AssertionError("pairs of inner bags are tried one by one")

    monkeypatch.setattr(bags, "inner_check", tried)
    random = Random(f"{outer} {inner}")
    wanted = [Bag(*random.sample(range(100), 10)) for _ in range(1000)]
    step = {"#</<": -0.5, "#=/<": -0.5, "#>/>": 0.5, "#<": 0, "!#>/<": 0.5, "!#<": 0.5}[inner]
    given = [Bag(*(n + step for n in bag)) for bag in random.sample(wanted, 1000)]
    operator = read_operator(f"{outer}/{inner}")
    constraint = Constraint("x", operator, Bag(*wanted))
    assert accepts(constraint, Bag(*given))
    impossible = Bag(*(1e6 for _ in range(10))) if step < 0 else Bag(*(-1e6 for _ in range(10)))
    if "!" not in inner:
        assert not accepts(constraint, Bag(impossible, *given[1:]))
