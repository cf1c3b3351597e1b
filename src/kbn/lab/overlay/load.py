"""Load on a broker: one publisher and many subscribers, over plain sockets.

A notification goes to one subscriber of many. Everything is measured at the subscribers' sockets:
how many arrive in a second, and how long after they were handed to the publisher's socket. Frames
are made and read by hand, without a client library, so that what is measured is the broker; the
same bytes go through a topic broker (MQTT, quality of service 0) in the same way.
"""

from __future__ import annotations

import asyncio
import socket
from abc import ABC, abstractmethod
from array import array
from time import monotonic
from typing import Any

from kbn.broker import (
    Alive,
    ConnAck,
    Connect,
    Credit,
    Deliver,
    Grant,
    Publish,
    Refused,
    Subscribe,
    content,
    wire,
)
from kbn.errors import KbnError

WINDOW = 10_000
PATIENCE_S = 120.0
ALIVE_S = 15.0
# Published and not yet arrived, when as much as possible is published: the queues stay short.
IN_FLIGHT_MAX = 2_000


class Arrivals:
    """What has arrived at the subscribers."""

    def __init__(self) -> None:
        self.count = 0
        self.latencies = array("d")
        self.wanted = 0
        self.reached = asyncio.Event()
        self.moved = asyncio.Event()

    def add(self, published_at: float) -> None:
        self.count += 1
        self.latencies.append(monotonic() - published_at)
        self.moved.set()
        if self.count >= self.wanted:
            self.reached.set()

    def expect(self, more: int) -> None:
        self.wanted = self.count + more
        self.reached.clear()
        self.latencies = array("d")


class Wire(asyncio.Protocol, ABC):
    """A socket that speaks one protocol."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        raw = transport.get_extra_info("socket")
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.begin()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.ready.done():
            self.ready.set_exception(KbnError(f"the broker closed the connection: {error}"))

    @abstractmethod
    def begin(self) -> None: ...


class KbnWire(Wire):
    """One client of a kbn broker; `wants` are its subscriptions, in the text language."""

    def __init__(self, name: str, wants: list[str], arrivals: Arrivals) -> None:
        super().__init__()
        self._name = name
        self._wants = wants
        self._arrivals = arrivals
        self._reader = wire.FrameReader(64 << 20)
        self._granted = 0
        self._number = 0
        self._answered = 0
        self._consumed = 0
        self._credit = WINDOW
        self.room = asyncio.Event()

    def begin(self) -> None:
        self.transport.write(wire.encode(Connect(self._name, 1, window=WINDOW)))
        self._stay_alive()

    def _stay_alive(self) -> None:
        """Give a sign of life now and then, as any client does."""
        if not self.transport.is_closing():
            asyncio.get_running_loop().call_later(ALIVE_S, self._say_alive)

    def _say_alive(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(wire.encode(Alive()))
            self._stay_alive()

    def data_received(self, data: bytes) -> None:
        for body in self._reader.feed(data):
            match wire.decode_to_client(body):
                case Deliver(envelope=envelope):
                    self._consumed += 1
                    self._arrivals.add(envelope.time)
                case Grant(total):
                    self._granted = total
                    self.room.set()
                case ConnAck(credit=credit):
                    self._granted = credit
                    self._subscribe()
                case Refused(what, _, kind, reason):
                    self._fail(f"{what} was refused: {kind}: {reason}")
                case _:
                    self._answer()
        if self._consumed + WINDOW - self._credit > WINDOW // 2:
            self._credit = self._consumed + WINDOW
            self.transport.write(wire.encode(Credit(self._credit)))

    def _subscribe(self) -> None:
        frames = [
            wire.encode(Subscribe(id, want, is_text=True)) for id, want in enumerate(self._wants, 1)
        ]
        self.transport.write(b"".join(frames))
        if not frames:
            self.ready.set_result(None)

    def _answer(self) -> None:
        self._answered += 1
        if self._answered == len(self._wants) and not self.ready.done():
            self.ready.set_result(None)

    def _fail(self, reason: str) -> None:
        if not self.ready.done():
            self.ready.set_exception(KbnError(reason))

    def content(self, target: int, number: int) -> bytes:
        """A notification for one subscriber."""
        return content.encode({"to": target, "number": number, "text": "x" * 50})

    async def publish(self, targets: list[int]) -> None:
        """One notification to each target, as soon as the broker grants them."""
        start = 0
        while start < len(targets):
            room = self._granted - self._number
            if room <= 0:
                self.room.clear()
                await self.room.wait()
                continue
            part = targets[start : start + room]
            frames = []
            for target in part:
                self._number += 1
                body = self.content(target, self._number)
                frames.append(wire.encode(Publish(self._number, monotonic(), body)))
            self.transport.write(b"".join(frames))
            start += len(part)


class MqttWire(Wire):
    """One client of an MQTT 3.1.1 broker, quality of service 0, and no more of it than that."""

    def __init__(self, name: str, wants: list[str], arrivals: Arrivals) -> None:
        super().__init__()
        self._name = name
        self._wants = wants
        self._arrivals = arrivals
        self._rest = b""
        self._answered = 0

    def begin(self) -> None:
        client = self._name.encode()
        head = b"\x00\x04MQTT\x04\x02\x00\x00" + len(client).to_bytes(2, "big") + client
        self.transport.write(_packet(0x10, head))

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        at = 0
        while (found := _next_packet(data, at)) is not None:
            kind, start, end = found
            if kind == 0x30:
                topic = int.from_bytes(data[start : start + 2], "big")
                payload = data[start + 2 + topic : end]
                self._arrivals.add(float(payload[:24]))
            elif kind == 0x20:
                self._subscribe()
            elif kind == 0x90:
                self._answer()
            at = end
        self._rest = data[at:]

    def _subscribe(self) -> None:
        for number, want in enumerate(self._wants, 1):
            topic = want.encode()
            body = (number % 65_535 + 1).to_bytes(2, "big")
            body += len(topic).to_bytes(2, "big") + topic + b"\x00"
            self.transport.write(_packet(0x82, body))
        if not self._wants:
            self.ready.set_result(None)

    def _answer(self) -> None:
        self._answered += 1
        if self._answered == len(self._wants):
            self.ready.set_result(None)

    async def publish(self, targets: list[int]) -> None:
        packets = []
        for target in targets:
            topic = f"to/{target}".encode()
            payload = f"{monotonic():<24}".encode() + b"x" * 60
            packets.append(_packet(0x30, len(topic).to_bytes(2, "big") + topic + payload))
        self.transport.write(b"".join(packets))


def _packet(kind: int, body: bytes) -> bytes:
    size, length = b"", len(body)
    while True:
        length, low = divmod(length, 128)
        size += bytes([low | (0x80 if length else 0)])
        if not length:
            return bytes([kind]) + size + body


def _next_packet(data: bytes, at: int) -> tuple[int, int, int] | None:
    """Of the packet that begins at a place: its kind, where its body begins and where it ends."""
    start, length, shift = at + 1, 0, 0
    while start < len(data):
        byte = data[start]
        start += 1
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            end = start + length
            return (data[at] & 0xF0, start, end) if end <= len(data) else None
    return None
