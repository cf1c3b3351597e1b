"""Implication: whether every value one constraint accepts, another accepts too.

Sound always: True is a proof. The rules are chosen so that the relation is reflexive and transitive
as well, which the covering poset needs; each rule that looks at single values is exact, and so can
stand at its end of any chain.

Below, a constraint is a pair (operator, operand), and P is a premise, C a conclusion.

1. `any` (EXISTS) is implied by everything, and implies nothing else.
2. Both must take values of the same family; a bare operand that the ontology does not settle is
   read once as each kind of term.
3. If P accepts a known, finite set of values (`= v`, `@~ v`, `#= B`...), C must accept each: exact.
4. If C rejects a known, finite set of its family (`!= v`, `@!~ v`...), P must accept none: exact.
5. Two negatives: ¬P implies ¬C exactly when C implies P.
6. A positive implies a negative where no value satisfies both (disjoint classes, two prefixes).
   `near` is a range of numbers or times; of strings and terms, a circle in a metric.
7. Two positives: the table of `docs/concepts/covering.md`; for order and strings as in Siena.
   A C that accepts its whole family (`prefix ""`, `#> {}`) follows from anything in the family.
"""

from __future__ import annotations

import math
from typing import Any, cast

from kbn.filters.acceptance import KIND_OF, equivalents, subject_family
from kbn.filters.bags import all_partnered, operand_with_known_kinds
from kbn.filters.evaluation import operator_accepts
from kbn.filters.model import Constraint
from kbn.filters.nearness import are_apart, is_range, near_implies, near_range
from kbn.filters.operators import (
    ORDER_OPERATORS,
    AnyOperator,
    Composite,
    Near,
    Negated,
    Operator,
    negate_operator,
    split_bag_operator,
)
from kbn.filters.values import Bag, Operand, Relation, Value, value_key
from kbn.filters.vocabulary import KINDS, NO_ONTOLOGY, Vocabulary
from kbn.ontology import Class, Term

__all__ = ["implies", "operator_implies"]

_NEGATIVE = frozenset({Operator.NE, Operator.NOT_EQUIV, Operator.IS_NOT_A})
_OF_SUBSTRINGS = frozenset({Operator.PREFIX, Operator.SUFFIX, Operator.CONTAINS})


def implies(
    premise: Constraint, conclusion: Constraint, ontology: Vocabulary | None = None
) -> bool:
    """Whether every value `premise` accepts, `conclusion` accepts too; False is no disproof.

    >>> implies(Constraint("x", ">", 5), Constraint("x", "!=", 3))
    True
    """
    if premise.attribute != conclusion.attribute:
        return False
    return operator_implies(
        premise.operator, premise.operand, conclusion.operator, conclusion.operand, ontology
    )


def operator_implies(
    premise: AnyOperator,
    a: Operand | None,
    conclusion: AnyOperator,
    b: Operand | None,
    ontology: Vocabulary | None = None,
) -> bool:
    """Whether x `premise` a proves x `conclusion` b, for every value x."""
    if conclusion is Operator.EXISTS:
        return True
    if premise is Operator.EXISTS:
        return False
    assert a is not None and b is not None
    if premise is conclusion and value_key(a) == value_key(b):
        return True
    ontology = ontology or NO_ONTOLOGY
    a, b = operand_with_known_kinds(a, ontology), operand_with_known_kinds(b, ontology)
    if type(a) is Term:
        return type(b) is Term and _implied_in_every_kind(premise, a, conclusion, b, ontology)
    subject = subject_family(premise, a)
    if type(b) is Term and subject in KIND_OF:
        b = KIND_OF[subject](b.iri)
    if subject is None or subject is not subject_family(conclusion, b):
        return False
    return _implied(premise, a, conclusion, b, ontology)


def _implied_in_every_kind(
    premise: AnyOperator, a: Term, conclusion: AnyOperator, b: Term, ontology: Vocabulary
) -> bool:
    for kind in KINDS.values():
        given: Term = kind(a.iri)
        if subject_family(premise, given) is not None and not operator_implies(
            premise, given, conclusion, kind(b.iri), ontology
        ):
            return False
    # A value that stays bare is related to itself alone, like a class nobody knows.
    return operator_implies(premise, Class(a.iri), conclusion, Class(b.iri), NO_ONTOLOGY)


