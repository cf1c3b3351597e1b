"""Changes: which clients want something else, or told something, since somebody last looked."""

from __future__ import annotations


class Changes:
    """Kept for whoever manages the broker; while nobody does, nothing is kept."""

    __slots__ = ("_subscriptions", "_told", "are_watched")

    def __init__(self) -> None:
        self.are_watched = False
        self._subscriptions: dict[str, None] = {}
        self._told: dict[str, None] = {}

    def of_subscriptions(self, client: str) -> None:
        """A client subscribed, unsubscribed, or is gone."""
        if self.are_watched:
            self._subscriptions[client] = None

    def of_hops(self, client: str) -> None:
        """A client told how far its notifications came."""
        if self.are_watched:
            self._told[client] = None

    def take_subscriptions(self, at_most: int) -> list[str]:
        """Clients whose subscriptions changed, those who waited longest; forgotten here."""
        return _taken(self._subscriptions, at_most)

    def take_hops(self, at_most: int) -> list[str]:
        """Clients who told their hops, those who waited longest; they are forgotten here."""
        return _taken(self._told, at_most)


def _taken(waiting: dict[str, None], at_most: int) -> list[str]:
    names = [name for name, _ in zip(waiting, range(at_most), strict=False)]
    for name in names:
        del waiting[name]
    return names
