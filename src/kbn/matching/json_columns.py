"""JSON columns: subscriptions in their JSON form to codes, without an object for each constraint.

A subscription that is one conjunction is taken constraint by constraint: the bound of a range by
its axis, its side and its number, any other by the part it was compiled to when it was first met.
What has another shape, or may be wrong, is left to the full reader.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from kbn.errors import KbnError
from kbn.filters import MAX_CONSTRAINTS, decode_json
from kbn.matching.constraint_columns import SIDES
from kbn.matching.kernels.encoding import INT
from kbn.matching.pairs import EXACT_INT_MAX

Fields: TypeAlias = tuple[Any, ...]
"""What tells a constraint from others: its attribute, its operator, its operand's type and text."""

_SIDES = {
    spelled: side
    for operator, side in SIDES.items()
    for spelled in (operator.symbol, operator.word)
}
_PLAIN = frozenset({str, int, float, bool})


class Tables(NamedTuple):
    """Where numbers come from; each answers with a negative one for what it does not know."""

    axis: Callable[[Any], int]
    part: Callable[[Fields, dict[str, Any]], int]


def is_json(row: object) -> bool:
    """Whether a row is a JSON form, as data or as a text: no text of the language begins so."""
    if isinstance(row, str):
        return row.lstrip()[:1] in ("{", "[")
    return row.__class__ is dict or row.__class__ is list


def laid_out(row: object, tables: Tables) -> tuple[list[int], list[float]] | None:
    """The codes of a row's constraints and the bounds of its ranges; None where it is not plain."""
    try:
        constraints = _conjunction(decode_json(row))
    except KbnError:
        return None  # the reader says what is wrong
    if constraints.__class__ is not list or len(constraints) > MAX_CONSTRAINTS:
        return None
    codes: list[int] = []
    bounds: list[float] = []
    for each in constraints:
        if each.__class__ is not dict or each.get("op").__class__ is not str:
            return None
        value: Any = each.get("value")
        side = _SIDES.get(each["op"]) if len(each) == 3 else None
        if side is not None and _is_bound(value):
            axis = tables.axis(each.get("attribute"))
            if axis < 0:
                return None
            codes.append(~(axis << 4 | side | (INT if value.__class__ is int else 0)))
            bounds.append(value + 0.0)
            continue
        part = tables.part(_fields(each, value), each)
        if part < 0:
            return None
        codes.append(part)
    return codes, bounds


def _conjunction(form: Any) -> Any:
    """The constraints of a form with one filter."""
    if form.__class__ is dict and len(form) == 1 and "any" in form:
        filters = form["any"]
        form = filters[0] if filters.__class__ is list and len(filters) == 1 else None
    if form.__class__ is dict and len(form) == 1:
        return form.get("all")
    return form


def _is_bound(value: Any) -> bool:
    kind = value.__class__
    if kind is int:
        return bool(-EXACT_INT_MAX <= value <= EXACT_INT_MAX)
    return kind is float and not math.isnan(value)


def _fields(given: dict[str, Any], value: Any) -> Fields:
    # 1, 1.0 and True are equal and mean different things; so do null and no value.
    text = value if value.__class__ in _PLAIN else repr(value)
    others = repr(given["not"]) if "not" in given else None
    return (
        given.get("attribute").__class__, str(given.get("attribute")), given["op"],
        value.__class__, text, "value" in given, others, len(given),
    )  # fmt: skip
