"""Bags within bags in batches: read and decided by kernels, as the definition says."""

from __future__ import annotations

import json
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbn import data
from kbn.errors import InvalidInputError
from kbn.filters import (
    Bag,
    Composite,
    Constraint,
    Filter,
    Negated,
    Operator,
    Subscription,
    accepts_by_definition,
    value_to_json,
)
from kbn.matching import Matcher, count_batch
from kbn.matching.nested_bags import read_nested
from kbn.ontology import Class, Ontology

BAGS = [Operator.EQUAL_BAG, Operator.SUB_BAG, Operator.SUPER_BAG]
ELEMENTS = [
    *(Operator.EQ, Operator.NE, Operator.LT, Operator.LE, Operator.GT, Operator.GE),
    *(Operator.PREFIX, Operator.SUFFIX, Operator.CONTAINS, Operator.IN, Operator.EXISTS),
    *(Operator.MORE_SPECIFIC, Operator.LESS_SPECIFIC, Operator.EQUIV, Operator.NOT_EQUIV),
    *(Negated(Operator.CONTAINS), Negated(Operator.MORE_SPECIFIC)),
]
JSON = pa.field("x", pa.string(), metadata={b"kbn": b"json"})
ONTOLOGY = Ontology.load(data.path("conference"))
CLASSES = [Class(iri) for iri in ONTOLOGY.classes[:6]]
POOLS = [
    [1, 2.0, 2.5, 3, 2**60, 2**60 + 1, -0.0],
    ["a", "ab", "b", "ba", "é", 'a"b', "\\", ""],
    CLASSES,
    [1, "a", True, CLASSES[0], 2.5, Bag(1)],
]


def table(values: list[object]) -> pa.Table:
    texts = [None if value is None else json.dumps(value_to_json(value)) for value in values]
    return pa.table([pa.array(texts, pa.string())], schema=pa.schema([JSON]))


def some_bag(random: Random, pool: list[object], deep: bool) -> Bag:
    def inner() -> object:
        if not deep and not random.randrange(8):
            return random.choice(pool)
        return Bag(*random.choices(pool, k=random.randrange(4)))

    return Bag(*(inner() for _ in range(random.randrange(4))))


@given(st.integers(0, 2**48))
@settings(max_examples=120)
def test_batches_of_bags_within_bags_agree_with_the_definition(seed: int) -> None:
    random = Random(seed)
    pool = random.choice(POOLS)
    matcher, constraints = Matcher(ONTOLOGY), []
    for _ in range(8):
        inner = Composite(random.choice(BAGS), random.choice(ELEMENTS))
        inner = Negated(inner) if random.random() < 0.3 else inner
        operator = Composite(random.choice(BAGS), inner)
        operator = Negated(operator) if random.random() < 0.3 else operator
        try:
            constraint = Constraint("x", operator, some_bag(random, pool, True))
            matcher.add(Subscription(Filter([constraint])), len(constraints))
        except InvalidInputError:
            continue
        constraints.append(constraint)
    values: list[object] = [some_bag(random, pool, False) for _ in range(12)]
    values += [None, random.choice(pool), "a", 3]
    expected = [
        sum(
            value is not None and accepts_by_definition(each, value, ONTOLOGY)  # type: ignore[arg-type]
            for each in constraints
        )
        for value in values
    ]
    assert count_batch(matcher, table(values)).tolist() == expected, constraints


def test_plain_bags_of_bags_are_read_by_the_kernel() -> None:
    texts = [
        '[["a", 1.5], []]',
        " [ [ 1 , -2e3 ] ] ",
        "[]",
        '[[{"class": "urn:x#A"}]]',
        '[["a\\"b"]]',
        "[1]",
        "[[true]]",
        "3",
        None,
    ]
    nested = read_nested(pa.array(texts, pa.string()).slice(0))
    assert nested is not None
    assert nested.is_read.tolist() == [True] * 4 + [False] * 5
    assert [nested.bag(row) for row in range(4)] == [
        Bag(Bag("a", 1.5), Bag()),
        Bag(Bag(1, -2000.0)),
        Bag(),
        Bag(Bag(Class("urn:x#A"))),
    ]
    assert nested.bag(3) is nested.bag(3)


@pytest.mark.parametrize(
    "text", ["[[1-2]]", '[["a"', "[[1,]]", "[[1] [2]]", "[[1]]]", '[[{"klass": "a"}]]', "[[01]]"]
)
def test_a_cell_that_is_no_json_is_told(text: str) -> None:
    matcher = Matcher()
    matcher.add("x #>/#> {{1}, {2}}", "ann")
    cells = pa.table([pa.array(["[[1], [2]]", text])], schema=pa.schema([JSON]))
    with pytest.raises(InvalidInputError, match="column 'x'"):
        count_batch(matcher, cells)


def test_larger_bags_than_kernels_take_are_decided_too() -> None:
    matcher = Matcher()
    matcher.add("x #>/#> {{1, 2}, {3}}", "ann")
    many = [[1, 2, *range(100, 180)], [3]]
    rows = [many, [[1], [2], [3]], [*([[0]] * 70), [1, 2], [3]]]
    texts = [json.dumps(row) for row in rows]
    assert count_batch(matcher, pa.table([pa.array(texts)], schema=pa.schema([JSON]))).tolist() == [
        1,
        0,
        1,
    ]


@given(st.integers(0, 2**48))
@settings(max_examples=60)
def test_texts_are_searched_together_as_one_by_one(seed: int) -> None:
    random = Random(seed)

    def text(most: int) -> str:
        return "".join(random.choices("abé\0", k=random.randint(0, most)))

    operators = random.sample(["*", ">*", "*<", "=", "!=", "any", "!*"], random.randint(1, 4))
    matcher, constraints = Matcher(), []
    for number in range(random.randint(1, 30)):
        operator = random.choice(operators)
        constraint = Constraint("x", operator, None if operator == "any" else text(3))
        matcher.add(Subscription(Filter([constraint])), number)
        constraints.append(constraint)
    values = [text(6) for _ in range(30)]
    expected = [sum(accepts_by_definition(each, x) for each in constraints) for x in values]
    column = pa.chunked_array([pa.array([None, *values], pa.string()).slice(1)])
    assert count_batch(matcher, pa.table({"x": column})).tolist() == expected
    bags = [random.choices(values, k=random.randint(0, 3)) for _ in range(30)]
    wants = [Constraint("x", "#>/*", [text(2), text(2)]) for _ in range(5)]
    other = Matcher()
    for number, want in enumerate(wants):
        other.add(Subscription(Filter([want])), number)
    expected = [sum(accepts_by_definition(each, Bag(*bag)) for each in wants) for bag in bags]
    column = pa.array(bags, pa.list_(pa.string()))
    assert np.array_equal(count_batch(other, pa.table({"x": column})), expected)
