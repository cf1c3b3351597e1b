"""What conditions are compiled to: small nodes that answer for all rows of a table at once.

A node gives its values and where they are *bad*, in arrays of one place (a constant) or as many as
there are rows. Bad is what CEL calls an error: a division by zero, an overflow. As in CEL, `false
&& bad` is false and `true || bad` is true, whichever side is which; otherwise bad spreads, and a
condition that is bad does not hold.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import repeat
from typing import Any, TypeAlias

import numpy as np

from kbn.errors import LimitError
from kbn.management.schema import FieldType
from kbn.management.table import Array, Table

Found: TypeAlias = tuple[Array, Array | None]  # values, and where they are bad; None: nowhere


class Type(StrEnum):
    """The types of CEL that are worked on by whole columns; the values are how we call them."""

    BOOL = "true or false"
    INT = "a whole number"
    DOUBLE = "a number with a fraction"
    TEXT = "a text"
    MARKS = "a set of marks"


@dataclass(frozen=True, slots=True)
class Overlay:
    """How many of each there are: what a condition may ask of the overlay as a whole."""

    brokers: int = 0
    subscribers: int = 0
    publishers: int = 0
    clusters: int = 0


class Rows:
    """Some objects of a table and the moment: what an expression is asked about.

    Without a table there is one row without fields: the overlay itself.
    """

    def __init__(
        self, table: Table | None, which: slice | Array, now: float, overlay: Overlay
    ) -> None:
        self._table = table
        self._which = which
        self.now = now
        self.overlay = overlay

    def __len__(self) -> int:
        if self._table is None:
            return 1
        if isinstance(self._which, slice):
            return int(self._which.stop - self._which.start)
        return len(self._which)

    @property
    def table(self) -> Table:
        assert self._table is not None, "asked for the fields of an object, and there is none"
        return self._table

    @property
    def names(self) -> Array:
        return self.table.names[self._which]

    def column(self, field: str) -> Array:
        return self.table.column(field)[self._which]

    def indices(self) -> Array:
        """The places of these rows in their table."""
        if isinstance(self._which, slice):
            return np.arange(self._which.start, self._which.stop)
        return self._which

    def subset(self, wanted: Array) -> Rows:
        """Those for which `wanted` is true."""
        if self._table is None:
            return self
        return Rows(self._table, self.indices()[wanted], self.now, self.overlay)


class Expression(ABC):
    """A node; `slow` when somewhere below it rows are asked one by one."""

    type: Type
    slow: bool = False

    @abstractmethod
    def evaluate(self, rows: Rows) -> Found: ...


class Constant(Expression):
    def __init__(self, type: Type, value: bool | int | float | str) -> None:
        self.type = type
        self.value = value
        kept: Any = object if type is Type.TEXT else None
        self._values: Array = np.array([value], dtype=kept)

    def evaluate(self, rows: Rows) -> Found:
        return self._values, None


class Now(Expression):
    type = Type.DOUBLE

    def evaluate(self, rows: Rows) -> Found:
        return np.array([rows.now], dtype=np.float64), None


class OverlayCount(Expression):
    type = Type.INT

    def __init__(self, name: str) -> None:
        self._name = name

    def evaluate(self, rows: Rows) -> Found:
        return np.array([getattr(rows.overlay, self._name)], dtype=np.int64), None


class NameField(Expression):
    type = Type.TEXT

    def evaluate(self, rows: Rows) -> Found:
        return rows.names, None


class NumericField(Expression):
    def __init__(self, field: str, type: Type) -> None:
        self.type = type
        self._field = field

    def evaluate(self, rows: Rows) -> Found:
        return rows.column(self._field), None


class TextField(Expression):
    """A text that is interned: what compares it may do so by code."""

    type = Type.TEXT

    def __init__(self, field: str) -> None:
        self._field = field

    def codes(self, rows: Rows) -> Array:
        return rows.column(self._field)

    def evaluate(self, rows: Rows) -> Found:
        codes = self.codes(rows)
        texts = rows.table.pool.texts
        if len(codes) < len(texts):
            return _objects([texts[code] for code in codes.tolist()]), None
        return _objects(texts)[codes], None


class MarksField(Expression):
    type = Type.MARKS

    def evaluate(self, rows: Rows) -> Found:
        return rows.column("marks"), None


class HasMark(Expression):
    """`'x' in subscriber.marks`."""

    type = Type.BOOL

    def __init__(self, mark: str) -> None:
        self._mark = mark

    def evaluate(self, rows: Rows) -> Found:
        bit = rows.table.marks.bit(self._mark)
        if bit is None:
            return np.zeros(1, dtype=bool), None
        return (rows.column("marks") & np.uint64(1 << bit)) != 0, None


class Has(Expression):
    """`has(subscriber.medoid)`: the field is not empty."""

    type = Type.BOOL

    def __init__(self, field: str) -> None:
        self._field = field

    def evaluate(self, rows: Rows) -> Found:
        # Nothing kept is a zero in every column: no text, no number, no mark, no JSON.
        return np.asarray(rows.column(self._field) != 0, dtype=bool), None


class Not(Expression):
    type = Type.BOOL

    def __init__(self, operand: Expression) -> None:
        self._operand = operand
        self.slow = operand.slow

    def evaluate(self, rows: Rows) -> Found:
        values, bad = self._operand.evaluate(rows)
        return ~values, bad


class Junction(Expression):
    """`&&` or `||` of any number of operands; `decisive` is the value that decides it alone.

    Those that ask rows one by one come last, and only for rows that are not decided by then.
    """

    type = Type.BOOL

    def __init__(self, operands: Sequence[Expression], *, decisive: bool) -> None:
        self._operands = sorted(operands, key=lambda operand: operand.slow)
        self._decisive = decisive
        self.slow = any(operand.slow for operand in operands)

    def evaluate(self, rows: Rows) -> Found:
        decided = np.zeros(len(rows), dtype=bool)
        bad: Array | None = None
        for operand in self._operands:
            if len(rows) == 1 and decided[0]:
                break  # as when a report is asked about
            if not operand.slow:
                hit, wrong = self._ask(operand, rows)
                decided |= hit
                bad = _either(bad, wrong)
            elif not decided.all():
                open = ~decided
                hit, wrong = self._ask(operand, rows.subset(open))
                decided[open] |= hit
                bad = _either(bad, _spread(wrong, open))
        return decided if self._decisive else ~decided, None if bad is None else bad & ~decided

    def _ask(self, operand: Expression, rows: Rows) -> Found:
        """Where it is decisive, and where bad."""
        values, bad = operand.evaluate(rows)
        hit = values if self._decisive else ~values
        return (hit, None) if bad is None else (hit & ~bad, bad)


class Ternary(Expression):
    def __init__(self, condition: Expression, then: Expression, otherwise: Expression) -> None:
        self.type = then.type
        self._condition, self._then, self._otherwise = condition, then, otherwise
        self.slow = condition.slow or then.slow or otherwise.slow

    def evaluate(self, rows: Rows) -> Found:
        holds, bad = self._condition.evaluate(rows)
        then, then_bad = self._then.evaluate(rows)
        otherwise, otherwise_bad = self._otherwise.evaluate(rows)
        values = np.where(holds, then, otherwise)
        nowhere = np.zeros(1, dtype=bool)
        branch_bad = np.where(
            holds,
            nowhere if then_bad is None else then_bad,
            nowhere if otherwise_bad is None else otherwise_bad,
        )
        return values, branch_bad if bad is None else branch_bad | bad


COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Comparison(Expression):
    """Of two numbers, or of two truth values."""

    type = Type.BOOL

    def __init__(self, symbol: str, left: Expression, right: Expression) -> None:
        self._compare = COMPARISONS[symbol]
        self._left, self._right = left, right
        self.slow = left.slow or right.slow

    def evaluate(self, rows: Rows) -> Found:
        left, left_bad = self._left.evaluate(rows)
        right, right_bad = self._right.evaluate(rows)
        return self._compare(left, right), _either(left_bad, right_bad)


class TextTest(Expression):
    """Any question about two texts: a comparison, startsWith …

    An interned field against a constant is asked once of each text there is, where that is less
    work than once of each row.
    """

    type = Type.BOOL

    def __init__(
        self, test: Callable[[str, str], bool], left: Expression, right: Expression
    ) -> None:
        self._test = test
        self._left, self._right = left, right
        self.slow = left.slow or right.slow

    def evaluate(self, rows: Rows) -> Found:
        left, right = self._left, self._right
        if isinstance(left, TextField) and isinstance(right, TextField | Constant):
            answered = self._by_code(left, right, rows)
            if answered is not None:
                return answered, None
        texts, bad = left.evaluate(rows)
        others, others_bad = right.evaluate(rows)
        return self._one_by_one(texts, others), _either(bad, others_bad)

    def _by_code(self, left: TextField, right: TextField | Constant, rows: Rows) -> Array | None:
        pool = rows.table.pool
        if self._test in (operator.eq, operator.ne):
            other: Any = (
                pool.find(str(right.value)) if isinstance(right, Constant) else right.codes(rows)
            )
            compared: Array = self._test(left.codes(rows), other)
            return compared
        if isinstance(right, TextField) or len(rows) < len(pool):
            return None
        constant = str(right.value)
        return self._one_by_one(_objects(pool.texts), _objects([constant]))[left.codes(rows)]

    def _one_by_one(self, texts: Array, others: Array) -> Array:
        count = len(others) if len(texts) == 1 else len(texts)
        left = repeat(texts[0], count) if len(texts) == 1 else texts.tolist()
        right = repeat(others[0], count) if len(others) == 1 else others.tolist()
        return np.fromiter(map(self._test, left, right), dtype=bool, count=count)


class Negation(Expression):
    def __init__(self, operand: Expression) -> None:
        self.type = operand.type
        self._operand = operand

    def evaluate(self, rows: Rows) -> Found:
        values, bad = self._operand.evaluate(rows)
        if self.type is Type.INT:
            bad = _either(bad, values == np.iinfo(np.int64).min)
        return -values, bad


class ToDouble(Expression):
    """`double(…)` of a number."""

    type = Type.DOUBLE

    def __init__(self, operand: Expression) -> None:
        self._operand = operand

    def evaluate(self, rows: Rows) -> Found:
        values, bad = self._operand.evaluate(rows)
        return values.astype(np.float64), bad


class Arithmetic(Expression):
    """`+ - * / %` of two whole numbers, or (but for `%`) of two with fractions."""

    def __init__(self, symbol: str, left: Expression, right: Expression) -> None:
        self.type = left.type
        self._left, self._right = left, right
        self._calculate = (_WHOLE if self.type is Type.INT else _FRACTIONS)[symbol]

    def evaluate(self, rows: Rows) -> Found:
        left, left_bad = self._left.evaluate(rows)
        right, right_bad = self._right.evaluate(rows)
        with np.errstate(all="ignore"):
            values, bad = self._calculate(left, right)
        return values, _either(bad, _either(left_bad, right_bad))


def _add(left: Array, right: Array) -> Found:
    total = left + right
    return total, ((left ^ total) & (right ^ total)) < 0


def _subtract(left: Array, right: Array) -> Found:
    difference = left - right
    return difference, ((left ^ right) & (left ^ difference)) < 0


def _multiply(left: Array, right: Array) -> Found:
    product = left * right
    divisor = np.where(left == 0, 1, left)
    lowest = np.iinfo(np.int64).min
    over = ((product // divisor != right) & (left != 0)) | ((left == -1) & (right == lowest))
    return product, over


def _divide(left: Array, right: Array) -> Found:
    """Towards zero, as in CEL; NumPy's own goes down."""
    bad = (right == 0) | ((left == np.iinfo(np.int64).min) & (right == -1))
    divisor = np.where(bad, 1, right)
    down = left // divisor
    inexact = down * divisor != left
    return down + (inexact & ((left < 0) != (divisor < 0))), bad


