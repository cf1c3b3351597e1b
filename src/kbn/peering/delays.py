"""Measuring: what a link took lately, and how far clocks are apart."""

from __future__ import annotations

from collections import deque

from kbn.peering.messages import DELAY_MAX_S, SAMPLES_MAX


class Samples:
    """What a link took since the last report, in seconds; of many, the latest."""

    def __init__(self) -> None:
        self._new: deque[float] = deque(maxlen=SAMPLES_MAX)

    def add(self, delay_s: float) -> None:
        self._new.append(min(DELAY_MAX_S, max(0.0, delay_s)))

    def taken(self) -> tuple[float, ...]:
        """What is new; nothing the next time."""
        taken = tuple(self._new)
        self._new.clear()
        return taken


class ClockOffset:
    """How far the group's clock is ahead of ours, from probes and their echoes.

    Each echo says that the offset is between two limits: neither the probe nor the echo took less
    than no time. Clocks that agree within these limits are taken to agree.

    >>> clock = ClockOffset()
    >>> clock.add(probed_at=10.0, at=15.02, now=10.04)
    >>> round(clock.seconds, 2)
    5.0
    """

    def __init__(self) -> None:
        self._low, self._high = deque[float](maxlen=64), deque[float](maxlen=64)
        self.seconds = 0.0

    def add(self, probed_at: float, at: float, now: float) -> None:
        low, high = at - now, at - probed_at
        if self._low and (low > min(self._high) or high < max(self._low)):
            # A clock was set anew: what was before means nothing.
            self._low.clear()
            self._high.clear()
        self._low.append(low)
        self._high.append(high)
        low, high = max(self._low), min(self._high)
        self.seconds = 0.0 if low <= 0.0 <= high else (low + high) / 2
