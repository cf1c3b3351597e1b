"""How often something may be done: at most so many in any stretch of so many seconds."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `count` within `period_s`."""

    count: int
    period_s: float

    def __str__(self) -> str:
        return f"{self.count} per {self.period_s:g} s"


class Limiter:
    """Keeps to a rate; in no window of its period is more allowed than its count.

    >>> limiter = Limiter(Rate(2, 60.0))
    >>> limiter.take(3, now=0.0), limiter.take(1, now=59.0), limiter.take(3, now=60.0)
    (2, 0, 2)
    """

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._taken: deque[tuple[float, int]] = deque()  # when, and how many; at most `count`
        self._total = 0

    def free(self, now: float) -> int:
        """How many more are allowed now."""
        # Also those of the future: the clock was set back, and must not stop everything for long.
        while self._taken and not 0 <= now - self._taken[0][0] < self._rate.period_s:
            self._total -= self._taken.popleft()[1]
        return self._rate.count - self._total

    def take(self, wanted: int, now: float) -> int:
        """Use up to `wanted` of what is allowed; how many that were."""
        got = min(wanted, self.free(now))
        if got > 0:
            self._taken.append((now, got))
            self._total += got
        return got
