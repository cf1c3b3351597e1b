"""What one broker process is allowed to use, and whom it connects to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kbn.transport.urls import parse_url

Role = Literal["peer", "parent", "child"]


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Bounds of one server; `Limits` has those of a client's requests.

    A client is sent deliveries while less than `room_bytes` waits in its socket. A connection in
    which more than `unwritten_bytes` waits is dropped: nobody reads there.
    """

    connections: int = 10_000
    frame_bytes: int = 4 << 20
    broker_frame_bytes: int = 256 << 20
    room_bytes: int = 1 << 20
    unwritten_bytes: int = 256 << 20
    connect_timeout_s: float = 10.0
    silent_s: float = 30.0


@dataclass(frozen=True, slots=True)
class LinkTo:
    """A neighbour to connect to; `role` is what it is to us, `token` what we show it.

    With its `name`, what is published before it was ever reached is kept for it, too.
    """

    url: str
    role: Role = "peer"
    token: str = ""
    name: str = ""

    def __post_init__(self) -> None:
        parse_url(self.url)
