"""Bags in bags: quick ways agree with every arrangement, and try no pair in vain."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import cache
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.filters.small_worlds import CLASSES, NOON, SCALARS, SmallOntology, brute_force

from kbn import data
from kbn.errors import InvalidInputError
from kbn.filters import bags
from kbn.filters.evaluation import accepts
from kbn.filters.inner_rows import all_inner_served
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
from kbn.filters.vocabulary import NO_ONTOLOGY
from kbn.ontology import NOTHING, THING, Class, Ontology, Property

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


@cache
def conference() -> Ontology:
    return Ontology.load(data.path("conference"))


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


# Many inner bags: rows instead of pairs.

ROWED: list[AnyOperator] = [
    *(each for each in OTHERS if each not in ORDERS),
    Operator.SUFFIX,
    Operator.IN,
    Operator.EQUIV,
    Operator.NOT_EQUIV,
    Negated(Operator.PREFIX),
    Negated(Operator.IN),
    Negated(Operator.LESS_SPECIFIC),
]


def some_bag(random: Random, draw: Callable[[], Value], bags_max: int, size_max: int) -> Bag:
    """So many inner bags of such a size at most; now and then something that is no bag."""
    likely = random.choice([10_000, 30])

    def inner() -> Value:
        if not random.randrange(likely):
            return draw()
        return Bag(*(draw() for _ in range(random.randint(0, size_max))))

    return Bag(*(inner() for _ in range(random.randint(0, bags_max))))


@pytest.mark.parametrize("size_max", [3, 6])
@given(st.integers(0, 2**48))
@settings(max_examples=150)
def test_rows_of_inner_bags_agree_with_the_definition(size_max: int, seed: int) -> None:
    random = Random(seed)
    ontology = SmallOntology(random)
    draw = few_values(random)
    for _ in range(5):
        inner: AnyOperator = Composite(random.choice(BAG_OPERATORS), random.choice(ROWED))
        if random.random() < 0.4:
            inner = Negated(inner)
        operator = Composite(random.choice(BAG_OPERATORS), inner)
        try:
            constraint = Constraint("x", operator, some_bag(random, draw, 6, size_max))
        except InvalidInputError:
            continue
        x, v = some_bag(random, draw, 8, size_max), constraint.operand
        assert type(v) is Bag
        expected = operator_accepts_by_definition(operator, x, v, ontology)
        if operator.bag is Operator.EQUAL_BAG and len(x) != len(v):
            continue
        by_x = operator.bag is not Operator.SUPER_BAG
        found = all_inner_served(inner, x.items, v.items, by_x, ontology)
        assert found is expected, (constraint, x)


@pytest.mark.parametrize("name", ["@>", "@<", "!@>", "!@<"])
@given(st.integers(0, 2**48))
@settings(max_examples=30)
def test_rows_of_inner_bags_agree_in_a_compiled_ontology(name: str, seed: int) -> None:
    """With equivalent classes, unknown ones, owl:Thing and owl:Nothing."""
    random = Random(seed)
    ontology = conference()
    classes = [Class(iri) for iri in random.sample(ontology.classes, 12)]
    classes += [Class(THING), Class(NOTHING)] if random.random() < 0.3 else []
    classes += [Class("urn:unknown:1"), Class("urn:unknown:2")]
    classes += [Property(iri) for iri in ontology.properties[:6]] if random.random() < 0.5 else []
    for _ in range(5):
        inner: AnyOperator = Composite(random.choice(BAG_OPERATORS), read_operator(name))
        inner = Negated(inner) if random.random() < 0.4 else inner
        xs, vs = (some_bag(random, lambda: random.choice(classes), 8, 4) for _ in range(2))
        operator = Composite(random.choice([Operator.SUB_BAG, Operator.SUPER_BAG]), inner)
        expected = operator_accepts_by_definition(operator, xs, vs, ontology)
        by_x = operator.bag is Operator.SUB_BAG
        assert all_inner_served(inner, xs.items, vs.items, by_x, ontology) is expected


@pytest.mark.parametrize("size", [3, 10, 13, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.parametrize("spare", [0, 1, 5])
def test_every_way_to_decide_gives_what_matching_gives(size: int, spare: int, seed: int) -> None:
    """Pairs around the share of related elements where about half of the bags fit."""
    random = Random(f"{seed} {size} {spare}")
    tried = {True: 0, False: 0}
    for share in (0.12, 0.25, 0.4):
        names = [f"v{n:02d}." for n in range(40)]
        texts = [
            "".join(name for name in names if random.random() < share) or "none" for _ in range(60)
        ]
        vs = [Bag(*random.choices(names, k=size)) for _ in range(70)]
        xs = [Bag(*random.choices(texts, k=size + spare)) for _ in range(70)]
        for x, v in zip(xs, vs, strict=True):
            inner = read_operator("#>/*")
            expected = operator_accepts_by_definition(inner, x, v)
            tried[expected] += 1
            # One bag to be served, and this other one among 599 that cannot serve it.
            others = [Bag("none"), *[Bag(*["none"] * (size + spare))] * 599]
            others[random.randrange(600)] = x
            assert all_inner_served(inner, others, [v], False, NO_ONTOLOGY) is expected
            assert all_inner_served(inner, xs, [v], False, NO_ONTOLOGY) is any(
                operator_accepts_by_definition(inner, each, v) for each in xs
            )
    assert min(tried.values()) > 10


def test_large_inner_bags_are_left_to_others() -> None:
    large = [Bag(*(f"a{n}" for n in range(65)))]
    assert all_inner_served(read_operator("#</*"), large, large, True, NO_ONTOLOGY) is None
