"""Bags of a thousand elements: the answers are right, and nothing is factorial or quadratic.

No time is asserted; `pytest --durations=0` shows it. Each operator gets a case that holds by
construction and one that fails by a single element.
"""

from __future__ import annotations

from random import Random

import pytest

from kbn.errors import LimitError
from kbn.filters import Bag, Constraint, Operator, Relation
from kbn.filters.assignment import all_served
from kbn.filters.evaluation import operator_accepts
from kbn.filters.implication import operator_implies
from kbn.filters.operators import Composite, read_operator
from kbn.filters.vocabulary import NoOntology
from kbn.ontology.terms import Class, Individual, Property

SIZE = 1000


class Forest(NoOntology):
    """Classes c0, c1, ... where the parent of cN is c(N // 3); individual iN is in cN."""

    def kinds(self, iri: str, /) -> frozenset[str]:
        return frozenset({{"c": "class", "i": "individual"}[iri[0]]})

    def ancestors(self, cls: str, /) -> frozenset[str]:
        number, found = int(cls[1:]), {cls}
        while number:
            number //= 3
            found.add(f"c{number}")
        return frozenset(found)

    def is_subclass(self, a: str, b: str, /) -> bool:
        return b in self.ancestors(a)

    def types(self, individual: str, /) -> frozenset[str]:
        return self.ancestors("c" + individual[1:])

    def is_instance(self, individual: str, cls: str, /) -> bool:
        return cls in self.types(individual)

    def related(self, individual: str, prop: str, /) -> frozenset[str]:
        return frozenset({f"i{int(individual[1:]) // 2}"})


def numbers() -> list[int]:
    return Random(1).sample(range(10 * SIZE), SIZE)


def classes(step: int) -> list[Class]:
    return [Class(f"c{n // step}") for n in numbers()]


def words() -> list[str]:
    random = Random(2)
    return ["".join(random.choices("abcdef", k=random.randrange(6, 14))) for _ in range(SIZE)]


def small_bags() -> list[Bag]:
    random = Random(3)
    return [
        Bag(*(random.randrange(10) for _ in range(random.randrange(1, 4)))) for _ in range(SIZE)
    ]


CASES = {
    "=": (numbers(), numbers(), -1),
    "!=": (numbers(), numbers(), "no number"),
    "<": (numbers(), [n + 1 for n in numbers()], -1),
    ">=": (numbers(), numbers(), 10**9),
    "@>": (classes(1), classes(3), Class("x1")),
    "@<": (classes(3), classes(1), Class("x1")),
    "@~": (classes(1), classes(1), Class("x1")),
    "@=": ([Individual(f"i{n}") for n in numbers()], classes(1), Class("x1")),
    "@*": (
        [Individual(f"i{n}") for n in numbers()],
        [Relation(Property("p"), Individual(f"i{n // 2}")) for n in numbers()],
        Relation(Property("p"), Individual("nobody")),
    ),
    "!@>": (
        classes(1),
        [Class(f"c{n}") for n in range(10 * SIZE, 11 * SIZE)],
        Class("c0"),
    ),
    "*": (words(), [w[1:5] for w in words()], "none"),
    "*>": ([w[1:5] for w in words()], words(), ""),
    ">*": (words(), [w[:3] for w in words()], "none"),
    "*<": (words(), [w[3:] for w in words()], "none"),
    "!*": (words(), ["z" + w for w in words()], ""),
    "#<": (small_bags(), [Bag(*bag, 5) for bag in small_bags()], Bag()),
    "#</<": (small_bags(), [Bag(*(n + 1 for n in bag)) for bag in small_bags()], Bag(0)),
    "#>/>=": (small_bags(), [Bag(*bag.items[1:]) for bag in small_bags()], Bag(99)),
}  # fmt: skip


@pytest.mark.parametrize("bag", ["#=", "#<", "#>"])
@pytest.mark.parametrize("element", CASES)
def test_a_thousand_elements(bag: str, element: str) -> None:
    xs, vs, impossible = CASES[element]
    operator = read_operator(f"{bag}/{element}")
    shuffled = Random(4).sample(vs, len(vs))
    assert operator_accepts(operator, Bag(*xs), Bag(*shuffled), Forest())
    broken = Bag(*shuffled[:-1], impossible)
    assert not operator_accepts(operator, Bag(*xs), broken, Forest())


def test_a_thousand_elements_imply_a_thousand() -> None:
    narrow = Bag(*(Class(f"c{n}") for n in numbers()))
    wide = Bag(*(Class(f"c{n // 3}") for n in numbers()))
    operator = Composite(Operator.SUPER_BAG, Operator.MORE_SPECIFIC)
    assert operator_implies(operator, narrow, operator, wide, Forest())
    assert operator_implies(Operator.EQUAL_BAG, narrow, operator, wide, Forest())
    assert not operator_implies(operator, wide, operator, narrow, Forest())


def test_the_worst_chain_of_moves_is_found() -> None:
    """Row n reaches partners n and n + 1, the last only its own: everybody has to move."""
    rows = [0b11 << n for n in range(SIZE - 1)] + [1]
    assert all_served(rows, SIZE)
    assert not all_served([*rows[:-1], 1, 1], SIZE + 1)


def test_repeated_elements_are_counted() -> None:
    many = Bag(*[1] * SIZE, *[2] * SIZE)
    assert operator_accepts(read_operator("#=/<"), many, Bag(*[2] * SIZE, *[3] * SIZE))
    assert not operator_accepts(
        read_operator("#=/<"), many, Bag(*[2] * (SIZE + 1), *[3] * (SIZE - 1))
    )


def test_a_composite_that_needs_matching_has_a_limit_of_its_own() -> None:
    many = [f"w{n}" for n in range(10_001)]
    with pytest.raises(LimitError):
        Constraint("x", "#>/*", many)
    assert Constraint("x", "#>/<=", many).accepts([*many, "x"] * 2)


def test_a_huge_bag_against_a_small_operand() -> None:
    huge = Bag(*(Class(f"c{n}") for n in range(100_000)))
    wanted = Bag(Class("c5"), Class("c5"), Class("c100"))
    assert operator_accepts(read_operator("#>/@>"), huge, wanted, Forest())
    assert not operator_accepts(read_operator("#>/@>"), huge, Bag(Class("x1")), Forest())
