"""Constraints, filters, subscriptions and notifications: the nouns of the language.

All four are immutable, compare by meaning-bearing content and hash once. A filter keeps its
constraints without duplicates in one canonical order, and a subscription its filters, so that two
ways of writing the same thing are equal, share a place in an index, and print alike in every
process. What they mean is in `semantics`; their text and JSON forms are in `parsing`, `printing`
and `json_form`. Those are imported where called, because they import this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn

from kbn.errors import InvalidInputError, LimitError
from kbn.filters.fitting import fit
from kbn.filters.operators import AnyOperator, Composite, Negated, Operator, read_operator
from kbn.filters.values import Operand, Value, check_value, order_key, value_key

if TYPE_CHECKING:
    from kbn.filters.vocabulary import Vocabulary

__all__ = [
    "MAX_ATTRIBUTES",
    "MAX_CONSTRAINTS",
    "MAX_FILTERS",
    "MAX_NAME",
    "Constraint",
    "Filter",
    "Notification",
    "Subscription",
]

MAX_CONSTRAINTS = 256
MAX_FILTERS = 1024
MAX_ATTRIBUTES = 4096
MAX_NAME = 1024

_store = object.__setattr__


class _Immutable:
    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a {type(self).__name__} is immutable; cannot set {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a {type(self).__name__} is immutable; cannot delete {name!r}")


class Constraint(_Immutable):
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
        _check_name(attribute)
        if type(operator) is not Operator:
            operator = _operator(operator)
        fitted = fit(operator, operand)
        _store(self, "attribute", attribute)
        _store(self, "operator", operator)
        _store(self, "operand", fitted)
        _store(self, "_hash", hash((attribute, operator, fitted)))

    @classmethod
    def trusted(cls, attribute: str, operator: AnyOperator, operand: Operand | None) -> Constraint:
        """A constraint whose parts are known to be checked and to fit each other."""
        made = cls.__new__(cls)
        _store(made, "attribute", attribute)
        _store(made, "operator", operator)
        _store(made, "operand", operand)
        _store(made, "_hash", hash((attribute, operator, operand)))
        return made

    def sort_key(self) -> tuple[Any, ...]:
        """The canonical order, the same in every process; equal exactly for equal constraints."""
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


class Filter(_Immutable):
    """A conjunction of constraints; the empty one matches every notification.

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
        ordered = _in_order(given)
        if len(ordered) > MAX_CONSTRAINTS:
            raise LimitError(
                f"a filter of {len(ordered)} constraints; the limit is {MAX_CONSTRAINTS}",
                limit="constraints per filter",
                maximum=MAX_CONSTRAINTS,
            )
        _store(self, "constraints", ordered)
        _store(self, "_hash", hash(ordered))

    @classmethod
    def trusted(cls, constraints: tuple[Constraint, ...]) -> Filter:
        """A filter of constraints known to be distinct and in canonical order."""
        made = cls.__new__(cls)
        _store(made, "constraints", constraints)
        _store(made, "_hash", hash(constraints))
        return made

    def matches(
        self, notification: Notification | Mapping[str, object], ontology: Vocabulary | None = None
    ) -> bool:
        """Whether every constraint accepts the notification; the meaning all indexes must keep."""
        from kbn.filters.evaluation import matches

        return matches(self, _notification(notification), ontology)

    def covers(self, other: Filter, ontology: Vocabulary | None = None) -> bool:
        """Whether everything `other` matches, this matches: True is a proof, False is none."""
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
        """The filter such data, or such JSON text, stands for."""
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


class Subscription(_Immutable):
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
        _store(self, "filters", ordered)
        _store(self, "_hash", hash(ordered))

    @classmethod
    def trusted(cls, filters: tuple[Filter, ...]) -> Subscription:
        """A subscription of filters known to be distinct and in canonical order."""
        made = cls.__new__(cls)
        _store(made, "filters", filters)
        _store(made, "_hash", hash(filters))
        return made

    @classmethod
    def parse(
        cls,
        text: str,
        prefixes: Mapping[str, str] | None = None,
        ontology: Vocabulary | None = None,
    ) -> Subscription:
        """The subscription the text stands for; with an ontology its terms are also resolved."""
        from kbn.filters.parsing import parse

        return parse(text, prefixes, ontology)

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
        """The subscription such data, or such JSON text, stands for."""
        from kbn.filters.json_form import subscription_from_json

        return subscription_from_json(data)

    def matches(
        self, notification: Notification | Mapping[str, object], ontology: Vocabulary | None = None
    ) -> bool:
        """Whether some filter matches the notification."""
        seen = _notification(notification)
        return any(part.matches(seen, ontology) for part in self.filters)

    def covers(self, other: Subscription, ontology: Vocabulary | None = None) -> bool:
        """Whether each filter of `other` is covered by one of ours; True is a proof."""
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


