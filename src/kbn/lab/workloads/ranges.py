"""Ranges: conjunctions of intervals over uniform numbers, selective (`ranges`) or not (`wide`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kbn.filters import Constraint, Filter, Operator, Subscription
from kbn.lab.workloads.contract import Pair, chunks
from kbn.lab.workloads.drawing import samples
from kbn.ontology import Ontology

if TYPE_CHECKING:
    import pyarrow as pa


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

    def __post_init__(self) -> None:
        self._names = [f"a{i:02d}" for i in range(self.attributes)]

    def subscriptions(self, count: int, seed: int) -> Iterator[list[Pair]]:
        rng = np.random.default_rng(seed)
        for first, size in chunks(count):
            sizes = rng.integers(self.least, self.most + 1, size)
            widths = np.full(size, self.width)
            if self.share is not None:
                widths = self.share ** (1 / sizes)
            lows = rng.random((size, self.most)) * (1 - widths[:, None])
            highs = (lows + widths[:, None]).tolist()
            attributes = samples(rng, size, self.attributes, self.most).tolist()
            rows = zip(sizes.tolist(), attributes, lows.tolist(), highs, strict=True)
            yield [
                (self._subscription(sorted(zip(a[:n], low[:n], high[:n], strict=True))), key)
                for key, (n, a, low, high) in enumerate(rows, first)
            ]

    def notifications(self, count: int, seed: int) -> pa.Table:
        import pyarrow as pa

        rng = np.random.default_rng([seed, 1])
        return pa.table({name: rng.random(count) for name in self._names})

    def _subscription(self, ranges: list[tuple[int, float, float]]) -> Subscription:
        constraints = []
        for attribute, low, high in ranges:
            name = self._names[attribute]
            constraints.append(Constraint.trusted(name, Operator.LT, high))
            constraints.append(Constraint.trusted(name, Operator.GE, low))
        return Subscription.trusted((Filter.trusted(tuple(constraints)),))


def wide() -> Ranges:
    """Ten ranges of width 0.4 over twenty attributes: many, and none of them selective."""
    return Ranges("wide", least=10, most=10, share=None, width=0.4)
