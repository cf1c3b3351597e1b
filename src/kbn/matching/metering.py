"""Metering: matching that may take long, done in parts.

What a notification hits is mostly looked up. Some constraints have to be asked one by one:
`contains` on a long text, bags that no kernel decides, terms of no known kind. There may be any
number of them. A `Meter` counts what such questions cost, in units of about a microsecond, and
keeps their answers. When it runs out, `OutOfWork` is raised, and whoever asked asks again later
with the same meter: what was answered is not asked again. Answers depend on value and constraint
alone, so they stay true whatever is added to or removed from the index meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from kbn.filters import Bag

AT_ONCE = 16  # questions asked together, when they are cheap

T = TypeVar("T")


class OutOfWork(Exception):
    """Go on later, with the same meter.

    >>> from kbn.matching import Matcher, Meter, metered
    >>> matcher = Matcher()
    >>> matcher.add("title * 'tea'", "ann")
    >>> with metered(Meter(0)):
    ...     matcher.match({"title": "a pot of tea"})
    Traceback (most recent call last):
    kbn.matching.metering.OutOfWork
    """


class Meter:
    """How much may still be done, and what is known already.

    Questions are named by the identity of the value they are about: keep the value while you use
    the meter.
    """

    __slots__ = ("_answers", "left", "spent")

    def __init__(self, left: float) -> None:
        self.left = left
        self.spent = 0
        self._answers: dict[Hashable, Any] = {}

    def ask(self, name: Hashable, cost: int, answer: Callable[[], T]) -> T:
        """The answer to a question, from memory if it was asked before.

        >>> meter = Meter(left=5)
        >>> meter.ask("a", 10, lambda: 1), meter.ask("a", 10, lambda: 2)
        (1, 1)
        >>> meter.ask("b", 10, lambda: 3)
        Traceback (most recent call last):
        kbn.matching.metering.OutOfWork
        """
        found = self._answers.get(name, self)
        if found is not self:
            return found  # type: ignore[no-any-return]
        if self.left <= 0:
            raise OutOfWork
        self.left -= cost
        self.spent += cost
        made = self._answers[name] = answer()
        return made

    def spend(self, cost: int) -> None:
        """Count what is remembered elsewhere."""
        if self.left <= 0:
            raise OutOfWork
        self.left -= cost
        self.spent += cost


_CURRENT: ContextVar[Meter | None] = ContextVar("meter", default=None)

current = _CURRENT.get


@contextmanager
def metered(meter: Meter | None) -> Iterator[None]:
    """Have all matching in this block counted by a meter.

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
    """The questions whose answer is yes; those that were asked before are not asked again."""
    meter = current()
    if meter is None:
        return [question for question in questions if ask(question)]
    found: list[Any] = []
    for start in range(0, len(questions), AT_ONCE):
        part = questions[start : start + AT_ONCE]
        costs = sum(map(cost, part))
        if costs > 10 * AT_ONCE:
            found += [
                each
                for place, each in enumerate(part, start)
                if meter.ask((name, place), cost(each), lambda each=each: ask(each))  # type: ignore[misc]
            ]
        else:
            found += meter.ask(
                (name, start, len(part)),
                costs,
                lambda part=part: [p for p in part if ask(p)],  # type: ignore[misc]
            )
    return found


def cost_of(operand: Any, value: Any) -> int:
    """About what it takes to ask whether a constraint with this operand accepts this value.

    >>> cost_of("tea", "a pot of tea"), cost_of(Bag("tea", "pot"), Bag(*map(str, range(300))))
    (1, 22)
    """
    elements = _size(operand) * _size(value)
    text = len(value) if value.__class__ is str else 0
    return 1 + elements // 30 + text // 500 + (1 if elements > 1 else 0)


def _size(value: Any) -> int:
    if value.__class__ is not Bag:
        return 1
    if value.depth == 1:
        return len(value.items)
    return sum(_size(item) for item in value.items)
