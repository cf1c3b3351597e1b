"""Hop reports: subscribers are asked how far their notifications came, and tell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kbn.broker.client_session import ClientSession
from kbn.broker.messages import Hops, ReportHops
from kbn.broker.outbox import Outbox
from kbn.errors import LimitError

LINES_MAX = 1024
"""The most hop counts, and the most publishers, that one report has."""


class HopReports:
    """What the clients of one broker are asked for, and told."""

    def __init__(self, by_name: Mapping[str, ClientSession], outbox: Outbox) -> None:
        self._by_name = by_name
        self._outbox = outbox
        self._every_s = 0.0  # how often whoever subscribes later reports, too; 0: not at all

    def subscribed(self, session: ClientSession) -> None:
        """A client has its first subscription: ask it, if all are asked."""
        if self._every_s:
            self._outbox.send(session.peer, ReportHops(self._every_s))

    def ask(self, every_s: float, names: Iterable[str] | None) -> int:
        """Have subscribers (None: all, and those who come later) report their hops; how many."""
        if names is None:
            self._every_s = every_s
        wanted = self._by_name.keys() if names is None else set(names)
        asked = [
            session
            for name, session in self._by_name.items()
            if session.is_connected and session.subscriptions and name in wanted
        ]
        for session in asked:
            self._outbox.send(session.peer, ReportHops(every_s))
        return len(asked)

    def told(self, hops: Hops, session: ClientSession) -> None:
        """A client told how far its notifications came."""
        if max(len(hops.counts), len(hops.publishers)) > LINES_MAX:
            raise LimitError(
                f"a report of hops has at most {LINES_MAX} lines",
                limit="lines of a report",
                maximum=LINES_MAX,
            )
        session.hops = hops
