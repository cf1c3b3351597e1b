"""Values: what a notification's attribute can hold, and what a constraint compares it with.

Every value belongs to one family, and operators only ever relate values by family: `1` and `1.0`
are the same number, `True` is no number, `Class(i)` and `Individual(i)` have nothing in common.
Python itself disagrees about `True == 1`, so whatever counts or looks up values does it by
`value_key`, which keeps truth values apart.

`check_value` is the door: it turns what callers pass (lists, NumPy scalars, local times) into one
of the plain types below, and rejects what has no meaning. Inside the door types are exact, so code
may dispatch on `type(value)`. Times are kept in UTC, which makes equal instants equal values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any, TypeAlias, cast

from kbn.errors import InvalidInputError, LimitError
from kbn.ontology import Class, Individual, Property, Term

__all__ = [
    "INT_MAX",
    "INT_MIN",
    "MAX_BAG_DEPTH",
    "MAX_BAG_SIZE",
    "Bag",
    "Family",
    "Operand",
    "Relation",
    "Value",
    "check_value",
    "checked_operand",
    "holds_bare_terms",
    "order_key",
    "value_family",
    "value_key",
]

MAX_BAG_DEPTH = 16
MAX_BAG_SIZE = 100_000
INT_MIN = -(2**63)
INT_MAX = 2**63 - 1


class Family(IntEnum):
    """The kinds of value that compare with each other; the numbers only fix an order."""

    BOOL = 0
    NUMBER = 1
    STRING = 2
    BYTES = 3
    TIME = 4
    CLASS = 5
    PROPERTY = 6
    INDIVIDUAL = 7
    TERM = 8
    BAG = 9


class Relation:
    """The operand of `@*`: has this property towards this individual.

    It is no value: a notification cannot hold one. Bare terms are given the kinds their places
    imply.

    >>> Relation(Term("urn:x#eats"), Term("urn:x#grass")).property
    Property('urn:x#eats')
    """

    __slots__ = ("_hash", "individual", "property")

    property: Property
    individual: Individual

    def __init__(self, property: Term, individual: Term) -> None:
        object.__setattr__(self, "property", _as_kind(property, Property))
        object.__setattr__(self, "individual", _as_kind(individual, Individual))
        object.__setattr__(self, "_hash", hash((self.property, self.individual)))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Relation is immutable; cannot set {name!r}")

    def __hash__(self) -> int:
        return self._hash  # type: ignore[attr-defined, no-any-return]

    def __eq__(self, other: object) -> bool:
        if type(other) is not Relation:
            return NotImplemented
        return self.property == other.property and self.individual == other.individual

    def __repr__(self) -> str:
        return f"Relation({self.property!r}, {self.individual!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Relation, (self.property, self.individual)


class Bag:
    """A multiset of values: order ignored, multiplicity kept, bags inside bags.

    >>> Bag(1, 2, 1) == Bag(1, 1, 2), Bag(1, 1, 2) == Bag(1, 2), Bag(True) == Bag(1)
    (True, False, False)

    The order given is kept for display only. A bag that is an operand of a composite over `@*`
    holds `Relation`s; a notification's bag never does. `depth` is 1 for a bag without bags inside.
    """

    __slots__ = ("_counts", "_hash", "bare", "depth", "items", "prefixed", "relational")

    items: tuple[Operand, ...]
    depth: int
    bare: bool  # holds, at some depth, a term whose kind was not stated
    prefixed: bool  # holds, at some depth, a term that may be written with a prefix
    relational: bool  # holds, at some depth, a Relation

    def __init__(self, *elements: object) -> None:
        _fill(self, tuple(_checked_element(element, 1) for element in elements))

    @classmethod
    def of(cls, elements: Iterable[Operand]) -> Bag:
        """A bag of elements that are known to be checked already."""
        bag = cls.__new__(cls)
        _fill(bag, tuple(elements))
        return bag

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Bag is immutable; cannot set {name!r}")

    def counts(self) -> dict[object, int]:
        """How often each element occurs, by `value_key`; callers must not change it."""
        known: dict[object, int] | None = self._counts  # type: ignore[attr-defined]
        if known is not None:
            return known
        counts: dict[object, int] = {}
        for item in self.items:
            name = value_key(item)
            counts[name] = counts.get(name, 0) + 1
        object.__setattr__(self, "_counts", counts)
        return counts

    def __iter__(self) -> Iterator[Operand]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __contains__(self, value: object) -> bool:
        return value_key(value) in self.counts()

    def __hash__(self) -> int:
        known: int | None = self._hash  # type: ignore[attr-defined]
        if known is None:
            known = hash(frozenset(self.counts().items()))
            object.__setattr__(self, "_hash", known)
        return known

    def __eq__(self, other: object) -> bool:
        if type(other) is not Bag:
            return NotImplemented
        if self is other:
            return True
        return len(self.items) == len(other.items) and self.counts() == other.counts()

    def __repr__(self) -> str:
        return "Bag(" + ", ".join(map(repr, self.items)) + ")"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_bag, (self.items,)


Value: TypeAlias = bool | int | float | str | bytes | datetime | Term | Bag
Operand: TypeAlias = Value | Relation

_FAMILIES: dict[type, Family] = {
    bool: Family.BOOL,
    int: Family.NUMBER,
    float: Family.NUMBER,
    str: Family.STRING,
    bytes: Family.BYTES,
    datetime: Family.TIME,
    Class: Family.CLASS,
    Property: Family.PROPERTY,
    Individual: Family.INDIVIDUAL,
    Term: Family.TERM,
    Bag: Family.BAG,
}


def value_family(value: Value) -> Family:
    """The family of a checked value.

    >>> value_family(1.5).name, value_family("tea").name, value_family(True).name
    ('NUMBER', 'STRING', 'BOOL')
    """
    known = _FAMILIES.get(type(value))
    if known is None:
        raise InvalidInputError(f"{value!r} ({type(value).__name__}) is not a value")
    return known


def value_key(value: object) -> object:
    """Something hashable that is equal for two checked values exactly when the values are equal.

    >>> value_key(1) == value_key(1.0), value_key(1) == value_key(True)
    (True, False)
    """
    return (bool, value) if value is True or value is False else value


def order_key(value: Operand | None) -> tuple[Any, ...]:
    """A key that puts operands in one order, the same in every process; equal for equal ones."""
    kind = type(value)
    if value is None:
        return (-1,)
    if kind is Bag:
        keys = sorted(order_key(item) for item in cast(Bag, value).items)
        return (Family.BAG, len(keys), tuple(keys))
    if kind is Relation:
        relation = cast(Relation, value)
        return (Family.BAG + 1, relation.property.iri, relation.individual.iri)
    if isinstance(value, Term):
        return (_FAMILIES[kind], value.iri)
    return (_FAMILIES[kind], value)


def _holds_prefixed_terms(value: Operand) -> bool:
    if isinstance(value, Term):
        return "://" not in value.iri
    if type(value) is Relation:
        return _holds_prefixed_terms(value.property) or _holds_prefixed_terms(value.individual)
    return type(value) is Bag and value.prefixed


def holds_bare_terms(value: Operand) -> bool:
    """Whether the value is, or holds at some depth, a term whose kind was not stated."""
    return type(value) is Term or (type(value) is Bag and value.bare)


def check_value(value: object) -> Value:
    """The value as one of the plain types, or InvalidInputError saying why it is none.

    >>> check_value([1, "a"]), check_value(2.5)
    (Bag(1, 'a'), 2.5)
    """
    made = _checked(value, 0)
    if type(made) is Bag and made.relational:
        raise InvalidInputError("a Relation is an operand of @*, not a value")
    return made


def checked_operand(value: object) -> Operand:
    """Like `check_value`, for a constraint's operand, which may also be or hold a Relation."""
    return value if type(value) is Relation else _checked(value, 0)


