"""Elements: what the values in some rows hit, and the bags they are in, as kernels take them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kbn.filters import Bag
from kbn.matching.composites import ordered_pair
from kbn.matching.groups import Array
from kbn.matching.kernels.bags import PLACES_MAX
from kbn.matching.kernels.views import Elements


@dataclass(frozen=True, slots=True)
class HitColumn:
    """Rows of elements as numbers of distinct values, and the tokens each value hits.

    The elements of row r are indices[offsets[r]:offsets[r + 1]], those that are valid; value v hits
    tokens[token_start[v]:token_end[v]].
    """

    offsets: Array
    indices: Array
    valid: Array
    token_start: Array
    token_end: Array
    tokens: Array


@dataclass(frozen=True, slots=True)
class OrderedValues:
    """Distinct values as exact pairs: family 1 is a number, 2 a time, 0 neither."""

    family: Array
    values: Array
    rests: Array


_UNORDERED = OrderedValues(np.zeros(0, np.int8), np.zeros(0, np.float64), np.zeros(0, np.int64))


@dataclass(frozen=True, slots=True)
class BagColumn:
    """One attribute's bags, a row each: what their elements hit and, if asked for, their order."""

    hits: HitColumn
    present: Array
    ordered: OrderedValues = _UNORDERED

    def view(self) -> Elements:
        """What the kernels see."""
        hits, ordered = self.hits, self.ordered
        return Elements(
            hits.offsets, hits.indices, hits.valid, self.present, hits.token_start,
            hits.token_end, hits.tokens, ordered.family, ordered.values, ordered.rests,
        )  # fmt: skip

    def large_rows(self, most: int) -> list[int]:
        """The rows whose bags have more elements than that."""
        rows: list[int] = np.flatnonzero(np.diff(self.hits.offsets) > most).tolist()
        return rows


def bag_column(
    bags: Sequence[Bag | None], hits: Callable[[Any], tuple[int, ...]], with_order: bool
) -> BagColumn:
    """Bags as Python has them, a row each, None where there is none; `hits` says of an element."""
    items: list[Any] = [item for bag in bags if bag is not None for item in bag.items]
    sizes = [0 if bag is None else len(bag.items) for bag in bags]
    offsets = np.zeros(len(bags) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    count = len(items)
    # What is in a bag that no kernel looks at need not be known.
    runs = token_runs(
        () if len(bag.items) > PLACES_MAX else hits(item)
        for bag in bags
        if bag is not None
        for item in bag.items
    )
    column = HitColumn(offsets, np.arange(count), np.ones(count, bool), *runs)
    present = np.array([bag is not None for bag in bags], bool)
    return BagColumn(column, present, ordered_values(items) if with_order else _UNORDERED)


def ordered_values(values: Iterable[Any]) -> OrderedValues:
    """The values as pairs; None is neither number nor time."""
    found = [(0, 0.0, 0) if value is None else ordered_pair(value) for value in values]
    return OrderedValues(
        np.array([family for family, _, _ in found], np.int8),
        np.array([value for _, value, _ in found], np.float64),
        np.array([rest for _, _, rest in found], np.int64),
    )


def token_runs(hits: Iterable[Iterable[int]]) -> tuple[Array, Array, Array]:
    """The tokens of one value after another: where each begins and ends, and all of them."""
    ends, tokens = [0], []  # type: list[int], list[int]
    for of_value in hits:
        tokens.extend(of_value)
        ends.append(len(tokens))
    bounds = np.array(ends, np.int64)
    return bounds[:-1], bounds[1:], np.array(tokens, np.int64)
