"""Rounds: a broker looks at its clients for those who watch it, at some of them at a time.

Listing very many clients would take longer than a turn may. So when there are more than `LISTED`,
each tick looks at that many more, and what is told is from the last time all were looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nlargest

from msgspec.structs import replace

from kbn.broker.broker_status import ClientStatus, ClientTotals
from kbn.broker.client_sessions import ClientSessions

LISTED = 1_000
"""No more clients are listed, and so many are looked at in one go."""


class ClientRounds:
    """What is told of the clients of a broker."""

    def __init__(self, clients: ClientSessions) -> None:
        self._clients = clients
        self._told: tuple[Sequence[ClientStatus], ClientTotals] = ((), ClientTotals())
        self._begin()

    def _begin(self) -> None:
        self._names = list(self._clients.by_name)
        self._listed: list[ClientStatus] = []
        self._totals = ClientTotals()

    def tick(self) -> None:
        """Look at some more, if there are many."""
        if len(self._clients.by_name) > LISTED:
            self._look()

    def told(self) -> tuple[Sequence[ClientStatus], ClientTotals]:
        """The clients to list, and the totals of all."""
        if len(self._clients.by_name) <= LISTED:
            self._begin()
            self._look()
        elif not self._told[0]:
            self._look()
        if self._told[0] or not self._listed:
            return self._told
        return self._listed, self._totals  # no round is over: those it has come to

    def _look(self) -> None:
        by_name, status = self._clients.by_name, self._clients.status
        if not self._names:
            self._begin()
        names, self._names = self._names[:LISTED], self._names[LISTED:]
        seen = [status(by_name[name]) for name in names if name in by_name]
        self._totals = _added(self._totals, seen)
        self._listed = seen if not self._listed else nlargest(LISTED, self._listed + seen, _loss)
        if not self._names:
            self._told = (self._listed, self._totals)


def _loss(client: ClientStatus) -> tuple[int, int]:
    return client.dropped, client.queued


def _added(totals: ClientTotals, seen: list[ClientStatus]) -> ClientTotals:
    connected = sum(each.connected for each in seen)
    queues = [each for each in seen if not each.durable]
    stored = [each for each in seen if each.durable]
    return replace(
        totals,
        connected=totals.connected + connected,
        away=totals.away + len(seen) - connected,
        queued=totals.queued + sum(each.queued for each in queues),
        queued_max=max([totals.queued_max, *(each.queued for each in queues)]),
        queued_bytes=totals.queued_bytes + sum(each.queued_bytes for each in queues),
        unacked=totals.unacked + sum(each.queued for each in stored),
        unacked_max=max([totals.unacked_max, *(each.queued for each in stored)]),
        unacked_bytes=totals.unacked_bytes + sum(each.queued_bytes for each in stored),
    )
