"""One socket, for brokers and clients alike: frames come in, frames go out.

What arrives is handed to the owner as whole frames; what is to be sent is collected and written
once, when the owner says `flush`. Nothing here knows what a frame means.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable
from typing import Any, Protocol, cast

from msgspec import Struct

from kbn.broker import FrameError, FrameReader, wire
from kbn.errors import InvalidInputError

# Above this the owner is told that the other side does not read; below a quarter, that it does.
HIGH_WATER_BYTES = 1 << 20


class Owner(Protocol):
    """Who has connections."""

    def opened(self, connection: Connection) -> None: ...

    def arrived(self, connection: Connection, frames: list[bytes]) -> None: ...

    def broken(self, connection: Connection, error: FrameError) -> None:
        """What arrived cannot be cut into frames."""

    def paused(self, connection: Connection) -> None:
        """The other side does not read."""

    def resumed(self, connection: Connection) -> None:
        """It does again."""

    def lost(self, connection: Connection) -> None: ...


class Connection(asyncio.Protocol):
    """A socket; `id` and `label` are its owner's. `watch` is told how much has come."""

    __slots__ = (
        "_out", "_owner", "_reader", "_transport", "closed", "heard_at", "id", "is_closing",
        "is_paused", "label", "watch",
    )  # fmt: skip

    def __init__(self, owner: Owner, frame_bytes_max: int, id: int = 0) -> None:
        self._owner = owner
        self._reader = FrameReader(frame_bytes_max)
        self._out: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.id = id
        self.label: Any = None
        self.heard_at = 0.0
        self.is_closing = False
        self.is_paused = False
        self.watch: Callable[[Connection, int], None] | None = None

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(HIGH_WATER_BYTES, HIGH_WATER_BYTES // 4)
        raw = transport.get_extra_info("socket")
        if raw is not None:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._owner.opened(self)

    def data_received(self, data: bytes) -> None:
        if self.watch is not None:
            self.watch(self, len(data))
        if self.is_closing:
            return
        try:
            frames = self._reader.feed(data)
        except FrameError as error:
            self._owner.broken(self, error)
            return
        if frames:
            self._owner.arrived(self, frames)

    def pause_writing(self) -> None:
        self.is_paused = True
        self._owner.paused(self)

    def resume_writing(self) -> None:
        self.is_paused = False
        self._owner.resumed(self)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_closing = True
        self._out.clear()
        if not self.closed.done():
            self.closed.set_result(None)
        # Asyncio's transport refers to itself by this, and would be garbage to be searched for.
        getattr(self._transport, "__dict__", {}).pop("_read_ready_cb", None)
        self._owner.lost(self)

    # What the owner calls.

    def send(self, message: Struct) -> None:
        """Have a message written at the next flush."""
        self._out.append(wire.encode(message))

    def send_all(
        self, messages: Iterable[Struct], encode: Callable[[Struct], bytes] = wire.encode
    ) -> list[InvalidInputError]:
        """Write messages at once; why those were left out that have no form in bytes."""
        problems, out = [], self._out
        for message in messages:
            try:
                out.append(encode(message))
            except InvalidInputError as problem:
                problems.append(problem)
        self.flush()
        return problems

    def flush(self) -> None:
        """Write all that was sent since the last time, at once."""
        if self._out:
            data = b"".join(self._out) if len(self._out) > 1 else self._out[0]
            self._out.clear()
            if self._transport is not None and not self._transport.is_closing():
                self._transport.write(data)

    @property
    def unwritten_bytes(self) -> int:
        """How much waits for the other side to read."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    @property
    def address(self) -> str:
        found = None if self._transport is None else self._transport.get_extra_info("peername")
        return f"{found[0]}:{found[1]}" if isinstance(found, tuple) else "somewhere"

    def extra(self, name: str) -> Any:
        return None if self._transport is None else self._transport.get_extra_info(name)

    def allow(self, frame_bytes_max: int) -> None:
        """Take frames of so many bytes from now on."""
        self._reader.limit_bytes = frame_bytes_max

    def pause_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def close(self) -> None:
        """Close when everything sent is written; what arrives meanwhile is ignored."""
        self.flush()
        self.is_closing = True
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self.is_closing = True
        self._out.clear()
        if self._transport is not None:
            self._transport.abort()
