"""Fitting: which operands an operator takes, and the kinds of term their places imply.

A constraint that could never mean anything (`x < true`, `x @> "tea"`) is refused when it is made.
Elements of a composite's operand must fit the element operator, however deep it goes.
"""

from __future__ import annotations

from typing import cast

from kbn.errors import InvalidInputError, LimitError
from kbn.filters.nearness import check_near
from kbn.filters.operators import (
    ORDER_OPERATORS,
    STRING_OPERATORS,
    AnyOperator,
    Near,
    Negated,
    Operator,
    split_bag_operator,
)
from kbn.filters.values import Bag, Family, Operand, Relation, Value, checked_operand, value_family
from kbn.ontology import Class, Term

__all__ = ["MAX_MATCHED_SIZE", "fit"]

# A composite that needs bipartite matching looks at pairs of elements; one that only counts or
# sorts takes any bag.
MAX_MATCHED_SIZE = 10_000
_COUNTED = ORDER_OPERATORS | {
    Operator.NE,
    Operator.EQUIV,
    Operator.NOT_EQUIV,
    Operator.EXISTS,
    Operator.EQUAL_BAG,
}

_ORDERED = frozenset({Family.NUMBER, Family.STRING, Family.TIME})
_TERMS = frozenset({Family.CLASS, Family.PROPERTY, Family.INDIVIDUAL, Family.TERM})
_HIERARCHIC = frozenset({Family.CLASS, Family.PROPERTY, Family.TERM})

_TAKEN: dict[Operator, tuple[frozenset[Family], str]] = {
    **dict.fromkeys(ORDER_OPERATORS, (_ORDERED, "a number, a string or a time")),
    **dict.fromkeys(STRING_OPERATORS, (frozenset({Family.STRING}), "a string")),
    Operator.EQUIV: (_TERMS, "a class, a property or an individual"),
    Operator.NOT_EQUIV: (_TERMS, "a class, a property or an individual"),
    Operator.MORE_SPECIFIC: (_HIERARCHIC, "a class or a property"),
    Operator.LESS_SPECIFIC: (_HIERARCHIC, "a class or a property"),
}


_SCALAR = ORDER_OPERATORS | {Operator.EQ, Operator.NE}
_SCALARS = frozenset({str, int, float})


def fit(operator: AnyOperator, operand: object) -> Operand | None:
    """The operand, checked and with the kinds its place implies; an error when it cannot fit."""
    if operator in _SCALAR and type(operand) in _SCALARS:
        return checked_operand(operand)  # by far the most common case
    if operator is Operator.EXISTS:
        if operand is not None:
            raise InvalidInputError(f"`any` takes no operand, not even {operand!r}")
        return None
    if operand is None:
        raise InvalidInputError(f"{operator.symbol} needs an operand")
    positive = operator.operator if isinstance(operator, Negated) else operator
    if positive is Operator.ONT_PROP and isinstance(operand, (list, tuple)) and len(operand) == 2:
        return Relation(*operand)
    return _fitted(positive, checked_operand(operand))


def _fitted(operator: AnyOperator, operand: Operand) -> Operand:
    if isinstance(operator, Negated):
        return _fitted(operator.operator, operand)
    parts = split_bag_operator(operator)
    if parts is not None:
        return _fitted_bag(operator, parts[1], operand)
    if operator is Operator.ONT_PROP:
        return _require(type(operand) is Relation, operator, "[property, individual]", operand)
    if type(operand) is Relation or (type(operand) is Bag and operand.relational):
        raise InvalidInputError(f"{operator.symbol} does not take [property, individual]")
    if operator is Operator.ISA or operator is Operator.IS_NOT_A:
        if type(operand) is Term:
            return Class(operand.iri)
        return _require(type(operand) is Class, operator, "a class", operand)
    if isinstance(operator, Near):
        return check_near(operator, cast(Value, operand))
    assert isinstance(operator, Operator)
    if operator in _TAKEN:
        families, wanted = _TAKEN[operator]
        return _require(value_family(cast(Value, operand)) in families, operator, wanted, operand)
    return operand


def _fitted_bag(operator: AnyOperator, element: AnyOperator, operand: Operand) -> Operand:
    _require(type(operand) is Bag, operator, "a bag", operand)
    assert type(operand) is Bag
    if element is Operator.EQ and not operand.relational:
        return operand
    if len(operand) > MAX_MATCHED_SIZE and element not in _COUNTED:
        raise LimitError(
            f"{operator.symbol} against a bag of {len(operand)} elements; "
            f"the limit is {MAX_MATCHED_SIZE}",
            limit="composite bag size",
            maximum=MAX_MATCHED_SIZE,
        )
    fitted = [_fitted(element, item) for item in operand.items]
    unchanged = all(new is old for new, old in zip(fitted, operand.items, strict=True))
    return operand if unchanged else Bag.of(fitted)


def _require(condition: bool, operator: AnyOperator, wanted: str, operand: Operand) -> Operand:
    if not condition:
        shown = repr(operand)
        shown = shown if len(shown) <= 80 else shown[:77] + "..."
        if type(operand) is Bag:
            shown = "a bag: remove the braces, or use a bag operator such as #>"
        raise InvalidInputError(f"{operator.symbol} takes {wanted}, not {shown}")
    return operand
