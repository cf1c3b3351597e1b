"""Who wants a notification: found at once, or listed in parts where very many do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kbn.broker.messages import Peer
from kbn.filters import Notification
from kbn.matching import Matcher, PartedMatch

Key = tuple[Peer, int]

LISTED_AT_ONCE = 4_096
"""So many subscriptions that want one notification are listed in one go."""
LISTED = 4  # subscriptions for one unit of work
PART = 512


class Wanted(NamedTuple):
    """Who wants a notification: neighbours, and clients with those of their subscriptions."""

    neighbours: set[str]
    clients: dict[str, dict[int, None]]

    def enter(self, keys: Iterable[Key]) -> None:
        """Those with these subscriptions want it, too."""
        neighbours, clients = self
        for peer, number in keys:
            if peer.kind == "broker":
                neighbours.add(peer.name)
            elif peer.name in clients:
                clients[peer.name][number] = None
            else:
                clients[peer.name] = {number: None}

    def leave_out(self, key: Key) -> None:
        """A client has withdrawn a subscription.

        A neighbour stays: it may have another that wants it, and drops what nobody wants there.
        """
        peer, number = key
        ids = self.clients.get(peer.name) if peer.kind == "client" else None
        if ids is not None and number in ids:
            del ids[number]
            if not ids:
                del self.clients[peer.name]


class Listing:
    """Who wants one notification, matched and listed in parts while subscriptions come and go.

    `spent` is what the last part has cost. Who has the table tells of what is taken out of it.
    """

    __slots__ = ("__weakref__", "_match", "_notification", "spent", "wanted")

    def __init__(self, notification: Notification, match: PartedMatch) -> None:
        self._notification = notification
        self._match = match
        self.wanted = Wanted(set(), {})
        self.spent = 0

    def begin_again(self, matcher: Matcher) -> None:
        """Another matcher has taken the place of the one that was asked."""
        self._match = matcher.match_in_parts(self._notification)
        self.wanted = Wanted(set(), {})

    def go_on(self, units: float, *, overdraws: bool) -> bool:
        """Do another part; whether `wanted` holds now."""
        is_matched = self._match.go_on(units, overdraws=overdraws)
        self.spent = self._match.spent
        if not is_matched:
            return False
        while not self._match.is_listed:
            if self.spent >= units:
                return False
            self.wanted.enter(self._match.take_keys(PART))  # type: ignore[arg-type]
            self.spent += PART // LISTED
        return True
