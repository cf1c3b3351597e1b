"""Small random worlds: an ontology worked out the naive way, and constraints and values about it.

Everything comes from one `random.Random`, so a seed replays a world. The pools are tiny on purpose:
boundary cases (equal operands, one value a prefix of another, equivalent classes) must be common.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from kbn.errors import InvalidInputError, UnknownTermError
from kbn.filters.model import Constraint
from kbn.filters.operators import AnyOperator, Composite, Near, Negated, Operator
from kbn.filters.values import Bag, Operand, Relation, Value
from kbn.ontology.terms import Class, Individual, Property, Term

CLASSES = ["A", "B", "C", "D", "E"]
PROPERTIES = ["p", "q", "r"]
INDIVIDUALS = ["i", "j", "k"]
PUNNED = "Pun"  # a class and an individual
STRANGER = "unknown"


def closed(pairs: set[tuple[str, str]], names: list[str]) -> set[tuple[str, str]]:
    """The reflexive and transitive closure, by doing it until nothing changes."""
    found = pairs | {(name, name) for name in names}
    while True:
        more = {(a, d) for a, b in found for c, d in found if b == c} - found
        if not more:
            return found
        found |= more


class SmallOntology:
    """Answers like `kbn.ontology.Ontology`, from sets of pairs."""

    def __init__(self, random: Random) -> None:
        def some(left: list[str], right: list[str], count: int) -> set[tuple[str, str]]:
            return {(random.choice(left), random.choice(right)) for _ in range(count)}

        classes, things = [*CLASSES, PUNNED], [*INDIVIDUALS, PUNNED]
        facts = {
            (random.choice(things), random.choice(PROPERTIES), random.choice(things))
            for _ in range(random.randrange(5))
        }
        self._close(
            some(classes, classes, random.randrange(7)),
            some(PROPERTIES, PROPERTIES, random.randrange(4)),
            some(things, things, random.randrange(3)),
            some(things, classes, random.randrange(6)),
            facts,
            some(classes, classes, random.randrange(3)),
        )

    @classmethod
    def stated(
        cls,
        *,
        below: Iterable[tuple[str, str]] = (),
        under: Iterable[tuple[str, str]] = (),
        same: Iterable[tuple[str, str]] = (),
        typed: Iterable[tuple[str, str]] = (),
        facts: Iterable[tuple[str, str, str]] = (),
        apart: Iterable[tuple[str, str]] = (),
    ) -> SmallOntology:
        """The ontology that says just this, and what follows."""
        made = cls.__new__(cls)
        made._close(set(below), set(under), set(same), set(typed), set(facts), set(apart))
        return made

    def _close(
        self,
        below: set[tuple[str, str]],
        under: set[tuple[str, str]],
        same: set[tuple[str, str]],
        typed: set[tuple[str, str]],
        facts: set[tuple[str, str, str]],
        apart: set[tuple[str, str]],
    ) -> None:
        self.names = {
            "class": {*CLASSES, PUNNED, *(name for pair in below | apart for name in pair)}
            | {c for _, c in typed},
            "property": {*PROPERTIES, *(name for pair in under for name in pair)}
            | {p for _, p, _ in facts},
            "individual": {*INDIVIDUALS, PUNNED, *(name for pair in same for name in pair)}
            | {i for i, _ in typed}
            | {name for s, _, o in facts for name in (s, o)},
        }
        self.below = closed(below, sorted(self.names["class"]))
        self.under = closed(under, sorted(self.names["property"]))
        self.same = closed(same | {(b, a) for a, b in same}, sorted(self.names["individual"]))
        self.typed = {
            (i, d)
            for i, j in self.same
            for k, c in typed
            if j == k
            for e, d in self.below
            if e == c
        }
        self.facts = {
            (i, q, o)
            for s, p, n in facts
            for i, i2 in self.same
            if i2 == s
            for p2, q in self.under
            if p2 == p
            for n2, o in self.same
            if n2 == n
        }
        inherited = {
            (a, b)
            for c, d in apart
            for a, e in self.below
            if e == c
            for b, f in self.below
            if f == d
        }
        self.apart = inherited | {(b, a) for a, b in inherited}

    def kinds(self, iri: str) -> frozenset[str]:
        return frozenset(kind for kind, names in self.names.items() if iri in names)

    def full_iri(self, name: str) -> str:
        return name

    def require(self, iri: str, kind: str | None = None) -> None:
        kinds = self.kinds(iri)
        if not kinds or (kind is not None and kind not in kinds):
            raise UnknownTermError(iri, kind=kind or "term")

    def is_subclass(self, a: str, b: str) -> bool:
        return a == b or (a, b) in self.below

    def is_subproperty(self, a: str, b: str) -> bool:
        return a == b or (a, b) in self.under

    def is_instance(self, individual: str, cls: str) -> bool:
        return (individual, cls) in self.typed

    def are_disjoint(self, a: str, b: str) -> bool:
        return (a, b) in self.apart

    def ancestors(self, cls: str) -> frozenset[str]:
        return frozenset({b for a, b in self.below if a == cls} | {cls})

    def property_ancestors(self, prop: str) -> frozenset[str]:
        return frozenset({b for a, b in self.under if a == prop} | {prop})

    def equivalents(self, cls: str) -> frozenset[str]:
        return frozenset(name for name in self.ancestors(cls) if self.is_subclass(name, cls))

    def equivalent_properties(self, prop: str) -> frozenset[str]:
        above = self.property_ancestors(prop)
        return frozenset(name for name in above if self.is_subproperty(name, prop))

    def same_as(self, individual: str) -> frozenset[str]:
        return frozenset({b for a, b in self.same if a == individual} | {individual})

    def types(self, individual: str) -> frozenset[str]:
        return frozenset(c for i, c in self.typed if i == individual)

    def instances(self, cls: str) -> frozenset[str]:
        return frozenset(i for i, c in self.typed if c == cls)

    def related(self, individual: str, prop: str) -> frozenset[str]:
        return frozenset(o for s, p, o in self.facts if s == individual and p == prop)

    def steps_to(self, kind: str, one: str, others: Sequence[str], most: int) -> list[int | None]:
        """By going from each term to all that are one step away, until nothing is new."""
        found = {name: 0 for name in self._alike(kind, one)}
        for step in range(1, most + 1):
            reached = {b for a in found for b in self.names[kind] if self._is_step(kind, a, b)}
            for name in reached - found.keys():
                found[name] = step
        return [found.get(other) for other in others]

    def _alike(self, kind: str, name: str) -> frozenset[str]:
        if kind == "individual":
            return self.same_as(name)
        return self.equivalents(name) if kind == "class" else self.equivalent_properties(name)

    def _is_step(self, kind: str, a: str, b: str) -> bool:
        if kind == "individual":
            return any((s, o) in ((a, b), (b, a)) for s, _, o in self.facts)
        return self._is_directly_below(kind, a, b) or self._is_directly_below(kind, b, a)

    def _is_directly_below(self, kind: str, a: str, b: str) -> bool:
        pairs = self.below if kind == "class" else self.under
        if (a, b) not in pairs or (b, a) in pairs:
            return False
        return not any(
            (a, c) in pairs and (c, b) in pairs and (c, a) not in pairs and (b, c) not in pairs
            for c in self.names[kind]
        )


NUMBERS: list[Value] = [-1, 0, 1, 1.0, 1.5, 2, 3, 2**53, 2**53 + 1, 2.0**53, math.inf, -math.inf]
STRINGS: list[Value] = ["", "a", "ab", "abc", "b", "ba", "bc", "a\0", "aa", "\U0010ffff", "é"]
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
TIMES: list[Value] = [NOON, NOON + timedelta(seconds=1), NOON + timedelta(microseconds=1)]
CLASS_TERMS: list[Value] = [Class(name) for name in [*CLASSES, PUNNED, STRANGER]]
PROPERTY_TERMS: list[Value] = [Property(name) for name in [*PROPERTIES, STRANGER]]
INDIVIDUAL_TERMS: list[Value] = [Individual(name) for name in [*INDIVIDUALS, PUNNED, STRANGER]]
BARE_TERMS: list[Value] = [Term(name) for name in ["A", "p", "i", PUNNED, STRANGER]]
SCALARS: list[Value] = [
    True,
    False,
    b"",
    b"x",
    *NUMBERS,
    *STRINGS,
    *TIMES,
    *CLASS_TERMS,
    *PROPERTY_TERMS,
    *INDIVIDUAL_TERMS,
    *BARE_TERMS,
]
POOLS: list[list[Value]] = [
    NUMBERS,
    STRINGS,
    TIMES,
    [True, False],
    [b"", b"x"],
    [*CLASS_TERMS, *BARE_TERMS],
    [*PROPERTY_TERMS, *BARE_TERMS],
    [*INDIVIDUAL_TERMS, *BARE_TERMS],
]

NEAR = [Near(0), Near(1), Near(2), Near(0.5)]
_BAGS = [Operator.EQUAL_BAG, Operator.SUB_BAG, Operator.SUPER_BAG]


def random_value(random: Random, pool: list[Value] | None = None, depth: int = 2) -> Value:
    """A value, sometimes a bag; with a pool, its scalars come from there."""
    if depth and random.random() < 0.3:
        return random_bag(random, pool, depth - 1)
    return random.choice(pool or SCALARS)


def random_bag(random: Random, pool: list[Value] | None = None, depth: int = 1) -> Bag:
    return Bag(*(random_value(random, pool, depth) for _ in range(random.randrange(4))))


def random_operator(random: Random, depth: int = 2) -> AnyOperator:
    plain = [op for op in Operator if op not in _BAGS]
    made: Any = random.choice([*plain, *NEAR])
    if depth and random.random() < 0.35:
        made = random.choice(_BAGS)
        if random.random() < 0.8:
            made = Composite(made, random_operator(random, depth - 1))
    if made is not Operator.EXISTS and random.random() < 0.2:
        made = Negated(made)
    return made  # type: ignore[no-any-return]


def random_operand(random: Random, operator: AnyOperator, pool: list[Value]) -> Operand | None:
    """Something that may fit the operator; `random_constraint` asks again when it does not."""
    if isinstance(operator, Negated):
        return random_operand(random, operator.operator, pool)
    if operator is Operator.EXISTS:
        return None
    if operator is Operator.ONT_PROP:
        return Relation(Property(random.choice(PROPERTIES)), Individual(random.choice(INDIVIDUALS)))
    if operator in (Operator.ISA, Operator.IS_NOT_A):
        return random.choice(CLASS_TERMS)
    if isinstance(operator, Composite):
        element = operator.element
        count = random.randrange(4)
        if element is Operator.EXISTS:
            return Bag(*(random.choice(pool) for _ in range(count)))
        return Bag(*(random_operand(random, element, pool) for _ in range(count)))
    if operator in _BAGS:
        return random_bag(random, pool)
    return random_value(random, pool, 1)


def random_constraint(
    random: Random, pool: list[Value] | None = None, attribute: str = "x"
) -> Constraint:
    while True:
        operator = random_operator(random)
        chosen = pool or random.choice(POOLS)
        try:
            return Constraint(attribute, operator, random_operand(random, operator, chosen))
        except InvalidInputError:
            continue


def universe(random: Random, pool: list[Value] | None = None, bags: int = 40) -> list[Value]:
    """All scalars, or those of the pool, and some bags of them."""
    return [*(pool or SCALARS), *(random_bag(random, pool, 2) for _ in range(bags))]


def brute_force(
    bag: Operator, x: list[Any], v: list[Any], related: Callable[[Any, Any], bool]
) -> bool:
    """Composite bags by trying every injection: the meaning, at factorial cost."""
    from itertools import permutations

    if bag is Operator.EQUAL_BAG and len(x) != len(v):
        return False
    if bag is Operator.SUPER_BAG:
        return any(
            all(related(p, q) for p, q in zip(chosen, v, strict=True))
            for chosen in permutations(x, len(v))
        )
    return any(
        all(related(p, q) for p, q in zip(x, chosen, strict=True))
        for chosen in permutations(v, len(x))
    )
