"""Work rates: what the messages of each client have cost lately, and who has to rest.

Work is counted as in a turn (`work.py`). A client may spend `work_rate` units in a second, and as
much at once as in one second. One that has spent more rests: what it says waits, and it is not read
from when too much does, until the seconds have made up for it. Nobody else waits.
"""

from __future__ import annotations

from collections.abc import Mapping

from kbn.broker.client_session import ClientSession
from kbn.broker.messages import Peer


class WorkRates:
    """Who has spent how much; clients that spend little are not even remembered.

    >>> rates = WorkRates({})
    >>> rates.charge(Peer("client", "ann"), 500, now=0.0)
    >>> rates.must_rest(Peer("client", "ann"), now=0.0)  # whom it does not know it does not hold
    False
    """

    def __init__(self, clients: Mapping[str, ClientSession]) -> None:
        self._clients = clients
        self._left: dict[str, tuple[float, float]] = {}  # units, and when there were so many

    def charge(self, peer: Peer, units: int, now: float) -> None:
        """What a client said has cost so much."""
        session = self._clients.get(peer.name) if peer.kind == "client" else None
        if session is not None and units:
            self._left[peer.name] = (self._now_left(session, now) - units, now)

    def must_rest(self, peer: Peer, now: float) -> bool:
        """Whether a client has spent more than it may."""
        session = self._clients.get(peer.name) if peer.kind == "client" else None
        return session is not None and self._now_left(session, now) <= 0

    def forget_idle(self, now: float) -> None:
        """Forget those that have spent nothing worth remembering."""
        for name in list(self._left):
            session = self._clients.get(name)
            if session is None or self._now_left(session, now) >= session.limits.work_rate:
                del self._left[name]

    def _now_left(self, session: ClientSession, now: float) -> float:
        rate = session.limits.work_rate
        left, since = self._left.get(session.name, (rate, now))
        return min(rate, left + max(0.0, now - since) * rate)
