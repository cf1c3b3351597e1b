"""Sizes: how large a subscription or a notification is, counted before anything is done with it.

What it costs to match the two depends on little else. Elements are the values in bags, at any
depth. Under most element operators of a composite each element of one bag may have to be compared
with each of the other (`=` and the orders are decided by counting and sorting): those are *paired*.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kbn.errors import LimitError
from kbn.filters.model import Filter, Subscription
from kbn.filters.operators import (
    ORDER_OPERATORS,
    AnyOperator,
    Negated,
    Operator,
    split_bag_operator,
)
from kbn.filters.values import Bag, Operand

__all__ = [
    "NotificationSize",
    "SubscriptionSize",
    "bag_elements",
    "check_parts",
    "is_paired",
    "notification_size",
]

_COUNTED = ORDER_OPERATORS | {Operator.EQ, Operator.NE, Operator.EXISTS}


class SubscriptionSize(NamedTuple):
    """`constraints` and `elements` of all filters together; `paired` elements and `depth` of the
    constraint that has most. Elements that are paired in bags within bags count as often as the
    bags are deep: that is about what they cost.
    """

    constraints: int
    elements: int
    paired: int
    depth: int

    @classmethod
    def of(cls, subscription: Subscription) -> SubscriptionSize:
        """Count what is in a subscription.

        >>> SubscriptionSize.of(Subscription.parse('a = 1 and b #>/* {"x", "y"} or c #> {1, 2, 3}'))
        SubscriptionSize(constraints=3, elements=5, paired=2, depth=1)
        """
        constraints = [each for filter in subscription.filters for each in filter.constraints]
        bags = [each for each in constraints if type(each.operand) is Bag]
        sizes = [_elements(each.operand.items) for each in bags]  # type: ignore[union-attr]
        depths = [each.operand.depth for each in bags]  # type: ignore[union-attr]
        paired = (
            n * depth
            for n, depth, each in zip(sizes, depths, bags, strict=True)
            if is_paired(each.operator)
        )
        return cls(len(constraints), sum(sizes), max(paired, default=0), max(depths, default=0))


def bag_elements(filter: Filter) -> int:
    """The elements of the bags that a filter asks for.

    >>> bag_elements(Subscription.parse('a = 1 and b #>/* {"x", "y"}').filters[0])
    2
    """
    bags = (each.operand for each in filter.constraints if type(each.operand) is Bag)
    return sum(_elements(bag.items) for bag in bags)


class NotificationSize(NamedTuple):
    """The elements of all bags, and how many characters of text are in them."""

    elements: int
    text: int


def notification_size(attributes: Mapping[str, object]) -> NotificationSize:
    """Count what is in a notification.

    >>> notification_size({"title": "long", "tags": Bag("tea", Bag("pot", 7))})
    NotificationSize(elements=4, text=6)
    """
    elements = text = 0
    for value in attributes.values():
        if type(value) is Bag:
            elements += _elements(value.items)
            text += _text(value.items)
    return NotificationSize(elements, text)


def check_parts(data: object, parts_max: int) -> None:
    """Raise LimitError when data from JSON has more values than that, at any depth.

    >>> check_parts({"all": [1, 2, 3]}, 5)
    """
    parts, rest = 0, [data]
    while rest:
        found = rest.pop()
        if isinstance(found, dict):
            rest.extend(found.values())
            parts += len(found)
        elif isinstance(found, list):
            rest.extend(found)
            parts += len(found)
        if parts > parts_max:
            raise LimitError(
                f"a subscription of more than {parts_max} values; that is the limit: divide it "
                "into several",
                limit="tokens per subscription",
                maximum=parts_max,
            )


def _elements(items: Iterable[Operand]) -> int:
    return sum(1 + _elements(item.items) if type(item) is Bag else 1 for item in items)


def _text(items: Iterable[Operand]) -> int:
    return sum(
        len(item) if type(item) is str else _text(item.items) if type(item) is Bag else 0
        for item in items
    )


def is_paired(operator: AnyOperator) -> bool:
    """Whether each element of one bag may have to be compared with each of the other.

    >>> from kbn.filters import read_operator
    >>> is_paired(read_operator("#>/*")), is_paired(read_operator("#>"))
    (True, False)
    """
    if isinstance(operator, Negated):
        operator = operator.operator
    parts = split_bag_operator(operator)
    return parts is not None and parts[1] not in _COUNTED
