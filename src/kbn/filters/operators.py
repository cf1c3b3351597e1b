"""Operators: the twenty-one plain ones, nearness, composites over bags, and negations.

A plain operator is a member of `Operator`. `Composite(SUPER_BAG, MORE_SPECIFIC)`, written `#>/@>`,
is a bag operator whose elements are related by another operator instead of equality; the element
operator may be a composite again. `Negated(PREFIX)`, written `!>*`, is the negative of an operator
that has no negative of its own: it holds for values the operator takes and does not accept.
`Near(5)`, written `near(5)`, accepts what is at most so far from the operand (see `nearness`).

There is one spelling for each meaning, and one object for each spelling: `Composite(X, EQ)` is `X`,
`Negated(LT)` is `GE`, and equal composites are identical, so operators compare by identity.
"""

from __future__ import annotations

import math
import re
from enum import Enum
from functools import lru_cache
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

from kbn.errors import InvalidInputError, LimitError
from kbn.wording import LIKENESS_MIN, close_names

__all__ = [
    "BAG_OPERATORS",
    "MAX_COMPOSITE_DEPTH",
    "ORDER_OPERATORS",
    "STRING_OPERATORS",
    "AnyOperator",
    "Composite",
    "Near",
    "Negated",
    "Operator",
    "close_spellings",
    "negate_operator",
    "read_operator",
    "split_bag_operator",
    "words",
]

MAX_COMPOSITE_DEPTH = 16
SYMBOL_MAX = 3  # the longest symbol of a plain operator


class Operator(Enum):
    """A plain operator; reads "the notification's value OP the constraint's operand"."""

    EXISTS = ("any", "exists")
    EQ = ("=", "eq")
    NE = ("!=", "ne")
    LT = ("<", "lt")
    LE = ("<=", "le")
    GT = (">", "gt")
    GE = (">=", "ge")
    PREFIX = (">*", "prefix")
    SUFFIX = ("*<", "suffix")
    CONTAINS = ("*", "contains")
    IN = ("*>", "in")
    EQUIV = ("@~", "equiv")
    NOT_EQUIV = ("@!~", "not_equiv")
    MORE_SPECIFIC = ("@>", "more_specific")
    LESS_SPECIFIC = ("@<", "less_specific")
    ISA = ("@=", "isa")
    IS_NOT_A = ("@!=", "is_not_a")
    ONT_PROP = ("@*", "ont_prop")
    EQUAL_BAG = ("#=", "equal_bag")
    SUB_BAG = ("#<", "sub_bag")
    SUPER_BAG = ("#>", "super_bag")

    symbol: str
    word: str

    def __init__(self, symbol: str, word: str) -> None:
        self.symbol = symbol
        self.word = word

    def __repr__(self) -> str:
        return f"Operator.{self.name}"

    # Members are singletons; the inherited hash goes through the name and is much slower.
    __hash__ = object.__hash__


class Composite:
    """A bag operator with an operator for its elements; `Composite(X, EQ)` gives `X` itself.

    >>> Composite(Operator.SUPER_BAG, Operator.MORE_SPECIFIC).symbol
    '#>/@>'
    """

    __slots__ = ("__weakref__", "bag", "depth", "element", "symbol", "word")

    bag: Operator
    element: AnyOperator
    symbol: str
    word: str
    depth: int

    def __new__(cls, bag: Operator, element: AnyOperator) -> Any:
        if bag not in BAG_OPERATORS:
            raise InvalidInputError(f"{bag!r} relates no bags; a composite starts with #= #< #>")
        if element is Operator.EQ:
            return bag
        return _composite(bag, element)

    def __repr__(self) -> str:
        return f"Composite({self.bag!r}, {self.element!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Composite, (self.bag, self.element)


