"""Accepted operands: of the operands asked for with an operator, those that accept a value."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any

from kbn.filters import Operator
from kbn.ontology import Ontology, Term


def common(operands: dict[Any, int], accepted: Any) -> list[int]:
    """The tokens of the operands that are accepted, walking the smaller of the two."""
    if len(operands) < len(accepted):
        return [token for operand, token in operands.items() if operand in accepted]
    return [operands[operand] for operand in accepted if operand in operands]


def accepted_terms(operator: Operator, value: Term, ontology: Ontology) -> Any:
    """The IRIs (or property-individual pairs) v for which `value operator v` holds."""
    kind, iri = value.kind, value.iri
    if operator is Operator.EQUIV:
        return _EQUIVALENTS[kind](ontology, iri)
    if operator is Operator.ISA:
        return ontology.types(iri) if kind == "individual" else frozenset()
    if operator is Operator.ONT_PROP:
        return ontology.relations(iri) if kind == "individual" else frozenset()
    below = operator is Operator.MORE_SPECIFIC
    if kind == "class":
        return ontology.ancestors(iri) if below else ontology.descendants(iri)
    if kind == "property":
        return ontology.property_ancestors(iri) if below else ontology.property_descendants(iri)
    return frozenset()


_EQUIVALENTS: dict[str, Any] = {
    "class": lambda ontology, iri: ontology.equivalents(iri),
    "property": lambda ontology, iri: ontology.equivalent_properties(iri),
    "individual": lambda ontology, iri: ontology.same_as(iri),
}


def satisfied_bounds(operator: Operator, bounds: list[tuple[Any, int]], value: Any) -> list[int]:
    """The tokens of the sorted `bounds` b for which `value operator b` holds."""
    if operator is Operator.LT:
        chosen = bounds[bisect_right(bounds, value, key=_bound) :]
    elif operator is Operator.LE:
        chosen = bounds[bisect_left(bounds, value, key=_bound) :]
    elif operator is Operator.GT:
        chosen = bounds[: bisect_left(bounds, value, key=_bound)]
    else:
        chosen = bounds[: bisect_right(bounds, value, key=_bound)]
    return [token for _, token in chosen]


def _bound(pair: tuple[Any, int]) -> Any:
    return pair[0]
