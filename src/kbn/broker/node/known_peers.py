"""The neighbours a broker has had, in its store, so that it has them at once after a restart.

A broker that comes back must know at once to whom it owes what is published: before its neighbours
have found it again, and before it has learnt the names of those it connects to. One that it was
told to connect to and no longer is, is a neighbour no more. A broker that was moved comes back
where it was moved to, for as long as it is started as it was before: that is whom it owes. One
whose neighbour has moved away does not go after it.

A move that was interrupted begins again, for the broker at the new place may know of it. A broker
that has left another and could not tell it goes on telling it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from msgspec import msgpack

from kbn.broker.broker import Broker
from kbn.broker.messages import Bye
from kbn.broker.node.settings import LinkTo
from kbn.broker.store import Store
from kbn.broker.topology import Role
from kbn.broker.unmet import queue_of

NEIGHBOUR = "neighbour/"
MOVED = "moved/"
JOINED = "joined/"
FAREWELL = "farewell/"
MOVE = "interrupted move"


class InterruptedMove(NamedTuple):
    """A move that was under way when the broker stopped."""

    leaving: str
    url: str


class Farewell(NamedTuple):
    """What is still to be said to a broker that was left, and where."""

    url: str
    bye: Bye


class KnownPeers:
    """What a node keeps of its neighbours in its store."""

    def __init__(self, broker: Broker, store: Store) -> None:
        self._broker = broker
        self._store = store

    # Where the broker is.

    def links(self, configured: Iterable[LinkTo], token: str) -> Iterator[LinkTo]:
        """The links to dial: those configured, as far as moves have not changed them."""
        for link in configured:
            url = self._store.marked(MOVED + link.url)
            if url is None:
                yield link
            elif url:
                yield replace(link, url=url.decode(), name="")
        for mark, role in self._store.marks(JOINED).items():
            yield LinkTo(mark.removeprefix(JOINED), msgpack.decode(role, type=Role), token)

    def moved(self, old_url: str | None, new: LinkTo) -> None:
        """The broker is at another place from now on, whatever it is told at its next start.

        `old_url` is where we dialled the neighbour that was left; None when it had dialled us.
        """
        if old_url is None or self._store.marked(JOINED + old_url) is not None:
            self._store.unmark(JOINED + (old_url or ""))
            self._store.mark(JOINED + new.url, msgpack.encode(new.role))
            return
        first = self._configured_for(old_url)
        if first == new.url:
            self._store.unmark(MOVED + first)
        else:
            self._store.mark(MOVED + first, new.url.encode())

    def ended(self, url: str) -> None:
        """The neighbour that we dialled there has moved away: do not dial it again."""
        if self._store.marked(JOINED + url) is not None:
            self._store.unmark(JOINED + url)
        else:
            self._store.mark(MOVED + self._configured_for(url), b"")

    def _configured_for(self, url: str) -> str:
        """The configured URL that moves have led from to this one."""
        for mark, target in self._store.marks(MOVED).items():
            if target.decode() == url:
                return mark.removeprefix(MOVED)
        return url

    # Who its neighbours are.

    def recall(self, links: Iterable[LinkTo]) -> None:
        """Link the broker to those it had, and to those it is told of; those it never met are
        expected.
        """
        configured = {link.url: link for link in links}
        met = set()
        for mark, value in self._store.marks(NEIGHBOUR).items():
            name = mark.removeprefix(NEIGHBOUR)
            role, url = msgpack.decode(value, type=tuple[Role, str])
            link = configured.get(url)
            if url and (link is None or link.role != role):
                self._store.unmark(mark)
                self._store.forget_unacked(queue_of(self._store, name))
            else:
                met.add(url)
                token = "" if link is None else link.token
                self._broker.link(name, role, token, url, again=True)
        for link in configured.values():
            if link.name:
                self._broker.link(link.name, link.role, link.token, link.url)
            elif link.url not in met:
                self._broker.expect(link.url, link.role)
        self._broker.expect_no_others(set(configured))

    def keep(self, name: str, url: str) -> None:
        """Remember a neighbour, and where it is when it was us who connected; if it is one."""
        neighbour = self._broker.neighbours.get(name)
        if neighbour is None:
            return
        value = msgpack.encode((neighbour.role, url))
        if self._store.marked(NEIGHBOUR + name) != value:
            self._store.mark(NEIGHBOUR + name, value)

    def forget_former(self) -> None:
        """Forget all that are no neighbours any more."""
        for mark in self._store.marks(NEIGHBOUR):
            if mark.removeprefix(NEIGHBOUR) not in self._broker.neighbours:
                self._store.unmark(mark)

    # What was under way.

    def begin_move(self, move: InterruptedMove) -> None:
        self._store.mark(MOVE, msgpack.encode(move))

    def end_move(self) -> None:
        self._store.unmark(MOVE)

    @property
    def interrupted_move(self) -> InterruptedMove | None:
        value = self._store.marked(MOVE)
        return None if value is None else msgpack.decode(value, type=InterruptedMove)

    def keep_farewell(self, name: str, farewell: Farewell) -> None:
        self._store.mark(FAREWELL + name, msgpack.encode(farewell))

    def end_farewell(self, name: str) -> None:
        self._store.unmark(FAREWELL + name)

    def farewells(self) -> dict[str, Farewell]:
        """By the names of those who are to be told."""
        return {
            mark.removeprefix(FAREWELL): msgpack.decode(value, type=Farewell)
            for mark, value in self._store.marks(FAREWELL).items()
        }
