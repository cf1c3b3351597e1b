"""Text search: which of many texts begin with, end with or hold which patterns, all together.

Texts that nobody has seen are what makes `*`, `>*` and `*<` cost more than other operators: nothing
is remembered of them. So the distinct texts of a column are searched by a kernel, where they lie.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from kbn.filters import Operator, Patterns
from kbn.matching import kernels
from kbn.matching.groups import Array

_HOW = {
    Operator.PREFIX: {"anywhere": False},
    Operator.SUFFIX: {"anywhere": False, "backwards": True},
    Operator.CONTAINS: {"anywhere": True},
}

LONG = 256  # bytes of a text, from which on it is sooner searched by itself
MANY = 32  # patterns, for which it is not


class Texts:
    """An array of strings without nulls, as it lies."""

    def __init__(self, array: pa.Array) -> None:
        _, offsets, data = array.buffers()
        bounds = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
        first, last = int(bounds[0]), int(bounds[-1])
        # A copy: kernels are compiled for arrays that can be written.
        whole = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
        self.bytes = whole[first:last].copy()
        self.bounds = bounds.astype(np.int64) - first
        self._array = array

    def listed(self) -> list[str]:
        """The texts."""
        texts: list[str] = self._array.to_pylist()
        return texts

    def runs(
        self, found: tuple[Array, Array], every: list[int], equal: list[int | None]
    ) -> tuple[Array, Array, Array]:
        """Where the tokens of each text begin and end, and the tokens.

        Those `found` are given as texts and tokens; every text has some more, and perhaps one.
        """
        count = self.bounds.shape[0] - 1
        places = [place for place, token in enumerate(equal) if token is not None]
        left = [found[0], np.array(places, np.int64), np.tile(np.arange(count), len(every))]
        chosen = [token for token in equal if token is not None]
        right = [found[1], np.array(chosen, np.int64), np.repeat(np.array(every, np.int64), count)]
        bounds, tokens = kernels.batch.runs_of_pairs(
            np.concatenate(left), np.concatenate(right), count
        )
        return bounds[:-1], bounds[1:], tokens


class TextSearch:
    """Patterns by operator, with their tokens."""

    def __init__(self, patterns: Mapping[Operator, Mapping[str, int]]) -> None:
        self._parts = [
            (Patterns([*tokens], **_HOW[operator]), np.array([*tokens.values()], np.int64))
            for operator, tokens in patterns.items()
        ]
        self._count = sum(map(len, patterns.values()))

    def hits(self, texts: Texts) -> tuple[Array, Array] | None:
        """The texts that have a pattern, and its token, one pair after another.

        None where there are too many, or where long texts are sooner searched one by one.
        """
        average = texts.bytes.shape[0] // max(texts.bounds.shape[0] - 1, 1)
        if average > LONG and self._count < MANY:
            return None
        holders, tokens = [], []
        for patterns, numbers in self._parts:
            found = patterns.found_in(texts.bytes, texts.bounds)
            if found is None:
                return None
            holders.append(found[0])
            tokens.append(numbers[found[1]])
        return np.concatenate(holders), np.concatenate(tokens)
