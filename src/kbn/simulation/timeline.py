"""Simulated time: what is to happen, in order."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count


class Timeline:
    """Events in the order of their time; those of the same moment in the order they were added.

    >>> timeline = Timeline()
    >>> timeline.at(2.0, lambda: print("second"))
    >>> timeline.at(1.0, lambda: print("first"))
    >>> timeline.run_for(5.0)
    first
    second
    """

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()

    def at(self, time: float, action: Callable[[], None]) -> None:
        """Do something at a time, or now if that is past."""
        heappush(self._events, (max(time, self.now), next(self._order), action))

    def step(self) -> bool:
        """Go to the next event and do it; False when there is none."""
        if not self._events:
            return False
        self.now, _, action = heappop(self._events)
        action()
        return True

    def run_for(self, seconds: float) -> None:
        """Let this much time pass."""
        end = self.now + seconds
        while self._events and self._events[0][0] <= end:
            self.step()
        self.now = end

    def run_until(self, condition: Callable[[], bool], at_most_s: float) -> bool:
        """Run until the condition holds; False when it does not within this time."""
        end = self.now + at_most_s
        while not condition():
            if not self._events or self._events[0][0] > end:
                return False
            self.step()
        return True
