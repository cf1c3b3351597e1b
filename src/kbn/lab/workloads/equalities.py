"""Equalities: the workload every published algorithm is measured with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kbn.filters import Constraint, Filter, Subscription
from kbn.lab.workloads.contract import Pair, chunks
from kbn.lab.workloads.drawing import as_table, drawn_column, samples
from kbn.ontology import Ontology

if TYPE_CHECKING:
    import pyarrow as pa


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
        for first, size in chunks(count):
            sizes = rng.integers(1, self.constraints_max + 1, size).tolist()
            attributes = samples(rng, size, self.attributes, self.constraints_max).tolist()
            values = rng.integers(0, self.values, (size, self.constraints_max)).tolist()
            yield [
                (self._subscription(sorted(zip(a[:n], v[:n], strict=True))), key)
                for key, (n, a, v) in enumerate(zip(sizes, attributes, values, strict=True), first)
            ]

    def notifications(self, count: int, seed: int) -> pa.Table:
        rng = np.random.default_rng([seed, 1])
        values = [f"v{v:03d}" for v in range(self.values)]
        names = [f"a{i:02d}" for i in range(self.attributes)]
        return as_table({name: drawn_column(rng, count, values) for name in names})

    def _subscription(self, pairs: list[tuple[int, int]]) -> Subscription:
        constraints = tuple(self._constraints[a][v] for a, v in pairs)
        return Subscription.trusted((Filter.trusted(constraints),))
