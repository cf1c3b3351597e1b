"""Constraint tables: subscriptions in Arrow, a row each, encoded by columns.

    key       what `Matcher.add` calls the key
    filter    a text each, or a list of structs, the constraints of a conjunction:
              attribute, op (texts, plain or dictionary-encoded), and the operand in one of
              integer (int64), number (float64), text (string), json (its JSON form, a text)

A struct has those of the operand's fields that the table needs; all of them null is no operand, as
`any` has it. A row means what `Constraint(attribute, op, operand)` and `Filter` make of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kbn.errors import InvalidInputError, KbnError
from kbn.filters import (
    Constraint,
    Filter,
    constraint_from_json,
    decode_json,
    read_operator,
)
from kbn.matching.bulk_encoding import NO_PART, TEXT_MAX, BulkEncoder, Encoded, Read, runs
from kbn.matching.constraint_columns import SIDES
from kbn.matching.groups import Array
from kbn.matching.kernels.encoding import INT
from kbn.matching.pairs import EXACT_INT_MAX

OPERANDS = {
    "integer": pa.int64(),
    "number": pa.float64(),
    "text": pa.large_string(),
    "json": pa.large_string(),
}
"""The fields of an operand, and how they are read; the first that is not null counts."""
CONSTRAINTS_MAX = 1 << 16
"""Rows with more constraints are encoded in several runs."""


class FilterColumn:
    """Reads columns of filters of one type: texts, or lists of constraints."""

    def __init__(self, kind: pa.DataType, encoder: BulkEncoder) -> None:
        self._encoder = encoder
        self._is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        if not self._is_text:
            _check_constraint_type(kind)

    def encoded(self, filters: pa.Array, read: Read) -> Iterator[Encoded]:
        """The codes of the rows, in runs that are not too long; `read` gives the filters of one."""
        weigh = pc.binary_length if self._is_text else pc.list_value_length
        weights = weigh(filters).fill_null(0).to_numpy().astype(np.int64)
        for first, last in runs(weights, TEXT_MAX if self._is_text else CONSTRAINTS_MAX):
            some = filters.slice(first, last - first)
            if self._is_text:
                yield self._encoder.of_texts(some, partial(_filters_of_text, read))
            else:
                yield self._of_lists(some, weights[first:last])

    def _of_lists(self, lists: pa.Array, lengths: Array) -> Encoded:
        self._encoder.stay_within_bounds()
        plain = pc.is_valid(lists).to_numpy(zero_copy_only=False)
        laid_out = _Columns(lists.flatten()).laid_out(self._encoder)
        return self._encoder.of_columns(lists, (plain, lengths), laid_out, _filters_of_list)


def _filters_of_text(read: Read, text: str | None) -> tuple[Filter, ...]:
    if text is None:
        raise InvalidInputError("a subscription's filter is null")
    return read(text)


def _check_constraint_type(kind: pa.DataType) -> None:
    """Raise unless lists of this type hold constraints."""
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if not is_list or not pa.types.is_struct(kind.value_type):
        raise InvalidInputError(f"filters are texts or lists of constraints, not {kind}")
    names = {field.name for field in kind.value_type}
    if not {"attribute", "op"} <= names <= {"attribute", "op", *OPERANDS}:
        raise InvalidInputError(
            f"a constraint has attribute, op and one of {', '.join(OPERANDS)}; the fields here "
            f"are {', '.join(sorted(names))}"
        )


def _filters_of_list(constraints: list[dict[str, Any]] | None) -> tuple[Filter, ...]:
    if constraints is None:
        raise InvalidInputError("a subscription's filter is null")
    return (Filter([_constraint(given) for given in constraints]),)


def _constraint(given: dict[str, Any] | None) -> Constraint:
    if given is None:
        raise InvalidInputError("a constraint is null")
    attribute, operator = given["attribute"], given["op"]
    name = next((name for name in OPERANDS if given.get(name) is not None), None)
    if name != "json":
        return Constraint(attribute, operator, None if name is None else given[name])
    operand = decode_json(given["json"])
    return constraint_from_json({"attribute": attribute, "op": operator, "value": operand})


class _Columns:
    """The constraints of many rows, field by field."""

    def __init__(self, flat: pa.Array) -> None:
        self._flat = flat
        self._valid = pc.is_valid(flat).to_numpy(zero_copy_only=False)
        fields = dict(zip((field.name for field in flat.type), flat.flatten(), strict=True))
        self._attributes, self._attribute = _numbered(fields["attribute"])
        self._operators, self._operator = _numbered(fields["op"])
        self._operands = {
            name: fields[name].cast(OPERANDS[name]) for name in OPERANDS if name in fields
        }

    def laid_out(self, encoder: BulkEncoder) -> tuple[Array, Array, Array]:
        """A code for each constraint, the bounds of ranges, and which constraints are known."""
        count = len(self._flat)
        codes = np.zeros(count, np.int64)
        numbers = np.zeros(count, np.float64)
        known, left = self._valid.copy(), self._valid.copy()
        self._lay_out_bounds(encoder, codes, numbers, left)
        is_bound = self._valid & ~left
        for column in (*self._operands.values(), None):
            mine = left
            if column is not None:
                mine = left & pc.is_valid(column).to_numpy(zero_copy_only=False)
                left = left & ~mine
            places = np.flatnonzero(mine)
            if places.shape[0]:
                found = self._number_parts(encoder, places, column)
                codes[places] = np.maximum(found, 0)
                known[places] = found != NO_PART
        return codes, numbers[is_bound], known

    def _lay_out_bounds(
        self, encoder: BulkEncoder, codes: Array, numbers: Array, left: Array
    ) -> None:
        """Lay out the plain bounds of ranges; `left` loses them."""
        sides = np.array([*map(_side, self._operators), -1], np.int64)  # the last is for null
        side = sides[self._operator]
        for name, flag in (("integer", INT), ("number", 0)):
            if name not in self._operands:
                continue
            column = self._operands[name]
            values = column.fill_null(0).to_numpy(zero_copy_only=False)
            mine = left & (side >= 0) & pc.is_valid(column).to_numpy(zero_copy_only=False)
            mine &= _are_exact(values) if flag else ~np.isnan(values)
            axes = np.full(len(self._attributes) + 1, NO_PART, np.int64)
            for number in np.unique(
                self._attribute[mine & (self._attribute < len(self._attributes))]
            ).tolist():
                axes[number] = encoder.axis_of(self._attributes[number])
            mine &= axes[self._attribute] != NO_PART
            codes[mine] = ~(axes[self._attribute[mine]] << 4 | side[mine] | flag)
            numbers[mine] = values[mine] + 0.0
            left &= ~mine

    def _number_parts(self, encoder: BulkEncoder, places: Array, column: pa.Array | None) -> Array:
        """The parts of the constraints at these places, each distinct one compiled once."""
        operands, operand = ([None], 0) if column is None else _numbered(column.take(places))
        pair = self._attribute[places] * (len(self._operators) + 1) + self._operator[places]
        names = pair * (len(operands) + 1) + operand
        _, firsts, which = np.unique(names, return_index=True, return_inverse=True)
        found = [self._part(encoder, row) for row in places[firsts].tolist()]
        return np.array(found, np.int64)[which]

    def _part(self, encoder: BulkEncoder, row: int) -> int:
        try:
            constraint = _constraint(self._flat[row].as_py())
        except KbnError:
            return NO_PART  # the row that has it says so
        return encoder.part_of(constraint)


def _are_exact(values: Array) -> Array:
    """Which integers float64 holds."""
    within: Array = (values >= -EXACT_INT_MAX) & (values <= EXACT_INT_MAX)
    return within


def _numbered(column: pa.Array) -> tuple[list[Any], Array]:
    """The distinct values of a column, and which of them each row has; null is one more."""
    if not pa.types.is_dictionary(column.type):
        column = pc.dictionary_encode(column)
    values = column.dictionary.to_pylist()
    return values, column.indices.fill_null(len(values)).to_numpy().astype(np.int64)


def _side(symbol: object) -> int:
    """The side of a bound with this operator, -1 when it is no order."""
    try:
        return SIDES.get(read_operator(symbol), -1)
    except KbnError:
        return -1
