"""From CEL's syntax tree to expressions over columns, with every name and type checked on the way.

The grammar nests an expression in a node for each level of precedence; most have a single child and
say nothing. What is CEL, but cannot be asked of whole columns, raises `_BeyondColumns`; the nearest
part above it that is true or false is then asked of objects one by one instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from kbn.config import did_you_mean
from kbn.errors import InvalidInputError
from kbn.management.expressions import (
    COMPARISONS,
    NUMERIC_TYPES,
    Arithmetic,
    Comparison,
    Constant,
    Expression,
    Has,
    HasMark,
    Junction,
    MarksField,
    NameField,
    Negation,
    Not,
    Now,
    NumericField,
    OverlayCount,
    RowByRow,
    Ternary,
    TextField,
    TextTest,
    ToDouble,
    Type,
)
from kbn.management.row_by_row import (
    ask_one,
    check_names,
    constant,
    syntax_tree,
    without_has,
)
from kbn.management.schema import FIELDS, OVERLAY, FieldType, Kind

if TYPE_CHECKING:
    from lark import Tree

LENGTH_MAX = 4_000

_TESTS: dict[str, Callable[[str, str], bool]] = {
    "startsWith": str.startswith,
    "endsWith": str.endswith,
    "contains": str.__contains__,
}
_RELATIONS = {
    "relation_eq": "==",
    "relation_ne": "!=",
    "relation_lt": "<",
    "relation_le": "<=",
    "relation_gt": ">",
    "relation_ge": ">=",
}
_CALCULATIONS = {
    "addition_add": "+",
    "addition_sub": "-",
    "multiplication_mul": "*",
    "multiplication_div": "/",
    "multiplication_mod": "%",
}
_NUMBERS = (Type.INT, Type.DOUBLE)


class ConditionError(InvalidInputError):
    """An expression that cannot be asked: `reason`, and where in `text`; both count from 1."""

    def __init__(self, reason: str, *, text: str, line: int, column: int) -> None:
        self.reason = reason
        self.text = text
        self.line = line
        self.column = column
        lines = text.split("\n")
        shown = lines[min(line, len(lines)) - 1]
        super().__init__(
            f"line {line}, column {column}: {reason}\n  {shown}\n  {' ' * (column - 1)}^"
        )


class _BeyondColumns(Exception):
    """CEL, but nothing that is asked of whole columns."""


class Compiler:
    """Compiles one expression. Its methods are named for the parts of CEL's grammar."""

    def __init__(self, text: str, kind: Kind | None) -> None:
        self._text = text
        self._kind = kind
        self.reads_object = False

    def condition(self) -> Expression:
        return self._guarded(lambda tree: self._boolean(tree, "a condition is"))

    def quantity(self) -> Expression:
        return self._guarded(self._number_alone)

    def _guarded(self, compile: Callable[[Any], Expression]) -> Expression:
        if len(self._text) > LENGTH_MAX:
            self._fail_at(1, 1, f"longer than {LENGTH_MAX} characters")
        try:
            return compile(syntax_tree(self._text, self._fail_at))
        except RecursionError:
            self._fail_at(1, 1, "nested too deeply")

    def _number_alone(self, tree: Any) -> Expression:
        try:
            found = self._expression(tree)
        except _BeyondColumns as beyond:
            self._fail(tree, f"{beyond} cannot be used here: only plain fields and numbers")
        if found.type not in _NUMBERS:
            self._fail(tree, f"expected a number, and this is {found.type}")
        return found

    def _boolean(self, tree: Any, who: str) -> Expression:
        """An operand that must be true or false; asked one by one when it must."""
        try:
            found = self._expression(tree)
        except _BeyondColumns:
            found = self._row_by_row(tree)
        if found.type is not Type.BOOL:
            self._fail(tree, f"{who} {Type.BOOL}, and this is {found.type}")
        return found

    def _row_by_row(self, tree: Any) -> Expression:
        text = self._text[tree.meta.start_pos : tree.meta.end_pos]
        fields = check_names(tree, self._kind, self._field_known, self._fail)
        self.reads_object |= bool(fields)
        plain = without_has(self._text, tree, self._kind)
        return RowByRow(ask_one(plain, self._kind, fields, lambda why: self._fail(tree, why)), text)

    def _expression(self, tree: Any) -> Expression:
        """Go down to the first node that says something, and compile that."""
        while len(tree.children) == 1 and tree.data not in _LEAVES:
            tree = tree.children[0]
        match str(tree.data):
            case "expr":
                return self._ternary(*tree.children)
            case "conditionaland" | "conditionalor" as which:
                return self._junction(tree, which)
            case "relation":
                return self._relation(*tree.children)
            case "addition" | "multiplication":
                return self._calculation(tree)
            case "unary":
                return self._unary(*tree.children)
            case "member_dot":
                return self._field(tree)
            case "member_dot_arg":
                return self._method(tree)
            case "ident":
                return self._variable(tree)
            case "ident_arg":
                return self._function(tree)
            case "literal":
                return self._literal(tree)
            case other:
                raise _BeyondColumns(_CALLED.get(other, "this"))

    def _ternary(self, condition: Any, then: Any, otherwise: Any) -> Expression:
        asked = self._boolean(condition, "what stands before ? is")
        one, other = self._branch(then), self._branch(otherwise)
        if one.type is not other.type:
            self._fail(otherwise, f"both sides of : must be alike; here {one.type}, {other.type}")
        if one.type is Type.MARKS:
            raise _BeyondColumns("a choice of marks")
        return Ternary(asked, one, other)

    def _branch(self, tree: Any) -> Expression:
        """One side of a choice: anything, but what is asked one by one must be true or false."""
        try:
            return self._expression(tree)
        except _BeyondColumns:
            return self._row_by_row(tree)

    def _junction(self, tree: Any, which: str) -> Expression:
        symbol = "&&" if which == "conditionaland" else "||"
        parts = [self._boolean(part, f"{symbol} joins what is") for part in _flattened(tree, which)]
        return Junction(parts, decisive=symbol == "||")

    def _relation(self, left: Any, right: Any) -> Expression:
        (first,) = left.children
        if left.data == "relation_in":
            return self._in(first, right)
        symbol = _RELATIONS[str(left.data)]
        one, other = self._expression(first), self._expression(right)
        return self._compared(symbol, one, other, first)

    def _compared(self, symbol: str, one: Expression, other: Expression, at: Any) -> Expression:
        if Type.MARKS in (one.type, other.type):
            self._fail(at, "marks are asked for one at a time: 'name' in subscriber.marks")
        if one.type is other.type is Type.TEXT:
            return TextTest(COMPARISONS[symbol], one, other)
        numeric = one.type in _NUMBERS and other.type in _NUMBERS
        if not numeric and one.type is not other.type:
            self._fail(at, f"cannot compare {one.type} with {other.type}")
        if one.type is Type.BOOL and symbol not in ("==", "!="):
            self._fail(at, f"{symbol} has no meaning between true and false")
        return Comparison(symbol, one, other)

    def _in(self, left: Any, right: Any) -> Expression:
        several = _innermost(right)
        if several.data == "list_lit":
            one = self._expression(left)
            members = [self._expression(part) for part in _listed(several)]
            same = [self._compared("==", one, member, left) for member in members]
            return Junction(same, decisive=True)
        if several.data != "member_dot":
            raise _BeyondColumns("in")
        there = self._expression(right)
        if there.type is not Type.MARKS:
            self._fail(right, f"in needs a list or marks, and this is {there.type}")
        mark = self._expression(left)
        if mark.type is not Type.TEXT:
            self._fail(left, f"a mark is {Type.TEXT}, and this is {mark.type}")
        if not isinstance(mark, Constant):
            raise _BeyondColumns("a mark that is not a constant")
        return HasMark(str(mark.value))

    def _calculation(self, tree: Any) -> Expression:
        left, right = tree.children
        symbol = _CALCULATIONS[str(left.data)]
        one, other = self._expression(left.children[0]), self._expression(right)
        if one.type is other.type is Type.TEXT and symbol == "+":
            raise _BeyondColumns("joining texts")
        for part, found in ((left, one), (right, other)):
            if found.type not in _NUMBERS:
                self._fail(part, f"{symbol} is for numbers, and this is {found.type}")
        if one.type is not other.type:
            self._fail(tree, f"{symbol} of {one.type} and {other.type}: write 2.0, or double(…)")
        if symbol == "%" and one.type is Type.DOUBLE:
            self._fail(tree, "% is for whole numbers")
        return Arithmetic(symbol, one, other)

    def _unary(self, sign: Any, operand: Any) -> Expression:
        if sign.data == "unary_not":
            return Not(self._boolean(operand, "! is for what is"))
        found = self._expression(operand)
        if found.type not in _NUMBERS:
            self._fail(operand, f"- is for numbers, and this is {found.type}")
        return Negation(found)

    def _field(self, tree: Any) -> Expression:
        owner, name = _innermost(tree.children[0]), str(tree.children[1])
        if owner.data != "ident":
            raise _BeyondColumns("a part of a field")
        variable = str(owner.children[0])
        if variable == "overlay":
            if name not in OVERLAY:
                self._fail(
                    tree.children[1], f"overlay has no {name!r}{did_you_mean(name, OVERLAY)}"
                )
            return OverlayCount(name)
        self._check_variable(owner.children[0])
        if variable == "now":
            self._fail(tree, "now is a number and has no fields")
        self._field_known(tree.children[1])
        self.reads_object = True
        return self._typed(name)

    def _typed(self, name: str) -> Expression:
        assert self._kind is not None
        if name == "name":
            return NameField()
        type = FIELDS[self._kind][name]
        if type in NUMERIC_TYPES:
            return NumericField(name, NUMERIC_TYPES[type])
        if type is FieldType.TEXT:
            return TextField(name)
        if type is FieldType.MARKS:
            return MarksField()
        raise _BeyondColumns(f"{name}, a {type},")

    def _field_known(self, token: Any) -> None:
        assert self._kind is not None
        known = ("name", *FIELDS[self._kind])
        if str(token) not in known:
            reason = f"a {self._kind} has no field {str(token)!r}{did_you_mean(str(token), known)}"
            self._fail(token, reason)

    def _variable(self, tree: Any) -> Expression:
        (token,) = tree.children
        self._check_variable(token)
        if str(token) == "now":
            return Now()
        self._fail(token, f"{token} alone has no value: name a field, as in {token}.name")

    def _check_variable(self, token: Any) -> None:
        known = ("overlay", "now") if self._kind is None else (self._kind, "overlay", "now")
        if str(token) not in known:
            hint = did_you_mean(str(token), known) or f"; there are {', '.join(known)}"
            self._fail(token, f"unknown name {str(token)!r}{hint}")

    def _method(self, tree: Any) -> Expression:
        owner, name = tree.children[0], str(tree.children[1])
        if name not in _TESTS:
            raise _BeyondColumns(f"{name}()")
        given = tree.children[2].children if len(tree.children) > 2 else []
        if len(given) != 1:
            self._fail(tree.children[1], f"{name} takes one text")
        one, other = self._expression(owner), self._expression(given[0])
        for part, found in ((owner, one), (given[0], other)):
            if found.type is not Type.TEXT:
                self._fail(part, f"{name} is for texts, and this is {found.type}")
        return TextTest(_TESTS[name], one, other)

    def _function(self, tree: Any) -> Expression:
        name = str(tree.children[0])
        given = tree.children[1].children if len(tree.children) > 1 else []
        if name == "has" and len(given) == 1:
            return self._has(_innermost(given[0]))
        if name == "double" and len(given) == 1:
            operand = self._expression(given[0])
            if operand.type in _NUMBERS:
                return ToDouble(operand)
        raise _BeyondColumns(f"{name}()")

    def _has(self, field: Any) -> Expression:
        if field.data != "member_dot":
            self._fail(field, f"has() asks for a field, as in has({self._kind or 'broker'}.medoid)")
        owner = _innermost(field.children[0])
        if owner.data != "ident" or str(owner.children[0]) in ("overlay", "now"):
            raise _BeyondColumns("has() of a part of a field")
        self._check_variable(owner.children[0])
        self._field_known(field.children[1])
        self.reads_object = True
        name = str(field.children[1])
        return Constant(Type.BOOL, True) if name == "name" else Has(name)

    def _literal(self, tree: Any) -> Expression:
        value = constant(tree, lambda why: self._fail(tree, why))
        match value:
            case bool():
                return Constant(Type.BOOL, value)
            case int():
                return Constant(Type.INT, value)
            case float():
                return Constant(Type.DOUBLE, value)
            case str():
                return Constant(Type.TEXT, value)
            case _:
                raise _BeyondColumns("this constant")

    def _fail(self, at: Any, reason: str) -> NoReturn:
        """At a token, or at the first token of a tree."""
        where = getattr(at, "meta", at)
        self._fail_at(
            getattr(where, "line", None) or 1, getattr(where, "column", None) or 1, reason
        )

    def _fail_at(self, line: int, column: int, reason: str) -> NoReturn:
        raise ConditionError(reason, text=self._text, line=line, column=column)


_LEAVES = {"ident", "literal", "list_lit", "map_lit", "ident_arg", "dot_ident", "dot_ident_arg"}
_CALLED = {
    "member_index": "[…]",
    "member_object": "{…}",
    "list_lit": "a list",
    "map_lit": "a map",
}


def _innermost(tree: Any) -> Any:
    """The node that a chain of single children ends in."""
    while len(tree.children) == 1 and tree.data not in _LEAVES:
        tree = tree.children[0]
    return tree


def _flattened(tree: Any, which: str) -> list[Any]:
    """The operands of a row of the same operator, which the grammar nests to the left."""
    parts: list[Any] = []
    while tree.data == which and len(tree.children) == 2:
        tree, part = tree.children
        parts.append(part)
    parts.append(tree)
    return parts[::-1]


def _listed(list_literal: Tree[Any]) -> list[Any]:
    return [part for inner in list_literal.children for part in inner.children]
