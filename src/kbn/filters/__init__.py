"""Filters: values, bags, constraints, subscriptions, their forms, and what they mean.

Start at `model` for the nouns and at `semantics` for the meaning. The parser and the JSON, JSON-LD
and CloudEvents forms are loaded on first use.
"""

from __future__ import annotations

from kbn.filters.model import Constraint, Filter, Notification, Subscription
from kbn.filters.operators import AnyOperator, Composite, Negated, Operator, negate
from kbn.filters.values import Bag, Family, Relation, Value

__all__ = [
    "AnyOperator",
    "Bag",
    "Composite",
    "Constraint",
    "Family",
    "Filter",
    "Negated",
    "Notification",
    "Operator",
    "Relation",
    "Subscription",
    "Value",
    "negate",
]
