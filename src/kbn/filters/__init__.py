"""Filters: values, bags, constraints, subscriptions, their forms, and what they mean.

Start at `model` and `notification` for the nouns, and at `semantics` for the meaning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbn.front_door import on_first_use

if TYPE_CHECKING:
    from kbn.filters.acceptance import subject_family
    from kbn.filters.bags import bag_with_known_kinds
    from kbn.filters.bulk import BulkReader
    from kbn.filters.cloudevents import from_cloudevent, to_cloudevent
    from kbn.filters.covering import covers
    from kbn.filters.evaluation import accepts, operator_accepts
    from kbn.filters.explanation import Explanation, Verdict, explain, verdict
    from kbn.filters.files import (
        JSON_SUFFIXES,
        read_notifications,
        read_subscriptions,
        subscription_texts,
    )
    from kbn.filters.implication import implies
    from kbn.filters.intersection import may_intersect
    from kbn.filters.json_form import (
        constraint_from_json,
        constraint_to_json,
        decode_json,
        json_depth_error,
        refuse_duplicate_names,
        value_from_json,
        value_to_json,
    )
    from kbn.filters.jsonld import from_jsonld, to_jsonld
    from kbn.filters.lexing import tokenize_filter
    from kbn.filters.mentions import terms_named_in
    from kbn.filters.model import MAX_CONSTRAINTS, Constraint, Filter, Subscription
    from kbn.filters.nearness import is_range, near_distance, near_range
    from kbn.filters.notification import MAX_ATTRIBUTES, MAX_NAME, Notification
    from kbn.filters.operators import (
        ORDER_OPERATORS,
        AnyOperator,
        Composite,
        Near,
        Negated,
        Operator,
        negate_operator,
        read_operator,
        split_bag_operator,
    )
    from kbn.filters.pair_arrays import Patterns
    from kbn.filters.parsing import parse_lines
    from kbn.filters.printing import print_time
    from kbn.filters.semantics import accepts_by_definition, matches_by_definition
    from kbn.filters.short_text import short_filter
    from kbn.filters.sizes import (
        SubscriptionSize,
        bag_elements,
        check_parts,
        is_paired,
        notification_size,
    )
    from kbn.filters.term_check import TermCheck, UnknownTerm, unknown_terms
    from kbn.filters.term_resolution import resolve_terms
    from kbn.filters.values import (
        INT_MAX,
        INT_MIN,
        MAX_BAG_DEPTH,
        MAX_BAG_SIZE,
        Bag,
        Family,
        Relation,
        Value,
        check_value,
        value_family,
        value_key,
    )
    from kbn.filters.vocabulary import with_known_kind
    from kbn.filters.why import has_one_reason, reason_for

__all__ = [
    "INT_MAX",
    "INT_MIN",
    "JSON_SUFFIXES",
    "MAX_ATTRIBUTES",
    "MAX_BAG_DEPTH",
    "MAX_BAG_SIZE",
    "MAX_CONSTRAINTS",
    "MAX_NAME",
    "ORDER_OPERATORS",
    "AnyOperator",
    "Bag",
    "BulkReader",
    "Composite",
    "Constraint",
    "Explanation",
    "Family",
    "Filter",
    "Near",
    "Negated",
    "Notification",
    "Operator",
    "Patterns",
    "Relation",
    "Subscription",
    "SubscriptionSize",
    "TermCheck",
    "UnknownTerm",
    "Value",
    "Verdict",
    "accepts",
    "accepts_by_definition",
    "bag_elements",
    "bag_with_known_kinds",
    "check_parts",
    "check_value",
    "constraint_from_json",
    "constraint_to_json",
    "covers",
    "decode_json",
    "explain",
    "from_cloudevent",
    "from_jsonld",
    "has_one_reason",
    "implies",
    "is_paired",
    "is_range",
    "json_depth_error",
    "matches_by_definition",
    "may_intersect",
    "near_distance",
    "near_range",
    "negate_operator",
    "notification_size",
    "operator_accepts",
    "parse_lines",
    "print_time",
    "read_notifications",
    "read_operator",
    "read_subscriptions",
    "reason_for",
    "refuse_duplicate_names",
    "resolve_terms",
    "short_filter",
    "split_bag_operator",
    "subject_family",
    "subscription_texts",
    "terms_named_in",
    "to_cloudevent",
    "to_jsonld",
    "tokenize_filter",
    "unknown_terms",
    "value_family",
    "value_from_json",
    "value_key",
    "value_to_json",
    "verdict",
    "with_known_kind",
]

__getattr__ = on_first_use(
    __name__,
    {
        "AnyOperator": "kbn.filters.operators",
        "Bag": "kbn.filters.values",
        "BulkReader": "kbn.filters.bulk",
        "Composite": "kbn.filters.operators",
        "Constraint": "kbn.filters.model",
        "Explanation": "kbn.filters.explanation",
        "Verdict": "kbn.filters.explanation",
        "explain": "kbn.filters.explanation",
        "has_one_reason": "kbn.filters.why",
        "reason_for": "kbn.filters.why",
        "verdict": "kbn.filters.explanation",
        "TermCheck": "kbn.filters.term_check",
        "UnknownTerm": "kbn.filters.term_check",
        "unknown_terms": "kbn.filters.term_check",
        "Family": "kbn.filters.values",
        "Filter": "kbn.filters.model",
        "INT_MAX": "kbn.filters.values",
        "INT_MIN": "kbn.filters.values",
        "JSON_SUFFIXES": "kbn.filters.files",
        "MAX_ATTRIBUTES": "kbn.filters.notification",
        "MAX_BAG_DEPTH": "kbn.filters.values",
        "MAX_BAG_SIZE": "kbn.filters.values",
        "MAX_CONSTRAINTS": "kbn.filters.model",
        "MAX_NAME": "kbn.filters.notification",
        "Near": "kbn.filters.operators",
        "Negated": "kbn.filters.operators",
        "Notification": "kbn.filters.notification",
        "ORDER_OPERATORS": "kbn.filters.operators",
        "Operator": "kbn.filters.operators",
        "Patterns": "kbn.filters.pair_arrays",
        "Relation": "kbn.filters.values",
        "Subscription": "kbn.filters.model",
        "SubscriptionSize": "kbn.filters.sizes",
        "bag_elements": "kbn.filters.sizes",
        "Value": "kbn.filters.values",
        "accepts": "kbn.filters.evaluation",
        "accepts_by_definition": "kbn.filters.semantics",
        "check_parts": "kbn.filters.sizes",
        "check_value": "kbn.filters.values",
        "is_paired": "kbn.filters.sizes",
        "notification_size": "kbn.filters.sizes",
        "is_range": "kbn.filters.nearness",
        "near_distance": "kbn.filters.nearness",
        "near_range": "kbn.filters.nearness",
        "operator_accepts": "kbn.filters.evaluation",
        "constraint_from_json": "kbn.filters.json_form",
        "constraint_to_json": "kbn.filters.json_form",
        "covers": "kbn.filters.covering",
        "decode_json": "kbn.filters.json_form",
        "value_family": "kbn.filters.values",
        "from_cloudevent": "kbn.filters.cloudevents",
        "from_jsonld": "kbn.filters.jsonld",
        "implies": "kbn.filters.implication",
        "value_key": "kbn.filters.values",
        "matches_by_definition": "kbn.filters.semantics",
        "may_intersect": "kbn.filters.intersection",
        "negate_operator": "kbn.filters.operators",
        "parse_lines": "kbn.filters.parsing",
        "print_time": "kbn.filters.printing",
        "read_notifications": "kbn.filters.files",
        "read_operator": "kbn.filters.operators",
        "read_subscriptions": "kbn.filters.files",
        "resolve_terms": "kbn.filters.term_resolution",
        "with_known_kind": "kbn.filters.vocabulary",
        "bag_with_known_kinds": "kbn.filters.bags",
        "split_bag_operator": "kbn.filters.operators",
        "subject_family": "kbn.filters.acceptance",
        "subscription_texts": "kbn.filters.files",
        "terms_named_in": "kbn.filters.mentions",
        "short_filter": "kbn.filters.short_text",
        "to_cloudevent": "kbn.filters.cloudevents",
        "to_jsonld": "kbn.filters.jsonld",
        "tokenize_filter": "kbn.filters.lexing",
        "json_depth_error": "kbn.filters.json_form",
        "value_from_json": "kbn.filters.json_form",
        "value_to_json": "kbn.filters.json_form",
        "refuse_duplicate_names": "kbn.filters.json_form",
    },
)
