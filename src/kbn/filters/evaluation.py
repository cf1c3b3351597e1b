"""Evaluation: the answers of `semantics`, sooner. What filters, covering and the index use.

Only bags are decided differently: by counting, sorting or indexed candidates (see `bags`), so that
bags of thousands of elements stay within their limits. Tests hold the two together.
"""

from __future__ import annotations

from kbn.filters.acceptance import holds
from kbn.filters.bags import bags_related
from kbn.filters.model import Constraint, Filter
from kbn.filters.notification import Notification
from kbn.filters.operators import AnyOperator, Operator
from kbn.filters.values import Bag, Operand, Value
from kbn.filters.vocabulary import Vocabulary

__all__ = ["accepts", "matches", "operator_accepts"]


def matches(filter: Filter, notification: Notification, ontology: Vocabulary | None = None) -> bool:
    """Whether the notification has every attribute the filter tests, each with an accepted value.

    >>> matches(Filter([Constraint("x", "<", 3)]), Notification({"x": 2}))
    True
    """
    attributes = notification.attributes
    return all(
        constraint.attribute in attributes
        and accepts(constraint, attributes[constraint.attribute], ontology)
        for constraint in filter.constraints
    )


def accepts(constraint: Constraint, value: Value, ontology: Vocabulary | None = None) -> bool:
    """Whether a notification with this value for the attribute satisfies the constraint.

    >>> accepts(Constraint("x", ">*", "tea"), "tea pot"), accepts(Constraint("x", "<", 3), "tea")
    (True, False)
    """
    operand = constraint.operand
    if operand is None:
        return True
    return holds(constraint.operator, value, operand, ontology, _bags_related)


def operator_accepts(
    operator: AnyOperator, value: Operand, operand: Operand, ontology: Vocabulary | None = None
) -> bool:
    """Whether the value stands in the relation `operator` to the operand.

    >>> operator_accepts(Operator.PREFIX, "tea pot", "tea"), operator_accepts(Operator.LT, "tea", 3)
    (True, False)
    """
    return holds(operator, value, operand, ontology, _bags_related)


def _bags_related(
    bag: Operator, element: AnyOperator, x: Bag, v: Bag, ontology: Vocabulary
) -> bool:
    return bags_related(bag, element, x, v, ontology, operator_accepts)