class Near:
    """Accepts values that are at most `tolerance` away from the operand.

    >>> Near(5).symbol, Near(5.0) is Near(5), read_operator("near(0.5)").tolerance
    ('near(5)', True, 0.5)
    """

    __slots__ = ("__weakref__", "symbol", "tolerance", "word")

    tolerance: int | float
    symbol: str
    word: str

    def __new__(cls, tolerance: int | float) -> Near:
        if type(tolerance) not in (int, float) or not 0 <= tolerance < math.inf:
            raise InvalidInputError(
                f"near takes a number from 0 on, as in near(5), not {str(tolerance)[:40]!r}"
            )
        if type(tolerance) is float and tolerance.is_integer():
            tolerance = int(tolerance)
        known = _NEARNESSES.get(tolerance)
        if known is not None:
            return known
        made = object.__new__(cls)
        made.tolerance = tolerance
        made.symbol = made.word = f"near({tolerance!r})"
        return _NEARNESSES.setdefault(tolerance, made)

    def __repr__(self) -> str:
        return f"Near({self.tolerance!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Near, (self.tolerance,)


class Negated:
    """True for a value of a type the operator takes and does not accept; the value must be there.

    `Negated(LT)` gives `GE`, and so on for every operator that has a negative of its own.

    >>> Negated(Operator.PREFIX).symbol, Negated(Operator.LT)
    ('!>*', Operator.GE)
    """

    __slots__ = ("__weakref__", "depth", "operator", "symbol", "word")

    operator: Operator | Composite | Near
    symbol: str
    word: str
    depth: int

    def __new__(cls, operator: AnyOperator) -> Any:
        return negate_operator(operator)

    def __repr__(self) -> str:
        return f"Negated({self.operator!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Negated, (self.operator,)


AnyOperator: TypeAlias = Operator | Composite | Near | Negated

BAG_OPERATORS = frozenset({Operator.EQUAL_BAG, Operator.SUB_BAG, Operator.SUPER_BAG})
ORDER_OPERATORS = frozenset({Operator.LT, Operator.LE, Operator.GT, Operator.GE})
STRING_OPERATORS = frozenset({Operator.PREFIX, Operator.SUFFIX, Operator.CONTAINS, Operator.IN})

_OPPOSITES = [
    (Operator.EQ, Operator.NE),
    (Operator.LT, Operator.GE),
    (Operator.LE, Operator.GT),
    (Operator.EQUIV, Operator.NOT_EQUIV),
    (Operator.ISA, Operator.IS_NOT_A),
]
_NEGATIVES = {a: b for pair in _OPPOSITES for a, b in (pair, pair[::-1])}


def negate_operator(operator: AnyOperator) -> AnyOperator:
    """The operator that holds exactly where this one takes the value and does not hold.

    >>> negate_operator(Operator.LT), negate_operator(negate_operator(Operator.PREFIX))
    (Operator.GE, Operator.PREFIX)
    """
    if isinstance(operator, Negated):
        return operator.operator
    if operator is Operator.EXISTS:
        raise InvalidInputError("`any` cannot be negated: a constraint cannot ask for absence")
    if isinstance(operator, Operator) and operator in _NEGATIVES:
        return _NEGATIVES[operator]
    return _negated(operator)


def split_bag_operator(operator: AnyOperator) -> tuple[Operator, AnyOperator] | None:
    """The bag operator and the element operator, `=` for a plain one; None if not over bags.

    >>> split_bag_operator(Composite(Operator.SUB_BAG, Operator.LT))
    (Operator.SUB_BAG, Operator.LT)
    >>> split_bag_operator(Operator.SUB_BAG)
    (Operator.SUB_BAG, Operator.EQ)
    >>> split_bag_operator(Operator.LT) is None
    True
    """
    if isinstance(operator, Composite):
        return operator.bag, operator.element
    if operator in BAG_OPERATORS:
        assert isinstance(operator, Operator)
        return operator, Operator.EQ
    return None


def words() -> dict[str, Operator]:
    """Every spelling of a plain operator, symbols and words."""
    return dict(_SPELLINGS)


def close_spellings(text: str) -> list[str]:
    """How somebody who wrote this may have meant to spell an operator, best first.

    >>> close_spellings("containz"), close_spellings("#>/more_specfic")[0], close_spellings("price")
    (['contains'], '#>/more_specific', [])
    """
    head, slash, _ = text.lower().rpartition("/")
    # Of a symbol, one wrong character is a large part.
    least = 0.5 if len(text) <= SYMBOL_MAX else LIKENESS_MIN
    known = (*_SPELLINGS, "near(1)")
    return close_names(text.lower(), (head + slash + word for word in known), least)


