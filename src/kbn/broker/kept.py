"""A notification that is being routed: encoded and stored once, however many peers it goes to."""

from __future__ import annotations

from msgspec import msgpack

from kbn.broker.messages import Envelope
from kbn.broker.store import Store

ENCODER = msgpack.Encoder()
ENVELOPES = msgpack.Decoder(Envelope)


class Kept:
    """Encoded and stored when the first asks for it, then shared."""

    __slots__ = ("_body", "_key", "_store", "envelope")

    def __init__(self, store: Store, envelope: Envelope, key: int | None = None) -> None:
        self.envelope = envelope
        self._store = store
        self._body: bytes | None = None
        self._key = key

    def body(self) -> bytes:
        """The envelope in bytes."""
        if self._body is None:
            self._body = ENCODER.encode(self.envelope)
        return self._body

    def key(self) -> int:
        """The key under which the store has the body."""
        if self._key is None:
            self._key = self._store.keep(self.body())
        return self._key