# The private half: what may be inside a bag, and the conversions at the door.

_SCALAR_TYPES = frozenset({bool, int, float, str, bytes, datetime})
_ALREADY_PLAIN = frozenset({bool, Class, Property, Individual, Term})


def _checked(value: object, depth: int) -> Value:
    kind = type(value)
    if kind is str:
        return _text(cast(str, value))
    if kind is int:
        return _integer(cast(int, value))
    if kind in _ALREADY_PLAIN or kind is bytes:
        return cast(Value, value)
    if kind is float:
        return _number(cast(float, value))
    if kind is Bag:
        return _nested_bag(cast(Bag, value), depth)
    return _converted(value, depth)


def _checked_element(value: object, depth: int) -> Operand:
    return value if type(value) is Relation else _checked(value, depth)


def _text(value: str) -> str:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InvalidInputError(f"{value!r} is not valid Unicode text") from None
    return value


def _integer(value: int) -> int:
    if INT_MIN <= value <= INT_MAX:
        return value
    shown = str(value) if value.bit_length() < 256 else f"an integer of {value.bit_length()} bits"
    raise InvalidInputError(f"{shown} does not fit in 64 bits; use a float or a string")


def _number(value: float) -> float:
    if value != value:
        raise InvalidInputError("NaN is not a value: it does not even equal itself")
    return value


