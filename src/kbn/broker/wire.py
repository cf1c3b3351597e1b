"""Wire: messages in bytes, and where one ends on a stream and the next begins.

A frame is its length, four bytes with the most significant first, and one message as MessagePack:
an array of the message's kind and its fields in order. What a message may be depends on who speaks,
so there is a decoder for each conversation: a client that says what only brokers say is refused
here.

Nothing a peer sends raises anything but `FrameError`. After one the stream cannot be trusted any
more, for nobody knows where the next frame begins: drop the connection. The decoders prove types,
not meanings: an integer may have up to 64 bits without a sign, a time may be NaN, and contents and
filters inside are still bytes and text.
"""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar, cast

from msgspec import MsgspecError, Struct
from msgspec.msgpack import Decoder, Encoder

from kbn.broker.messages import (
    BetweenBrokers,
    Bye,
    Connect,
    FromClient,
    Greet,
    Refused,
    ToClient,
    Who,
)
from kbn.errors import InvalidInputError, RemotePeerError

__all__ = [
    "FRAME_BYTES_MAX",
    "FirstMessage",
    "FrameError",
    "FrameReader",
    "decode_between_brokers",
    "decode_farewell",
    "decode_first",
    "decode_from_client",
    "decode_name",
    "decode_opening",
    "decode_to_client",
    "decode_with",
    "encode",
]

HEADER_BYTES = 4
FRAME_BYTES_MAX = 2**32 - 1

FirstMessage: TypeAlias = Connect | Greet


class FrameError(RemotePeerError):
    """What arrived is no frame, or no message that may be said here."""


def encode(message: Struct) -> bytes:
    """The message as a frame; InvalidInputError for what has no form in bytes.

    >>> from kbn.broker.messages import Alive
    >>> encode(Alive())
    b'\\x00\\x00\\x00\\x07\\x91\\xa5alive'
    """
    try:
        body = _encode(message)
    except (MsgspecError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidInputError(f"a {type(message).__name__} cannot be sent: {error}") from None
    if len(body) > FRAME_BYTES_MAX:
        raise InvalidInputError(f"a message of {len(body)} bytes cannot be sent")
    return len(body).to_bytes(HEADER_BYTES, "big") + body


class FrameReader:
    """Cuts a stream into frames, however the stream was cut before.

    Holds no more than one unfinished frame, and that is at most `limit_bytes` long (which may be
    changed at any time). The time it takes is linear in what it is fed.

    >>> reader = FrameReader(100)
    >>> reader.feed(b"\\x00\\x00\\x00\\x02a"), reader.feed(b"b\\x00\\x00\\x00\\x01c")
    ([], [b'ab', b'c'])
    """

    def __init__(self, limit_bytes: int) -> None:
        if not 0 < limit_bytes <= FRAME_BYTES_MAX:
            raise InvalidInputError(
                f"a frame's limit is from 1 to {FRAME_BYTES_MAX} bytes, not {limit_bytes}"
            )
        self.limit_bytes = limit_bytes
        self._unfinished = bytearray()
        self._wanted = HEADER_BYTES  # how long the unfinished part must be to be looked at again
        self._broken = ""  # why; an error would refer to this reader by its traceback

    @property
    def pending(self) -> int:
        """How many bytes of a frame have arrived before its end; 0 between frames."""
        return len(self._unfinished)

    def feed(self, data: bytes) -> list[bytes]:
        """The bodies of the frames that are complete now, in order.

        Raises FrameError at a length that is zero or above the limit, and from then on always.
        What came whole before that is not told: it is the same stream.
        """
        if self._broken:
            raise FrameError(self._broken)
        if not self._unfinished:
            return self._cut(data)
        self._unfinished += data
        if len(self._unfinished) < self._wanted:
            return []
        whole, self._unfinished = bytes(self._unfinished), bytearray()
        return self._cut(whole)

    def _cut(self, data: bytes) -> list[bytes]:
        """The complete frames of data that begins with one; the rest is kept for later."""
        frames = []
        start, end = 0, len(data)
        self._wanted = HEADER_BYTES
        while end - start >= HEADER_BYTES:
            body = start + HEADER_BYTES
            length = int.from_bytes(data[start:body], "big")
            if not 0 < length <= self.limit_bytes:
                raise self._broken_by(length)
            if end - body < length:
                self._wanted = HEADER_BYTES + length
                break
            start = body + length
            frames.append(data[body:start])
        self._unfinished += data[start:]
        return frames

    def _broken_by(self, length: int) -> FrameError:
        self._broken = (
            f"a frame of {length} bytes; the limit is {self.limit_bytes}"
            if length
            else "a frame of no bytes"
        )
        self._unfinished.clear()
        return FrameError(self._broken)


def decode_first(body: bytes) -> FirstMessage:
    """The message that opens a connection to a broker: a client's, or another broker's."""
    return decode_with(_FIRST, body, "a first message")


def decode_opening(body: bytes) -> FirstMessage | Who | Bye:
    """A first message, or the question for our name that may come before it, or a last word."""
    return decode_with(_OPENING, body, "a first message")


def decode_name(body: bytes) -> Who | Refused:
    """The answer to the question for a broker's name."""
    return decode_with(_NAME, body, "a broker's name")


def decode_farewell(body: bytes) -> Bye | Refused:
    """The answer of a broker that was left."""
    return decode_with(_FAREWELL, body, "a last word")


def decode_from_client(body: bytes) -> FromClient:
    """What a client says to its broker."""
    return decode_with(_FROM_CLIENT, body, "a client's message")


def decode_to_client(body: bytes) -> ToClient:
    """What a broker says to its client."""
    return decode_with(_TO_CLIENT, body, "a message to a client")


def decode_between_brokers(body: bytes) -> BetweenBrokers:
    """What a broker says to its neighbour."""
    return decode_with(_BETWEEN_BROKERS, body, "a broker's message")


T = TypeVar("T")


def decode_with(decoder: Decoder[T], body: bytes, expected: str) -> T:
    """What a decoder makes of a body; FrameError for what it cannot be, with what was expected."""
    try:
        return decoder.decode(body)
    except (MsgspecError, UnicodeError, RecursionError, MemoryError, OverflowError) as error:
        raise FrameError(f"expected {expected}: {error}") from None


_encode = Encoder().encode
_FIRST = cast(Decoder[FirstMessage], Decoder(cast(Any, FirstMessage)))
_OPENING = cast(Decoder[FirstMessage | Who | Bye], Decoder(cast(Any, FirstMessage | Who | Bye)))
_FAREWELL = cast(Decoder[Bye | Refused], Decoder(cast(Any, Bye | Refused)))
_NAME = cast(Decoder[Who | Refused], Decoder(cast(Any, Who | Refused)))
_FROM_CLIENT = cast(Decoder[FromClient], Decoder(cast(Any, FromClient)))
_TO_CLIENT = cast(Decoder[ToClient], Decoder(cast(Any, ToClient)))
_BETWEEN_BROKERS = cast(Decoder[BetweenBrokers], Decoder(cast(Any, BetweenBrokers)))