def _implied(
    premise: AnyOperator, a: Operand, conclusion: AnyOperator, b: Operand, ontology: Vocabulary
) -> bool:
    """The rules proper, for two constraints that take values of the same family."""
    if _accepts_whole_family(conclusion, b):
        return True
    accepted = _finite(premise, a, ontology)
    if accepted is not None:
        return all(operator_accepts(conclusion, value, b, ontology) for value in accepted)
    if not _is_negative(conclusion):
        return not _is_negative(premise) and _positives(premise, a, conclusion, b, ontology)
    denied = negate_operator(conclusion)
    rejected = _finite(denied, b, ontology)
    if rejected is not None:
        return not any(operator_accepts(premise, value, a, ontology) for value in rejected)
    if _is_negative(premise):
        return operator_implies(denied, b, negate_operator(premise), a, ontology)
    return _exclusive(premise, a, denied, b, ontology)


def _is_negative(operator: AnyOperator) -> bool:
    return isinstance(operator, Negated) or operator in _NEGATIVE


def _accepts_whole_family(operator: AnyOperator, v: Operand) -> bool:
    if v == "":
        return operator in _OF_SUBSTRINGS or operator is Operator.GE
    if type(v) is float and math.isinf(v):
        return operator is (Operator.LE if v > 0 else Operator.GE)
    parts = split_bag_operator(operator)
    return parts is not None and parts[0] is Operator.SUPER_BAG and len(cast(Bag, v)) == 0


def _finite(operator: AnyOperator, v: Operand, ontology: Vocabulary) -> list[Value] | None:
    """Every value a positive operator accepts, when that is a short, known list; else None."""
    if operator is Operator.EQUIV or (_is_exact(operator) and isinstance(v, Term)):
        return list(equivalents(cast(Term, v), ontology)) if type(v) is not Term else None
    value = _sole_value(operator, v, ontology)
    return None if value is None else [value]


def _is_exact(operator: AnyOperator) -> bool:
    """Whether this is `near(0)`: equal, or equivalent."""
    return isinstance(operator, Near) and operator.tolerance == 0


def _sole_value(operator: AnyOperator, v: Operand, ontology: Vocabulary) -> Value | None:
    """The one value the operator accepts against v, if it is certain that there is just one."""
    if operator is Operator.EQ:
        unclear = type(v) is Term or (type(v) is Bag and v.bare)
        return None if unclear else cast(Value, v)
    if _is_exact(operator) and not isinstance(v, Term):
        return cast(Value, v)
    if (operator is Operator.EQUIV or _is_exact(operator)) and type(v) is not Term:
        same = equivalents(cast(Term, v), ontology)
        return same[0] if len(same) == 1 else None
    if operator is Operator.IN and v == "":
        return ""
    parts = split_bag_operator(operator)
    if parts is None or parts[0] is Operator.SUPER_BAG:
        return None
    return _sole_bag(parts[0], parts[1], cast(Bag, v), ontology)


def _sole_bag(bag: Operator, element: AnyOperator, v: Bag, ontology: Vocabulary) -> Bag | None:
    if bag is Operator.SUB_BAG:
        return None if v.items else v
    if element is Operator.EQ:
        return None if v.bare else v
    if element is Operator.EXISTS and v.items:
        return None
    values = [
        _sole_value(element, operand_with_known_kinds(item, ontology), ontology) for item in v.items
    ]
    return None if any(value is None for value in values) else Bag.of(cast(list[Value], values))


def _positives(
    premise: AnyOperator, a: Any, conclusion: AnyOperator, b: Any, ontology: Vocabulary
) -> bool:
    """The rows of the table whose both sides are positive."""
    if split_bag_operator(premise) is not None or split_bag_operator(conclusion) is not None:
        return _bag_implied(premise, a, conclusion, b, ontology)
    if conclusion in ORDER_OPERATORS:
        return _order_implied(premise, a, conclusion, b)
    if isinstance(premise, Near) and isinstance(conclusion, Near):
        return near_implies(premise, a, conclusion, b, ontology)
    match premise, conclusion:
        case (Operator.MORE_SPECIFIC, Operator.MORE_SPECIFIC) | (
            Operator.LESS_SPECIFIC,
            Operator.LESS_SPECIFIC,
        ):
            return operator_accepts(conclusion, a, b, ontology)
        case (Operator.ISA, Operator.ISA):
            return ontology.is_subclass(a.iri, b.iri)
        case (Operator.ONT_PROP, Operator.ONT_PROP):
            return _relation_implied(a, b, ontology)
        case (Operator.PREFIX, Operator.PREFIX):
            return bool(a.startswith(b))
        case (Operator.SUFFIX, Operator.SUFFIX):
            return bool(a.endswith(b))
        case (Operator.PREFIX | Operator.SUFFIX | Operator.CONTAINS, Operator.CONTAINS):
            return b in a
        case (Operator.IN, Operator.IN):
            return a in b
    return False


def _relation_implied(a: Relation, b: Relation, ontology: Vocabulary) -> bool:
    return ontology.is_subproperty(
        a.property.iri, b.property.iri
    ) and b.individual.iri in ontology.same_as(a.individual.iri)


