"""All managed objects of one kind, by columns: what a condition over a million of them needs.

A field is one NumPy array over all objects, the first `len(table)` places of it in use; arrays
double when they are full. Texts that many objects share (brokers, medoids) are interned: the array
holds their codes. Lists and maps, which conditions seldom touch, are kept as JSON. Marks are bits.
A removed object's place is taken by the last one, so that there are never gaps.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from sys import getsizeof
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import structs

from kbn.errors import InvalidInputError, LimitError
from kbn.management.schema import FIELDS, FieldType, Kind

Array = npt.NDArray[Any]

MARKS_MAX = 64
COUNT_MAX = 2**63 - 1
_FIRST_CAPACITY = 16
_DTYPES: Mapping[FieldType, Any] = {
    FieldType.TEXT: np.int32,
    FieldType.COUNT: np.int64,
    FieldType.NUMBER: np.float64,
    FieldType.MARKS: np.uint64,
    FieldType.LIST: object,
    FieldType.MAP: object,
}
_EMPTY_JSON = {FieldType.LIST: "[]", FieldType.MAP: "{}"}


class Pool:
    """Texts and their codes; '' is 0. A text once in it stays: they are names, and few."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {"": 0}
        self.texts: list[str] = [""]

    def __len__(self) -> int:
        return len(self.texts)

    def code(self, text: str) -> int:
        found = self._codes.get(text)
        if found is None:
            found = self._codes[text] = len(self.texts)
            self.texts.append(text)
        return found

    def codes(self, texts: Sequence[str]) -> list[int]:
        """The codes of many texts."""
        codes = self._codes
        for text in dict.fromkeys(texts):
            if text not in codes:
                self.code(check_text(text))
        return [codes[text] for text in texts]

    def find(self, text: str) -> int:
        """The code of a text, or -1 when no object ever had it."""
        return self._codes.get(text, -1)


class MarkNames:
    """The bit of each mark."""

    def __init__(self) -> None:
        self._names: list[str | None] = []

    def bit(self, mark: str) -> int | None:
        return self._names.index(mark) if mark in self._names else None

    def add(self, mark: str, bits_in_use: Callable[[], int]) -> int:
        """The bit of a mark, a new one if need be, or one that no object carries any more."""
        found = self.bit(mark)
        if found is not None:
            return found
        if len(self._names) < MARKS_MAX:
            self._names.append(mark)
            return len(self._names) - 1
        in_use = bits_in_use()
        free = next((bit for bit in range(MARKS_MAX) if not in_use >> bit & 1), None)
        if free is None:
            raise LimitError(
                f"{mark!r}: objects carry {MARKS_MAX} marks already, and there can be no more; "
                "unmark some",
                limit="marks",
                maximum=MARKS_MAX,
            )
        self._names[free] = mark
        return free

    def names(self, bits: int) -> frozenset[str]:
        return frozenset(
            name for bit, name in enumerate(self._names) if name is not None and bits >> bit & 1
        )


