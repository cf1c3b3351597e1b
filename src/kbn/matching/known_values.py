"""Known values: what distinct values hit, kept as arrays from one batch to the next.

A batch asks about each distinct cell of its columns. What a cell hits is worked out once; then its
tokens stand in one long array, and a batch is told where. Cells are told apart by the type of their
column, because 1, 1.0 and True are equal in Python and are not one value here. What is kept is
bounded in bytes, and forgotten when it would be more, and as soon as another constraint is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from kbn.matching.groups import Array, grown

BYTES_MAX = 64 << 20
CELL_BYTES = 160
"""About what Python needs for a cell and its number, besides the length of the cell."""

Hits = Callable[[Any], Iterable[int]]


class KnownValues:
    """What cells hit: their tokens one after another, and where those of each cell are."""

    def __init__(self) -> None:
        self._version = -1
        self._numbers: dict[str, dict[Any, int]] = {}
        self._bounds = np.zeros((16, 2), np.int64)
        self._tokens = np.zeros(64, np.int64)
        self._count = 0
        self._token_count = 0
        self.bytes = 0

    def __reduce__(self) -> tuple[type[KnownValues], tuple[()]]:
        return KnownValues, ()  # a copy finds out by itself

    def runs_of(
        self, column_type: str, cells: Sequence[Any], hits: Hits, version: int
    ) -> tuple[Array, Array, Array]:
        """Where the tokens of each of these cells begin and end, and the tokens.

        `hits` says what a new cell hits; `version` changes when it would say something else.
        """
        if version != self._version or self.bytes > BYTES_MAX:
            self._forget(version)
        numbers = self._numbers.setdefault(column_type, {})
        found = [numbers.get(cell, -1) for cell in cells]
        for place, number in enumerate(found):
            if number < 0:
                found[place] = self._add(numbers, cells[place], tuple(hits(cells[place])))
        chosen = np.array(found, np.int64)
        return self._bounds[chosen, 0], self._bounds[chosen, 1], self._tokens

    def _add(self, numbers: dict[Any, int], cell: Any, tokens: tuple[int, ...]) -> int:
        # The same cell may stand twice among those of one batch.
        number = numbers.get(cell)
        if number is None:
            number = numbers[cell] = self._count
            start, end = self._token_count, self._token_count + len(tokens)
            self._bounds = grown(self._bounds, number + 1)
            self._tokens = grown(self._tokens, end)
            self._bounds[number] = (start, end)
            self._tokens[start:end] = tokens
            self._count, self._token_count = number + 1, end
            length = len(cell) if isinstance(cell, (str, bytes)) else 0
            self.bytes += CELL_BYTES + length + 8 * len(tokens)
        return number

    def _forget(self, version: int) -> None:
        # Who was told of the arrays keeps them: others take their place.
        self._version = version
        self._numbers = {}
        self._bounds = np.zeros((16, 2), np.int64)
        self._tokens = np.zeros(64, np.int64)
        self._count = 0
        self._token_count = 0
        self.bytes = 0
