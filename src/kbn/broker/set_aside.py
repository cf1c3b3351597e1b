"""What cannot be read is set aside: kept apart for a person to look at, counted and told.

One bad row must stop nobody. Whoever reads from the store hands what it does not understand to this
part, and goes on with the next.
"""

from __future__ import annotations

from typing import TypeVar

from msgspec import MsgspecError, msgpack

from kbn.broker.messages import Peer
from kbn.broker.occurrences import SetAside
from kbn.broker.outbox import Outbox
from kbn.broker.store import Store, StoredUnacked

ASIDE = "aside/"
KEPT_BYTES_MAX = 16 << 20
"""So much is kept apart in all; what comes later is only counted."""

T = TypeVar("T")
UNREADABLE = (MsgspecError, ValueError, UnicodeError, OverflowError, RecursionError)


class Aside:
    """The rows of one store that could not be read; `count` is of this epoch and those before."""

    def __init__(self, store: Store, outbox: Outbox) -> None:
        kept = store.marks(ASIDE)
        self.count = len(kept)
        self._bytes = sum(map(len, kept.values()))
        self._store = store
        self._outbox = outbox

    def row(self, peer: Peer, row: StoredUnacked, error: Exception) -> None:
        """Take a publication that cannot be read out of a peer's queue."""
        self._store.take_out(peer, row.sequence)
        value = msgpack.encode((row.note, row.envelope))
        self.put(f"{peer.kind}/{peer.name}/{row.sequence}", value, error)

    def put(self, what: str, value: bytes, error: Exception) -> None:
        """Keep some bytes apart; `what` says what they were."""
        self.count += 1
        self._bytes += len(value)
        if self._bytes <= KEPT_BYTES_MAX:
            self._store.mark(ASIDE + what, value)
        self._outbox.note(SetAside(what, str(error)[:200]))

    def read_mark(self, name: str, decoder: msgpack.Decoder[T], default: T) -> T:
        """What a mark says; the default when there is none, or none that can be read."""
        value = self._store.marked(name)
        if value is None:
            return default
        try:
            return decoder.decode(value)
        except UNREADABLE as error:
            self._store.unmark(name)
            self.put(f"mark/{name}", value, error)
            return default
