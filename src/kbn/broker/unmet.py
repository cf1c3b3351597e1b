"""Brokers that this one is to connect to and has never met, known by where they are.

What such a broker's side wants is not known, so it counts as everything durable. It is kept in a
queue under the broker's url. Whoever answers there takes the queue over, and drops what nobody on
its side wants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kbn.broker.kept import Kept
from kbn.broker.messages import Peer
from kbn.broker.store import Store
from kbn.broker.unacked import UnackedQueue

_UNMET = "unmet/"
_TAKEN_OVER = "queue/"


def queue_of(store: Store, name: str) -> Peer:
    """Under whom the store has what a neighbour has not acknowledged."""
    url = store.marked(_TAKEN_OVER + name)
    return Peer("broker", name) if url is None else Peer("unmet", url.decode())


class UnmetPeers:
    """The queues of brokers that were never met; a mark in the store tells of each."""

    def __init__(self, store: Store, unacked_of: Callable[[Peer], UnackedQueue]) -> None:
        self._store = store
        self._unacked_of = unacked_of
        self._queues: dict[str, UnackedQueue] = {}
        self._parents: set[str] = set()

    def __iter__(self) -> Iterator[str]:
        return iter(self._queues)

    def __contains__(self, url: str) -> bool:
        return url in self._queues

    def __len__(self) -> int:
        return len(self._queues)

    def expect(self, url: str, *, is_parent: bool) -> None:
        """Keep everything durable for whoever is at a url."""
        self._queues[url] = self._unacked_of(Peer("unmet", url))
        if is_parent:
            self._parents.add(url)
        self._store.mark(_UNMET + url, b"")

    def keep(self, kept: Kept) -> Iterator[tuple[str, UnackedQueue]]:
        """Queue a durable notification for each, and tell of it."""
        for url, queue in self._queues.items():
            queue.push(kept)
            yield url, queue

    def unacked(self, url: str) -> int:
        """How much is kept for whoever is at a url."""
        return len(self._queues[url]) if url in self._queues else 0

    def may_subscribe(self, *, parents_count: bool) -> bool:
        """Whether there is one who may want something that we would have to ask others for."""
        return any(parents_count or url not in self._parents for url in self._queues)

    # Meeting one.

    def met(self, url: str) -> UnackedQueue | None:
        """Somebody is at this url: no longer unmet; what was kept, if anything was to be."""
        if self._store.marked(_UNMET + url) is None:
            return None
        self._store.unmark(_UNMET + url)
        self._parents.discard(url)
        return self._queues.pop(url, None) or self._unacked_of(Peer("unmet", url))

    def take_over(self, url: str, name: str) -> None:
        """A neighbour goes on with the queue of a url, as its own."""
        self._store.mark(_TAKEN_OVER + name, url.encode())

    def forget_queue(self, name: str) -> None:
        """A neighbour is one no longer, or never was: it has no queue of another's."""
        self._store.unmark(_TAKEN_OVER + name)

    def forget_others(self, urls: set[str]) -> None:
        """Forget those that we are not to connect to any more."""
        for mark in self._store.marks(_UNMET):
            url = mark.removeprefix(_UNMET)
            if url not in urls and (queue := self.met(url)) is not None:
                queue.take_all()
