"""Sightings: the brokers that reported a subscriber, while it moves from one to another.

Two brokers report a subscriber that moves, and their reports come in any order. The broker that it
does not depart from is the one where it is.
"""

from __future__ import annotations

ALSO_AT_MAX = 4
"""The most other brokers remembered for a subscriber; while it moves it is at two in all."""


class Sightings:
    """For each subscriber the brokers that reported it before, and that it has not departed from.

    >>> sightings = Sightings()
    >>> sightings.arrived("ann", "west", before="east")
    >>> sightings.departed("ann", "west", at="west")  # the report from the west came late
    'east'
    """

    def __init__(self) -> None:
        self._brokers: dict[str, list[str]] = {}

    def arrived(self, name: str, broker: str, before: str) -> None:
        """A broker reports a subscriber, which was at `before` (or nowhere)."""
        others = [each for each in self._brokers.pop(name, []) if each != broker]
        if before and before != broker:
            others = [*(each for each in others if each != before), before]
        if others:
            self._brokers[name] = others[-ALSO_AT_MAX:]

    def departed(self, name: str, broker: str, at: str) -> str:
        """A subscriber left a broker. Returns where it is, if it was thought to be `at`."""
        others = [each for each in self._brokers.pop(name, []) if each != broker]
        if others and at == broker:
            at = others.pop()
        if others:
            self._brokers[name] = others
        return at

    def forget(self, name: str) -> None:
        """Forget a subscriber that is gone."""
        self._brokers.pop(name, None)
