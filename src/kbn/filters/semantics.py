"""Semantics: what constraints and filters mean, by definition. The oracle for everything faster.

`acceptance` says what an operator means for two values. Here the same is said of bags, as plainly
as it can be: every element of one bag is asked about every element of the other, and then each
element that needs a partner is given one of its own. Nothing is indexed, sorted or remembered.
`evaluation` gives the same answers sooner; every index must agree with this module.
"""

from __future__ import annotations

from collections.abc import Sequence

from kbn.filters.acceptance import holds
from kbn.filters.model import Constraint, Filter
from kbn.filters.notification import Notification
from kbn.filters.operators import AnyOperator, Operator
from kbn.filters.values import Bag, Operand, Value
from kbn.filters.vocabulary import Vocabulary

__all__ = [
    "accepts_by_definition",
    "matches_by_definition",
    "operator_accepts_by_definition",
    "partners_of_their_own",
]


def matches_by_definition(
    filter: Filter, notification: Notification, ontology: Vocabulary | None = None
) -> bool:
    """Whether the notification has every attribute the filter tests, each with an accepted value.

    >>> matches_by_definition(Filter([Constraint("x", "<", 3)]), Notification({"x": 2}))
    True
    """
    attributes = notification.attributes
    return all(
        constraint.attribute in attributes
        and accepts_by_definition(constraint, attributes[constraint.attribute], ontology)
        for constraint in filter.constraints
    )


def accepts_by_definition(
    constraint: Constraint, value: Value, ontology: Vocabulary | None = None
) -> bool:
    """Whether a notification with this value for the attribute satisfies the constraint.

    >>> accepts_by_definition(Constraint("x", "#=/<", [2, 3]), Bag(2, 1))
    True
    """
    if constraint.operand is None:
        return True
    return operator_accepts_by_definition(constraint.operator, value, constraint.operand, ontology)


def operator_accepts_by_definition(
    operator: AnyOperator, value: Operand, operand: Operand, ontology: Vocabulary | None = None
) -> bool:
    """Whether the value stands in the relation `operator` to the operand.

    >>> operator_accepts_by_definition(Operator.PREFIX, "tea pot", "tea")
    True
    """
    return holds(operator, value, operand, ontology, _bags_related)


def _bags_related(
    bag: Operator, element: AnyOperator, x: Bag, v: Bag, ontology: Vocabulary
) -> bool:
    """`x #</element v`: each element of x has a partner of its own in v; `#>` the other way."""
    if bag is Operator.EQUAL_BAG and len(x) != len(v):
        return False
    related = [
        [operator_accepts_by_definition(element, one, other, ontology) for other in v.items]
        for one in x.items
    ]
    if bag is Operator.SUPER_BAG:
        related = [[row[place] for row in related] for place in range(len(v))]
    return _each_has_its_own(related)


def _each_has_its_own(related: Sequence[Sequence[bool]]) -> bool:
    """Whether each row can be given a column of its own that it is related to.

    Rows are served one after the other. One that finds its columns taken asks their holders to
    move to another, and those ask in turn (Kuhn's algorithm).
    """
    return len(partners_of_their_own(related)) == len(related)


def partners_of_their_own(related: Sequence[Sequence[bool]]) -> list[int]:
    """A column for each row, in the order of the rows; it ends at a row that can be given none."""
    holders: dict[int, int] = {}
    for row in range(len(related)):
        if not _is_served(row, related, holders):
            break
    held = {row: column for column, row in holders.items()}
    return [held[row] for row in sorted(held)]


def _is_served(row: int, related: Sequence[Sequence[bool]], holders: dict[int, int]) -> bool:
    asked_by: dict[int, int] = {}
    asking = [row]
    for one in asking:
        for column, is_related in enumerate(related[one]):
            if not is_related or column in asked_by:
                continue
            asked_by[column] = one
            if column not in holders:
                _move_along(column, row, asked_by, holders)
                return True
            asking.append(holders[column])
    return False


def _move_along(free: int, row: int, asked_by: dict[int, int], holders: dict[int, int]) -> None:
    """Give the free column to whoever asked for it, and what that one had to the one before."""
    held = {holder: column for column, holder in holders.items()}
    while asked_by[free] != row:
        mover = asked_by[free]
        holders[free] = mover
        free = held[mover]
    holders[free] = row
