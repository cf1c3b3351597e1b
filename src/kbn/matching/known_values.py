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
from kbn.matching.memos import Memory, bytes_of

KNOWN_BYTES_MAX = 64 << 20  # of all attributes together
CELL_BYTES = 120
"""About what it takes to know a cell, besides the cell and its tokens."""

Hits = Callable[[Any], Iterable[int]]


class KnownValues:
    """What cells hit: their tokens one after another, and where those of each cell are.

    When it and those that it shares the memory with take too much, all forget, before the next
    batch.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        memory.share(self)
        self._version = -1
        self._numbers: dict[str, dict[Any, int]] = {}
        self._bounds = np.zeros((16, 2), np.int64)
        self._tokens = np.zeros(64, np.int64)
        self._count = 0
        self._token_count = 0
        self.bytes = 0

    def __reduce__(self) -> tuple[type[KnownValues], tuple[Memory]]:
        return KnownValues, (self._memory,)  # a copy finds out by itself

    def runs_of(
        self, column_type: str, cells: Sequence[Any], hits: Hits, version: int
    ) -> tuple[Array, Array, Array]:
        """Where the tokens of each of these cells begin and end, and the tokens.

        `hits` says what a new cell hits; `version` changes when it would say something else.
        """
        if self._memory.bytes > self._memory.bytes_max:
            self._memory.forget()
        if version != self._version:
            self.forget()
            self._version = version
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
            size = CELL_BYTES + bytes_of(cell) + 8 * len(tokens)
            self.bytes += size
            self._memory.bytes += size
        return number

    def forget(self) -> None:
        """Know nothing any more."""
        # Who was told of the arrays keeps them: others take their place.
        self._numbers = {}
        self._bounds = np.zeros((16, 2), np.int64)
        self._tokens = np.zeros(64, np.int64)
        self._count = 0
        self._token_count = 0
        self._memory.bytes -= self.bytes
        self.bytes = 0
