"""Operators: every operator of the language in turn, each filter made unique by an id.

Subscription i is `<one constraint> and id = i`, its operator the i-th in turn, its operand one of a
few drawn for that operator. A notification has a value of every kind and an id, which some
subscription has with probability 0.6 (as 300 of 500 do in the thesis' operator-cost).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from kbn import data
from kbn.filters import Bag, Constraint, Filter, Relation, Subscription
from kbn.lab.workloads.contract import Pair, chunks
from kbn.lab.workloads.drawing import as_table, drawn_column, drawn_lists
from kbn.ontology import Class, Individual, Ontology, Property

if TYPE_CHECKING:
    import pyarrow as pa

    Generator = np.random.Generator

OPERANDS = 8
MET_SHARE = 0.6
NUMBER_MAX = 100
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
SYLLABLES = ("ba", "co", "di", "fu", "ge", "ha", "ki", "lo")
WORDS = tuple(a + b + c for a in SYLLABLES for b in SYLLABLES for c in SYLLABLES[:4])

# Per attribute, the operators asked of it; what its values are is in `_value` below.
ASKED = {
    "class": ("=", "@~", "@!~", "@>", "@<", "!@>"),
    "classes": ("#=/@<", "#>/@<", "#</@<", "#>/@>", "#</@>", "#>/@~", "!#>/@>"),
    "individual": ("=", "!=", "@=", "@!=", "@*", "@~"),
    "nested": ("#>/#>", "#</#</<"),
    "number": ("any", "=", "!=", "<", "<=", ">", ">="),
    "numbers": ("#=/<", "#>/>=", "#</<=", "#<"),
    "property": ("@>", "@<"),
    "text": ("=", "!=", "<", ">=", ">*", "*<", "*", "*>", "!>*"),
    "time": ("<", ">="),
    "words": ("#=", "#<", "#>", "#>/>*", "#</*>", "#>/*"),
}
CASES = tuple((attribute, symbol) for attribute, asked in ASKED.items() for symbol in asked)


@dataclass
class Operators:
    """One constraint of each operator in turn, and an id; `ids` is how many ids are subscribed."""

    ids: int = 100_000
    name: str = "operators"

    def __post_init__(self) -> None:
        self.ontology: Ontology | None = Ontology.load(data.path("conference"))
        self._classes = list(self.ontology.classes)
        self._individuals = list(self.ontology.individuals)
        self._properties = list(self.ontology.properties)
        self._relations = [
            Relation(Property(p), Individual(o))
            for i in self._individuals
            for p, o in sorted(self.ontology.relations(i))
        ]

    def subscriptions(self, count: int, seed: int) -> Iterator[list[Pair]]:
        rng = np.random.default_rng(seed)
        wanted = [self._operands(rng, attribute, symbol) for attribute, symbol in CASES]
        for first, size in chunks(count):
            chosen = rng.integers(0, OPERANDS, size).tolist()
            yield [
                (_with_id(wanted[key % len(CASES)][operand], key), key)
                for key, operand in enumerate(chosen, first)
            ]

    def notifications(self, count: int, seed: int) -> pa.Table:
        import pyarrow as pa

        rng = np.random.default_rng([seed, 1])
        hours = rng.integers(0, 24 * 365, count).tolist()
        columns: dict[str, Any] = {
            "id": pa.array(rng.integers(0, max(1, int(self.ids / MET_SHARE)), count)),
            "class": drawn_column(rng, count, self._classes),
            "classes": drawn_lists(rng, count, self._classes, 1, 6),
            "individual": drawn_column(rng, count, self._individuals),
            "nested": pa.array([_nested(rng) for _ in range(count)]),
            "number": pa.array(rng.integers(0, NUMBER_MAX, count)),
            "numbers": pa.array([_numbers(rng, 5) for _ in range(count)]),
            "property": drawn_column(rng, count, self._properties),
            "text": drawn_column(rng, count, WORDS),
            "time": pa.array(
                [EPOCH + timedelta(hours=h) for h in hours], pa.timestamp("us", "UTC")
            ),
            "words": drawn_lists(rng, count, WORDS[:40], 1, 6),
        }
        kinds = {"class": "class", "classes": "class", "individual": "individual"}
        return as_table(columns, {**kinds, "property": "property", "nested": "json"})

    def _operands(self, rng: Generator, attribute: str, symbol: str) -> list[Constraint]:
        values = [self._value(rng, attribute, symbol) for _ in range(OPERANDS)]
        return [Constraint(attribute, symbol, value) for value in values]

    def _value(self, rng: Generator, attribute: str, symbol: str) -> Any:
        if symbol == "any":
            return None
        if symbol == "@*":
            return _one(rng, self._relations)
        if attribute == "individual":
            of_class = symbol in ("@=", "@!=")
            return self._class(rng) if of_class else Individual(_one(rng, self._individuals))
        if attribute == "classes":
            return Bag.of([self._class(rng) for _ in range(int(rng.integers(1, 5)))])
        if attribute == "class":
            return self._class(rng)
        if attribute == "property":
            return Property(_one(rng, self._properties))
        return _plain_value(rng, attribute, symbol)

    def _class(self, rng: Generator) -> Class:
        return Class(_one(rng, self._classes))


def _plain_value(rng: Generator, attribute: str, symbol: str) -> Any:
    """A value that needs no ontology."""
    if attribute == "nested":
        return Bag.of([Bag.of(_numbers(rng, 3)) for _ in range(4)])
    if attribute == "number":
        return int(rng.integers(0, NUMBER_MAX))
    if attribute == "numbers":
        return Bag.of(_numbers(rng, 5))
    if attribute == "time":
        return EPOCH + timedelta(hours=int(rng.integers(0, 24 * 365)))
    if attribute == "words":
        return Bag.of([_text(rng, symbol[3:]) for _ in range(_size(symbol))])
    return _text(rng, symbol)


def _with_id(constraint: Constraint, key: int) -> Subscription:
    return Subscription.trusted((Filter([constraint, Constraint("id", "=", key)]),))


def _one(rng: Generator, values: list[Any]) -> Any:
    return values[int(rng.integers(0, len(values)))]


def _numbers(rng: Generator, most: int) -> list[int]:
    size = int(rng.integers(1, most + 1))
    return [int(number) for number in rng.integers(0, NUMBER_MAX, size)]


def _nested(rng: Generator) -> str:
    """A bag of bags of numbers, as the JSON a column of mixed values holds."""
    return str([_numbers(rng, 3) for _ in range(int(rng.integers(1, 4)))])


def _text(rng: Generator, symbol: str) -> str:
    """A word, or the part of one that the operator asks for, or (`in`) a text of several."""
    word: str = WORDS[int(rng.integers(0, 40))]
    if symbol == "*>":
        return word + WORDS[int(rng.integers(0, len(WORDS)))]
    return {">*": word[:3], "*<": word[-3:], "*": word[2:4]}.get(symbol.lstrip("!"), word)


def _size(symbol: str) -> int:
    return 6 if symbol.startswith("#<") else 1
