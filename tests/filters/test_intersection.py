"""Intersection: False is a proof, and is found where the examples demand it."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.filters.small_worlds import (
    POOLS,
    SmallOntology,
    random_constraint,
    random_value,
    universe,
)

from kbn import data
from kbn.filters import Filter, Notification, Subscription
from kbn.filters.evaluation import accepts, matches
from kbn.filters.intersection import excludes, may_intersect
from kbn.filters.model import Constraint
from kbn.filters.values import Bag, Relation, Value
from kbn.filters.vocabulary import Vocabulary
from kbn.ontology import Ontology
from kbn.ontology.terms import Class, Individual, Property, Term
from kbn.ontology.vocabulary import NOTHING, THING

seeds = st.integers(0, 2**48)
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


class WithDescendants(SmallOntology):
    """The small ontology, which can also be asked downwards, as the real one can."""

    def descendants(self, cls: str) -> frozenset[str]:
        return frozenset({a for a, b in self.below if b == cls} | {cls})

    def property_descendants(self, prop: str) -> frozenset[str]:
        return frozenset({a for a, b in self.under if b == prop} | {prop})


ANIMALS = WithDescendants.stated(
    below={("cow", "mammal"), ("human", "mammal"), ("trout", "fish"), ("sphinx", "cow")}
    | {("sphinx", "human"), ("whale", "mammal"), ("carp", "fish")},
    under={("grazes", "eats"), ("sings", "sounds")},
    same={("john", "johnny")},
    typed={("john", "human"), ("colleen", "cow"), ("goldie", "carp")},
    facts={("colleen", "grazes", "grass")},
)
c, p, i = Class, Property, Individual
has_grass = [p("eats"), i("grass")]


def one(operator: str, operand: object) -> Filter:
    return Filter([Constraint("x", operator, operand)])


APART = [
    ("<", 5, ">", 7),
    ("<", 5, ">=", 5),
    ("<", 5, ">", 5),
    ("<=", NOON, ">", NOON),
    ("<", "a", ">*", "b"),
    ("=", "a", "=", "b"),
    ("=", 1, "=", True),
    ("=", 1, "!=", 1.0),
    ("=", 3, "<", 3),
    ("=", "tea", "*", "pot"),
    ("<", 5, "<", "a"),
    (">*", "tea", "=", 5),
    (">*", "tea", ">*", "pot"),
    ("*<", "tea", "*<", "pot"),
    ("*", "tea", "*>", "pot"),
    (">*", "tea", "!>*", "te"),
    ("@>", c("mammal"), "=", "mammal"),
    ("@>", c("mammal"), "@>", c("fish")),
    ("@>", c("whale"), "@>", c("cow")),
    ("@>", c("mammal"), "@>", c("unknown")),
    ("@>", c("mammal"), "@>", p("eats")),
    ("@>", Term("mammal"), "@>", Term("fish")),
    ("@>", c("mammal"), "=", c("fish")),
    ("@>", c("mammal"), "@~", c("trout")),
    ("@>", c("mammal"), "@<", c("trout")),
    ("@<", c("mammal"), "@>", c("cow")),
    ("@<", c("mammal"), "@<", c("fish")),
    ("@>", c("mammal"), "!@>", c("mammal")),
    ("@>", p("eats"), "@>", p("sounds")),
    ("@<", p("grazes"), "@<", p("sings")),
    ("@~", c("mammal"), "@!~", c("mammal")),
    ("@=", c("mammal"), "@=", c("fish")),
    ("@=", c("mammal"), "@!=", c("mammal")),
    ("@=", c("cow"), "=", i("john")),
    ("@=", c("human"), "@>", c("human")),
    ("@=", c("human"), "@*", has_grass),
    ("@*", has_grass, "!@*", has_grass),
    ("=", Term("nobody"), "=", Term("somebody")),
    ("=", Term("nobody"), "=", 5),
    ("#=", [1, 2], "#=", [1, 3]),
    ("#=", [1, 2], "=", [1, 2, 2]),
    ("#>", [1, 2], "#<", [1, 3]),
    ("#>", [1, 1], "#<", [1, 2]),
    ("#>", [1, 2, 3], "#</any", [0, 0]),
    ("#>", [1, 2], "=", 1),
    ("#>/<", [3], "#</>", [5]),
    ("#>/@>", [c("mammal")], "#</@>", [c("fish"), c("fish")]),
    ("#>/@>", [c("cow"), c("whale")], "#=/@>", [c("mammal"), c("fish")]),
    ("#>/@>", [Term("mammal")], "#<", [Term("trout"), Term("nobody")]),
    ("#>/#>/=", [[1]], "#</#<", [[2], [3]]),
]

TOGETHER = [
    ("<", 5, ">", 3),
    ("<=", 5, ">=", 5),
    ("any", None, "=", 5),
    (">*", "tea", ">*", "teapot"),
    (">*", "tea", "*<", "pot"),
    (">*", "tea", "*", "pot"),
    ("@>", c("cow"), "@>", c("human")),
    ("@>", c("mammal"), "@<", c("cow")),
    ("@<", c("cow"), "@<", c("whale")),
    ("@>", c("unknown"), "@>", c("unknown")),
    ("@=", c("mammal"), "@*", has_grass),
    ("@=", c("mammal"), "@=", c("human")),
    ("=", Term("nobody"), "=", i("nobody")),
    ("#>", [1], "#>", [2]),
    ("#<", [1], "#<", [2]),
    ("#>", [1], "#<", [1, 2]),
    ("#>/@>", [c("mammal")], "#</@>", [c("fish"), c("cow")]),
    ("#>/any", [1, 2], "#<", [1, 2]),
]


@pytest.mark.parametrize(("first", "a", "second", "b"), APART)
def test_filters_that_are_apart(first: str, a: object, second: str, b: object) -> None:
    assert not may_intersect(one(first, a), one(second, b), ANIMALS)
    assert not may_intersect(one(second, b), one(first, a), ANIMALS)


@pytest.mark.parametrize(("first", "a", "second", "b"), TOGETHER)
def test_filters_that_are_not_apart(first: str, a: object, second: str, b: object) -> None:
    assert may_intersect(one(first, a), one(second, b), ANIMALS)
    assert may_intersect(one(second, b), one(first, a), ANIMALS)


def test_different_attributes_say_nothing_of_each_other() -> None:
    cheap, tea = Subscription.parse("price < 5").filters[0], Subscription.parse("price2 > 7")
    assert may_intersect(cheap, tea.filters[0])
    assert may_intersect(Filter(), cheap)


def test_one_attribute_apart_is_enough() -> None:
    (first,) = Subscription.parse("kind = 'tea' and price < 5 and year > 1").filters
    (second,) = Subscription.parse("kind = 'tea' and price > 2 and price > 7").filters
    assert not may_intersect(first, second)


def test_without_an_ontology_terms_are_apart_unless_the_same() -> None:
    assert not may_intersect(one("@>", c("a")), one("@>", c("b")))
    assert may_intersect(one("@>", c("a")), one("@>", c("a")))
    assert may_intersect(one("@<", c(NOTHING)), one("@<", c(THING)))
    assert not may_intersect(one("@=", c("a")), one("@=", c("b")))


def test_an_ontology_that_cannot_be_asked_downwards_proves_nothing_by_it() -> None:
    small = SmallOntology.stated(below={("cow", "mammal"), ("trout", "fish")})
    assert may_intersect(one("@>", c("mammal")), one("@>", c("fish")), small)


def test_a_real_ontology_tells_what_is_apart() -> None:
    ontology = Ontology.load(data.path("animals"))
    values = [Class(iri) for iri in (*ontology.classes, THING, "urn:x")]
    for operator in ("@>", "@<"):
        for a in values:
            for b in values:
                first, second = Constraint("x", operator, a), Constraint("x", operator, b)
                meet = any(
                    accepts(first, x, ontology) and accepts(second, x, ontology) for x in values
                )
                # Exact here, owl:Nothing aside.
                assert excludes(first, second, ontology) is not meet, (first, second)


def likely(random: Random, constraints: list[Constraint]) -> list[Value]:
    """Values near the operands, which two constraints may well both accept."""
    operands = [each.operand for each in constraints if each.operand is not None]
    plain = [v for v in operands if type(v) is not Relation and not getattr(v, "relational", 0)]
    bags = [operand for operand in plain if type(operand) is Bag]
    for _ in range(40 if bags else 0):
        items = [*random.choice(bags), *random.choice(bags)]
        plain.append(Bag.of(random.sample(items, random.randrange(len(items) + 1))))
    return cast(list[Value], plain)


def a_world(random: Random) -> Vocabulary | None:
    return random.choice([WithDescendants(random), WithDescendants(random), None])


@given(seeds)
@settings(max_examples=300)
def test_constraints_that_exclude_each_other_share_no_value(seed: int) -> None:
    random = Random(seed)
    ontology = a_world(random)
    pool = random.choice(POOLS)
    constraints = [random_constraint(random, pool) for _ in range(14)]
    values = [*universe(random, pool), *likely(random, constraints)]
    accepted = [
        {n for n, x in enumerate(values) if accepts(each, x, ontology)} for each in constraints
    ]
    for first, mine in zip(constraints, accepted, strict=True):
        for second, theirs in zip(constraints, accepted, strict=True):
            found = excludes(first, second, ontology)
            assert found is excludes(second, first, ontology), (first, second)
            if found:
                shared = [values[n] for n in mine & theirs]
                assert not shared, (first, second, shared[0])


@given(seeds)
@settings(max_examples=200)
def test_filters_that_match_one_notification_may_intersect(seed: int) -> None:
    random = Random(seed)
    ontology = a_world(random)
    pool = random.choice(POOLS)

    def random_filter() -> Filter:
        attributes = [random.choice("xy") for _ in range(random.randrange(1, 4))]
        return Filter([random_constraint(random, pool, name) for name in attributes])

    filters = [random_filter() for _ in range(10)]
    for _ in range(40):
        seen = Notification({"x": random_value(random, pool), "y": random_value(random, pool)})
        matching = [each for each in filters if matches(each, seen, ontology)]
        for first in matching:
            for second in matching:
                assert may_intersect(first, second, ontology), (first, second, seen)
