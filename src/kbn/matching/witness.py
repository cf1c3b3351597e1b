"""Witnesses: for a constraint, one value it accepts.

If a constraint implies another, the other accepts every value the first accepts, its witness too.
So whatever a filter's witnesses hit is a superset of what could cover it, found by the index that
matches notifications; the oracle then decides. No witness means "ask everyone".
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from kbn.filters import (
    AnyOperator,
    Bag,
    Constraint,
    Family,
    Negated,
    Operator,
    Relation,
    negate_operator,
    operator_accepts,
    split_bag_operator,
    value_family,
)
from kbn.ontology import Class, Individual, Ontology, Property, Term

_UNHEARD = "urn:kbn:unheard-of"
_SECOND = timedelta(seconds=1)


def witness(constraint: Constraint, ontology: Ontology) -> Any:
    """A value the constraint accepts, or None when none was found.

    >>> witness(Constraint("x", "<", 3), Ontology.empty()), witness(Constraint("x", "!=", "a"),
    ...     Ontology.empty())
    (2, 'a?')
    """
    return _found(constraint.operator, constraint.operand, ontology)


def _found(operator: AnyOperator, operand: Any, ontology: Ontology) -> Any:
    for value in _candidates(operator, operand, ontology):
        if value is None:
            continue
        if operand is None or operator_accepts(operator, value, operand, ontology):
            return value
    return None


def _candidates(operator: AnyOperator, operand: Any, ontology: Ontology) -> Iterator[Any]:
    bag = split_bag_operator(operator)
    if operator is Operator.EXISTS:
        yield b""  # anything would do
    elif operator is Operator.ISA:
        yield from (Individual(iri) for iri in sorted(ontology.instances(operand.iri))[:1])
    elif operator is Operator.ONT_PROP:
        yield _related(operand, ontology)
    elif bag is not None:
        found = [_found(bag[1], one, ontology) for one in operand]
        if None not in found:
            yield Bag.of(found)
    elif _is_negative(operator):
        yield from _others(negate_operator(operator), operand)
    elif type(operand) is Term:
        # A bare term is read as the kind of the value it meets: no one value speaks for all.
        return
    else:
        yield operand
        yield from _neighbours(operand)


def _is_negative(operator: AnyOperator) -> bool:
    negative = (Operator.NE, Operator.NOT_EQUIV, Operator.IS_NOT_A)
    return isinstance(operator, Negated) or operator in negative


def _neighbours(value: Any) -> Iterator[Any]:
    """Values just beside one, for strict orders."""
    kind = value_family(value)
    if kind is Family.NUMBER:
        for step in (-1, 1):
            moved = value + step
            if not isinstance(moved, int) or -(2**63) <= moved < 2**63:
                yield moved
    elif kind is Family.TIME:
        for moment in (-_SECOND, _SECOND):
            try:
                yield value + moment
            except OverflowError:
                continue
    elif kind is Family.STRING:
        yield from ("", value + "?")


def _others(positive: AnyOperator, operand: Any) -> Iterator[Any]:
    """Values a positive operator takes and most likely does not accept."""
    if positive is Operator.ISA or positive is Operator.ONT_PROP:
        yield Individual(_UNHEARD)
        return
    if split_bag_operator(positive) is not None:
        yield from (Bag(), Bag(_UNHEARD), Bag(*[_UNHEARD] * (len(operand) + 1)))
        return
    kind = value_family(operand)
    if kind is Family.BOOL:
        yield not operand
    elif kind is Family.BYTES:
        yield operand + b"?"
    elif kind is Family.BAG:
        yield Bag.of((*operand, _UNHEARD))
    elif kind in _UNHEARD_TERMS:
        yield _UNHEARD_TERMS[kind]
    elif kind is Family.STRING:
        yield from (operand + "?", "?" + operand, "", _UNHEARD)
    else:
        yield from _neighbours(operand)


_UNHEARD_TERMS: dict[Family, Term] = {
    Family.CLASS: Class(_UNHEARD),
    Family.PROPERTY: Property(_UNHEARD),
    Family.INDIVIDUAL: Individual(_UNHEARD),
}


def _related(relation: Relation, ontology: Ontology) -> Individual | None:
    """Some individual with the relation, looked for among those the other end is related to."""
    wanted = (relation.property.iri, relation.individual.iri)
    for iri in ontology.individuals:
        if wanted in ontology.relations(iri):
            return Individual(iri)
    return None
