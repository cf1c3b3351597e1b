"""The unacked queue of one peer: notifications that are kept until the peer acknowledges them.

The store holds them; here are those to be sent next, and how far sending is. Sequences only
increase, so "everything up to this sequence" is all that an acknowledgement has to say.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from msgspec import msgpack

from kbn.broker.fields import Number
from kbn.broker.kept import ENCODER, ENVELOPES, Kept
from kbn.broker.messages import Envelope, Peer
from kbn.broker.set_aside import UNREADABLE, Aside
from kbn.broker.store import Store, StoredUnacked

AHEAD_MAX = 512
AHEAD_BYTES_MAX = 4 << 20
"""So many are read ahead of what is sent, and so many bytes (but one in any case)."""

# At the limit a sixteenth of it is made free at once: one by one would cost each publication a
# search in the store.
FREED_SHARE = 16
LOOKED_AT = 4096

_IDS = msgpack.Decoder(tuple[Number, ...])


class Unacked(NamedTuple):
    """One notification to send; `ids` are the subscriptions of a client that want it.

    `after` is the sequence sent before it, 0 for the first that the peer may not have.
    """

    sequence: int
    after: int
    ids: tuple[int, ...]
    envelope: Envelope

    @property
    def size(self) -> int:
        return len(self.envelope.content)


class UnackedQueue:
    """The notifications that one peer has not acknowledged, oldest first.

    `sequences` numbers them. It is one for all peers of a broker, and goes on where it was when a
    peer leaves and comes back: a sequence is never used twice.
    """

    def __init__(self, store: Store, peer: Peer, sequences: Iterator[int], aside: Aside) -> None:
        self._store = store
        self._peer = peer
        self._sequences = sequences
        self._aside = aside
        self._last = next(sequences)
        self._sent = 0
        self._told = 0  # the last one sent that was not skipped
        self._ahead: deque[Unacked] = deque()
        self._ahead_bytes = 0
        self._ahead_is_all = False
        self._in_flight: deque[tuple[int, int]] = deque()  # sequences, and the bytes of each
        self.in_flight_bytes = 0

    def __len__(self) -> int:
        """How many are not acknowledged, sent or not."""
        return self._store.unacked_count(self._peer)

    @property
    def size(self) -> int:
        """How many bytes these are."""
        return self._store.unacked_bytes(self._peer)

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

    def push(self, kept: Kept, ids: tuple[int, ...] = ()) -> None:
        """Add a notification, for some subscriptions of a client."""
        self._last = next(self._sequences)
        self._store.push(self._peer, self._last, kept.key(), ENCODER.encode(ids) if ids else b"")
        is_room = len(self._ahead) < AHEAD_MAX and self._ahead_bytes < AHEAD_BYTES_MAX
        if self._ahead_is_all and is_room:
            self._put_ahead(Unacked(self._last, 0, ids, kept.envelope))
        else:
            self._ahead_is_all = False

    def next(self) -> Unacked | None:
        """The next to send, or None when all were sent."""
        if not self._ahead and not self._ahead_is_all:
            self._read_ahead()
        if not self._ahead:
            return None
        unacked = self._ahead.popleft()._replace(after=self._told)
        self._ahead_bytes -= unacked.size
        self._sent = self._told = unacked.sequence
        self._in_flight.append((unacked.sequence, unacked.size))
        self.in_flight_bytes += unacked.size
        return unacked

    def skip(self, unacked: Unacked) -> None:
        """The one that `next` has just given is not for the peer after all."""
        self.in_flight_bytes -= self._in_flight.pop()[1]
        self._told = unacked.after
        if not self._in_flight:
            self._store.ack(self._peer, self._sent)

    def ack(self, sequence: int) -> None:
        """The peer has everything up to this sequence."""
        if not self._in_flight or self._in_flight[0][0] > sequence:
            return
        self._landed(sequence)
        # When nothing is in flight, what comes after the sequence was skipped.
        self._store.ack(self._peer, min(sequence, self._sent) if self._in_flight else self._sent)

    def free(self, count_max: int, bytes_max: int) -> int:
        """Drop the oldest when there are more than so many, or than so many bytes; how many.

        Then a sixteenth of the room is free.
        """
        too_many, too_much = len(self) - count_max, self.size - bytes_max
        if too_many <= 0 and too_much <= 0:
            return 0
        count_left = count_max - count_max // FREED_SHARE if too_many > 0 else count_max
        bytes_left = bytes_max - bytes_max // FREED_SHARE if too_much > 0 else bytes_max
        return self._drop_to(count_left, bytes_left)

    def _drop_to(self, count_left: int, bytes_left: int) -> int:
        dropped = 0
        while (count := len(self)) and (count > count_left or self.size > bytes_left):
            excess, last = self.size - bytes_left, 0
            oldest = self._store.oldest(self._peer, LOOKED_AT)
            for sequence, size in oldest:
                if count <= count_left and excess <= 0:
                    break
                count, excess, last = count - 1, excess - size, sequence
                dropped += 1
            self._store.ack(self._peer, last)
            self._landed(last)
            while self._ahead and self._ahead[0].sequence <= last:
                self._ahead_bytes -= self._ahead.popleft().size
        return dropped

    def rewind(self) -> None:
        """Send again what was not acknowledged: the peer may not have it."""
        self._sent = self._told = 0
        self._ahead.clear()
        self._ahead_bytes = 0
        self._in_flight.clear()
        self.in_flight_bytes = 0
        self._ahead_is_all = False

    def take_all(self) -> list[Envelope]:
        """Empty the queue; the envelopes that were in it."""
        return self.take_up_to(self._last)

    def take_up_to(self, sequence: int) -> list[Envelope]:
        """Empty the queue; the envelopes in it up to a sequence."""
        found = (r for r in self._store.unacked(self._peer, 0, len(self)) if r.sequence <= sequence)
        read = [unacked.envelope for row in found if (unacked := self._read(row)) is not None]
        self._store.forget_unacked(self._peer)
        self.rewind()
        return read

    def _landed(self, sequence: int) -> None:
        """What is on its way up to this sequence is nobody's concern any more."""
        while self._in_flight and self._in_flight[0][0] <= sequence:
            self.in_flight_bytes -= self._in_flight.popleft()[1]

    def _read_ahead(self) -> None:
        after = self._sent
        while not self._ahead and not self._ahead_is_all:
            found = self._store.unacked(self._peer, after, AHEAD_MAX, AHEAD_BYTES_MAX)
            size = sum(len(row.envelope) + len(row.note) for row in found)
            self._ahead_is_all = len(found) < AHEAD_MAX and size < AHEAD_BYTES_MAX
            for row in found:
                after = row.sequence
                unacked = self._read(row)
                if unacked is not None:
                    self._put_ahead(unacked)

    def _put_ahead(self, unacked: Unacked) -> None:
        self._ahead.append(unacked)
        self._ahead_bytes += unacked.size

    def _read(self, row: StoredUnacked) -> Unacked | None:
        """A row of the store; None for one that cannot be read, which is set aside."""
        try:
            ids = _IDS.decode(row.note) if row.note else ()
            return Unacked(row.sequence, 0, ids, ENVELOPES.decode(row.envelope))
        except UNREADABLE as error:
            self._aside.row(self._peer, row, error)
            return None
