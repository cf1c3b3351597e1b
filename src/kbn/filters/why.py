"""Why a value satisfies a constraint, or does not, in words a person can check.

The sentence says which value (and, in a bag, which element) satisfied which operand, or what is in
the way:

    category: Podcasting is a kind of Technology
    duration: 1500 is not less than 600
    kind: Fan is a class, and @= takes an individual; use @> for classes
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from kbn.filters.acceptance import subject_family
from kbn.filters.bags import relation_with_known_terms
from kbn.filters.evaluation import operator_accepts
from kbn.filters.operators import Near, Negated, Operator, split_bag_operator
from kbn.filters.semantics import partners_of_their_own
from kbn.filters.values import Bag, Family, Relation, value_family
from kbn.filters.vocabulary import with_known_kind
from kbn.ontology import (
    THING,
    Link,
    Term,
    chain,
    chain_of_individual,
    links_between_same,
    links_of_relation,
)
from kbn.wording import counted

if TYPE_CHECKING:
    from kbn.filters.model import Constraint
    from kbn.filters.operators import AnyOperator
    from kbn.filters.values import Value
    from kbn.ontology import Ontology

WORDS = {
    Operator.EQ: "is",
    Operator.NE: "is not",
    Operator.LT: "is less than",
    Operator.LE: "is at most",
    Operator.GT: "is more than",
    Operator.GE: "is at least",
    Operator.PREFIX: "starts with",
    Operator.SUFFIX: "ends with",
    Operator.CONTAINS: "contains",
    Operator.IN: "is part of",
    Operator.EQUIV: "is equivalent to",
    Operator.NOT_EQUIV: "is not equivalent to",
    Operator.MORE_SPECIFIC: "is a kind of",
    Operator.LESS_SPECIFIC: "is wider than",
    Operator.ISA: "is one of the",
    Operator.IS_NOT_A: "is not known to be one of the",
    Operator.ONT_PROP: "has",
}
NOT_WORDS = {
    Operator.EQ: "is not",
    Operator.NE: "is",
    Operator.LT: "is not less than",
    Operator.LE: "is more than",
    Operator.GT: "is not more than",
    Operator.GE: "is less than",
    Operator.PREFIX: "does not start with",
    Operator.SUFFIX: "does not end with",
    Operator.CONTAINS: "does not contain",
    Operator.IN: "is not part of",
    Operator.EQUIV: "is not equivalent to",
    Operator.NOT_EQUIV: "is equivalent to",
    Operator.MORE_SPECIFIC: "is not a kind of",
    Operator.LESS_SPECIFIC: "is not wider than",
    Operator.ISA: "is not known to be one of the",
    Operator.IS_NOT_A: "is one of the",
    Operator.ONT_PROP: "is not known to have",
}
FAMILIES = {
    Family.BOOL: "a truth value",
    Family.NUMBER: "a number",
    Family.STRING: "a string",
    Family.BYTES: "bytes",
    Family.TIME: "a time",
    Family.CLASS: "a class",
    Family.PROPERTY: "a property",
    Family.INDIVIDUAL: "an individual",
    Family.TERM: "a term of no stated kind",
    Family.BAG: "a bag",
}
LINKS_MAX = 64
"""How many links one constraint is explained by; a bag of thousands is not spelt out."""
SHOWN_MAX = 16
"""How many elements of a bag are shown in one place."""
SHOWN_CHARACTERS_MAX = 200
"""How much is shown of one text."""
SPELT_MAX = 64
"""How many elements a bag may have, with those of the bags in it, that is explained by pairs."""


def reason_and_links(
    constraint: Constraint, value: Value, ontology: Ontology
) -> tuple[str, tuple[Link, ...]]:
    """What in `value` satisfies the constraint, and the links of the ontology by which it does.

    The value must satisfy it.
    """
    operator, operand = constraint.operator, constraint.operand
    parts = split_bag_operator(operator)
    found: Iterator[Link]
    if parts is not None and isinstance(value, Bag) and isinstance(operand, Bag):
        pairs = list(_pairs(*parts, value, operand, ontology))
        said = _said_of_pairs(*parts, pairs, operand, ontology)
        found = (link for x, v in pairs for link in _links(parts[1], x, v, ontology))
    else:
        said = _said(operator, value, operand, ontology)
        found = _links(operator, value, operand, ontology)
    return f"{constraint.attribute}: {said}", tuple(dict.fromkeys(islice(found, LINKS_MAX)))


def reason_for(constraint: Constraint, value: Value, ontology: Ontology) -> str:
    """What in `value` satisfies the constraint; the value must satisfy it.

    >>> from kbn.filters import Subscription
    >>> from kbn.ontology import Ontology
    >>> (wanted,) = Subscription.parse("price < 20").filters[0].constraints
    >>> reason_for(wanted, 5, Ontology.empty())
    'price: 5 is less than 20'
    """
    return (
        f"{constraint.attribute}: {_said(constraint.operator, value, constraint.operand, ontology)}"
    )


def has_one_reason(constraint: Constraint) -> bool:
    """Whether `reason_for` says the same of every value: a bag has the elements asked for.

    >>> from kbn.filters import Subscription
    >>> wanted = Subscription.parse('tags #> {"new"} and price < 20').filters[0].constraints
    >>> {each.attribute: has_one_reason(each) for each in wanted} == {"tags": True, "price": False}
    True
    """
    parts = split_bag_operator(constraint.operator)
    return parts is not None and parts[1] is Operator.EQ


def reason_against(constraint: Constraint, value: Value, ontology: Ontology) -> str:
    """Why `value` does not satisfy the constraint; the value must not satisfy it."""
    said = _denied(constraint.operator, value, constraint.operand, ontology)
    return f"{constraint.attribute}: {said}"


def _links(operator: AnyOperator, value: Any, operand: Any, ontology: Ontology) -> Iterator[Link]:
    parts = split_bag_operator(operator)
    if parts is not None and isinstance(value, Bag) and isinstance(operand, Bag):
        for x, v in _pairs(*parts, value, operand, ontology):
            yield from _links(parts[1], x, v, ontology)
        return
    x, v = with_known_kind(value, ontology), with_known_kind(operand, ontology)
    if operator is Operator.ONT_PROP and isinstance(v, Relation):
        held = relation_with_known_terms(v, ontology)
        names = (x.iri, held.property.iri, held.individual.iri)
        yield from links_of_relation(ontology, *names)
    elif isinstance(x, Term) and isinstance(v, Term):
        match operator:
            case Operator.MORE_SPECIFIC | Operator.EQUIV if x.kind in ("class", "property"):
                yield from chain(ontology, x.iri, v.iri, x.kind)
            case Operator.LESS_SPECIFIC if x.kind in ("class", "property"):
                yield from chain(ontology, v.iri, x.iri, x.kind)
            case Operator.EQUIV if x.kind == "individual":
                yield from links_between_same(ontology, x.iri, v.iri)
            case Operator.ISA if v.iri != THING:
                yield from chain_of_individual(ontology, x.iri, v.iri)


def _denied(operator: AnyOperator, value: Any, operand: Any, ontology: Ontology) -> str:
    x = with_known_kind(value, ontology)
    v = operand if isinstance(operand, (Bag, Relation)) else with_known_kind(operand, ontology)
    if type(v) is Term and isinstance(x, Term):
        v = type(x)(v.iri)
    family, wanted = value_family(x), subject_family(operator, v)
    shown = _shown(value, ontology)
    if family is not wanted:
        return _not_taken(operator, shown, family, wanted)
    if isinstance(operator, Negated):
        return _said(operator.operator, value, operand, ontology)
    if split_bag_operator(operator) is not None:
        return _denied_of_bags(operator, value, operand, ontology)
    said = f"{shown} {_word(operator, negative=True)} {_shown(operand, ontology)}"
    if isinstance(x, Term) and x.kind not in ontology.kinds(x.iri):
        said += "; the ontology does not know the value" + (
            "" if x.kind == "term" else f" as a {x.kind}"
        )
    return said


def _not_taken(
    operator: AnyOperator, shown: str, family: Family | None, wanted: Family | None
) -> str:
    """What is wrong with a value of a family that the operator does not take."""
    plain = operator.operator if isinstance(operator, Negated) else operator
    takes = FAMILIES[wanted] if wanted is not None else "no such operand"
    said = f"{shown} is {FAMILIES[family] if family is not None else 'a relation'}"
    said += f", and {plain.symbol} takes {takes}"
    if plain in (Operator.ISA, Operator.IS_NOT_A) and family is Family.CLASS:
        said += "; use @> for classes"
    if plain in (Operator.MORE_SPECIFIC, Operator.LESS_SPECIFIC) and family is Family.INDIVIDUAL:
        said += "; use @= for individuals"
    return said


def _denied_of_bags(operator: AnyOperator, value: Bag, operand: Bag, ontology: Ontology) -> str:
    """Which elements have no partner, or that there are too few partners for all."""
    split = split_bag_operator(operator)
    assert split is not None
    bag, element = split
    if bag is Operator.EQUAL_BAG and len(value) != len(operand):
        return f"has {counted(len(value), 'element')}, not {len(operand)}"
    inward = bag is Operator.SUPER_BAG
    served, partners = (operand, value) if inward else (value, operand)
    if _is_large(value) or _is_large(operand):
        return f"not every element of {'the operand' if inward else 'the bag'} has a partner"
    alone = [
        one
        for one in served
        if not any(
            operator_accepts(element, *((other, one) if inward else (one, other)), ontology)
            for other in partners
        )
    ]
    if not alone:
        return f"too few of {_shown(value, ontology)} go with {_shown(operand, ontology)}"
    listed = ", ".join(dict.fromkeys(_shown(one, ontology) for one in alone))
    if inward:
        return f"no element of {_shown(value, ontology)} {_word(element)} {listed}"
    return f"{listed} {_word(element, negative=True)} any of {_shown(operand, ontology)}"


def _word(element: AnyOperator, *, negative: bool = False) -> str:
    if isinstance(element, Operator):
        words = NOT_WORDS if negative else WORDS
        if element in words:
            return words[element]
    if isinstance(element, Near):
        return f"is {'not ' if negative else ''}within {element.tolerance} of"
    return f"{'is not ' if negative else 'is '}{element.symbol}"


def _said(operator: AnyOperator, value: object, operand: object, ontology: Ontology) -> str:
    if operator is Operator.EXISTS:
        return f"{_shown(value, ontology)} is there"
    if isinstance(operator, Negated):
        denied = f"{operator.operator.symbol} {_shown(operand, ontology)}"
        return f"not ({_shown(value, ontology)} {denied})"
    if split_bag_operator(operator) is not None:
        return _said_of_bags(operator, value, operand, ontology)
    if value == operand and operator in (Operator.MORE_SPECIFIC, Operator.LESS_SPECIFIC):
        return f"{_shown(value, ontology)} itself"
    return f"{_shown(value, ontology)} {_word(operator)} {_shown(operand, ontology)}"


def _said_of_bags(operator: AnyOperator, value: object, operand: object, ontology: Ontology) -> str:
    """The pairs of elements that are related, or the whole bag when elements must be equal."""
    split = split_bag_operator(operator)
    assert split is not None and isinstance(value, Bag) and isinstance(operand, Bag)
    pairs = list(_pairs(*split, value, operand, ontology))
    return _said_of_pairs(*split, pairs, operand, ontology)


def _said_of_pairs(
    bag: Operator,
    element: AnyOperator,
    pairs: list[tuple[Any, Any]],
    operand: Bag,
    ontology: Ontology,
) -> str:
    if element is Operator.EQ:
        word = {Operator.SUPER_BAG: "has", Operator.SUB_BAG: "is within"}.get(bag, "is")
        return f"{word} {_shown(operand, ontology)}"
    said = [_said(element, x, v, ontology) for x, v in pairs]
    if not said and operand:
        return f"{_shown(operand, ontology)}: each has a partner of its own"
    return ", ".join(dict.fromkeys(said)) or "no element is asked for"


def _pairs(
    bag: Operator, element: AnyOperator, value: Bag, operand: Bag, ontology: Ontology
) -> Iterator[tuple[Any, Any]]:
    """Each element that has to find a partner, with a partner of its own."""
    inward = bag is Operator.SUPER_BAG
    served, partners = (operand.items, value.items) if inward else (value.items, operand.items)
    if element is Operator.EQ or _is_large(value) or _is_large(operand):
        return
    related = [
        [
            operator_accepts(element, *((other, one) if inward else (one, other)), ontology)
            for other in partners
        ]
        for one in served
    ]
    for place, partner in enumerate(partners_of_their_own(related)):
        one, other = served[place], partners[partner]
        yield (other, one) if inward else (one, other)


def _is_large(bag: Bag) -> bool:
    """Whether a bag has too many elements to look at each pair of them."""
    count = 0
    for item in bag.items:
        count += 1 + (len(list(_leaves(item))) if isinstance(item, Bag) else 0)
        if count > SPELT_MAX:
            return True
    return False


def _leaves(bag: Bag) -> Iterator[object]:
    for item in bag.items:
        yield item
        if isinstance(item, Bag):
            yield from _leaves(item)


def _shown(value: object, ontology: Ontology) -> str:
    """A term by its label, the rest as it is written; of a large bag, some of it."""
    if isinstance(value, Term):
        iri = ontology.full_iri(value.iri)
        return ontology.label(iri) or ontology.shorten(iri)
    if isinstance(value, Relation):
        return f"{_shown(value.property, ontology)} {_shown(value.individual, ontology)}"
    if isinstance(value, Bag):
        shown = [_shown(element, ontology) for element in value.items[:SHOWN_MAX]]
        if len(value) > SHOWN_MAX:
            shown.append(f"and {counted(len(value) - SHOWN_MAX, 'more element')}")
        return ", ".join(shown) or "nothing"
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= SHOWN_CHARACTERS_MAX else text[:SHOWN_CHARACTERS_MAX] + "…"
