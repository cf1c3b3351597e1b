"""The neighbours a broker has had, in its store, so that its next run has them from the beginning.

A broker that comes back must know at once to whom it owes what is published: before its neighbours
have found it again, and before it has learnt the names of those it connects to. One that it was
told to connect to and no longer is, is a neighbour no more. A broker that was moved comes back
where it was moved to, for as long as it is started as it was before: that is whom it owes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace

from msgspec import msgpack

from kbn.broker import Broker, Peer, Store
from kbn.transport.settings import LinkTo, Role

log = logging.getLogger("kbn.transport")

PREFIX = "neighbour/"
MOVED = "moved/"


class KnownPeers:
    def __init__(self, broker: Broker, store: Store) -> None:
        self._broker = broker
        self._store = store

    def followed(self, link: LinkTo) -> LinkTo:
        """The link that took the place of one when the broker was moved; itself, if none did."""
        url = self._store.marked(MOVED + link.url)
        if url is None:
            return link
        log.warning("%s was moved from %s to %s", self._broker.name, link.url, url.decode())
        return replace(link, url=url.decode(), name="")

    def moved(self, old_url: str, new_url: str) -> None:
        """The broker is at another place from now on, whatever it is told at its next start."""
        first = next(
            (
                mark.removeprefix(MOVED)
                for mark, url in self._store.marks(MOVED).items()
                if url.decode() == old_url
            ),
            old_url,
        )
        if first == new_url:
            self._store.unmark(MOVED + first)
        else:
            self._store.mark(MOVED + first, new_url.encode())

    def recall(self, links: Iterable[LinkTo]) -> None:
        """Link the broker to those it had, and to those whose names it is told."""
        configured = {link.url: link for link in links}
        for mark, value in self._store.marks(PREFIX).items():
            name = mark.removeprefix(PREFIX)
            role, url = msgpack.decode(value, type=tuple[Role, str])
            link = configured.get(url)
            if url and (link is None or link.role != role):
                self._store.unmark(mark)
                self._store.forget_unacked(Peer("broker", name))
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
