"""Clocks and waiting times, for shells that drive brokers and clients in real time."""

from __future__ import annotations

import time
from random import Random

_OFFSET = time.time() - time.monotonic()


def now() -> float:
    """Seconds since 1970, roughly; never runs backwards while this process lives."""
    return _OFFSET + time.monotonic()


class Backoff:
    """How long to wait before each further attempt: twice as long each time, up to a bound.

    Half of it is by chance, so that many who lost the same broker do not all come back at once.
    """

    def __init__(self, first_s: float = 0.05, most_s: float = 5.0) -> None:
        self._first_s = first_s
        self._most_s = most_s
        self._rng = Random()
        self.attempts = 0

    def reset(self) -> None:
        self.attempts = 0

    def next_s(self) -> float:
        longest = min(self._most_s, self._first_s * 2.0 ** min(self.attempts, 30))
        self.attempts += 1
        return longest * (0.5 + 0.5 * self._rng.random())