def _remainder(left: Array, right: Array) -> Found:
    quotient, _ = _divide(left, right)
    # The least number has the remainder 0 by -1, though its quotient is too large.
    values = np.where((right == 0) | (right == -1), 0, left - quotient * right)
    return values, right == 0


_WHOLE: dict[str, Callable[[Array, Array], Found]] = {
    "+": _add,
    "-": _subtract,
    "*": _multiply,
    "/": _divide,
    "%": _remainder,
}
_FRACTIONS: dict[str, Callable[[Array, Array], Found]] = {
    "+": lambda left, right: (left + right, None),
    "-": lambda left, right: (left - right, None),
    "*": lambda left, right: (left * right, None),
    "/": lambda left, right: (left / right, None),
}


class RowByRow(Expression):
    """What cannot be asked of whole columns, asked of each object in turn.

    `ask` gives True or False, or None for bad. Slow: some hundreds of microseconds an object, so
    that the number of them is bounded.
    """

    ROWS_MAX = 5_000

    type = Type.BOOL
    slow = True

    def __init__(self, ask: Callable[[Rows, int], bool | None], text: str) -> None:
        self._ask = ask
        self._text = text

    def evaluate(self, rows: Rows) -> Found:
        if len(rows) > self.ROWS_MAX:
            raise LimitError(
                f"`{self._text}` is asked of objects one by one, and there are {len(rows)}; join "
                f"it with && to a condition on plain fields that leaves {self.ROWS_MAX} or fewer",
                limit="objects asked one by one",
                maximum=self.ROWS_MAX,
            )
        answers = [self._ask(rows, row) for row in rows.indices().tolist()] if len(rows) else []
        values = np.array([answer is True for answer in answers], dtype=bool)
        return values, np.array([answer is None for answer in answers], dtype=bool)


NUMERIC_TYPES = {FieldType.COUNT: Type.INT, FieldType.NUMBER: Type.DOUBLE}


def _either(one: Array | None, other: Array | None) -> Array | None:
    if one is None or other is None:
        return other if one is None else one
    return one | other


def _spread(some: Array | None, where: Array) -> Array | None:
    """Answers for some rows, in their places among all."""
    if some is None:
        return None
    spread = np.zeros(len(where), dtype=bool)
    spread[where] = some
    return spread


def _objects(texts: Sequence[str]) -> Array:
    made: Array = np.empty(len(texts), dtype=object)
    made[:] = texts
    return made
