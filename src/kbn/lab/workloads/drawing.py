"""Drawing at random, whole arrays at a time, and laying what was drawn out as Arrow columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa


def samples(rng: np.random.Generator, rows: int, of: int, size: int) -> Any:
    """Per row, `size` distinct numbers below `of` (drawn again where two fell together)."""
    drawn = rng.integers(0, of, (rows, size))
    while True:
        ordered = np.sort(drawn, axis=1)
        twice = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
        if twice.shape[0] == 0:
            return drawn
        drawn[twice] = rng.integers(0, of, (twice.shape[0], size))


def drawn_column(rng: np.random.Generator, count: int, values: Sequence[Any]) -> pa.Array:
    """A dictionary column of `count` values, each drawn from `values`."""
    import pyarrow as pa

    chosen = pa.array(rng.integers(0, len(values), count), pa.int32())
    return pa.DictionaryArray.from_arrays(chosen, pa.array(list(values)))


def dictionary_lists(offsets: Any, indices: Any, values: Sequence[Any]) -> pa.Array:
    """Lists of `values`: row i holds those at `indices` between offsets i and i + 1."""
    import pyarrow as pa

    elements = pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(list(values)))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), elements)


def drawn_lists(
    rng: np.random.Generator, count: int, values: Sequence[Any], least: int, most: int
) -> pa.Array:
    """A column of `count` lists of `least` to `most` distinct values."""
    sizes = rng.integers(least, most + 1, count)
    rows = samples(rng, count, len(values), most)
    chosen = rows[np.arange(most) < sizes[:, None]]
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    return dictionary_lists(offsets, chosen, values)


def as_table(columns: Mapping[str, Any], kinds: Mapping[str, str] | None = None) -> pa.Table:
    """The columns as a table; `kinds` names those that hold terms, and of which kind."""
    import pyarrow as pa

    kinds = kinds or {}
    metadata = {name: {"kbn": kind} for name, kind in kinds.items()}
    fields = [pa.field(n, column.type, metadata=metadata.get(n)) for n, column in columns.items()]
    return pa.table(list(columns.values()), schema=pa.schema(fields))
