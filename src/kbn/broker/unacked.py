"""The unacked queue of one peer: notifications that are kept until the peer acknowledges them.

The store holds them; here are those to be sent next, and how far sending is. Sequences only
increase, so "everything up to this sequence" is all that an acknowledgement has to say.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from kbn.broker.messages import Peer
from kbn.broker.store import Store

AHEAD_MAX = 512


class Unacked(NamedTuple):
    """One notification to send: `note` says what else the peer must be told with it.

    `after` is the sequence sent before it, 0 for the first that the peer may not have.
    """

    sequence: int
    after: int
    note: bytes
    envelope: bytes


class UnackedQueue:
    """The notifications that one peer has not acknowledged, oldest first.

    `sequences` numbers them. It is one for all peers of a broker, and goes on where it was when a
    peer leaves and comes back: a sequence is never used twice.
    """

    def __init__(self, store: Store, peer: Peer, sequences: Iterator[int]) -> None:
        self._store = store
        self._peer = peer
        self._sequences = sequences
        self._last = next(sequences)
        self._sent = 0
        self._told = 0  # the last one sent that was not skipped
        self._ahead: deque[Unacked] = deque()
        self._ahead_is_all = False
        self._in_flight: deque[int] = deque()

    def __len__(self) -> int:
        """How many are not acknowledged, sent or not."""
        return self._store.unacked_count(self._peer)

    @property
    def last(self) -> int:
        """The newest sequence; nothing before it comes later."""
        return self._last

    def has_sent(self, sequence: int) -> bool:
        """Whether everything up to a sequence has been sent (since the last `rewind`)."""
        if self._sent >= sequence:
            return True
        if not self._ahead and not self._ahead_is_all:
            self._read_ahead()
        return not self._ahead or self._ahead[0].sequence > sequence

    @property
    def in_flight(self) -> int:
        """How many were sent and not acknowledged."""
        return len(self._in_flight)

    def push(self, key: int, note: bytes, envelope: bytes) -> None:
        """Add a notification whose body the store keeps under `key`."""
        self._last = next(self._sequences)
        self._store.push(self._peer, self._last, key, note)
        if self._ahead_is_all and len(self._ahead) < AHEAD_MAX:
            self._ahead.append(Unacked(self._last, 0, note, envelope))
        else:
            self._ahead_is_all = False

    def next(self) -> Unacked | None:
        """The next to send, or None when all were sent."""
        if not self._ahead and not self._ahead_is_all:
            self._read_ahead()
        if not self._ahead:
            return None
        unacked = self._ahead.popleft()._replace(after=self._told)
        self._sent = self._told = unacked.sequence
        self._in_flight.append(unacked.sequence)
        return unacked

    def skip(self, unacked: Unacked) -> None:
        """The one that `next` has just given is not for the peer after all."""
        self._in_flight.pop()
        self._told = unacked.after
        if not self._in_flight:
            self._store.ack(self._peer, self._sent)

    def ack(self, sequence: int) -> None:
        """The peer has everything up to this sequence."""
        if not self._in_flight or self._in_flight[0] > sequence:
            return
        while self._in_flight and self._in_flight[0] <= sequence:
            self._in_flight.popleft()
        # When nothing is in flight, what comes after the sequence was skipped.
        self._store.ack(self._peer, min(sequence, self._sent) if self._in_flight else self._sent)

    def rewind(self) -> None:
        """Send again what was not acknowledged: the peer may not have it."""
        self._sent = self._told = 0
        self._ahead.clear()
        self._in_flight.clear()
        self._ahead_is_all = False

    def take_all(self) -> list[bytes]:
        """Empty the queue; the envelopes that were in it."""
        return self.take_up_to(self._last)

    def take_up_to(self, sequence: int) -> list[bytes]:
        """Empty the queue; the envelopes in it up to a sequence."""
        unacked = self._store.unacked(self._peer, 0, len(self))
        found = [each.envelope for each in unacked if each.sequence <= sequence]
        self._store.forget_unacked(self._peer)
        self.rewind()
        return found

    def _read_ahead(self) -> None:
        found = self._store.unacked(self._peer, self._sent, AHEAD_MAX)
        self._ahead.extend(Unacked(each.sequence, 0, each.note, each.envelope) for each in found)
        self._ahead_is_all = len(found) < AHEAD_MAX
