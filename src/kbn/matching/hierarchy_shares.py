"""Hierarchy shares: how many values a semantic constraint accepts, guessed from the ontology.

`@> C` accepts the classes at or below C, so C's descendants among all classes are its share where
values are spread evenly; `@< C` accepts C's ancestors. A bag passes `#>/λ {C}` if one of its
elements does.
"""

from __future__ import annotations

from kbn.filters import AnyOperator, Bag, Constraint, Operator, split_bag_operator
from kbn.ontology import Class, Ontology

ELEMENTS = 8
"""How many elements a bag is taken to have."""


_OPERATORS = (Operator.MORE_SPECIFIC, Operator.LESS_SPECIFIC)


def is_about_hierarchy(operator: AnyOperator) -> bool:
    """Whether the share of a constraint may depend on its operand."""
    parts = split_bag_operator(operator)
    if parts is None:
        return operator in _OPERATORS
    return parts[0] is Operator.SUPER_BAG and parts[1] in _OPERATORS


class HierarchyShares:
    """The shares that one ontology suggests."""

    def __init__(self, ontology: Ontology) -> None:
        self._ontology = ontology
        tree = ontology.class_tree
        self._component_of = tree.component_of
        self._starts = {
            Operator.MORE_SPECIFIC: tree.descendants.starts,
            Operator.LESS_SPECIFIC: tree.ancestors.starts,
        }

    def share(self, constraint: Constraint) -> float | None:
        """The share of notifications that satisfy the constraint; None if it is not about that.

        >>> guesses = HierarchyShares(Ontology.empty())
        >>> guesses.share(Constraint("price", "<", 20)) is None
        True
        """
        operator, operand = constraint.operator, constraint.operand
        parts = split_bag_operator(operator)
        elements = 1
        if parts is not None:
            if parts[0] is not Operator.SUPER_BAG or not isinstance(operand, Bag):
                return None
            operator, operand, elements = parts[1], operand.items[0], ELEMENTS
        if operator not in self._starts or not isinstance(operand, Class):
            return None
        number = self._ontology.class_index(operand.iri)
        if number is None:
            return None
        starts, component = self._starts[operator], self._component_of[number]
        accepted = int(starts[component + 1] - starts[component])
        return 1.0 - (1.0 - min(1.0, accepted / len(self._component_of))) ** elements
