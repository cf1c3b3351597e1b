"""celpy, met in one place: parsing, constants, and evaluating one object at a time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any, NoReturn

from kbn.errors import MissingDependencyError
from kbn.management.expressions import Rows
from kbn.management.schema import FIELDS, OVERLAY, FieldType, Kind

_MACROS = ("all", "exists", "exists_one", "filter", "map", "reduce", "min")
# An object to try an expression on when it is read.
_EXAMPLE = {
    FieldType.TEXT: "text",
    FieldType.COUNT: 1,
    FieldType.NUMBER: 1.0,
    FieldType.MARKS: frozenset({"mark"}),
}
_EXAMPLES: dict[str, Any] = {
    "links": ["broker"],
    "groups": [{"medoid": "text", "spread": 1.0, "subscribers": 1}] * 2,
    "histogram": {1: 1},
    "publishers": {"publisher": 1},
}


@cache
def cel() -> Any:
    """celpy, or an error that names the extra."""
    try:
        import celpy
    except ImportError:
        raise MissingDependencyError("the condition of a policy", extra="management") from None
    return celpy


@cache
def environment() -> Any:
    """celpy's environment, with the language as it is."""
    celpy, limit = cel(), sys.getrecursionlimit()
    try:
        return celpy.Environment()
    finally:
        sys.setrecursionlimit(limit)  # it sets its own, for the whole process


def syntax_tree(text: str, fail_at: Callable[[int, int, str], NoReturn]) -> Any:
    """The tree of an expression."""
    celpy = cel()
    if not text.strip():
        fail_at(1, 1, "empty: expected an expression, such as overlay.brokers >= 2")
    try:
        return environment().compile(text)
    except celpy.CELParseError as error:
        fail_at(error.line or 1, error.column or 1, "not CEL: something is wrong near here")


def constant(literal: Any, fail: Callable[[str], NoReturn]) -> Any:
    """The value of a literal; None for those (null, bytes, 5u) that are of no use to us."""
    import celpy.evaluation

    (token,) = literal.children
    text = str(token)
    match token.type:
        case "INT_LIT":
            value = int(text, 16) if "x" in text.lower() else int(text)
            if not -(2**63) <= value < 2**63:
                fail(f"{text} is too large a number")
            return value
        case "FLOAT_LIT":
            return float(text)
        case "BOOL_LIT":
            return text == "true"
        case "STRING_LIT" | "MLSTRING_LIT":
            return str(celpy.evaluation.celstr(token))
        case _:
            return None


def check_names(
    tree: Any,
    kind: Kind | None,
    check_field: Callable[[Any], None],
    fail: Callable[[Any, str], NoReturn],
) -> frozenset[str]:
    """The fields of the object that are mentioned; whatever has no meaning is refused."""
    bound = {"now", "overlay", *([kind] if kind else [])} | _bound_names(tree)
    known_functions = cel().evaluation.base_functions
    fields: set[str] = set()
    for node in tree.iter_subtrees():
        match str(node.data):
            case "ident" if str(node.children[0]) not in bound:
                fail(node.children[0], f"unknown name {str(node.children[0])!r}")
            case "ident_arg" if str(node.children[0]) not in (*known_functions, "has", "dyn"):
                fail(node.children[0], f"CEL has no function {node.children[0]}()")
            case "member_dot_arg" if str(node.children[1]) not in (*known_functions, *_MACROS):
                fail(node.children[1], f"CEL has no function {node.children[1]}()")
            case "member_dot":
                variable = _variable(node.children[0])
                if variable == kind and kind is not None:
                    check_field(node.children[1])
                    fields.add(str(node.children[1]))
                elif variable == "overlay" and str(node.children[1]) not in OVERLAY:
                    fail(node.children[1], f"overlay has no {str(node.children[1])!r}")
    return frozenset(fields)


_EMPTY = {FieldType.TEXT: "''", FieldType.COUNT: "0", FieldType.NUMBER: "0.0"}


