"""How long turns of the event loop take on this machine."""

from __future__ import annotations


class TurnTimes:
    """How much CPU time turns took, sockets included: to see what a unit of work takes here."""

    __slots__ = ("largest_s", "total_s")

    def __init__(self) -> None:
        self.total_s = self.largest_s = 0.0

    def add(self, seconds: float) -> None:
        self.total_s += seconds
        if seconds > self.largest_s:
            self.largest_s = seconds
