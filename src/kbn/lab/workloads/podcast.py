"""Podcasts: one category and a few keywords wanted, a few categories and keywords published."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kbn import data
from kbn.filters import Bag, Constraint, Filter, Operator, Subscription
from kbn.lab.workloads.contract import Pair, chunks
from kbn.lab.workloads.drawing import (
    as_table,
    dictionary_lists,
    drawn_column,
    drawn_lists,
    samples,
)
from kbn.ontology import Class, Ontology

if TYPE_CHECKING:
    import pyarrow as pa

# What every notification of the source carries beside these: text that nobody asks for.
FIELDS = 11


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
        for first, size in chunks(count):
            categories = rng.integers(0, len(self._categories), size).tolist()
            sizes = rng.integers(0, self.keywords_max + 1, size).tolist()
            words = samples(rng, size, self.keywords, self.keywords_max)
            yield [
                (self._subscription(category, row[:n]), key)
                for key, (category, n, row) in enumerate(
                    zip(categories, sizes, words.tolist(), strict=True), first
                )
            ]

    def notifications(self, count: int, seed: int) -> pa.Table:
        import pyarrow as pa

        rng = np.random.default_rng([seed, 1])
        categories = drawn_lists(rng, count, self._categories, 2, 4)
        words = samples(rng, count, self.keywords, 4).ravel()
        texts = [f"text {i}" for i in range(50)]
        columns: dict[str, Any] = {
            "category": categories,
            "keywords": dictionary_lists(np.arange(count + 1) * 4, words, self._words),
            "duration": pa.array(rng.integers(60, 7200, count)),
            "explicit": pa.array(rng.random(count) < 0.1),
            **{f"field{i}": drawn_column(rng, count, texts) for i in range(FIELDS)},
        }
        return as_table(columns, {"category": "class"})

    def _subscription(self, category: int, words: list[int]) -> Subscription:
        constraints = [self._wanted[category]]
        if words:
            bag = Bag.of([self._words[word] for word in words])
            constraints.append(Constraint.trusted("keywords", Operator.SUPER_BAG, bag))
        return Subscription.trusted((Filter.trusted(tuple(constraints)),))
