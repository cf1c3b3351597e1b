"""Why a subscription got a notification, in words a person can check.

The matcher only says that a filter matched. Here the plain evaluator is asked again, constraint by
constraint, which value (and, in a bag, which element) satisfied which operand:

    category: Podcasting is a kind of Technology
    duration: 600 is at most 1200
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kbn.filters.evaluation import operator_accepts
from kbn.filters.operators import Negated, Operator, split_bag_operator
from kbn.filters.values import Bag, Relation
from kbn.ontology import Term

if TYPE_CHECKING:
    from kbn.filters import Constraint, Notification, Subscription
    from kbn.filters.operators import AnyOperator
    from kbn.ontology import Ontology

WORDS = {
    Operator.EQ: "is",
    Operator.NE: "is not",
    Operator.LT: "is less than",
    Operator.LE: "is at most",
    Operator.GT: "is more than",
    Operator.GE: "is at least",
    Operator.PREFIX: "starts with",
    Operator.SUFFIX: "ends with",
    Operator.CONTAINS: "contains",
    Operator.IN: "is part of",
    Operator.EQUIV: "is equivalent to",
    Operator.NOT_EQUIV: "is not equivalent to",
    Operator.MORE_SPECIFIC: "is a kind of",
    Operator.LESS_SPECIFIC: "is wider than",
    Operator.ISA: "is one of the",
    Operator.IS_NOT_A: "is not known to be one of the",
    Operator.ONT_PROP: "has",
}


def match_reasons(
    subscription: Subscription, notification: Notification, ontology: Ontology
) -> list[str]:
    """One line per constraint of the first filter that matches; none when no filter does.

    >>> from kbn.filters import Notification, Subscription
    >>> from kbn.ontology import Ontology
    >>> wanted = Subscription.parse("duration <= 1200")
    >>> match_reasons(wanted, Notification({"duration": 600}), Ontology.empty())
    ['duration: 600 is at most 1200']
    """
    for filter_ in subscription.filters:
        if filter_.matches(notification, ontology):
            return [
                reason(constraint, notification.attributes[constraint.attribute], ontology)
                for constraint in filter_.constraints
            ]
    return []


def reason(constraint: Constraint, value: object, ontology: Ontology) -> str:
    """What in `value` satisfies the constraint; the value must satisfy it."""
    said = _said(constraint.operator, value, constraint.operand, ontology)
    return f"{constraint.attribute}: {said}"


def _said(operator: AnyOperator, value: object, operand: object, ontology: Ontology) -> str:
    if operator is Operator.EXISTS:
        return f"{_shown(value, ontology)} is there"
    if isinstance(operator, Negated):
        denied = f"{operator.operator.symbol} {_shown(operand, ontology)}"
        return f"not ({_shown(value, ontology)} {denied})"
    if split_bag_operator(operator) is not None:
        return _said_of_bags(operator, value, operand, ontology)
    assert isinstance(operator, Operator)
    if value == operand and operator in (Operator.MORE_SPECIFIC, Operator.LESS_SPECIFIC):
        return f"{_shown(value, ontology)} itself"
    return f"{_shown(value, ontology)} {WORDS[operator]} {_shown(operand, ontology)}"


def _said_of_bags(operator: AnyOperator, value: object, operand: object, ontology: Ontology) -> str:
    """The pairs of elements that are related, or the whole bag when elements must be equal."""
    split = split_bag_operator(operator)
    assert split is not None and isinstance(value, Bag) and isinstance(operand, Bag)
    bag, element = split
    if element is Operator.EQ:
        word = {Operator.SUPER_BAG: "has", Operator.SUB_BAG: "is within"}.get(bag, "is")
        return f"{word} {_shown(operand, ontology)}"
    pairs = [
        _said(element, x, v, ontology) for x, v in _pairs(bag, element, value, operand, ontology)
    ]
    return ", ".join(dict.fromkeys(pairs)) or "no element is asked for"


def _pairs(
    bag: Operator, element: AnyOperator, value: Bag, operand: Bag, ontology: Ontology
) -> Iterator[tuple[object, object]]:
    """For each element that has to find a partner, the first partner it could have."""
    if bag is Operator.SUPER_BAG:
        for v in operand:
            yield from [(x, v) for x in value if operator_accepts(element, x, v, ontology)][:1]
    else:
        for x in value:
            yield from [(x, v) for v in operand if operator_accepts(element, x, v, ontology)][:1]


def _shown(value: object, ontology: Ontology) -> str:
    """A term by its label, the rest as it is written."""
    if isinstance(value, Term):
        return ontology.label(value.iri) or ontology.shorten(value.iri)
    if isinstance(value, Relation):
        return f"{_shown(value.property, ontology)} {_shown(value.individual, ontology)}"
    if isinstance(value, Bag):
        return ", ".join(_shown(element, ontology) for element in value) or "nothing"
    return f'"{value}"' if isinstance(value, str) else str(value)
