"""Workloads: named, seeded streams of subscriptions and tables of notifications.

Each is a source of (subscription, key) pairs, made chunk by chunk so that five million of them never
stand in memory at once, and of an Arrow table of notifications. The same seed gives the same stream.

| name       | subscriptions                                             | notifications               |
|------------|-----------------------------------------------------------|-----------------------------|
| podcast    | one category (#>/@>) and 0-3 of 80 keywords (#>)          | 2-4 categories, 4 keywords, 13 more attributes |
| equalities | 1-6 string equalities over 20 attributes, 160 values each | all 20 attributes           |
| ranges     | 1-6 ranges over 20 attributes, 0.1 % matching             | all 20 attributes, uniform  |
| wide       | 10 ranges of width 0.4 over 20 attributes                 | all 20 attributes, uniform  |
| mixed      | a code, a range, a category or a prefix, 1-4 of them      | all of them                 |
| operators  | one constraint of each operator in turn, and an id        | every kind of value         |
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from kbn import data
from kbn.errors import InvalidInputError
from kbn.filters import Bag, Constraint, Filter, Operator, Relation, Subscription
from kbn.filters.operators import read_operator
from kbn.ontology import Class, Individual, Ontology, Property

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK = 50_000

Pair = tuple[Subscription, int]


class Workload(Protocol):
    """What a benchmark asks of a workload."""

    name: str
    ontology: Ontology | None

    def subscriptions(self, count: int, seed: int) -> Iterator[list[Pair]]:
        """`count` subscriptions with keys 0…, in chunks."""

    def notifications(self, count: int, seed: int) -> pa.Table:
        """`count` notifications, a row each."""


@dataclass
class Podcast:
    """Subscribers to podcast categories and keywords (SAC'08; the thesis' section 6.2)."""

    name: str = "podcast"
    keywords: int = 80
    keywords_max: int = 3

    def __post_init__(self) -> None:
        self.ontology: Ontology | None = Ontology.load(data.path("podcast"))
        self._categories = list(self.ontology.classes)
        self._wanted = [Constraint("category", "#>/@>", Bag(Class(c))) for c in self._categories]
        self._words = [f"keyword{i:02d}" for i in range(self.keywords)]

    def subscriptions(self, count: int, seed: int) -> Iterator[list[Pair]]:
        rng = np.random.default_rng(seed)
        for first in range(0, count, CHUNK):
            size = min(CHUNK, count - first)
            categories = rng.integers(0, len(self._categories), size).tolist()
            sizes = rng.integers(0, self.keywords_max + 1, size).tolist()
            words = _samples(rng, size, self.keywords, self.keywords_max)
            yield [
                (self._subscription(category, row[:n]), key)
                for key, (category, n, row) in enumerate(
                    zip(categories, sizes, words.tolist(), strict=True), first
                )
            ]

    def notifications(self, count: int, seed: int) -> pa.Table:
        import pyarrow as pa

        rng = np.random.default_rng([seed, 1])
        sizes = rng.integers(2, 5, count)
        categories = _samples(rng, count, len(self._categories), 4)
        chosen = categories[np.arange(4) < sizes[:, None]]
        offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)
        words = _samples(rng, count, self.keywords, 4).ravel()
        columns: dict[str, Any] = {
            "category": _dictionary_lists(offsets, chosen, self._categories),
            "keywords": _dictionary_lists(np.arange(count + 1) * 4, words, self._words),
            "duration": pa.array(rng.integers(60, 7200, count)),
            "explicit": pa.array(rng.random(count) < 0.1),
        }
        for i in range(11):
            values = [f"text {j}" for j in range(50)]
            columns[f"field{i}"] = pa.DictionaryArray.from_arrays(
                pa.array(rng.integers(0, 50, count), pa.int32()), pa.array(values)
            )
        kinds = {"category": {"kbn": "class"}}
        fields = [pa.field(n, a.type, metadata=kinds.get(n)) for n, a in columns.items()]
        return pa.table(list(columns.values()), schema=pa.schema(fields))

    def _subscription(self, category: int, words: list[int]) -> Subscription:
        constraints = [self._wanted[category]]
        if words:
            bag = Bag.of([self._words[word] for word in words])
            constraints.append(Constraint.trusted("keywords", Operator.SUPER_BAG, bag))
        return Subscription.trusted((Filter.trusted(tuple(constraints)),))


@dataclass
class Equalities:
    """Conjunctions of string equalities: the neutral workload of the field."""

    name: str = "equalities"
    attributes: int = 20
    values: int = 160
    constraints_max: int = 6
    ontology: Ontology | None = None

    def __post_init__(self) -> None:
        self._constraints = [
            [Constraint(f"a{i:02d}", "=", f"v{v:03d}") for v in range(self.values)]
            for i in range(self.attributes)
        ]

    def subscriptions(self, count: int, seed: int) -> Iterator[list[Pair]]:
        rng = np.random.default_rng(seed)
        for first in range(0, count, CHUNK):
            size = min(CHUNK, count - first)
            sizes = rng.integers(1, self.constraints_max + 1, size).tolist()
            attributes = _samples(rng, size, self.attributes, self.constraints_max).tolist()
            values = rng.integers(0, self.values, (size, self.constraints_max)).tolist()
            yield [
                (self._subscription(sorted(zip(a[:n], v[:n], strict=True))), key)
                for key, (n, a, v) in enumerate(zip(sizes, attributes, values, strict=True), first)
            ]

    def notifications(self, count: int, seed: int) -> pa.Table:
        import pyarrow as pa

        rng = np.random.default_rng([seed, 1])
        values = pa.array([f"v{v:03d}" for v in range(self.values)])
        return pa.table(
            {
                f"a{i:02d}": pa.DictionaryArray.from_arrays(
                    pa.array(rng.integers(0, self.values, count), pa.int32()), values
                )
                for i in range(self.attributes)
            }
        )

    def _subscription(self, pairs: list[tuple[int, int]]) -> Subscription:
        constraints = tuple(self._constraints[a][v] for a, v in pairs)
        return Subscription.trusted((Filter.trusted(constraints),))


@dataclass
class Ranges:
    """Conjunctions of ranges over uniform attributes.

    With `share`, a filter of k ranges has ranges of width share^(1/k), so that each filter matches
    that share of the notifications; else each range has the fixed `width`.
    """

    name: str = "ranges"
    attributes: int = 20
    least: int = 1
    most: int = 6
    share: float | None = 0.001
    width: float = 0.4
    ontology: Ontology | None = None

    def subscriptions(self, count: int, seed: int) -> Iterator[list[Pair]]:
        rng = np.random.default_rng(seed)
        for first in range(0, count, CHUNK):
            size = min(CHUNK, count - first)
            sizes = rng.integers(self.least, self.most + 1, size)
            widths = np.full(size, self.width)
            if self.share is not None:
                widths = self.share ** (1 / sizes)
            lows = rng.random((size, self.most)) * (1 - widths[:, None])
            highs = (lows + widths[:, None]).tolist()
            attributes = _samples(rng, size, self.attributes, self.most).tolist()
            rows = zip(sizes.tolist(), attributes, lows.tolist(), highs, strict=True)
            yield [
                (self._subscription(sorted(zip(a[:n], low[:n], high[:n], strict=True))), key)
                for key, (n, a, low, high) in enumerate(rows, first)
            ]

    def notifications(self, count: int, seed: int) -> pa.Table:
        import pyarrow as pa

        rng = np.random.default_rng([seed, 1])
        return pa.table({f"a{i:02d}": rng.random(count) for i in range(self.attributes)})

    def _subscription(self, ranges: list[tuple[int, float, float]]) -> Subscription:
        constraints = []
        for attribute, low, high in ranges:
            name = _NAMES[attribute]
            constraints.append(Constraint.trusted(name, Operator.LT, high))
            constraints.append(Constraint.trusted(name, Operator.GE, low))
        return Subscription.trusted((Filter.trusted(tuple(constraints)),))


_NAMES = [f"a{i:02d}" for i in range(1000)]


def _samples(rng: np.random.Generator, rows: int, of: int, size: int) -> Any:
    """Per row, `size` distinct numbers below `of` (drawn again where two fell together)."""
    drawn = rng.integers(0, of, (rows, size))
    while True:
        ordered = np.sort(drawn, axis=1)
        twice = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
        if twice.shape[0] == 0:
            return drawn
        drawn[twice] = rng.integers(0, of, (twice.shape[0], size))


def _dictionary_lists(offsets: Any, indices: Any, values: list[str]) -> pa.Array:
    import pyarrow as pa

    elements = pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(values))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), elements)
