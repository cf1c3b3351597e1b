"""Acceptance: what each operator means for a notification's value and a constraint's operand.

An operator first *takes* a pair of value and operand, by their families, and then *holds* for it
or not. A pair it does not take is simply false, and so is its negation: `not (x < 3)` is false for
a string. For a given operand an operator takes values of one family only (`subject_family`);
covering relies on that.

A prefix that the ontology knows is expanded, in a value as in an operand. A bare term, whose kind
was not stated, is given the kind the ontology knows its IRI by when that is
exactly one. A bare operand that stays bare is read as the kind of the value it meets. A bare value
that stays bare is of a family of its own, where each term is related to itself alone.

How two bags are related is a question of its own, asked by way of an argument: `semantics` answers
it by definition, `evaluation` quickly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, cast

from kbn.filters.nearness import is_near
from kbn.filters.operators import (
    ORDER_OPERATORS,
    AnyOperator,
    Near,
    Negated,
    Operator,
    negate_operator,
    split_bag_operator,
)
from kbn.filters.values import Bag, Family, Operand, Relation, Value, value_family
from kbn.filters.vocabulary import NO_ONTOLOGY, Vocabulary, expanded, with_known_kind
from kbn.ontology import Class, Individual, Property, Term

__all__ = ["KIND_OF", "BagRelation", "equivalents", "holds", "subject_family"]

BagRelation: TypeAlias = Callable[[Operator, AnyOperator, Bag, Bag, Vocabulary], bool]

KIND_OF: dict[Family | None, type[Term]] = {
    Family.CLASS: Class,
    Family.PROPERTY: Property,
    Family.INDIVIDUAL: Individual,
}

_NEGATIVE = frozenset({Operator.NE, Operator.NOT_EQUIV, Operator.IS_NOT_A})
_TERM_FAMILIES = frozenset({Family.CLASS, Family.PROPERTY, Family.INDIVIDUAL, Family.TERM})
_HIERARCHIC = frozenset({Family.CLASS, Family.PROPERTY, Family.TERM})
_ORDERED = frozenset({Family.NUMBER, Family.STRING, Family.TIME})
_EQUIVALENCE = frozenset({Operator.EQUIV, Operator.NOT_EQUIV})
_HIERARCHY = frozenset({Operator.MORE_SPECIFIC, Operator.LESS_SPECIFIC})
_OF_INDIVIDUALS = frozenset({Operator.ISA, Operator.IS_NOT_A, Operator.ONT_PROP})
_EQUALITY = frozenset({Operator.EQ, Operator.NE})
_NEAR = _ORDERED | _TERM_FAMILIES


def holds(
    operator: AnyOperator,
    x: Operand,
    v: Operand,
    ontology: Vocabulary | None,
    bags: BagRelation,
) -> bool:
    """Whether the value x stands in the relation `operator` to the operand v.

    `bags` decides about two bags; it is asked only for a positive operator on bags.
    """
    if operator is Operator.EXISTS:
        return True
    ontology = ontology or NO_ONTOLOGY
    x = with_known_kind(x, ontology)
    if type(v) is Relation:
        v = Relation(expanded(v.property, ontology), expanded(v.individual, ontology))
    else:
        v = with_known_kind(v, ontology)
    if type(v) is Term and isinstance(x, Term):
        v = type(x)(v.iri)
    if type(x) is Relation or value_family(cast(Value, x)) is not subject_family(operator, v):
        return False
    if isinstance(operator, Negated) or operator in _NEGATIVE:
        return not _holds(negate_operator(operator), x, v, ontology, bags)
    return _holds(operator, x, v, ontology, bags)


def subject_family(operator: AnyOperator, v: Operand) -> Family | None:
    """The one family of values the operator takes against v; None when it takes none at all.

    `any` takes every family and must be asked about separately.

    >>> subject_family(Operator.LT, 3), subject_family(Operator.PREFIX, 3)
    (<Family.NUMBER: 1>, None)
    """
    if isinstance(operator, Negated):
        operator = operator.operator
    if split_bag_operator(operator) is not None:
        return Family.BAG if type(v) is Bag else None
    if operator in _OF_INDIVIDUALS:
        wanted = Relation if operator is Operator.ONT_PROP else None
        fits = type(v) is Relation if wanted else isinstance(v, Term) and v.kind == "class"
        return Family.INDIVIDUAL if fits else None
    if type(v) is Relation:
        return None
    kind = value_family(cast(Value, v))
    return kind if kind in _families_taken(operator) else None


def equivalents(term: Term, ontology: Vocabulary) -> list[Term]:
    """Every term `@~` this one, itself included, in order; a bare term has none but itself."""
    if term.kind == "class":
        iris = ontology.equivalents(term.iri)
    elif term.kind == "property":
        iris = ontology.equivalent_properties(term.iri)
    elif term.kind == "individual":
        iris = ontology.same_as(term.iri)
    else:
        return [term]
    return [type(term)(iri) for iri in sorted(iris)]


_ALL_FAMILIES = frozenset(Family)
_STRINGS = frozenset({Family.STRING})


def _families_taken(operator: AnyOperator) -> frozenset[Family]:
    if operator in _EQUALITY:
        return _ALL_FAMILIES
    if operator in ORDER_OPERATORS:
        return _ORDERED
    if operator in _EQUIVALENCE:
        return _TERM_FAMILIES
    if operator in _HIERARCHY:
        return _HIERARCHIC
    if isinstance(operator, Near):
        return _NEAR
    return _STRINGS


def _holds(operator: AnyOperator, x: Any, v: Any, ontology: Vocabulary, bags: BagRelation) -> bool:
    """Whether a positive operator holds for a pair it takes."""
    parts = split_bag_operator(operator)
    if parts is not None:
        return bags(parts[0], parts[1], x, v, ontology)
    if isinstance(operator, Near):
        return is_near(operator, x, v, ontology)
    match operator:
        case Operator.EQ:
            return _equal(x, v, ontology, bags)
        case Operator.LT:
            return bool(x < v)
        case Operator.LE:
            return bool(x <= v)
        case Operator.GT:
            return bool(x > v)
        case Operator.GE:
            return bool(x >= v)
        case Operator.PREFIX:
            return bool(x.startswith(v))
        case Operator.SUFFIX:
            return bool(x.endswith(v))
        case Operator.CONTAINS:
            return v in x
        case Operator.IN:
            return x in v
    return _holds_by_ontology(operator, x, v, ontology)


def _holds_by_ontology(operator: AnyOperator, x: Any, v: Any, ontology: Vocabulary) -> bool:
    match operator:
        case Operator.EQUIV:
            return x == v or v in equivalents(x, ontology)
        case Operator.MORE_SPECIFIC:
            return _below(x, v, ontology)
        case Operator.LESS_SPECIFIC:
            return _below(v, x, ontology)
        case Operator.ISA:
            return ontology.is_instance(x.iri, v.iri)
        case Operator.ONT_PROP:
            return v.individual.iri in ontology.related(x.iri, v.property.iri)
    raise AssertionError(f"{operator!r} has no meaning yet")


def _equal(x: Any, v: Any, ontology: Vocabulary, bags: BagRelation) -> bool:
    # Two bags with a bare term inside are equal up to the kinds that term can be read as.
    if type(x) is Bag and (x.bare or v.bare):
        return bags(Operator.EQUAL_BAG, Operator.EQ, x, v, ontology)
    return bool(x == v)


def _below(x: Term, v: Term, ontology: Vocabulary) -> bool:
    if x.iri == v.iri:
        return True
    if x.kind == "class":
        return ontology.is_subclass(x.iri, v.iri)
    return x.kind == "property" and ontology.is_subproperty(x.iri, v.iri)
