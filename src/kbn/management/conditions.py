"""Conditions of policies: CEL expressions, checked when they are read, asked of whole columns.

The Common Expression Language is parsed by celpy. Here the tree is checked against the schema
(names, types) and compiled to nodes over NumPy columns, so that a condition over a million objects
takes milliseconds. Variables are the object under the name of its kind, `overlay` and `now`:

    overlay.brokers >= 2 && subscriber.mean_hops > 1.5 && !('settled' in subscriber.marks)

By whole columns go: && || ! ?: == != < <= > >= + - * / %, `in [...]`, `'x' in subscriber.marks`,
has(), double(), startsWith, endsWith and contains. Whole numbers and those with fractions may be
compared, as CEL has it; to calculate with both, say double(x). An empty field is '' or 0, and has()
tells it from others. What else CEL knows (lists and maps, size(), matches() …) is asked of objects
one by one, by celpy itself, and only of those that the rest of the condition leaves open.
"""

from __future__ import annotations

import numpy as np

from kbn.management.condition_compiler import LENGTH_MAX, Compiler, ConditionError
from kbn.management.expressions import Expression, Rows
from kbn.management.schema import Kind
from kbn.management.table import Array

__all__ = ["LENGTH_MAX", "Condition", "ConditionError", "Quantity"]


class Condition:
    """Whether something holds for an object of a kind; with no kind, for the overlay.

    >>> Condition.parse("subscriber.mean_hop > 1.5", "subscriber")
    Traceback (most recent call last):
    kbn.management.condition_compiler.ConditionError: line 1, column 12: a subscriber has no field
    'mean_hop'; did you mean 'mean_hops'?
      subscriber.mean_hop > 1.5
                 ^
    """

    def __init__(self, text: str, kind: Kind | None, expression: Expression, reads: bool) -> None:
        self.text = text
        self.kind = kind
        self.reads_object = reads
        self._expression = expression

    @classmethod
    def parse(cls, text: str, kind: Kind | None) -> Condition:
        compiler = Compiler(text, kind)
        return cls(text, kind, compiler.condition(), compiler.reads_object)

    @property
    def is_slow(self) -> bool:
        """Whether some of it is asked of objects one by one."""
        return self._expression.slow

    def holds(self, rows: Rows) -> Array:
        """For which rows it does, as a mask."""
        values, bad = self._expression.evaluate(rows)
        if bad is not None:
            values = values & ~bad
        return values if len(values) == len(rows) else np.broadcast_to(values, len(rows))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Condition):
            return NotImplemented
        return (self.text, self.kind) == (other.text, other.kind)

    def __hash__(self) -> int:
        return hash((self.text, self.kind))

    def __repr__(self) -> str:
        return f"Condition({self.text!r})"


class Quantity:
    """A number that an expression gives for each object."""

    def __init__(self, text: str, kind: Kind, expression: Expression) -> None:
        self.text = text
        self.kind = kind
        self._expression = expression

    @classmethod
    def parse(cls, text: str, kind: Kind) -> Quantity:
        return cls(text, kind, Compiler(text, kind).quantity())

    def values(self, rows: Rows) -> Array:
        """By rows, as floats; NaN where there is no value."""
        values, bad = self._expression.evaluate(rows)
        numbers = values.astype(np.float64)
        if bad is not None:
            numbers = np.where(bad, np.nan, numbers)
        return np.broadcast_to(numbers, len(rows))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Quantity):
            return NotImplemented
        return (self.text, self.kind) == (other.text, other.kind)

    def __hash__(self) -> int:
        return hash((self.text, self.kind))
