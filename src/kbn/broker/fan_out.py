"""Fan-out: one notification to many clients, some of them in each turn.

Durable clients get it in the turn it came in, for what is acknowledged must be stored. The others
follow in steps, and what the publisher (or the neighbour that brought it) says next waits until all
have it. A client that leaves meanwhile gets it at once: it was on its way to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kbn.broker.client_session import ClientSession
from kbn.broker.client_sessions import ClientSessions
from kbn.broker.kept import Kept

AT_ONCE = 256

Waiting = dict[str, tuple[ClientSession, Iterable[int]]]


class FanOuts:
    """The notifications that are being delivered to many."""

    def __init__(self, clients: ClientSessions) -> None:
        self._clients = clients
        self._going_on: list[tuple[Waiting, Kept, ClientSession | None]] = []

    def begin(
        self, targets: Mapping[str, Iterable[int]], kept: Kept, publisher: ClientSession | None
    ) -> Iterator[None]:
        """Deliver to the durable ones among the targets; a chore that delivers to the others."""
        waiting: Waiting = {}
        for name, ids in targets.items():
            session = self._clients.by_name[name]
            if session.is_durable:
                self._clients.deliver(name, ids, kept, publisher)
            else:
                waiting[name] = (session, ids)
        self._going_on.append((waiting, kept, publisher))
        return self._steps(waiting, kept, publisher)

    def deliver_to(self, name: str) -> None:
        """Deliver to one client at once all that is on its way to it."""
        for waiting, kept, publisher in self._going_on:
            self._deliver(name, waiting, kept, publisher)

    def _steps(
        self, waiting: Waiting, kept: Kept, publisher: ClientSession | None
    ) -> Iterator[None]:
        for name in list(waiting):
            self._deliver(name, waiting, kept, publisher)
            yield
        self._going_on = [each for each in self._going_on if each[0] is not waiting]

    def _deliver(
        self, name: str, waiting: Waiting, kept: Kept, publisher: ClientSession | None
    ) -> None:
        session, ids = waiting.pop(name, (None, ()))
        # One that has left, and perhaps come again, did not want it since then.
        if session is not None and self._clients.by_name.get(name) is session:
            self._clients.deliver(name, ids, kept, publisher)