def _time(value: datetime) -> datetime:
    if value.utcoffset() is None:
        raise InvalidInputError(f"{value.isoformat()} has no time zone; say which, e.g. +00:00")
    try:
        moved = value.astimezone(UTC)
    except OverflowError:
        raise InvalidInputError(f"{value.isoformat()} is outside the years 1 to 9999") from None
    return datetime(*moved.timetuple()[:6], moved.microsecond, tzinfo=UTC)


def _nested_bag(bag: Bag, depth: int) -> Bag:
    if depth + bag.depth > MAX_BAG_DEPTH:
        raise _too_deep()
    return bag


def _converted(value: object, depth: int) -> Value:
    """The less common inputs: containers, times, subclasses of plain types, NumPy scalars."""
    if isinstance(value, (list, tuple, set, frozenset)):
        if depth >= MAX_BAG_DEPTH:
            raise _too_deep()
        return Bag.of([_checked_element(element, depth + 1) for element in value])
    if isinstance(value, datetime):
        return _time(value)
    if isinstance(value, str):
        return _text(str.__str__(value))
    if isinstance(value, int):
        return _integer(int(value))
    if isinstance(value, float):
        return _number(float(value))
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    # A NumPy scalar becomes a Python scalar, an array a list. NumPy's times have no time zone.
    dtype = getattr(value, "dtype", None)
    if type(value).__module__ == "numpy" and getattr(dtype, "kind", "-") in "biufUS":
        return _checked(value.tolist(), depth)  # type: ignore[attr-defined]
    raise InvalidInputError(_not_a_value(value))


def _not_a_value(value: object) -> str:
    if value is None:
        return "None is not a value; leave the attribute out instead"
    if isinstance(value, Relation):
        return "a Relation is an operand of @*, not a value"
    return (
        f"{type(value).__name__} is not a type of value; use bool, int, float, str, bytes, an "
        "aware datetime, Class, Property, Individual or Bag"
    )


def _too_deep() -> LimitError:
    return LimitError(
        f"bags are nested more than {MAX_BAG_DEPTH} deep", limit="bag depth", maximum=MAX_BAG_DEPTH
    )


def _fill(bag: Bag, items: tuple[Operand, ...]) -> None:
    if len(items) > MAX_BAG_SIZE:
        raise LimitError(
            f"a bag of {len(items)} elements; the limit is {MAX_BAG_SIZE}",
            limit="bag size",
            maximum=MAX_BAG_SIZE,
        )
    store = object.__setattr__
    store(bag, "items", items)
    store(bag, "_counts", None)
    store(bag, "_hash", None)
    if _SCALAR_TYPES.issuperset(map(type, items)):  # as most are
        store(bag, "depth", 1)
        store(bag, "bare", False)
        store(bag, "prefixed", False)
        store(bag, "relational", False)
        return
    inner = [item for item in items if type(item) is Bag]
    depth = 1 + max((item.depth for item in inner), default=0)
    if depth > MAX_BAG_DEPTH:
        raise _too_deep()
    store(bag, "depth", depth)
    store(bag, "bare", any(map(holds_bare_terms, items)))
    store(bag, "prefixed", any(map(_holds_prefixed_terms, items)))
    relational = any(type(item) is Relation for item in items) or any(b.relational for b in inner)
    store(bag, "relational", relational)


def _restore_bag(items: tuple[Operand, ...]) -> Bag:
    return Bag.of(items)


def _as_kind(term: object, kind: type[Term]) -> Term:
    if type(term) is Term:
        return kind(term.iri)
    if type(term) is kind:
        return term
    raise InvalidInputError(f"expected a {kind.__name__.lower()}, not {term!r}")
