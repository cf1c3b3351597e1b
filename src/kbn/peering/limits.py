"""How much anybody may ask of us: a bucket of messages that fills with time."""

from __future__ import annotations


class Bucket:
    """So many a second in the long run, and `burst` at once.

    >>> bucket = Bucket(rate=1.0, burst=2.0, now=0.0)
    >>> [bucket.takes(0.0) for _ in range(3)], bucket.takes(1.0)
    ([True, True, False], True)
    """

    __slots__ = ("_at", "_burst", "_left", "_rate")

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self._rate, self._burst = rate, burst
        self._left, self._at = burst, now

    def takes(self, now: float) -> bool:
        """Whether one more is allowed."""
        self._left = min(self._burst, self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True
