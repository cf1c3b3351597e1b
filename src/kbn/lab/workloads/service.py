"""A service: what real subscriptions look like, a little of every kind of constraint."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kbn import data
from kbn.filters import Bag, Constraint, Filter, Operator, Subscription
from kbn.lab.workloads.contract import Pair, chunks
from kbn.lab.workloads.drawing import as_table, drawn_column, drawn_lists, samples
from kbn.ontology import Class, Ontology

if TYPE_CHECKING:
    import pyarrow as pa

LETTERS = "abcdefghijklmnopqrstuvwxyz"
STATES = ("draft", "new", "open", "held", "sent", "paid", "closed", "void")
PRICE_MAX = 1000.0
KEYWORDS_MAX = 2


@dataclass
class Service:
    """Two to four of: a category, a code, keywords, a price range, a state it is not, a prefix.

    One subscription in ten is a disjunction of two such filters. Attributes are named in the order
    of the kinds, which is the canonical order of constraints.
    """

    name: str = "service"
    codes: int = 2000
    keywords: int = 200
    titles: int = 5000
    least: int = 2
    most: int = 4
    either_share: float = 0.1

    def __post_init__(self) -> None:
        self.ontology: Ontology | None = Ontology.load(data.path("podcast"))
        self._categories = list(self.ontology.classes)
        self._codes = [f"code{i:04d}" for i in range(self.codes)]
        self._words = [f"word{i:03d}" for i in range(self.keywords)]
        self._prefixes = [a + b for a in LETTERS for b in LETTERS]
        self._wanted = {
            "category": [Constraint("category", "@>", Class(c)) for c in self._categories],
            "code": [Constraint("code", "=", code) for code in self._codes],
            "state": [Constraint("state", "!=", state) for state in STATES],
            "title": [Constraint("title", ">*", prefix) for prefix in self._prefixes],
        }

    def subscriptions(self, count: int, seed: int) -> Iterator[list[Pair]]:
        rng = np.random.default_rng(seed)
        for first, size in chunks(count):
            filters = self._filters(rng, 2 * size)
            either = (rng.random(size) < self.either_share).tolist()
            yield [
                (self._subscription(filters[2 * i : 2 * i + 1 + both]), first + i)
                for i, both in enumerate(either)
            ]

    def notifications(self, count: int, seed: int) -> pa.Table:
        import pyarrow as pa

        rng = np.random.default_rng([seed, 1])
        columns: dict[str, Any] = {
            "category": drawn_column(rng, count, self._categories),
            "code": drawn_column(rng, count, self._codes),
            "keywords": drawn_lists(rng, count, self._words, 3, 8),
            "price": pa.array(np.round(rng.random(count) * PRICE_MAX, 2)),
            "state": drawn_column(rng, count, STATES),
            "title": drawn_column(rng, count, self._titles(rng)),
        }
        return as_table(columns, {"category": "class"})

    def _filters(self, rng: np.random.Generator, count: int) -> list[Filter]:
        sizes = rng.integers(self.least, self.most + 1, count).tolist()
        kinds = samples(rng, count, len(KINDS), self.most).tolist()
        numbers = rng.random((count, len(KINDS))).tolist()
        words = samples(rng, count, self.keywords, KEYWORDS_MAX).tolist()
        rows = zip(sizes, kinds, numbers, words, strict=True)
        return [self._filter(sorted(kind[:n]), number, word) for n, kind, number, word in rows]

    def _filter(self, kinds: list[int], numbers: list[float], words: list[int]) -> Filter:
        constraints: list[Constraint] = []
        for kind in kinds:
            attribute, number = KINDS[kind], numbers[kind]
            if attribute == "price":
                constraints += _price_range(number)
            elif attribute == "keywords":
                chosen = words[: 1 + int(number * KEYWORDS_MAX)]
                bag = Bag.of([self._words[word] for word in chosen])
                constraints.append(Constraint.trusted(attribute, Operator.SUPER_BAG, bag))
            else:
                wanted = self._wanted[attribute]
                constraints.append(wanted[int(number * len(wanted))])
        return Filter.trusted(tuple(constraints))

    def _subscription(self, filters: list[Filter]) -> Subscription:
        return Subscription.trusted((filters[0],)) if len(filters) == 1 else Subscription(filters)

    def _titles(self, rng: np.random.Generator) -> list[str]:
        letters = rng.integers(0, len(LETTERS), (self.titles, 12)).tolist()
        return ["".join(LETTERS[letter] for letter in row) for row in letters]


KINDS = ("category", "code", "keywords", "price", "state", "title")


def _price_range(number: float) -> tuple[Constraint, Constraint]:
    """A range 1 to 10 % wide, placed and sized by one number drawn between 0 and 1."""
    width = PRICE_MAX * (0.01 + 0.09 * (number * 1000 % 1))
    low = round(number * (PRICE_MAX - width), 2)
    return (
        Constraint.trusted("price", Operator.LT, round(low + width, 2)),
        Constraint.trusted("price", Operator.GE, low),
    )