@lru_cache(maxsize=4096)
def read_operator(text: str) -> AnyOperator:
    """The operator written so, in symbols or words: `#>/@>`, `super_bag/more_specific`, `!*`.

    `!` negates everything to its right.

    >>> read_operator("#>/!@>")
    Composite(Operator.SUPER_BAG, Negated(Operator.MORE_SPECIFIC))
    """
    return _read(text, 0)


_SPELLINGS = {name: op for op in Operator for name in (op.symbol, op.word)}


def _read(text: str, depth: int) -> AnyOperator:
    if depth > 2 * MAX_COMPOSITE_DEPTH:
        raise _too_deep()
    if text in _SPELLINGS:
        return _SPELLINGS[text]
    if text.startswith("!"):
        return negate_operator(_read(text[1:], depth + 1))
    if text.startswith("near"):
        return _read_near(text)
    head, slash, rest = text.partition("/")
    bag = _SPELLINGS.get(head)
    if slash and bag in BAG_OPERATORS:
        assert bag is not None
        composite: AnyOperator = Composite(bag, _read(rest, depth + 1))
        return composite
    raise InvalidInputError(f"there is no operator {text[:80]!r}")


_NEAR = re.compile(r"near\(\s*([^()]*?)\s*\)")
_NUMBER = re.compile(r"[0-9]{1,18}|(?=.)(?:[0-9]{0,40}(?:\.[0-9]{0,40})?(?:[eE][+\-]?[0-9]{1,3})?)")


def _read_near(text: str) -> Near:
    found = _NEAR.fullmatch(text)
    if found is None:
        raise InvalidInputError(
            f"there is no operator {text[:80]!r}; near says how far in parentheses, as in near(5)"
        )
    given = found[1]
    try:
        if _NUMBER.fullmatch(given) is None:
            raise ValueError
        return Near(int(given) if given.isdigit() else float(given))
    except ValueError:
        raise InvalidInputError(
            f"near takes a number from 0 on, as in near(5), not {given[:40]!r}"
        ) from None


# One object for each spelling in use; weak, so a stream of odd operators leaves nothing behind.
_COMPOSITES: WeakValueDictionary[tuple[Operator, AnyOperator], Composite] = WeakValueDictionary()
_NEGATIONS: WeakValueDictionary[Operator | Composite | Near, Negated] = WeakValueDictionary()
_NEARNESSES: WeakValueDictionary[int | float, Near] = WeakValueDictionary()


def _composite(bag: Operator, element: AnyOperator) -> Composite:
    known = _COMPOSITES.get((bag, element))
    if known is not None:
        return known
    depth = 1 + _depth(element)
    if depth > MAX_COMPOSITE_DEPTH:
        raise _too_deep()
    made: Composite = object.__new__(Composite)
    made.bag = bag
    made.element = element
    made.symbol = f"{bag.symbol}/{element.symbol}"
    made.word = f"{bag.word}/{element.word}"
    made.depth = depth
    return _COMPOSITES.setdefault((bag, element), made)


def _negated(operator: Operator | Composite | Near) -> Negated:
    known = _NEGATIONS.get(operator)
    if known is not None:
        return known
    made: Negated = object.__new__(Negated)
    made.operator = operator
    made.symbol = f"!{operator.symbol}"
    made.word = f"!{operator.word}"
    made.depth = _depth(operator)
    return _NEGATIONS.setdefault(operator, made)


def _depth(operator: AnyOperator) -> int:
    """How many bags deep the operator looks."""
    if isinstance(operator, Operator):
        return 1 if operator in BAG_OPERATORS else 0
    return 0 if isinstance(operator, Near) else operator.depth


def _too_deep() -> LimitError:
    return LimitError(
        f"composites are nested more than {MAX_COMPOSITE_DEPTH} deep",
        limit="composite depth",
        maximum=MAX_COMPOSITE_DEPTH,
    )
