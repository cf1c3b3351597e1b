"""Semantics: what constraints, filters and their covering mean; the oracle for everything faster.

The questions are answered in `acceptance` (does this value satisfy this constraint), `bags` and
`assignment` (the same for bags) and `implication` (does this constraint follow from that one).
Here they are put together for whole filters. Nothing is indexed and nothing is remembered from
call to call: this is the meaning, and every index must agree with it.
"""

from __future__ import annotations

from typing import TypeVar, cast

from kbn.errors import UnknownTermError
from kbn.filters.acceptance import accepts, operator_accepts, subject_family
from kbn.filters.bags import bag_with_known_kinds
from kbn.filters.implication import implies, operator_implies
from kbn.filters.model import Constraint, Filter, Notification, Subscription
from kbn.filters.operators import AnyOperator, Negated, Operator, split_bag_operator
from kbn.filters.values import Bag, Operand, Relation
from kbn.filters.vocabulary import Vocabulary, with_known_kind
from kbn.ontology import Term

__all__ = [
    "accepts",
    "covers",
    "implies",
    "matches",
    "operator_accepts",
    "operator_implies",
    "resolve_terms",
    "subject_family",
]

Resolvable = TypeVar("Resolvable", Constraint, Filter, Subscription)


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


def covers(wider: Filter, narrower: Filter, ontology: Vocabulary | None = None) -> bool:
    """Whether `wider` matches every notification that `narrower` matches.

    Sound but incomplete: True is a proof, False only means that none was found. A router may
    therefore stop forwarding `narrower` on True, and must keep forwarding it on False.
    """
    return all(
        any(implies(premise, conclusion, ontology) for premise in narrower.constraints)
        for conclusion in wider.constraints
    )


def resolve_terms(given: Resolvable, ontology: Vocabulary | None = None) -> Resolvable:
    """The same with every bare term given its kind; UnknownTermError names a term nobody knows.

    A term the ontology uses as several kinds stays bare where its place does not decide. Without
    an ontology nothing is known, and the subscription is returned as it is.
    """
    if ontology is None:
        return given
    if isinstance(given, Subscription):
        return Subscription([resolve_terms(part, ontology) for part in given.filters])
    if isinstance(given, Filter):
        return Filter([resolve_terms(constraint, ontology) for constraint in given.constraints])
    if given.operand is None:
        return given
    operand = _resolved(given.operator, given.operand, ontology)
    if operand is given.operand:
        return given
    return Constraint(given.attribute, given.operator, operand)


_HIERARCHIC = frozenset({Operator.MORE_SPECIFIC, Operator.LESS_SPECIFIC})


def _resolved(operator: AnyOperator, operand: Operand, ontology: Vocabulary) -> Operand:
    for term in _terms(operand):
        ontology.require(term.iri, None if type(term) is Term else term.kind)
    if type(operand) is Bag:
        made: Operand = bag_with_known_kinds(operand, ontology)
    else:
        made = with_known_kind(operand, ontology)
    _check_kinds(operator, made)
    return made


def _terms(operand: Operand) -> list[Term]:
    if type(operand) is Bag:
        return [term for item in operand.items for term in _terms(item)]
    if type(operand) is Relation:
        return [operand.property, operand.individual]
    return [operand] if isinstance(operand, Term) else []


def _check_kinds(operator: AnyOperator, operand: Operand) -> None:
    """A bare term may have turned out to be of a kind its operator cannot take."""
    if isinstance(operator, Negated):
        operator = operator.operator
    parts = split_bag_operator(operator)
    if parts is not None:
        for item in cast(Bag, operand).items:
            _check_kinds(parts[1], item)
    elif operator in _HIERARCHIC and cast(Term, operand).kind == "individual":
        iri = cast(Term, operand).iri
        raise UnknownTermError(
            iri,
            kind="class",
            reason=f"{operator.symbol} takes a class or a property, and <{iri}> is an individual",
        )
