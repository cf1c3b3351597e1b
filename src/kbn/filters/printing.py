"""Printing: subscriptions, filters and operands in the text language.

What is printed parses back to something equal, given the same prefixes. Symbols are printed for
operators, and a term's kind only where its place does not imply it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from kbn.filters.lexing import LOCAL_NAME, NAME, RESERVED
from kbn.filters.model import Constraint, Filter, Subscription
from kbn.filters.operators import AnyOperator, Negated, Operator, split_bag_operator
from kbn.filters.values import Bag, Operand, Relation
from kbn.ontology import Term

__all__ = [
    "print_constraint",
    "print_filter",
    "print_operand",
    "print_subscription",
    "print_term",
    "print_time",
]


def print_subscription(
    subscription: Subscription, prefixes: Mapping[str, str] | None = None
) -> str:
    """The subscription as text; filters of several constraints are put in parentheses."""
    if len(subscription.filters) == 1:
        return print_filter(subscription.filters[0], prefixes)
    parts = []
    for part in subscription.filters:
        text = print_filter(part, prefixes)
        parts.append(f"({text})" if len(part.constraints) > 1 else text)
    return " or ".join(parts)


def print_filter(filter: Filter, prefixes: Mapping[str, str] | None = None) -> str:
    """The filter as text; the one without constraints is `true`."""
    if not filter.constraints:
        return "true"
    return " and ".join(print_constraint(part, prefixes) for part in filter.constraints)


def print_constraint(constraint: Constraint, prefixes: Mapping[str, str] | None = None) -> str:
    """The constraint as text."""
    name, operator = _name(constraint.attribute), constraint.operator
    if constraint.operand is None:
        return f"{name} any"
    if isinstance(operator, Negated):
        operand = print_operand(operator.operator, constraint.operand, prefixes)
        return f"not {name} {operator.operator.symbol} {operand}"
    return f"{name} {operator.symbol} {print_operand(operator, constraint.operand, prefixes)}"


def print_operand(
    operator: AnyOperator, operand: Operand, prefixes: Mapping[str, str] | None = None
) -> str:
    """The operand as text, as it stands after this operator."""
    if isinstance(operator, Negated):
        operator = operator.operator
    if type(operand) is Bag:
        parts = split_bag_operator(operator)
        element = parts[1] if parts else Operator.EQ
        inside = ", ".join(print_operand(element, item, prefixes) for item in operand.items)
        return "{" + inside + "}"
    if type(operand) is Relation:
        first = print_term(operand.property.iri, prefixes)
        return f"[{first}, {print_term(operand.individual.iri, prefixes)}]"
    if isinstance(operand, Term):
        term = print_term(operand.iri, prefixes)
        implied = operand.kind == "term" or operator in (Operator.ISA, Operator.IS_NOT_A)
        return term if implied else f"{operand.kind}({term})"
    return _literal(operand)


def print_term(iri: str, prefixes: Mapping[str, str] | None = None) -> str:
    """The IRI, by the prefix with the longest namespace that fits, or in `<>`."""
    best = None
    for prefix, namespace in (prefixes or {}).items():
        if namespace and iri.startswith(namespace) and _names_rest(prefix, iri[len(namespace) :]):
            candidate = (len(namespace), prefix)
            best = candidate if best is None else max(best, candidate)
    if best is not None:
        return f"{best[1]}:{iri[best[0] :]}"
    return f"<{_escaped_iri(iri)}>"


def print_time(time: datetime) -> str:
    """A time of day and date in UTC, ending in Z.

    >>> print_time(datetime(2026, 11, 15, 12, tzinfo=UTC))
    '2026-11-15T12:00:00Z'
    """
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")


_PLAIN_NAME = re.compile(NAME)
_LOCAL = re.compile(LOCAL_NAME)
_WITH_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_NOT_IN_IRI = re.compile(r'[\x00-\x20<>"{}|^`\\]')
_NOT_IN_SHORT_IRI = re.compile(r"[^\w.\-/#]|^\d")
_NOT_IN_TEXT = re.compile(r'["`\\\x00-\x1f\x7f\u0085\u2028\u2029]')


def _names_rest(prefix: str, local: str) -> bool:
    proper = not prefix or _PLAIN_NAME.fullmatch(prefix) is not None
    return proper and _LOCAL.fullmatch(local) is not None


def _escaped_iri(iri: str) -> str:
    pattern = _NOT_IN_IRI if _WITH_SCHEME.match(iri) else _NOT_IN_SHORT_IRI
    made = pattern.sub(_escape, iri)
    first = made[0]
    if first == "\\" or first == "_" or first.isalpha():
        return made
    return _escaped_code(first) + made[1:]


def _escape(found: re.Match[str]) -> str:
    return _escaped_code(found[0])


def _escaped_code(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _escape_in_text(found: re.Match[str]) -> str:
    character = found[0]
    return "\\" + character if character in '"`\\' else _escaped_code(character)


def _name(attribute: str) -> str:
    if _PLAIN_NAME.fullmatch(attribute) and attribute not in RESERVED:
        return attribute
    return "`" + _NOT_IN_TEXT.sub(_escape_in_text, attribute) + "`"


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + _NOT_IN_TEXT.sub(_escape_in_text, value) + '"'
    if isinstance(value, bytes):
        return f'b"{value.hex()}"'
    if isinstance(value, datetime):
        return print_time(value)
    return repr(value)
