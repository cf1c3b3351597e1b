"""Random worlds for the matcher: an ontology, and constraints and values about its few terms.

A world comes from one number, so that number replays it. It offers a few hundred constraints and
values per attribute, drawn from pools so small that hits, equal operands and boundary cases are
common; a test draws positions in those lists, which Hypothesis shrinks well and cheaply.

Each attribute has themes: `n` holds numbers and times, `s` strings, bytes and truth values, `c`
classes and properties, `i` individuals, and `m` anything. Now and then a value strays.

A world of bags (`bag_world_of`) has nothing but bags of up to eight elements, and of its
constraints three in four are composites, a third of those negated and some nested.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import strategies as st
from tests.ontology.ontology_oracle import PREFIXES, Entailed, Written

from kbn.errors import InvalidInputError
from kbn.filters import Bag, Constraint, Filter, Notification, Relation, Subscription
from kbn.filters.operators import BAG_OPERATORS, AnyOperator, Composite, Near, Negated, Operator
from kbn.ontology import Class, Individual, Ontology, Property, Term

NAMESPACE = "urn:t#"
THING = "http://www.w3.org/2002/07/owl#Thing"
NOTHING = "http://www.w3.org/2002/07/owl#Nothing"
CLASSES = ("C0", "C1", "C2", "C3", "C4", "C5", "Pun", "Trio")
PROPERTIES = ("p0", "p1", "p2", "p3", "Trio")
INDIVIDUALS = ("i0", "i1", "i2", "i3", "Pun", "Trio")
STRANGER = "Stranger"

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
NUMBERS = (-1, 0, -0.0, 1, 1.0, 1.5, 2, 3, 7, 2**53 - 1, 2**53, 2**53 + 1, 2.0**53, 2**53 + 2)
HUGE = (
    2**63 - 1,
    2**63 - 2,
    2**63 - 513,
    -(2**63),
    2.0**63,
    -(2.0**63),
    math.inf,
    -math.inf,
    1e308,
)
STRINGS = ("", "a", "ab", "abc", "b", "ba", "bc", "aa", "a\0", "\U0010ffff", "é", "1", "true")
TIMES = (
    NOON,
    NOON + timedelta(microseconds=1),
    NOON + timedelta(seconds=1),
    NOON.astimezone(timezone(timedelta(hours=5, minutes=30))),
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
)
POOLS: dict[str, tuple[Any, ...]] = {
    "number": (*NUMBERS, *HUGE),
    "time": TIMES,
    "string": STRINGS,
    "bytes": (b"", b"a", b"ab"),
    "bool": (True, False),
    "class": (*CLASSES, THING, NOTHING),
    "property": PROPERTIES,
    "individual": INDIVIDUALS,
}
THEMES: dict[str, tuple[str, ...]] = {
    "n": ("number", "number", "number", "time"),
    "s": ("string", "string", "string", "bytes", "bool"),
    "c": ("class", "class", "class", "property"),
    "i": ("individual",),
    "m": tuple(POOLS),
}
ATTRIBUTES = tuple(THEMES)

_ORDERS = (Operator.LT, Operator.LE, Operator.GT, Operator.GE)
_STRING = (Operator.PREFIX, Operator.SUFFIX, Operator.CONTAINS, Operator.IN)
_LIKE = (Operator.EQUIV, Operator.NOT_EQUIV)
_HIERARCHY = (Operator.MORE_SPECIFIC, Operator.LESS_SPECIFIC)
_EQUAL = (Operator.EQ, Operator.NE)
_NEAR = (Near(0), Near(1), Near(2))
OPERATORS: dict[str, tuple[AnyOperator, ...]] = {
    "number": (*_EQUAL, *_ORDERS, *_ORDERS, *_NEAR, Near(0.5)),
    "time": (*_EQUAL, *_ORDERS, *_NEAR, Near(1e-6), Near(1e15)),
    "string": (*_EQUAL, *_ORDERS, *_STRING, *_STRING, *_NEAR),
    "bytes": _EQUAL,
    "bool": _EQUAL,
    "class": (*_EQUAL, *_LIKE, *_HIERARCHY, *_HIERARCHY, *_NEAR),
    "property": (*_EQUAL, *_LIKE, *_HIERARCHY, *_NEAR),
    "individual": (*_EQUAL, *_LIKE, *_NEAR, Operator.ISA, Operator.IS_NOT_A, Operator.ONT_PROP),
}
_KINDS: dict[str, type[Term]] = {
    "class": Class,
    "property": Property,
    "individual": Individual,
}

CONSTRAINTS_MAX = 240
VALUES_MAX = 90


def iri(name: str) -> str:
    return name if ":" in name else NAMESPACE + name


@lru_cache(maxsize=64)
def random_ontology(number: int) -> Ontology:
    """A consistent ontology: equivalences, cycles, several parents, sameAs, punned names."""
    random = Random(number)
    while True:
        written = _random_written(random)
        if Entailed(written, "rdfs").is_consistent():
            return load(written.to_turtle())


def load(turtle: str) -> Ontology:
    """The ontology written so; `:` is `urn:t#`."""
    with TemporaryDirectory() as directory:
        path = Path(directory) / "random.ttl"
        path.write_text(PREFIXES + turtle, encoding="utf-8")
        return Ontology.load(path, "rdfs", cache=False)


def _random_written(random: Random) -> Written:
    def some(most: int, *places: Sequence[str]) -> frozenset[Any]:
        count = random.randrange(most + 1)
        return frozenset(tuple(random.choice(place) for place in places) for _ in range(count))

    return Written(
        CLASSES,
        PROPERTIES,
        INDIVIDUALS,
        subclass=some(8, CLASSES, CLASSES),
        equivalent=some(2, CLASSES, CLASSES),
        disjoint=frozenset((a, b) for a, b in some(1, CLASSES, CLASSES) if a != b),
        subproperty=some(3, PROPERTIES, PROPERTIES),
        equivalent_property=some(1, PROPERTIES, PROPERTIES),
        inverse=some(2, PROPERTIES, PROPERTIES),
        symmetric=frozenset(p for (p,) in some(1, PROPERTIES)),
        transitive=frozenset(p for (p,) in some(2, PROPERTIES)),
        domain=some(1, PROPERTIES, CLASSES),
        range=some(1, PROPERTIES, CLASSES),
        same=some(2, INDIVIDUALS, INDIVIDUALS),
        types=some(6, INDIVIDUALS, CLASSES),
        facts=some(8, INDIVIDUALS, PROPERTIES, INDIVIDUALS),
    )


class World:
    """An ontology or none, and what can be asked and said about each attribute."""

    # No dataclass: Hypothesis would print every field of one.
    def __init__(
        self,
        number: int,
        ontology: Ontology | None,
        constraints: tuple[Constraint, ...],
        values: dict[str, tuple[Any, ...]],
    ) -> None:
        self.number = number
        self.ontology = ontology
        self.constraints = constraints
        self.values = values

    def __repr__(self) -> str:
        return f"world_of({self.number})"

    def filter(self, positions: Sequence[int]) -> Filter:
        """The conjunction of the constraints at these positions."""
        return Filter([self.constraints[p % len(self.constraints)] for p in positions])

    def subscription(self, filters: Sequence[Sequence[int]]) -> Subscription:
        return Subscription([self.filter(positions) for positions in filters])

    def notification(self, positions: Sequence[int | None]) -> Notification:
        """One value per attribute, in the order of `ATTRIBUTES`; None leaves it out."""
        named = zip(ATTRIBUTES, positions, strict=True)
        return Notification(
            {name: self.values[name][p % VALUES_MAX] for name, p in named if p is not None}
        )

    def random_notification(self, random: Random) -> Notification:
        return self.notification(
            [random.randrange(VALUES_MAX) if random.random() < 0.8 else None for _ in ATTRIBUTES]
        )

    def random_filter(self, random: Random, most: int = 3) -> Filter:
        return self.filter(
            [random.randrange(len(self.constraints)) for _ in range(random.randrange(most + 1))]
        )


@lru_cache(maxsize=128)
def world_of(number: int) -> World:
    """World number so-and-so; every fourth has no ontology."""
    random = Random(f"world {number}")
    ontology = None if number % 4 == 3 else random_ontology(number % 61)
    constraints = tuple(
        _random_constraint(random, random.choice(ATTRIBUTES), ontology is not None)
        for _ in range(CONSTRAINTS_MAX)
    )
    values = {
        name: tuple(_random_value(random, name) for _ in range(VALUES_MAX)) for name in ATTRIBUTES
    }
    return World(number, ontology, constraints, values)


@lru_cache(maxsize=128)
def bag_world_of(number: int) -> World:
    """World number so-and-so of bags, with many composites."""
    random = Random(f"bags {number}")
    ontology = None if number % 8 == 7 else random_ontology(number % 61)
    made: list[Constraint] = []
    while len(made) < CONSTRAINTS_MAX:
        attribute = random.choice(ATTRIBUTES)
        drawn = _random_bag_constraint(random, attribute, ontology is not None)
        if drawn is not None:
            made.append(drawn)
    values = {
        name: tuple(_large_bag(random, name) for _ in range(VALUES_MAX)) for name in ATTRIBUTES
    }
    return World(number, ontology, tuple(made), values)


# What a test draws.
worlds = st.integers(0, 399).map(world_of)
positions = st.integers(0, CONSTRAINTS_MAX - 1)
filters = st.lists(positions, max_size=4)
subscriptions = st.lists(filters, min_size=1, max_size=3)
contents = st.lists(
    st.none() | st.integers(0, VALUES_MAX - 1) | st.integers(0, VALUES_MAX - 1),
    min_size=len(ATTRIBUTES),
    max_size=len(ATTRIBUTES),
)


# The private half: values, operators and operands.


def _term(random: Random, kind: str, name: str, *, stranger: bool) -> Term:
    if stranger and random.random() < 0.12:
        name = STRANGER
    drawn = random.random()
    if 0.15 <= drawn < 0.25 and ":" not in name:
        return _KINDS[kind](":" + name)  # with the prefix that the ontology declares
    if drawn < 0.15:
        return Term(iri(name))
    return _KINDS[kind](iri(name))


def _scalar(random: Random, theme: str, *, stranger: bool = True) -> Any:
    chosen = random.choice(POOLS[theme])
    return _term(random, theme, chosen, stranger=stranger) if theme in _KINDS else chosen


def _random_value(random: Random, attribute: str) -> Any:
    """A value that a notification may hold for the attribute; one in ten strays."""
    if random.random() < 0.1:
        attribute = random.choice(ATTRIBUTES)
    theme = random.choice(THEMES[attribute])
    if random.random() < 0.4:
        return _value_bag(random, theme, random.choice((0, 0, 1, 2)))
    return _scalar(random, theme)


def _value_bag(random: Random, theme: str, depth: int) -> Bag:
    items: list[Any] = []
    for _ in range(random.choice((0, 1, 1, 2, 2, 3, 4))):
        if items and random.random() < 0.25:
            items.append(random.choice(items))
        elif random.random() < 0.1:
            items.append(_scalar(random, random.choice(tuple(POOLS))))
        elif depth and random.random() < 0.8:
            items.append(_value_bag(random, theme, depth - 1))
        else:
            items.append(_scalar(random, theme))
    return Bag(*items)


def _random_operator(random: Random, theme: str, depth: int) -> AnyOperator:
    made: Any
    if depth and random.random() < 0.45:
        bag = random.choice(sorted(BAG_OPERATORS, key=lambda op: op.symbol))
        made = bag
        if random.random() < 0.75:
            made = Composite(bag, _random_operator(random, theme, depth - 1))
    elif random.random() < 0.08:
        return Operator.EXISTS
    else:
        made = random.choice(OPERATORS[theme])
    if random.random() < 0.18:
        made = Negated(made)
    return made  # type: ignore[no-any-return]


def _operand(random: Random, operator: Any, theme: str, strict: bool) -> Any:
    """Something that fits the operator (nearly always)."""
    if isinstance(operator, Negated):
        return _operand(random, operator.operator, theme, strict)
    if isinstance(operator, Composite):
        sizes = (0, 1, 1, 1, 2, 2, 3)
        items = [
            _element(random, operator.element, theme, strict) for _ in range(random.choice(sizes))
        ]
        if items and random.random() < 0.3:
            items.append(random.choice(items))
        return Bag(*items)
    if operator in BAG_OPERATORS or (operator in _EQUAL and random.random() < 0.15):
        return _operand_bag(random, theme, random.choice((0, 0, 0, 1)), strict)
    if operator is Operator.ONT_PROP:
        return Relation(
            Property(iri(random.choice(PROPERTIES))), Individual(iri(random.choice(INDIVIDUALS)))
        )
    if operator is Operator.ISA or operator is Operator.IS_NOT_A:
        return _scalar(random, "class", stranger=not strict)
    return _scalar(random, theme, stranger=not strict)


def _element(random: Random, operator: Any, theme: str, strict: bool) -> Any:
    if operator is Operator.EXISTS:
        return _scalar(random, theme, stranger=not strict)
    return _operand(random, operator, theme, strict)


def _operand_bag(random: Random, theme: str, depth: int, strict: bool) -> Bag:
    items: list[Any] = []
    for _ in range(random.choice((0, 1, 1, 2, 2, 3))):
        if items and random.random() < 0.25:
            items.append(random.choice(items))
        elif depth:
            items.append(_operand_bag(random, theme, depth - 1, strict))
        else:
            other = random.choice(tuple(POOLS)) if random.random() < 0.1 else theme
            items.append(_scalar(random, other, stranger=not strict))
    return Bag(*items)


def _large_bag(random: Random, attribute: str) -> Bag:
    """Up to eight elements of one theme, some of them twice, now and then a bag among them."""
    theme = random.choice(THEMES[attribute])
    items: list[Any] = []
    for _ in range(random.randrange(9)):
        if items and random.random() < 0.2:
            items.append(random.choice(items))
        elif random.random() < 0.1:
            items.append(_value_bag(random, theme, 1))
        else:
            items.append(_scalar(random, theme))
    return Bag(*items)


def _random_bag_constraint(random: Random, attribute: str, strict: bool) -> Constraint | None:
    """A composite on bags of up to six elements, or (one in four) any constraint."""
    if random.random() < 0.25:
        return _random_constraint(random, attribute, strict)
    theme = random.choice(THEMES[attribute])
    element = _random_operator(random, theme, 1 if random.random() < 0.2 else 0)
    made: Any = Composite(random.choice(sorted(BAG_OPERATORS, key=lambda op: op.symbol)), element)
    items = [_element(random, element, theme, strict) for _ in range(random.randrange(7))]
    if items and random.random() < 0.3:
        items.append(random.choice(items))
    if random.random() < 0.33:
        made = Negated(made)
    try:
        return Constraint(attribute, made, Bag(*items))
    except InvalidInputError:
        return None


def _random_constraint(random: Random, attribute: str, strict: bool) -> Constraint:
    while True:
        theme = random.choice(THEMES[attribute])
        operator = _random_operator(random, theme, 2)
        operand = None
        if operator is not Operator.EXISTS:
            operand = _operand(random, operator, theme, strict)
        try:
            return Constraint(attribute, operator, operand)
        except InvalidInputError:
            continue
