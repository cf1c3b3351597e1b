"""A timer: whether something that is done every so many seconds is due."""

from __future__ import annotations


class Timer:
    """Due every `every_s` seconds; never, for None or 0.

    >>> timer = Timer(2.0)
    >>> [timer.is_due(now) for now in (1.0, 2.0, 3.0, 4.5)]
    [False, True, False, True]
    """

    __slots__ = ("_every_s", "_last")

    def __init__(self, every_s: float | None, now: float = 0.0) -> None:
        self._every_s = every_s
        self._last = now

    def is_due(self, now: float) -> bool:
        if not self._every_s or now - self._last < self._every_s:
            return False
        self._last = now
        return True
