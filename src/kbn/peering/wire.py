"""Wire: messages in the frames of brokers, and a decoder for each conversation."""

from __future__ import annotations

from typing import Any, cast

from msgspec.msgpack import Decoder

from kbn.broker import wire
from kbn.peering.messages import (
    BetweenPeers,
    FirstToCoordinator,
    Link,
    ToCoordinator,
    ToPeer,
    ToStandby,
)

__all__ = [
    "FRAME_BYTES_MAX",
    "decode_between_peers",
    "decode_first",
    "decode_link",
    "decode_to_coordinator",
    "decode_to_peer",
    "decode_to_standby",
    "encode",
]

FRAME_BYTES_MAX = 4 << 20
"""No message of ours is longer; what waits in a connection is bounded by that."""

encode = wire.encode


def decode_first(body: bytes) -> FirstToCoordinator:
    """What opens a connection to a coordinator."""
    return wire.decode_with(_FIRST, body, "a peer's first message")


def decode_to_coordinator(body: bytes) -> ToCoordinator:
    return wire.decode_with(_TO_COORDINATOR, body, "a peer's message")


def decode_to_peer(body: bytes) -> ToPeer:
    return wire.decode_with(_TO_PEER, body, "a coordinator's message")


def decode_link(body: bytes) -> Link:
    """What opens a connection to a peer."""
    return wire.decode_with(_LINK, body, "a peer's first message")


def decode_between_peers(body: bytes) -> BetweenPeers:
    return wire.decode_with(_BETWEEN_PEERS, body, "a message between peers")


def decode_to_standby(body: bytes) -> ToStandby:
    return wire.decode_with(_TO_STANDBY, body, "a message to a standby")


_FIRST = cast(Decoder[FirstToCoordinator], Decoder(cast(Any, FirstToCoordinator)))
_TO_COORDINATOR = cast(Decoder[ToCoordinator], Decoder(cast(Any, ToCoordinator)))
_TO_PEER = cast(Decoder[ToPeer], Decoder(cast(Any, ToPeer)))
_LINK = Decoder(Link)
_BETWEEN_PEERS = cast(Decoder[BetweenPeers], Decoder(cast(Any, BetweenPeers)))
_TO_STANDBY = cast(Decoder[ToStandby], Decoder(cast(Any, ToStandby)))