def without_has(text: str, tree: Any, kind: Kind | None) -> str:
    """The text of a tree, with what has() means here for fields of the object.

    To CEL a key of a map is there or not; our fields always are, and has() asks for not empty.
    """
    start, end = tree.meta.start_pos, tree.meta.end_pos
    found = [node for node in tree.iter_subtrees() if node.data == "ident_arg"]
    for node in sorted(found, key=lambda node: -node.meta.start_pos):
        field = _field_in_has(node, kind)
        if field is None:
            continue
        assert kind is not None
        type = None if field == "name" else FIELDS[kind][field]
        empty = "''" if type is None else _EMPTY.get(type)
        value = f"{kind}.{field}"
        said = f"(size({value}) != 0)" if empty is None else f"({value} != {empty})"
        text = text[: node.meta.start_pos] + said + text[node.meta.end_pos :]
        end += len(said) - (node.meta.end_pos - node.meta.start_pos)
    return text[start:end]


def _field_in_has(call: Any, kind: Kind | None) -> str | None:
    if str(call.children[0]) != "has" or len(call.children) < 2 or kind is None:
        return None
    inner = call.children[1].children[0]
    while len(inner.children) == 1 and hasattr(inner.children[0], "data"):
        inner = inner.children[0]
    if inner.data != "member_dot" or _variable(inner.children[0]) != kind:
        return None
    return str(inner.children[1])


def ask_one(
    text: str, kind: Kind | None, fields: frozenset[str], fail: Callable[[str], NoReturn]
) -> Callable[[Rows, int], bool | None]:
    """A function that evaluates an expression for one row; None: it has no value there.

    It is tried on an example first, so that what never can have a value is refused.
    """
    celpy = cel()
    program = environment().program(environment().compile(text))

    def evaluate(object: dict[str, Any], overlay: dict[str, int], now: float) -> Any:
        given = {"overlay": celpy.json_to_cel(overlay), "now": celpy.celtypes.DoubleType(now)}
        if kind is not None:
            given[kind] = celpy.json_to_cel(object)
        return program.evaluate(given)

    example = {field: _example(kind, field) for field in fields}
    try:
        found = evaluate(example, dict.fromkeys(OVERLAY, 1), 0.0)
        if not isinstance(found, bool | celpy.celtypes.BoolType):
            fail(f"`{text}` is neither true nor false")
    except celpy.CELEvalError as error:
        # An error below another one is told as an overload too; that is for each object to see.
        if "overload" in str(error) and "CELEvalError" not in str(error):
            fail(f"`{text}` does something that its types do not allow")

    def ask(rows: Rows, row: int) -> bool | None:
        overlay = {name: getattr(rows.overlay, name) for name in OVERLAY}
        try:
            found = evaluate(_object(rows, row, fields), overlay, rows.now)
        except (celpy.CELEvalError, RecursionError):
            return None
        return bool(found) if isinstance(found, bool | celpy.celtypes.BoolType) else None

    return ask


def _object(rows: Rows, row: int, fields: frozenset[str]) -> dict[str, Any]:
    if not fields:
        return {}
    table = rows.table
    return {
        field: _plain(table.names[row] if field == "name" else table.get(row, field))
        for field in fields
    }


def _plain(value: Any) -> Any:
    return sorted(value) if isinstance(value, frozenset) else value


def _example(kind: Kind | None, field: str) -> Any:
    assert kind is not None
    if field == "name":
        return "name"
    return _plain(_EXAMPLES.get(field) or _EXAMPLE[FIELDS[kind][field]])


def _bound_names(tree: Any) -> set[str]:
    """Names that a macro such as exists(group, …) binds; valid anywhere, which is near enough."""
    bound = set()
    for node in tree.iter_subtrees():
        if node.data == "member_dot_arg" and str(node.children[1]) in _MACROS:
            first = _variable(node.children[2].children[0]) if len(node.children) > 2 else None
            if first is not None:
                bound.add(first)
    return bound


def _variable(tree: Any) -> str | None:
    """The name a tree consists of, if it is nothing else."""
    while len(tree.children) == 1 and tree.data != "ident":
        if not hasattr(tree.children[0], "data"):
            return None
        tree = tree.children[0]
    return str(tree.children[0]) if tree.data == "ident" else None
