"""Intersection: whether some notification may match two filters.

A broker sends a subscription only towards advertisements that it may intersect, so a wrong False
loses notifications and a wrong True costs a little traffic: False is a proof, True may be a
don't-know. Two filters are apart when two of their constraints on one attribute *exclude* each
other: no value satisfies both. Constraints (operator, operand) exclude each other when

1. they take values of different families; a bare operand that the ontology does not settle is read
   as the other's kind, or, if both are bare, once as each kind;
2. one implies the negative of the other: values, ranges, prefixes, disjoint classes and whatever
   else `implication` knows;
3. no term is below both (`@>`, `@>`), above both (`@<`, `@<`) or between them (`@>`, `@<`), for a
   term the ontology does not know is related to itself alone;
4. no individual is in both classes (`@=`, `@=`), or in the class and so related (`@=`, `@*`);
5. they are about bags, one needs certain elements (`#>`, `#=`), the other allows certain elements
   only (`#<`, `#=`), and those needed cannot each have a place of its own among those allowed.

Rule 3 leaves owl:Nothing out of account. As a value it is more specific than every class and
would be where any two `@>` meet; whoever publishes it cannot expect to be found by what it is
below, and a broker that must not lose even that sends it everywhere.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Set
from typing import Any, cast

from kbn.filters.acceptance import KIND_OF, subject_family
from kbn.filters.bags import all_partnered, operand_with_known_kinds
from kbn.filters.implication import operator_implies
from kbn.filters.model import Constraint, Filter
from kbn.filters.operators import AnyOperator, Operator, negate_operator, split_bag_operator
from kbn.filters.values import Bag, Operand
from kbn.filters.vocabulary import KINDS, NO_ONTOLOGY, Vocabulary
from kbn.ontology import NOTHING, THING, Class, Term

__all__ = ["excludes", "may_intersect"]

# Beyond these a proof would cost more than it saves.
_PAIRS_MAX = 10_000
_INDIVIDUALS_MAX = 10_000


def may_intersect(one: Filter, other: Filter, ontology: Vocabulary | None = None) -> bool:
    """Whether some notification may match both: False is a proof that none can.

    >>> cheap, dear = Filter([Constraint("price", "<", 5)]), Filter([Constraint("price", ">", 7)])
    >>> may_intersect(cheap, dear), may_intersect(cheap, Filter([Constraint("kind", "=", "tea")]))
    (False, True)
    """
    by_attribute: dict[str, list[Constraint]] = defaultdict(list)
    for constraint in one.constraints:
        by_attribute[constraint.attribute].append(constraint)
    return not any(
        excludes(mine, theirs, ontology)
        for theirs in other.constraints
        for mine in by_attribute.get(theirs.attribute, ())
    )


def excludes(one: Constraint, other: Constraint, ontology: Vocabulary | None = None) -> bool:
    """Whether it is certain that no value satisfies both constraints on one attribute."""
    if one.operand is None or other.operand is None:
        return False
    return _excluded(
        one.operator, one.operand, other.operator, other.operand, ontology or NO_ONTOLOGY
    )


def _excluded(
    first: AnyOperator, a: Operand, second: AnyOperator, b: Operand, ontology: Vocabulary
) -> bool:
    if first is Operator.EXISTS or second is Operator.EXISTS:
        return False
    a, b = operand_with_known_kinds(a, ontology), operand_with_known_kinds(b, ontology)
    if type(a) is Term and type(b) is Term:
        return _excluded_in_every_kind(first, a, second, b, ontology)
    if type(a) is Term:
        first, a, second, b = second, b, first, a
    family = subject_family(first, a)
    if type(b) is Term:
        if family not in KIND_OF:
            return True
        b = KIND_OF[family](b.iri)
    if family is None or family is not subject_family(second, b):
        return True
    return _excluded_in_family(first, a, second, b, ontology)


def _excluded_in_every_kind(
    first: AnyOperator, a: Term, second: AnyOperator, b: Term, ontology: Vocabulary
) -> bool:
    # A value that stays bare is related to itself alone, like a class nobody knows.
    return _excluded(first, Class(a.iri), second, Class(b.iri), NO_ONTOLOGY) and all(
        _excluded(first, kind(a.iri), second, kind(b.iri), ontology) for kind in KINDS.values()
    )


def _excluded_in_family(
    first: AnyOperator, a: Operand, second: AnyOperator, b: Operand, ontology: Vocabulary
) -> bool:
    """The rules proper, for two constraints that take values of the same family."""
    if operator_implies(first, a, negate_operator(second), b, ontology):
        return True
    if operator_implies(second, b, negate_operator(first), a, ontology):
        return True
    if type(a) is Bag:
        return _bags_excluded(first, a, second, cast(Bag, b), ontology)
    match first, second:
        case (Operator.MORE_SPECIFIC, Operator.MORE_SPECIFIC):
            return _none_below(cast(Term, a), cast(Term, b), ontology)
        case (Operator.LESS_SPECIFIC, Operator.LESS_SPECIFIC):
            return _none_above(cast(Term, a), cast(Term, b), ontology)
        case (Operator.MORE_SPECIFIC, Operator.LESS_SPECIFIC):
            return not _is_below(cast(Term, b), cast(Term, a), ontology)
        case (Operator.LESS_SPECIFIC, Operator.MORE_SPECIFIC):
            return not _is_below(cast(Term, a), cast(Term, b), ontology)
    return _individuals_excluded(first, a, second, b, ontology)


def _is_below(narrower: Term, wider: Term, ontology: Vocabulary) -> bool:
    if narrower.kind == "class":
        return ontology.is_subclass(narrower.iri, wider.iri)
    return ontology.is_subproperty(narrower.iri, wider.iri)


def _none_below(a: Term, b: Term, ontology: Vocabulary) -> bool:
    if _is_below(a, b, ontology) or _is_below(b, a, ontology):
        return False
    below_a, below_b = _descendants(a, ontology), _descendants(b, ontology)
    return below_a is not None and below_b is not None and below_a.isdisjoint(below_b)


def _descendants(term: Term, ontology: Vocabulary) -> Set[str] | None:
    """Every term at or below this one, without owl:Nothing; None if the ontology cannot tell."""
    if ontology is NO_ONTOLOGY:
        return frozenset((term.iri,))
    name = "descendants" if term.kind == "class" else "property_descendants"
    told = getattr(ontology, name, None)
    return None if told is None else cast(Set[str], told(term.iri)) - {NOTHING}


def _none_above(a: Term, b: Term, ontology: Vocabulary) -> bool:
    if a.kind == "property":
        above = ontology.property_ancestors
        return above(a.iri).isdisjoint(above(b.iri))
    # owl:Thing is above every class that is known, and `ancestors` does not say so.
    if ontology.is_subclass(a.iri, THING) and ontology.is_subclass(b.iri, THING):
        return False
    return ontology.ancestors(a.iri).isdisjoint(ontology.ancestors(b.iri))


def _individuals_excluded(
    first: AnyOperator, a: Any, second: AnyOperator, b: Any, ontology: Vocabulary
) -> bool:
    if first is Operator.ONT_PROP and second is Operator.ISA:
        first, a, second, b = second, b, first, a
    if first is not Operator.ISA or second not in (Operator.ISA, Operator.ONT_PROP):
        return False
    members = ontology.instances(a.iri)
    if second is Operator.ISA:
        return members.isdisjoint(ontology.instances(b.iri))
    if len(members) > _INDIVIDUALS_MAX:
        return False
    return not any(b.individual.iri in ontology.related(x, b.property.iri) for x in members)


def _bags_excluded(
    first: AnyOperator, a: Bag, second: AnyOperator, b: Bag, ontology: Vocabulary
) -> bool:
    one, other = _split(first), _split(second)
    if one is None or other is None:
        return False
    return _cannot_place(*one, a, *other, b, ontology) or _cannot_place(
        *other, b, *one, a, ontology
    )


def _split(operator: AnyOperator) -> tuple[Operator, AnyOperator] | None:
    return (
        (Operator.EQUAL_BAG, Operator.EQ)
        if operator is Operator.EQ
        else split_bag_operator(operator)
    )


def _cannot_place(
    needing: Operator,
    mu: AnyOperator,
    needed: Bag,
    allowing: Operator,
    lam: AnyOperator,
    allowed: Bag,
    ontology: Vocabulary,
) -> bool:
    """Whether what one bag constraint needs finds no place in what the other allows.

    Each needed element has an element of the value to itself, which in turn has an allowed one to
    itself; so there is an injection of the needed into the allowed, and the pairs do not exclude
    each other.
    """
    if needing is Operator.SUB_BAG or allowing is Operator.SUPER_BAG:
        return False
    if len(needed) > len(allowed):
        return True
    if len(needed) * len(allowed) > _PAIRS_MAX:
        return False
    return not all_partnered(
        needed.items,
        allowed.items,
        lambda mine, its: not _excluded(mu, mine, lam, its, ontology),
    )
