"""The pivot scan: each filter filed once, under its most selective constraint, its *pivot*.

An attribute's values are cut into cells of equal width. A filter lies, whole, in every cell that
its pivot touches, and a notification scans the cells its values fall in, comparing each filter's
constraints, the most selective first. Selectivities are counted from notifications at hand. Sixty
lines and no cleverness: where filters are few constraints and one of them is selective, faster than
most engines; where all are wide, every filter lies in every cell.

Bounds are compared by rank among all bounds of their attribute, so words are 32 bits whatever the
values are. Takes conjunctions of equalities and of ranges of numbers.

Where ranges are so wide that 4,096 cells an attribute would take more than `bytes_max`, cells are
joined in twos until they fit: next to such ranges, a cell is still narrow.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kbn.errors import InvalidInputError, LimitError
from kbn.filters import Constraint, Filter, Operator, Subscription
from kbn.lab.baselines.kernels import pivot as kernels

if TYPE_CHECKING:
    import pyarrow as pa

CELLS = 4096
CELLS_MIN = 64
BYTES_MAX = 8 << 30
HIGHEST = 2**31 - 1

_LOW = {Operator.EQ: False, Operator.GE: False, Operator.GT: True}
_HIGH = {Operator.EQ: False, Operator.LE: False, Operator.LT: True}


class PivotScan:
    """Filters under their pivots: `add_many`, then `build`, then `counts` and `found`."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self.cells = CELLS
        self._bytes_max = bytes_max
        self._attributes: dict[str, _Attribute] = {}
        self._of_filter = array("q", [0])
        self._attribute = array("i")
        self._bounds = (array("d"), array("d"))
        self._open = (array("b"), array("b"))
        self._words: Any = None
        self._starts: Any = None

    def __len__(self) -> int:
        return len(self._of_filter) - 1

    def add_many(self, pairs: Sequence[tuple[Subscription, int]]) -> None:
        """Take subscriptions in, keys ascending from 0; `build` makes them findable."""
        for subscription, key in pairs:
            if len(subscription.filters) != 1 or key != len(self):
                raise InvalidInputError("the pivot scan takes conjunctions numbered from 0")
            self._add(subscription.filters[0])

    def build(self, table: pa.Table) -> None:
        """File the filters by the selectivities that these notifications show."""
        owners = np.repeat(np.arange(len(self)), np.diff(self._starts_of_filters()))
        attributes = np.array(self._attribute, np.int32)
        lows, highs = (np.empty(attributes.shape[0], np.int32) for _ in range(2))
        shares = np.empty(attributes.shape[0], np.float64)
        first, last = (np.empty(attributes.shape[0], np.int64) for _ in range(2))
        for name, attribute in self._attributes.items():
            mine = np.flatnonzero(attributes == attribute.number)
            low, high = (np.array(bounds)[mine] for bounds in self._bounds)
            values = attribute.values(table, name)
            attribute.learn(values, low, high)
            lows[mine], highs[mine] = attribute.ranks_of(
                low, high, *(np.array(is_open, bool)[mine] for is_open in self._open)
            )
            seen = np.sort(attribute.ranks(values))
            accepted = np.searchsorted(seen, highs[mine], "right") - np.searchsorted(
                seen, lows[mine]
            )
            shares[mine] = (accepted + 0.5) / max(1, table.num_rows)
            first[mine], last[mine] = attribute.cells(low), attribute.cells(high)
        order = np.lexsort((shares, owners))
        starts = self._starts_of_filters()
        pivots = order[starts[:-1]]
        ordered = (attributes[order], lows[order], highs[order])
        self._file(starts, *ordered, first[pivots], last[pivots])

    def counts(self, table: pa.Table) -> Any:
        """How many filters accept each notification."""
        counts, _ = self._scan(table)
        return counts

    def found(self, table: pa.Table, keys_below: int) -> list[tuple[int, int]]:
        """The (row, key) pairs that match, of the keys below a bound."""
        pairs: list[tuple[int, int]] = []
        for row in range(table.num_rows):
            counts, found = self._scan(table.slice(row, 1))
            pairs += [(row, key) for key in found[: counts[0]].tolist() if key < keys_below]
        return pairs

    def memory(self) -> int:
        """The bytes of the filed words."""
        return int(self._words.nbytes + self._starts.nbytes)

    def _add(self, filter: Filter) -> None:
        places: dict[str, int] = {}
        for constraint in filter.constraints:
            if constraint.attribute not in places:
                places[constraint.attribute] = self._room(constraint.attribute)
            self._narrow(places[constraint.attribute], constraint)
        if not places:
            raise InvalidInputError("the pivot scan has no place for a filter without constraints")
        self._of_filter.append(len(self._attribute))

    def _room(self, name: str) -> int:
        known = self._attributes.get(name)
        if known is None:
            known = self._attributes[name] = _Attribute(len(self._attributes))
        self._attribute.append(known.number)
        for bounds, limit in zip(self._bounds, (-np.inf, np.inf), strict=True):
            bounds.append(limit)
        for is_open in self._open:
            is_open.append(0)
        return len(self._attribute) - 1

    def _narrow(self, place: int, constraint: Constraint) -> None:
        number = self._attributes[constraint.attribute].number_of(constraint)
        sides = ((0, _LOW, 1), (1, _HIGH, -1))
        for side, operators, sign in sides:
            if constraint.operator in operators:
                bound = (sign * number, operators[constraint.operator])
                before = (sign * self._bounds[side][place], bool(self._open[side][place]))
                if bound > before:
                    self._bounds[side][place] = number
                    self._open[side][place] = operators[constraint.operator]

    def _starts_of_filters(self) -> Any:
        return np.frombuffer(self._of_filter, np.int64)

    def _file(
        self, starts: Any, attributes: Any, lows: Any, highs: Any, first: Any, last: Any
    ) -> None:
        sizes = self._sizes(starts, attributes, lows, highs, first, last)
        while 4 * int(sizes.sum()) > self._bytes_max and self.cells > CELLS_MIN:
            self.cells //= 2
            first, last = first // 2, last // 2
            sizes = self._sizes(starts, attributes, lows, highs, first, last)
        total = 4 * int(sizes.sum())
        if total > self._bytes_max:
            raise LimitError(
                f"the pivot scan would need {total >> 20} MB for these subscriptions: their ranges "
                "are too wide for it; give it fewer, or leave it out",
                limit="bytes of the pivot scan",
                maximum=self._bytes_max,
            )
        self._starts = np.concatenate(([0], np.cumsum(sizes)))
        self._words = np.empty(max(1, total // 4), np.int32)
        given = (starts, attributes, lows, highs, first, last, self.cells)
        kernels.file_filters(*given, self._starts[:-1].copy(), self._words)

    def _sizes(
        self, starts: Any, attributes: Any, lows: Any, highs: Any, first: Any, last: Any
    ) -> Any:
        """How many words each cell takes."""
        sizes = np.zeros(len(self._attributes) * self.cells, np.int64)
        given = (starts, attributes, lows, highs, first, last, self.cells)
        kernels.file_filters(*given, sizes, np.empty(0, np.int32))
        return sizes

    def _scan(self, table: pa.Table) -> tuple[Any, Any]:
        rows = table.num_rows
        ranks = np.full((rows, len(self._attributes)), -1, np.int32)
        cells = np.zeros((rows, len(self._attributes)), np.int64)
        for name, attribute in self._attributes.items():
            values = attribute.values(table, name)
            ranks[:, attribute.number] = attribute.ranks(values)
            place = attribute.cells(values) * self.cells // CELLS
            cells[:, attribute.number] = attribute.number * self.cells + place
        counts, found = np.zeros(rows, np.int64), np.empty(max(1, len(self)), np.int32)
        kernels.scan(self._words, self._starts, ranks, cells, counts, found)
        return counts, found


class _Attribute:
    """The bounds asked of one attribute, and how its values compare with them."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._texts: dict[str, int] = {}
        self._has_numbers = False
        self._points = np.empty(0)
        self._low, self._width = 0.0, 1.0

    def number_of(self, constraint: Constraint) -> float:
        """The number that stands for the operand."""
        operand = constraint.operand
        if type(operand) is str and constraint.operator is Operator.EQ:
            number = float(self._texts.setdefault(operand, len(self._texts)))
        elif type(operand) in (int, float) and constraint.operator in {**_LOW, **_HIGH}:
            number = float(operand)  # type: ignore[arg-type]
            self._has_numbers = True
        else:
            raise InvalidInputError(
                f"the pivot scan takes equalities and ranges of numbers, not {constraint}"
            )
        if self._texts and self._has_numbers:
            raise InvalidInputError(
                f"the pivot scan takes texts or numbers of {constraint.attribute}, not both"
            )
        return number

    def values(self, table: pa.Table, name: str) -> Any:
        """The numbers that stand for a table's values, NaN where there is none."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if name not in table.column_names:
            return np.full(table.num_rows, np.nan)
        column = table[name].combine_chunks()
        if not self._texts:
            return column.cast(pa.float64()).to_numpy(zero_copy_only=False)
        if not pa.types.is_dictionary(column.type):
            column = pc.dictionary_encode(column)
        texts = column.dictionary.to_pylist()
        numbers = np.array([self._texts.get(text, -1) for text in texts] + [np.nan], np.float64)
        return numbers[column.indices.fill_null(len(texts)).to_numpy()]

    def learn(self, values: Any, low: Any, high: Any) -> None:
        """Take the bounds in: ranks and cells are by what they and these values are."""
        bounds = np.concatenate((low, high))
        self._points = np.unique(bounds[np.isfinite(bounds)])
        known = np.concatenate((self._points, values[np.isfinite(values)]))
        self._low = float(known.min()) if known.shape[0] else 0.0
        span = float(known.max()) - self._low if known.shape[0] else 0.0
        self._width = (span or 1.0) * (1 + 1e-9) / CELLS

    def ranks(self, values: Any) -> Any:
        """Twice how many bounds are below a value, one more for a bound itself; -1 for none."""
        if not self._points.shape[0]:
            return np.where(np.isnan(values), -1, 0).astype(np.int32)
        below = np.searchsorted(self._points, values)
        equal = self._points[np.minimum(below, self._points.shape[0] - 1)] == values
        return np.where(np.isnan(values), -1, 2 * below + equal).astype(np.int32)

    def ranks_of(self, low: Any, high: Any, low_open: Any, high_open: Any) -> tuple[Any, Any]:
        """The ranks that values between the bounds have, the lowest and the highest."""
        lows = np.where(np.isneginf(low), 0, self.ranks(low) + low_open)
        highs = np.where(np.isposinf(high), HIGHEST, self.ranks(high) - high_open.astype(np.int32))
        return lows, highs

    def cells(self, values: Any) -> Any:
        """The cell of each value, the nearest for those beyond; 0 for NaN."""
        places = np.nan_to_num((values - self._low) / self._width, nan=0.0)
        return np.clip(places, 0, CELLS - 1).astype(np.int64)
