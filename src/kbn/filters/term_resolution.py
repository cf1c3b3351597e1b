"""Term resolution: bare terms of a subscription are given the kinds the ontology knows them by."""

from __future__ import annotations

from typing import TypeVar, cast

from kbn.errors import UnknownTermError
from kbn.filters.bags import operand_with_known_kinds
from kbn.filters.model import Constraint, Filter, Subscription
from kbn.filters.operators import AnyOperator, Negated, Operator, split_bag_operator
from kbn.filters.values import Bag, Operand, Relation
from kbn.filters.vocabulary import Vocabulary
from kbn.ontology import Term

__all__ = ["resolve_terms"]

Resolvable = TypeVar("Resolvable", Constraint, Filter, Subscription)


def resolve_terms(given: Resolvable, ontology: Vocabulary | None = None) -> Resolvable:
    """The same with every bare term given its kind; UnknownTermError names a term nobody knows.

    A term the ontology uses as several kinds stays bare where its place does not decide. Without
    an ontology nothing is known, and the subscription is returned as it is.

    >>> from kbn.data import namespace, path
    >>> from kbn.ontology import Ontology
    >>> wanted = Subscription.parse(f"x @> <{namespace('animals')}Cats>")
    >>> resolve_terms(wanted, Ontology.load(path("animals"))).filters[0].constraints[0].operand
    Class('https://kbn.example/ontology/animals#Cats')
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
    made = operand_with_known_kinds(operand, ontology)
    for term in _terms(made):
        ontology.require(term.iri, None if type(term) is Term else term.kind)
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
