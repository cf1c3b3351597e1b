"""Constraints, filters and subscriptions: what subscribers ask for.

All three are immutable values: two are equal when they ask for the same in the same terms. A filter
keeps its constraints without duplicates and in one canonical order, and a subscription keeps its
filters so. Two ways to write the same filter are therefore equal, share a place in an index and
print alike in every process.

`semantics` says what they mean; `parsing`, `printing` and `json_form` hold their text and JSON
forms. Methods import these modules when they are called, because the modules import this one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kbn.errors import InvalidInputError, LimitError
from kbn.filters.fitting import fit
from kbn.filters.immutable import Immutable, set_once
from kbn.filters.nearness import as_bounds, is_range
from kbn.filters.notification import Notification, as_notification, check_attribute_name
from kbn.filters.operators import (
    AnyOperator,
    Composite,
    Near,
    Negated,
    Operator,
    read_operator,
)
from kbn.filters.values import Operand, check_value, order_key, value_key

if TYPE_CHECKING:
    from kbn.filters.vocabulary import Vocabulary

__all__ = [
    "MAX_CONSTRAINTS",
    "MAX_FILTERS",
    "Constraint",
    "Filter",
    "Subscription",
]

MAX_CONSTRAINTS = 256
MAX_FILTERS = 1024


class Constraint(Immutable):
    """One test of one attribute: "the notification's value OP the operand".

    >>> Constraint("age", ">=", 18)
    Constraint('age', Operator.GE, 18)
    """

    __slots__ = ("_hash", "attribute", "operand", "operator")

    attribute: str
    operator: AnyOperator
    operand: Operand | None
    _hash: int

    def __init__(self, attribute: str, operator: AnyOperator | str, operand: object = None) -> None:
        check_attribute_name(attribute)
        if type(operator) is not Operator:
            operator = _operator(operator)
        fitted = fit(operator, operand)
        set_once(self, "attribute", attribute)
        set_once(self, "operator", operator)
        set_once(self, "operand", fitted)
        set_once(self, "_hash", hash((attribute, operator, fitted)))

    @classmethod
    def trusted(cls, attribute: str, operator: AnyOperator, operand: Operand | None) -> Constraint:
        """A constraint whose parts are known to be checked and to fit each other."""
        made = cls.__new__(cls)
        set_once(made, "attribute", attribute)
        set_once(made, "operator", operator)
        set_once(made, "operand", operand)
        set_once(made, "_hash", hash((attribute, operator, operand)))
        return made

    def sort_key(self) -> tuple[Any, ...]:
        """The key of the canonical order: the same in every process, equal for equals only."""
        return (self.attribute, self.operator.symbol, order_key(self.operand))

    def accepts(self, value: object, ontology: Vocabulary | None = None) -> bool:
        """Whether a notification with this value for the attribute satisfies the constraint."""
        from kbn.filters.evaluation import accepts

        return accepts(self, check_value(value), ontology)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if type(other) is not Constraint:
            return NotImplemented
        return (
            self._hash == other._hash
            and self.operator is other.operator
            and self.attribute == other.attribute
            and value_key(self.operand) == value_key(other.operand)
        )

    def __repr__(self) -> str:
        operand = "" if self.operator is Operator.EXISTS else f", {self.operand!r}"
        return f"Constraint({self.attribute!r}, {self.operator!r}{operand})"

    def __str__(self) -> str:
        from kbn.filters.printing import print_constraint

        return print_constraint(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return Constraint.trusted, (self.attribute, self.operator, self.operand)


class Filter(Immutable):
    """A conjunction of constraints; the empty one matches every notification.

    `near` on a number or a time is kept as the range that it means.

    >>> dear = Filter([Constraint("price", ">", 20)])
    >>> dear.matches({"price": 25}), dear.matches({"price": 5}), Filter().matches({})
    (True, False, True)
    """

    __slots__ = ("_hash", "constraints")

    constraints: tuple[Constraint, ...]
    _hash: int

    def __init__(self, constraints: Iterable[Constraint] = ()) -> None:
        given = tuple(constraints)
        for constraint in given:
            if type(constraint) is not Constraint:
                raise InvalidInputError(f"a filter is made of constraints, not {constraint!r}")
        if any(type(constraint.operator) is Near for constraint in given):
            given = tuple(part for constraint in given for part in _as_range(constraint))
        ordered = _in_order(given)
        if len(ordered) > MAX_CONSTRAINTS:
            raise LimitError(
                f"a filter of {len(ordered)} constraints; the limit is {MAX_CONSTRAINTS}",
                limit="constraints per filter",
                maximum=MAX_CONSTRAINTS,
            )
        set_once(self, "constraints", ordered)
        set_once(self, "_hash", hash(ordered))

    @classmethod
    def trusted(cls, constraints: tuple[Constraint, ...]) -> Filter:
        """A filter of constraints known to be distinct and in canonical order."""
        made = cls.__new__(cls)
        set_once(made, "constraints", constraints)
        set_once(made, "_hash", hash(constraints))
        return made

    def matches(
        self, notification: Notification | Mapping[str, object], ontology: Vocabulary | None = None
    ) -> bool:
        """Whether every constraint accepts the notification; every index must give this answer."""
        from kbn.filters.evaluation import matches

        return matches(self, as_notification(notification), ontology)

    def covers(self, other: Filter, ontology: Vocabulary | None = None) -> bool:
        """Whether this filter matches everything that `other` matches.

        True is a proof; False only means that none was found.
        """
        from kbn.filters.covering import covers

        return covers(self, other, ontology)

    def to_text(self, prefixes: Mapping[str, str] | None = None) -> str:
        """The filter in the text language."""
        from kbn.filters.printing import print_filter

        return print_filter(self, prefixes)

    def to_json(self) -> dict[str, Any]:
        """The filter as JSON-ready data."""
        from kbn.filters.json_form import filter_to_json

        return filter_to_json(self)

    @classmethod
    def from_json(cls, data: object) -> Filter:
        """The filter that JSON data, or JSON text, stands for."""
        from kbn.filters.json_form import filter_from_json

        return filter_from_json(data)

    def __iter__(self) -> Iterator[Constraint]:
        return iter(self.constraints)

    def __len__(self) -> int:
        return len(self.constraints)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if type(other) is not Filter:
            return NotImplemented
        return self._hash == other._hash and self.constraints == other.constraints

    def __repr__(self) -> str:
        return f"Filter({list(self.constraints)!r})"

    def __str__(self) -> str:
        return self.to_text()

    def __reduce__(self) -> tuple[Any, ...]:
        return Filter.trusted, (self.constraints,)


class Subscription(Immutable):
    """One filter, or a disjunction of filters.

    >>> Subscription.parse('price < 20 or kind = "book"').matches({"kind": "book"})
    True
    """

    __slots__ = ("_hash", "filters")

    filters: tuple[Filter, ...]
    _hash: int

    def __init__(self, filters: Filter | Iterable[Filter]) -> None:
        given = (filters,) if isinstance(filters, Filter) else tuple(filters)
        for part in given:
            if type(part) is not Filter:
                raise InvalidInputError(f"a subscription is made of filters, not {part!r}")
        ordered = given if len(given) == 1 else _filters_in_order(given)
        if not ordered:
            raise InvalidInputError("a subscription needs at least one filter")
        if len(ordered) > MAX_FILTERS:
            raise LimitError(
                f"a subscription of {len(ordered)} filters; the limit is {MAX_FILTERS}",
                limit="filters per subscription",
                maximum=MAX_FILTERS,
            )
        set_once(self, "filters", ordered)
        set_once(self, "_hash", hash(ordered))

    @classmethod
    def trusted(cls, filters: tuple[Filter, ...]) -> Subscription:
        """A subscription of filters known to be distinct and in canonical order."""
        made = cls.__new__(cls)
        set_once(made, "filters", filters)
        set_once(made, "_hash", hash(filters))
        return made

    @classmethod
    def parse(
        cls,
        text: str,
        prefixes: Mapping[str, str] | None = None,
        ontology: Vocabulary | None = None,
        **limits: int,
    ) -> Subscription:
        """The subscription that a text stands for; an ontology resolves the terms in it.

        `tokens_max` refuses a text of more tokens.
        """
        from kbn.filters.parsing import parse

        return parse(text, prefixes, ontology, **limits)

    def to_text(self, prefixes: Mapping[str, str] | None = None) -> str:
        """The subscription in the text language; parsing it gives an equal subscription."""
        from kbn.filters.printing import print_subscription

        return print_subscription(self, prefixes)

    def to_json(self) -> dict[str, Any]:
        """The subscription as JSON-ready data."""
        from kbn.filters.json_form import subscription_to_json

        return subscription_to_json(self)

    @classmethod
    def from_json(cls, data: object) -> Subscription:
        """The subscription that JSON data, or JSON text, stands for."""
        from kbn.filters.json_form import subscription_from_json

        return subscription_from_json(data)

    def matches(
        self, notification: Notification | Mapping[str, object], ontology: Vocabulary | None = None
    ) -> bool:
        """Whether some filter matches the notification."""
        seen = as_notification(notification)
        return any(part.matches(seen, ontology) for part in self.filters)

    def covers(self, other: Subscription, ontology: Vocabulary | None = None) -> bool:
        """Whether one of our filters covers each filter of `other`; True is a proof."""
        return all(
            any(wide.covers(narrow, ontology) for wide in self.filters) for narrow in other.filters
        )

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if type(other) is not Subscription:
            return NotImplemented
        return self._hash == other._hash and self.filters == other.filters

    def __repr__(self) -> str:
        return f"Subscription({list(self.filters)!r})"

    def __str__(self) -> str:
        return self.to_text()

    def __reduce__(self) -> tuple[Any, ...]:
        return Subscription.trusted, (self.filters,)


def _as_range(constraint: Constraint) -> tuple[Constraint, ...]:
    """The two bounds that `near` a number or a time means; any other constraint as it is."""
    operator, operand = constraint.operator, constraint.operand
    if type(operator) is not Near or not is_range(operand):
        return (constraint,)
    return tuple(
        Constraint.trusted(constraint.attribute, order, bound)
        for order, bound in as_bounds(operator, operand)
    )


def _in_order(constraints: tuple[Constraint, ...]) -> tuple[Constraint, ...]:
    """The constraints in canonical order, without duplicates."""
    if len(constraints) < 2:
        return constraints
    # Most filters have each attribute once: its name alone then decides the order.
    by_name = {constraint.attribute: constraint for constraint in constraints}
    if len(by_name) == len(constraints):
        return tuple([by_name[name] for name in sorted(by_name)])
    return tuple(sorted(dict.fromkeys(constraints), key=Constraint.sort_key))


def _filters_in_order(filters: tuple[Filter, ...]) -> tuple[Filter, ...]:
    def sort_key(part: Filter) -> list[tuple[Any, ...]]:
        return [constraint.sort_key() for constraint in part.constraints]

    return tuple(sorted(dict.fromkeys(filters), key=sort_key))


def _operator(given: object) -> AnyOperator:
    if isinstance(given, str):
        return read_operator(given)
    if isinstance(given, (Operator, Composite, Near, Negated)):
        return given
    raise InvalidInputError(f"{given!r} is not an operator")
