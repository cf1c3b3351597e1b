"""The neighbours a broker has had, in its store, so that its next run has them from the beginning.

A broker that comes back must know at once to whom it owes what is published: before its neighbours
have found it again, and before it has learnt the names of those it connects to. One that it was
told to connect to and no longer is, is a neighbour no more.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import msgpack

from kbn.broker.broker import Broker
from kbn.broker.messages import Peer
from kbn.broker.store import Store
from kbn.transport.settings import LinkTo, Role

PREFIX = "neighbour/"


class Acquaintances:
    def __init__(self, broker: Broker, store: Store) -> None:
        self._broker = broker
        self._store = store

    def recall(self, links: Iterable[LinkTo]) -> None:
        """Link the broker to those it had, and to those whose names it is told."""
        configured = {link.url: link for link in links}
        for mark, value in self._store.marks(PREFIX).items():
            name = mark.removeprefix(PREFIX)
            role, url = msgpack.decode(value, type=tuple[Role, str])
            link = configured.get(url)
            if url and (link is None or link.role != role):
                self._store.unmark(mark)
                self._store.forget_owed(Peer("broker", name))
            else:
                self._broker.link(name, role, "" if link is None else link.token)
        for link in configured.values():
            if link.name:
                self._broker.link(link.name, link.role, link.token)

    def keep(self, name: str, url: str) -> None:
        """Remember a neighbour, and where it is when it was us who connected; if it is one."""
        neighbour = self._broker.neighbours.get(name)
        if neighbour is None:
            return
        value = msgpack.encode((neighbour.role, url))
        if self._store.marked(PREFIX + name) != value:
            self._store.mark(PREFIX + name, value)

    def forget_former(self, name: str) -> None:
        """Forget one that is no neighbour any more."""
        if name not in self._broker.neighbours:
            self._store.unmark(PREFIX + name)
