"""What one peer is owed: notifications that are kept until it says it has them.

The store holds them; here are those to be sent next, and how far sending is. Rows only increase, so
"everything up to this row" is all that has to be said.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from kbn.broker.messages import Peer
from kbn.broker.store import Store

AHEAD_MAX = 512


class Owed(NamedTuple):
    """One notification owed: `note` says what else the peer must be told with it.

    `after` is the row sent before it, 0 for the first that the peer may not have.
    """

    row: int
    after: int
    note: bytes
    envelope: bytes


class OwedQueue:
    """The notifications owed to one peer, oldest first.

    `rows` numbers them. It is one for all peers of a broker, and goes on where it was when a peer
    leaves and comes back: a row is never used twice.
    """

    def __init__(self, store: Store, peer: Peer, rows: Iterator[int]) -> None:
        self._store = store
        self._peer = peer
        self._rows = rows
        self._last_row = next(rows)
        self._sent_row = 0
        self._ahead: deque[Owed] = deque()
        self._ahead_is_all = False
        self._unsettled: deque[int] = deque()

    def __len__(self) -> int:
        """How many are owed."""
        return self._store.owed_count(self._peer)

    @property
    def last_row(self) -> int:
        """The newest row; nothing before it comes later."""
        return self._last_row

    def has_sent(self, row: int) -> bool:
        """Whether everything up to a row has been sent (since the last rewinding)."""
        if self._sent_row >= row:
            return True
        if not self._ahead and not self._ahead_is_all:
            self._read_ahead()
        return not self._ahead or self._ahead[0].row > row

    @property
    def in_flight(self) -> int:
        """How many were sent and not settled."""
        return len(self._unsettled)

    def push(self, key: int, note: bytes, envelope: bytes) -> None:
        """Owe one more, of a body the store keeps under `key`."""
        self._last_row = next(self._rows)
        self._store.owe(self._peer, self._last_row, key, note)
        if self._ahead_is_all and len(self._ahead) < AHEAD_MAX:
            self._ahead.append(Owed(self._last_row, 0, note, envelope))
        else:
            self._ahead_is_all = False

    def next(self) -> Owed | None:
        """The next to send, or None when all were sent."""
        if not self._ahead and not self._ahead_is_all:
            self._read_ahead()
        if not self._ahead:
            return None
        owed = self._ahead.popleft()._replace(after=self._sent_row)
        self._sent_row = owed.row
        self._unsettled.append(owed.row)
        return owed

    def settle(self, row: int) -> None:
        """The peer has everything up to this row."""
        if not self._unsettled or self._unsettled[0] > row:
            return
        while self._unsettled and self._unsettled[0] <= row:
            self._unsettled.popleft()
        self._store.settle(self._peer, min(row, self._sent_row))

    def rewind(self) -> None:
        """Send again what was not settled: the peer may not have it."""
        self._sent_row = 0
        self._ahead.clear()
        self._unsettled.clear()
        self._ahead_is_all = False

    def take_all(self) -> list[bytes]:
        """Give up on this peer: the envelopes it was owed, which it no longer is."""
        found = [body for _, _, _, body in self._store.owed(self._peer, 0, len(self))]
        self._store.forget_owed(self._peer)
        self.rewind()
        return found

    def _read_ahead(self) -> None:
        rows = self._store.owed(self._peer, self._sent_row, AHEAD_MAX)
        self._ahead.extend(Owed(row, 0, note, body) for row, _, note, body in rows)
        self._ahead_is_all = len(rows) < AHEAD_MAX
