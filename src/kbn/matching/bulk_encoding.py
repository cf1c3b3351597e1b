"""Bulk encoding: many subscriptions to codes at once, equal to encoding them one by one.

Four ways in: subscriptions as objects, as texts, as JSON, and as lists of constraints in Arrow.
Rows of a common shape are laid out in columns (`constraint_columns.py`): texts by a kernel that
cuts them (`kernels/scanning.py`), JSON constraint by constraint (`json_columns.py`). Whatever has
another shape, or a mistake, is read one by one by the full reader, so that its meaning and its
errors are those of a single addition.

What an encoder remembers of the constraints it has met is bounded in bytes: beyond that it begins
anew with the next rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from kbn.errors import KbnError
from kbn.filters import MAX_CONSTRAINTS, BulkReader, Constraint, Filter, Near, Operator, is_range
from kbn.matching.codes import Encoder
from kbn.matching.constraint_columns import (
    TOKENS_MAX,
    Codes,
    ConstraintColumns,
    PartTable,
    encode_columns,
)
from kbn.matching.groups import Array, Groups
from kbn.matching.json_columns import Fields, Tables, is_json, laid_out
from kbn.matching.kernels.scanning import scan_texts

if TYPE_CHECKING:
    import pyarrow as pa

Read: TypeAlias = Callable[[Any], tuple[Filter, ...]]
"""Reads one row the slow way; raises what is wrong with it."""

NO_PART = -1
TEXT_MAX = 1 << 17
"""Rows with more characters than that are encoded in several runs."""
REMEMBERED_BYTES_MAX = 1 << 25
ENTRY_BYTES = 600
"""What an entry of the tables takes at least: a text, a constraint, two places in dictionaries."""


class Encoded(NamedTuple):
    """The codes of some rows: `sizes` says how many filters each has, none where `errors` has one.

    Filter i, in the order of rows, is the `order[i]`-th of all `pieces`.
    """

    pieces: tuple[Codes, ...]
    order: Array | None
    sizes: Array
    errors: dict[int, KbnError]

    def groups_in(self, groups: Groups) -> Array:
        """The group of each filter, in the order of rows; new codes make new groups."""
        found = np.concatenate([groups.intern(*piece) for piece in self.pieces])
        return found if self.order is None else found[self.order]


class BulkEncoder:
    """Encodes rows with the tables of one index; remembers the parts of texts it has met."""

    def __init__(self, encoder: Encoder, reader: BulkReader) -> None:
        """`reader` reads the parts of texts."""
        self._encoder = encoder
        self._reader = reader
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._parts = PartTable(self._encoder)
        self._part_of_text: dict[str, int] = {}
        self._axis_of_name: dict[str, int] = {}
        self._axis_of_json: dict[str, int] = {}
        self._part_of_fields: dict[Fields, int] = {}
        self._bytes = 0

    def stay_within_bounds(self) -> None:
        """Forget all parts when they take too much; only between rows, which hold their numbers."""
        if self.remembered_bytes > REMEMBERED_BYTES_MAX:
            self._begin_anew()

    @property
    def remembered_bytes(self) -> int:
        """About what the parts met so far take."""
        return self._bytes + self._parts.bytes

    def of_rows(self, rows: Iterable[Any], read: Read) -> Encoded:
        """Rows read one by one, and encoded together."""
        self.stay_within_bounds()
        columns, sizes, errors = self._laid_out(enumerate(rows), read)
        return Encoded((columns.encoded(),), None, np.array(sizes, np.int32), errors)

    def of_texts(self, texts: pa.Array, read: Read) -> Encoded:
        """Texts, cut by a kernel where they are plain; `read` gets the others."""
        self.stay_within_bounds()
        data, offsets = _text_buffers(texts)
        (starts, cut), (codes, bounds), spans = scan_texts(data, offsets)
        names, parts = (_spelled(data, part) for part in spans)
        axes = np.array([self._axis(name) for name in names] or [NO_PART], np.int64)
        numbers = np.array([self._part(text) for text in parts] or [NO_PART], np.int64)
        is_bound = codes < 0
        axis, side = axes[np.where(is_bound, ~codes >> 4, 0)], ~codes & 15
        part = numbers[np.where(is_bound, 0, codes)]
        known = np.where(is_bound, axis, part) != NO_PART
        # A code stays that of a bound, or of a part, where it is not known: its row is not kept.
        laid_out = np.where(is_bound, ~(np.maximum(axis, 0) << 4 | side), np.maximum(part, 0))
        return self.of_columns(texts, (cut, np.diff(starts)), (laid_out, bounds, known), read)

    def of_columns(
        self,
        rows: pa.Array,
        shape: tuple[Array, Array],
        columns: tuple[Array, Array, Array],
        read: Read,
    ) -> Encoded:
        """Rows laid out already; `read` gets those that are not, or whose constraints are not.

        `shape`: which rows are laid out, and how many constraints each has. `columns`: a code for
        each constraint, the bounds of ranges, and which constraints are known.
        """
        (cut, lengths), (codes, bounds, known) = shape, columns
        cut = cut & (lengths <= MAX_CONSTRAINTS)
        cut[np.repeat(np.arange(len(rows)), lengths)[~known]] = False
        kept = np.repeat(cut, lengths)
        offsets = np.concatenate(([0], np.cumsum(lengths[cut])))
        first = encode_columns(offsets, codes[kept], bounds[kept[codes < 0]], self._parts)
        return self._with_others(first, cut, rows, read)

    def _with_others(self, first: Codes, cut: Array, given: pa.Array, read: Read) -> Encoded:
        """What was cut, and the other rows read one by one, in the order of rows."""
        others = np.flatnonzero(~cut)
        rows = zip(others.tolist(), given.take(others).to_pylist(), strict=True)
        columns, found, errors = self._laid_out(rows, read)
        sizes = np.ones(len(given), np.int32)
        sizes[others] = found
        if not others.shape[0]:
            return Encoded((first,), None, sizes, errors)
        order = np.empty(int(sizes.sum()), np.int64)
        mine = np.repeat(cut, sizes)
        count = int(cut.sum())
        order[mine] = np.arange(count)
        order[~mine] = count + np.arange(len(columns))
        return Encoded((first, columns.encoded()), order, sizes, errors)

    def _laid_out(
        self, rows: Iterable[tuple[int, Any]], read: Read
    ) -> tuple[ConstraintColumns, list[int], dict[int, KbnError]]:
        columns = ConstraintColumns(self._parts)
        sizes: list[int] = []
        errors: dict[int, KbnError] = {}
        tables = Tables(self._axis_of_attribute, partial(self._part_of_json, read))
        for number, row in rows:
            size = 0
            try:
                plain = laid_out(row, tables) if is_json(row) else None
                if plain is None:
                    filters = read(row)
                    columns.add(filters)
                    size = len(filters)
                else:
                    columns.append(*plain)
                    size = 1
            except KbnError as error:
                errors[number] = error
            sizes.append(size)
        return columns, sizes, errors

    def _part(self, text: str) -> int:
        """The part that a piece of a text stands for, or NO_PART."""
        known = self._part_of_text.get(text)
        if known is None:
            known = self._part_of_text[text] = self._compiled(self._reader.part(text))
            self._bytes += ENTRY_BYTES + 2 * len(text)  # the reader remembers it, too
        return known

    def _compiled(self, constraints: Sequence[Constraint] | None) -> int:
        if constraints is None or len(constraints) != 1:
            return NO_PART
        return self.part_of(constraints[0])

    def part_of(self, constraint: Constraint) -> int:
        """The part of a constraint, or NO_PART where it cannot be one of a column."""
        if isinstance(constraint.operator, Near) and is_range(constraint.operand):
            return NO_PART  # a filter makes two of it
        try:
            number = self._parts.number(constraint)
        except KbnError:
            return NO_PART  # the row that has it says so
        return NO_PART if self._parts.tokens_of(number) > TOKENS_MAX else number

    def axis_of(self, attribute: str | None) -> int:
        """The axis of an attribute's numbers, or NO_PART where it is no name for one."""
        try:
            return self._parts.axis(Constraint(attribute, Operator.LT, 1).attribute)  # type: ignore[arg-type]
        except KbnError:
            return NO_PART

    def _axis_of_attribute(self, attribute: Any) -> int:
        """`axis_of`, remembered."""
        if attribute.__class__ is not str:
            return NO_PART
        known = self._axis_of_json.get(attribute)
        if known is None:
            known = self._axis_of_json[attribute] = self.axis_of(attribute)
            self._bytes += ENTRY_BYTES + len(attribute)
        return known

    def _part_of_json(self, read: Read, fields: Fields, constraint: dict[str, Any]) -> int:
        """The part of a constraint in JSON, or NO_PART; `read` reads it when it is new."""
        known = self._part_of_fields.get(fields)
        if known is None:
            known = self._part_of_fields[fields] = self._part_read(read, constraint)
            self._bytes += 2 * ENTRY_BYTES + sum(len(x) for x in fields if x.__class__ is str)
        return known

    def _part_read(self, read: Read, constraint: dict[str, Any]) -> int:
        try:
            (only,) = read([constraint])
        except KbnError:
            return NO_PART  # the row that has it says so
        return self._compiled(only.constraints)

    def _axis(self, name: str) -> int:
        """The axis of a name's numbers, or NO_PART where the parser takes it for something else."""
        known = self._axis_of_name.get(name)
        if known is None:
            one = self._reader.part(f"{name} < 1")
            plain = one is not None and one == (_less_than_one(name),)
            known = self._axis_of_name[name] = self._parts.axis(name) if plain else NO_PART
            self._bytes += ENTRY_BYTES + 2 * len(name)
        return known


def runs(weights: Array, most: int) -> Iterator[tuple[int, int]]:
    """Cut rows into runs that weigh at most `most`, or are one row: where each begins and ends."""
    ends = np.cumsum(weights)
    first, before = 0, 0
    while first < ends.shape[0]:
        last = max(first + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield first, last
        first, before = last, int(ends[last - 1])


def _less_than_one(name: str) -> Constraint:
    return Constraint.trusted(name, Operator.LT, 1)


def _spelled(data: Array, spans: Array) -> list[str]:
    return [data[start:end].tobytes().decode() for start, end in spans.tolist()]


def _text_buffers(texts: pa.Array) -> tuple[Array, Array]:
    """The bytes of all texts, and where each begins."""
    import pyarrow as pa

    if not len(texts):
        return np.zeros(1, np.uint8), np.zeros(1, np.int64)
    large = texts.cast(pa.large_string())
    _, offsets, data = large.buffers()
    starts = np.frombuffer(offsets, np.int64, len(large) + 1, 8 * large.offset)
    return np.frombuffer(data or b"\0", np.uint8), starts
