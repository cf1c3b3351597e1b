"""What was heard of each publisher: nothing passes twice, and how far one has come is known.

Of each publisher (and epoch of it) the last numbers are kept one by one: after a move or a crash
they come out of order. Below those, everything counts as heard. Both are bounded, so what is older
than `NUMBERS_MAX` notifications of the same publisher cannot be made up for.
"""

from __future__ import annotations

from kbn.peering.messages import MARKS_MAX, Mark

NUMBERS_MAX = 16_384
PUBLISHERS_MAX = 2 * MARKS_MAX
MARK_EVERY_S = 2.0

Source = tuple[str, int]


class Seen:
    """The numbers heard.

    >>> seen = Seen()
    >>> seen.add(("ann", 1), 5), seen.add(("ann", 1), 4), seen.add(("ann", 1), 5)
    (True, True, False)
    """

    def __init__(self) -> None:
        self._numbers: dict[Source, set[int]] = {}
        self._floor: dict[Source, int] = {}

    def add(self, source: Source, number: int) -> bool:
        """Whether that is new; it is not the next time."""
        numbers = self._numbers.get(source)
        if numbers is None:
            self._make_room()
            numbers = self._numbers[source] = set()
        if number in numbers or number <= self._floor.get(source, -1):
            return False
        numbers.add(number)
        if len(numbers) > 2 * NUMBERS_MAX:
            kept = sorted(numbers)[-NUMBERS_MAX:]
            self._floor[source] = kept[0] - 1
            self._numbers[source] = set(kept)
        return True

    def _make_room(self) -> None:
        if len(self._numbers) >= PUBLISHERS_MAX:
            oldest = next(iter(self._numbers))
            del self._numbers[oldest]
            self._floor.pop(oldest, None)


class Progress:
    """How far each publisher was heard a few seconds ago: what came since may have gaps."""

    def __init__(self) -> None:
        self._current: dict[Source, int] = {}
        self._newer: dict[Source, int] = {}
        self._older: dict[Source, int] = {}
        self._marked_at = 0.0

    def note(self, source: Source, number: int) -> None:
        if number > self._current.get(source, -1):
            if source not in self._current and len(self._current) >= MARKS_MAX:
                del self._current[next(iter(self._current))]
            self._current[source] = number

    def copy(self) -> Progress:
        """The same, to go on from."""
        made = Progress()
        made._current, made._newer = dict(self._current), dict(self._newer)
        made._older, made._marked_at = dict(self._older), self._marked_at
        return made

    def tick(self, now: float) -> None:
        if now - self._marked_at >= MARK_EVERY_S:
            self._marked_at = now
            self._older, self._newer = self._newer, dict(self._current)

    def marks(self) -> tuple[Mark, ...]:
        """Where each publisher was, two to four seconds ago."""
        return tuple(Mark(name, epoch, number) for (name, epoch), number in self._older.items())


def least(one: tuple[Mark, ...], other: tuple[Mark, ...]) -> tuple[Mark, ...]:
    """What is needed by both: of whom only one knows, everything."""
    known = {(mark.publisher, mark.epoch): mark.number for mark in one}
    return tuple(
        Mark(mark.publisher, mark.epoch, min(mark.number, known[mark.publisher, mark.epoch]))
        for mark in other
        if (mark.publisher, mark.epoch) in known
    )