class Table:
    """The objects of one kind. Rows are places, which change as objects go; names stay."""

    def __init__(self, kind: Kind, pool: Pool, marks: MarkNames) -> None:
        self.kind = kind
        self.fields = FIELDS[kind]
        self.pool = pool
        self.marks = marks
        self.rows: dict[str, int] = {}
        self._names: Array = np.empty(_FIRST_CAPACITY, dtype=object)
        self._columns: dict[str, Array] = {
            name: np.zeros(_FIRST_CAPACITY, dtype=_DTYPES[type])
            for name, type in self.fields.items()
        }

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def names(self) -> Array:
        """Names by row. To look at, not to change."""
        return self._names[: len(self)]

    def column(self, field: str) -> Array:
        """A field as it is kept, by row. To look at, not to change."""
        return self._columns[field][: len(self)]

    def add(self, name: str) -> int:
        """A row for a name that has none yet, all its fields empty."""
        check_name(name)
        row = len(self.rows)
        if row == len(self._names):
            self._grow(2 * row)
        for column in self._columns.values():
            column[row] = 0
        self._names[row] = name
        self.rows[name] = row
        return row

    def remove(self, name: str) -> None:
        row, last = self.rows.pop(name), len(self.rows)
        for column in self._columns.values():
            column[row] = column[last]
        moved = self._names[last]
        self._names[row], self._names[last] = moved, None
        if moved != name:
            self.rows[moved] = row

    def put(self, row: int, values: Mapping[str, Any]) -> None:
        """Set fields of one object; refused as a whole when one value cannot be kept."""
        kept = {field: self._kept(field, value) for field, value in values.items()}
        for field, value in kept.items():
            self._columns[field][row] = value

    def get(self, row: int, field: str) -> Any:
        """A field as a Python value."""
        return self._value(field, self._columns[field][row])

    def set_bits(self, rows: Array | int, bit: int, wanted: bool) -> None:
        mask = np.uint64(1 << bit)
        if wanted:
            self._columns["marks"][rows] |= mask
        else:
            self._columns["marks"][rows] &= ~mask

    def bits_in_use(self) -> int:
        return int(np.bitwise_or.reduce(self.column("marks"), initial=np.uint64(0)))

    # By many rows at once, for the file.

    def taken(self, field: str, rows: Array) -> list[Any]:
        """A field of many objects as the file keeps it: texts, numbers, JSON."""
        values: list[Any] = self._columns[field][rows].tolist()
        match self.fields[field]:
            case FieldType.TEXT:
                texts = self.pool.texts
                return [texts[code] for code in values]
            case FieldType.MARKS:
                return [_marks_json(self.marks.names(bits)) if bits else "" for bits in values]
            case FieldType.LIST | FieldType.MAP:
                return [value or "" for value in values]
            case _:
                return values

    def extend(self, names: list[str], columns: Mapping[str, Sequence[Any]]) -> None:
        """Add many objects, from what `taken` gave."""
        start, end = len(self.rows), len(self.rows) + len(names)
        if end > len(self._names):
            self._grow(max(end, 2 * len(self._names)))
        self._names[start:end] = names
        self.rows.update(zip(names, range(start, end), strict=True))
        if len(self.rows) != end:
            raise ValueError("a name occurs twice")
        for field, values in columns.items():
            self._columns[field][start:end] = self._restored(field, values)

    def _restored(self, field: str, values: Sequence[Any]) -> Any:
        match self.fields[field]:
            case FieldType.TEXT:
                return self.pool.codes(values)
            case FieldType.MARKS:
                known = {"": 0}
                return [
                    known[text] if text in known else known.setdefault(text, self._bits(text))
                    for text in values
                ]
            case FieldType.LIST | FieldType.MAP:
                return np.array([text or 0 for text in values], dtype=object)
            case _:
                return values

    def _bits(self, marks_json: str) -> int:
        # Objects carried no more marks than there can be, so none needs another's bit.
        all_in_use = 2**MARKS_MAX - 1
        return sum(1 << self.marks.add(mark, lambda: all_in_use) for mark in json.loads(marks_json))

    def _grow(self, capacity: int) -> None:
        self._names = _grown(self._names, capacity)
        for field, column in self._columns.items():
            self._columns[field] = _grown(column, capacity)

    def _kept(self, field: str, value: Any) -> Any:
        match self.fields[field]:
            case FieldType.TEXT:
                return self.pool.code("" if value is None else check_text(value))
            case FieldType.COUNT:
                return _count(field, value)
            case FieldType.NUMBER:
                return _number(field, value)
            case _:
                return _json(field, value) if value else 0

    def _value(self, field: str, kept: Any) -> Any:
        match self.fields[field]:
            case FieldType.TEXT:
                return self.pool.texts[kept]
            case FieldType.COUNT:
                return int(kept)
            case FieldType.NUMBER:
                return float(kept)
            case FieldType.MARKS:
                return self.marks.names(int(kept))
            case FieldType.LIST:
                return json.loads(kept) if kept else []
            case FieldType.MAP:
                return _map(field, kept) if kept else {}

    def size_bytes(self) -> int:
        """How much memory the objects take: columns, names and their places, lists and maps."""
        kept = sum(column.nbytes for column in self._columns.values()) + self._names.nbytes
        texts = [*self.rows, *self._long_values()]
        return kept + getsizeof(self.rows) + sum(map(getsizeof, texts))

    def _long_values(self) -> list[str]:
        long = [name for name in self.fields if self._columns[name].dtype == object]
        return [value for name in long for value in self.column(name) if value]

    def check_invariants(self) -> None:
        assert len(self.rows) <= len(self._names)
        for name, row in self.rows.items():
            assert 0 <= row < len(self.rows) and self._names[row] == name
        for field, column in self._columns.items():
            assert len(column) == len(self._names), field


def check_name(name: str) -> None:
    if not isinstance(name, str) or not name:
        raise InvalidInputError(f"an object of the MIB has a name, and {name!r} is none")
    check_text(name)


def check_text(text: Any) -> str:
    if not isinstance(text, str):
        raise InvalidInputError(f"expected a text, not {text!r}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInputError(f"{text!r} is not valid Unicode text") from None
    return text


def _count(field: str, value: Any) -> int:
    if not isinstance(value, int) or not 0 <= value <= COUNT_MAX:
        raise InvalidInputError(f"{field} counts something, and cannot be {value!r}")
    return int(value)


def _number(field: str, value: Any) -> float:
    if not isinstance(value, int | float) or not -1e300 < value < 1e300:
        raise InvalidInputError(f"{field} is a finite number, and cannot be {value!r}")
    return float(value)


def _json(field: str, value: Any) -> str:
    try:
        return json.dumps(value, allow_nan=False, default=structs.asdict)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{field} cannot be kept: {error}") from None


def _map(field: str, kept: str) -> dict[Any, int]:
    """JSON's keys are texts; a histogram's are hops."""
    read = json.loads(kept)
    return {int(key): value for key, value in read.items()} if field == "histogram" else read


@lru_cache(maxsize=1024)
def _marks_json(marks: frozenset[str]) -> str:
    return json.dumps(sorted(marks), ensure_ascii=False)


def _grown(column: Array, capacity: int) -> Array:
    grown: Array = np.zeros(capacity, dtype=column.dtype)
    grown[: len(column)] = column
    return grown