class Notification(_Immutable, Mapping[str, Value]):
    """What a publisher sends: attribute names and their values.

    >>> Notification({"title": "Brew", "tags": ["tea", "tea"]})["tags"]
    Bag('tea', 'tea')

    `attributes` is the plain dictionary, for reading only. `id`, `publisher` and `time` tell who
    sent it and when; no constraint sees them.
    """

    __slots__ = ("_hash", "attributes", "id", "publisher", "time")

    attributes: dict[str, Value]
    id: str | None
    publisher: str | None
    time: datetime | None
    _hash: int | None

    def __init__(
        self,
        attributes: Mapping[str, object],
        *,
        id: str | None = None,
        publisher: str | None = None,
        time: datetime | None = None,
    ) -> None:
        if not isinstance(attributes, Mapping):
            raise InvalidInputError(f"a notification is made of a mapping, not {attributes!r}")
        if len(attributes) > MAX_ATTRIBUTES:
            raise LimitError(
                f"a notification of {len(attributes)} attributes; the limit is {MAX_ATTRIBUTES}",
                limit="attributes per notification",
                maximum=MAX_ATTRIBUTES,
            )
        _store(self, "attributes", _checked_attributes(attributes))
        _store(self, "id", _optional_text("id", id))
        _store(self, "publisher", _optional_text("publisher", publisher))
        _store(self, "time", None if time is None else _instant(time))
        _store(self, "_hash", None)

    @classmethod
    def trusted(
        cls,
        attributes: dict[str, Value],
        *,
        id: str | None = None,
        publisher: str | None = None,
        time: datetime | None = None,
    ) -> Notification:
        """A notification whose parts are known to be checked; the dictionary becomes its own."""
        made = cls.__new__(cls)
        _store(made, "attributes", attributes)
        _store(made, "id", id)
        _store(made, "publisher", publisher)
        _store(made, "time", time)
        _store(made, "_hash", None)
        return made

    def to_json(self) -> dict[str, Any]:
        """The notification as JSON-ready data."""
        from kbn.filters.json_form import notification_to_json

        return notification_to_json(self)

    @classmethod
    def from_json(cls, data: object) -> Notification:
        """The notification such data, or such JSON text, stands for."""
        from kbn.filters.json_form import notification_from_json

        return notification_from_json(data)

    def __getitem__(self, attribute: str) -> Value:
        return self.attributes[attribute]

    def __iter__(self) -> Iterator[str]:
        return iter(self.attributes)

    def __len__(self) -> int:
        return len(self.attributes)

    def _content(self) -> tuple[object, ...]:
        named = frozenset((name, value_key(value)) for name, value in self.attributes.items())
        return named, self.id, self.publisher, self.time

    def __hash__(self) -> int:
        known = self._hash
        if known is None:
            known = hash(self._content())
            _store(self, "_hash", known)
        return known

    def __eq__(self, other: object) -> bool:
        if type(other) is not Notification:
            return NotImplemented
        return self is other or self._content() == other._content()

    def __repr__(self) -> str:
        named = ((name, getattr(self, name)) for name in ("id", "publisher", "time"))
        extra = "".join(f", {name}={value!r}" for name, value in named if value is not None)
        return f"Notification({self.attributes!r}{extra})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_notification, (self.attributes, self.id, self.publisher, self.time)


def _in_order(constraints: tuple[Constraint, ...]) -> tuple[Constraint, ...]:
    """Without duplicates, in canonical order; the usual filter has each attribute once."""
    if len(constraints) < 2:
        return constraints
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
    if isinstance(given, (Operator, Composite, Negated)):
        return given
    raise InvalidInputError(f"{given!r} is not an operator")


def _check_name(name: object) -> None:
    if type(name) is not str or not name or len(name) > MAX_NAME:
        raise InvalidInputError(_bad_name(name))
    if not name.isascii():
        check_value(name)


def _bad_name(name: object) -> str:
    if not isinstance(name, str):
        return f"an attribute's name is a string, not {type(name).__name__}"
    if not name:
        return "an attribute's name is empty"
    return f"an attribute's name of {len(name)} characters; the limit is {MAX_NAME}"


def _checked_attributes(attributes: Mapping[str, object]) -> dict[str, Value]:
    made: dict[str, Value] = {}
    for name, value in attributes.items():
        _check_name(name)
        try:
            made[name] = check_value(value)
        except LimitError:
            raise
        except InvalidInputError as error:
            raise InvalidInputError(f"attribute {name!r}: {error}") from None
    return made


def _optional_text(what: str, value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise InvalidInputError(f"a notification's {what} is a string, not {value!r}")
    return value


def _instant(time: object) -> datetime:
    if not isinstance(time, datetime):
        raise InvalidInputError(f"a notification's time is a datetime, not {time!r}")
    made = check_value(time)
    assert isinstance(made, datetime)
    return made


def _notification(given: Notification | Mapping[str, object]) -> Notification:
    return given if type(given) is Notification else Notification(given)


def _restore_notification(
    attributes: dict[str, Value], id: str | None, publisher: str | None, time: datetime | None
) -> Notification:
    return Notification(attributes, id=id, publisher=publisher, time=time)
