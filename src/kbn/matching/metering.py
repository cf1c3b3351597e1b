"""Metering: how much a match costs, counted; one that costs too much stops.

What a notification hits is mostly looked up. Some constraints have to be asked one by one:
`contains` on a long text, bags that no kernel decides, terms of no known kind. There may be any
number of them. A `Meter` counts what such questions cost, in units of about a microsecond, and
raises `OutOfWork` when there is none left. It keeps the answers it has paid for, so that whoever
asks again with the same meter comes further (see `parted_match.py`).

Answers are kept under the index and the value they are about, never under an `id`: a value made on
the way is gone when the next one takes its place in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from kbn.filters import Bag, is_paired

AT_ONCE = 16  # questions asked together, when they are cheap

T = TypeVar("T")

_PAID: Any = object()  # stands for an answer that is being worked out


class OutOfWork(Exception):
    """No more for now.

    >>> from kbn.matching import Matcher, Meter, metered
    >>> matcher = Matcher()
    >>> matcher.add("title * 'tea'", "ann")
    >>> with metered(Meter(0)):
    ...     matcher.match({"title": "a pot of tea"})
    Traceback (most recent call last):
    kbn.matching.metering.OutOfWork
    """


class _Asked:
    """How far somebody has come with a list of questions that only grows."""

    __slots__ = ("found", "place")

    def __init__(self) -> None:
        self.place = 0
        self.found: list[Any] = []


class Meter:
    """How much may still be done, and what is known already.

    A question may cost more than all that may be done in one part. Where `overdraws`, such a
    question is asked when nothing else was asked in that part.
    """

    __slots__ = ("_answers", "left", "overdraws", "spent")

    def __init__(self, left: float, *, overdraws: bool = True) -> None:
        self.left = left
        self.overdraws = overdraws
        self.spent = 0
        self._answers: dict[Hashable, Any] = {}

    def begin_part(self, left: float, *, overdraws: bool) -> None:
        """Another part begins, in which so much may be done."""
        self.left, self.overdraws, self.spent = left, overdraws, 0

    def ask(self, name: Hashable, cost: int, answer: Callable[[], T]) -> T:
        """The answer to a question, from memory if it was asked before.

        Working it out may ask more. When that runs out of work, what was paid is not paid again.

        >>> meter = Meter(left=5)
        >>> meter.ask("a", 10, lambda: 1), meter.ask("a", 10, lambda: 2)
        (1, 1)
        >>> meter.ask("b", 10, lambda: 3)
        Traceback (most recent call last):
        kbn.matching.metering.OutOfWork
        """
        found = self._answers.get(name)
        if found is None:
            self.spend(cost)
            self._answers[name] = _PAID
        elif found is not _PAID:
            return found  # type: ignore[no-any-return]
        made = self._answers[name] = answer()
        return made

    def asked(self, name: Hashable) -> _Asked:
        """How far a list of questions has been asked."""
        found: _Asked | None = self._answers.get(name)
        if found is None:
            found = self._answers[name] = _Asked()
        return found

    def spend(self, cost: int) -> None:
        """Count what is about to be done."""
        if self.left <= 0 or (cost > self.left and (self.spent or not self.overdraws)):
            raise OutOfWork
        self.left -= cost
        self.spent += cost


_CURRENT: ContextVar[Meter | None] = ContextVar("meter", default=None)

current = _CURRENT.get


@contextmanager
def metered(meter: Meter | None) -> Iterator[None]:
    """Have all matching in this block counted by a meter.

    Use a meter for one notification, and while the matcher does not change.

    >>> from kbn.matching import Matcher, Meter, metered
    >>> matcher, meter = Matcher(), Meter(1_000)
    >>> matcher.add("title * 'tea'", "ann")
    >>> with metered(meter):
    ...     list(matcher.match({"title": "a pot of tea"})), meter.spent > 0
    (['ann'], True)
    """
    token = _CURRENT.set(meter)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def ask_each(
    name: Hashable, questions: Sequence[Any], cost: Callable[[Any], int], ask: Callable[[Any], bool]
) -> list[Any]:
    """The questions whose answer is yes; those that were asked before are not asked again.

    Questions may be added at the end between one time and the next.
    """
    meter = current()
    if meter is None:
        return [question for question in questions if ask(question)]
    asked = meter.asked(name)
    while asked.place < len(questions):
        part = questions[asked.place : asked.place + AT_ONCE]
        costs = sum(map(cost, part))
        if costs > 10 * AT_ONCE:
            part = part[:1]
            costs = cost(part[0])
        meter.spend(costs)
        asked.found += [question for question in part if ask(question)]
        asked.place += len(part)
    return asked.found


def costs_of(value: Any) -> Callable[[Any, Any], int]:
    """About what it takes to ask whether an operator and an operand accept this value.

    >>> from kbn.filters import Operator, read_operator
    >>> costs_of("a pot of tea")(Operator.CONTAINS, "tea")
    1
    >>> costs_of(Bag(*map(str, range(300))))(read_operator("#>/*"), Bag("tea", "pot"))
    77
    """
    if value.__class__ is not Bag:
        cost = 1 + (len(value) // 500 if value.__class__ is str else 0)
        return lambda operator, operand: cost
    size = _size(value)
    pairs = 8 if value.depth == 1 else 4  # that are compared in one unit

    def cost_for(operator: Any, operand: Any) -> int:
        if operand.__class__ is not Bag:
            return 2
        if is_paired(operator):
            return 2 + size * _size(operand) // pairs
        return 2 + (size + _size(operand)) // 3

    return cost_for


def _size(value: Any) -> int:
    if value.__class__ is not Bag:
        return 1
    if value.depth == 1:
        return len(value.items)
    return sum(_size(item) for item in value.items)