def _order_implied(premise: AnyOperator, a: Any, conclusion: AnyOperator, b: Any) -> bool:
    if premise is Operator.PREFIX:
        return _prefix_ordered(a, conclusion, b)
    upward = conclusion in (Operator.GT, Operator.GE)
    if isinstance(premise, Near) and is_range(a):
        low, high = near_range(premise, a)
        premise, a = (Operator.GE, low) if upward else (Operator.LE, high)
    if premise not in ((Operator.GT, Operator.GE) if upward else (Operator.LT, Operator.LE)):
        return False
    if premise in (Operator.LE, Operator.GE) and conclusion in (Operator.LT, Operator.GT):
        return bool(a > b) if upward else bool(a < b)
    return bool(a >= b) if upward else bool(a <= b)


def _prefix_ordered(a: str, conclusion: AnyOperator, b: str) -> bool:
    """The strings that start with a begin at a itself, and have no greatest one."""
    if conclusion is Operator.GE:
        return a >= b
    if conclusion is Operator.GT:
        return a > b
    return a < b and not b.startswith(a)


def _exclusive(
    first: AnyOperator, a: Any, second: AnyOperator, b: Any, ontology: Vocabulary
) -> bool:
    """Whether it is certain that no value satisfies both of two positive constraints."""
    if first in ORDER_OPERATORS:
        return _order_implied(second, b, negate_operator(first), a)
    if isinstance(first, Near) and isinstance(second, Near):
        return are_apart(first, a, second, b, ontology)
    if isinstance(first, Near) and second in ORDER_OPERATORS:
        return _order_implied(first, a, negate_operator(second), b)
    match first, second:
        case (Operator.ISA, Operator.ISA):
            return _apart(a.iri, b.iri, ontology)
        case (Operator.PREFIX, Operator.PREFIX):
            return not a.startswith(b) and not b.startswith(a)
        case (Operator.SUFFIX, Operator.SUFFIX):
            return not a.endswith(b) and not b.endswith(a)
        case (Operator.PREFIX | Operator.SUFFIX | Operator.CONTAINS, Operator.IN):
            return a not in b
        case (Operator.IN, Operator.PREFIX | Operator.SUFFIX | Operator.CONTAINS):
            return b not in a
    return False


def _apart(a: str, b: str, ontology: Vocabulary) -> bool:
    # A level of reasoning that does not check consistency may put one individual in two classes
    # it calls disjoint; matching goes by the types, so covering must too.
    return ontology.are_disjoint(a, b) and ontology.instances(a).isdisjoint(ontology.instances(b))


def _bag_implied(
    premise: AnyOperator, a: Bag, conclusion: AnyOperator, b: Bag, ontology: Vocabulary
) -> bool:
    """An injection between the operands, with each element's constraint implied by its partner's.

    `=` on bags is `#=`.
    """
    outer, element_premise = split_bag_operator(premise) or (Operator.EQUAL_BAG, Operator.EQ)
    wanted, element_conclusion = split_bag_operator(conclusion) or (Operator.EQUAL_BAG, Operator.EQ)
    if outer is not Operator.EQUAL_BAG and outer is not wanted:
        return False
    if wanted is Operator.EQUAL_BAG and len(a) != len(b):
        return False
    shortcut = _same_as_comparing(element_premise, element_conclusion)
    if shortcut is not None and not (a.bare or b.bare):
        return operator_accepts(Composite(wanted, shortcut), a, b, ontology)
    if wanted is Operator.SUPER_BAG:
        return all_partnered(
            b.items,
            a.items,
            lambda mine, its: operator_implies(
                element_premise, its, element_conclusion, mine, ontology
            ),
        )
    return all_partnered(
        a.items,
        b.items,
        lambda mine, its: operator_implies(
            element_premise, mine, element_conclusion, its, ontology
        ),
    )


_PREORDERS = frozenset(
    {
        Operator.LE,
        Operator.GE,
        Operator.MORE_SPECIFIC,
        Operator.LESS_SPECIFIC,
        Operator.PREFIX,
        Operator.SUFFIX,
        Operator.CONTAINS,
        Operator.IN,
    }
)


def _same_as_comparing(
    element_premise: AnyOperator, element_conclusion: AnyOperator
) -> AnyOperator | None:
    """The operator under which a is related to b exactly when (μ a) implies (λ b), if any.

    It spares large bags the trial of every pair: `= a` implies whatever accepts a, and for a
    preorder the premise's own operand decides.
    """
    if element_premise is Operator.EQ:
        return element_conclusion
    if element_premise is element_conclusion and element_premise in _PREORDERS:
        return element_premise
    return None
