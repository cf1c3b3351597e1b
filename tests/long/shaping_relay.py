"""A relay that makes links slow: every peer is reached through it, and each frame takes its time.

The relay listens once for each peer. Who calls says its name first, so the relay knows both ends of
a link; they lie on a map, and a frame takes their distance, times a factor that is drawn anew each
time. Frames keep their order, and when one end is gone the other learns it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from math import dist, log1p, sqrt
from multiprocessing.connection import Connection
from random import Random
from time import monotonic

from kbn.broker import wire
from kbn.peering.wire import decode_link

MAP_S, HOP_S, DEVIATION = 0.020, 0.002, 0.5


@dataclass(frozen=True)
class Shaping:
    """Where everybody is, by a seed: how long a frame takes."""

    seed: int

    def mean_s(self, one: str, other: str) -> float:
        places = [Random(f"{self.seed} {name}") for name in (one, other)]
        return HOP_S + MAP_S * dist(*[(each.random(), each.random()) for each in places])

    def delay_s(self, mean_s: float, rng: Random) -> float:
        squared = log1p(DEVIATION**2)
        return mean_s * rng.lognormvariate(-squared / 2, sqrt(squared))


def relay(control: Connection, targets: dict[str, int], shaping: Shaping) -> None:
    """Run until killed; says at which port each peer is found."""
    asyncio.run(_relay(control, targets, shaping))


async def _relay(control: Connection, targets: dict[str, int], shaping: Shaping) -> None:
    found = {}
    for name, port in targets.items():
        way = _Way(name, port, shaping)
        server = await asyncio.start_server(way.called, "127.0.0.1", 0, backlog=256)
        found[name] = server.sockets[0].getsockname()[1]
    control.send(found)
    await asyncio.Event().wait()


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    header = await reader.readexactly(wire.HEADER_BYTES)
    return header + await reader.readexactly(int.from_bytes(header, "big"))


@dataclass(frozen=True)
class _Way:
    """The way to one peer."""

    name: str
    port: int
    shaping: Shaping

    async def called(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            first = await read_frame(reader)
            caller = decode_link(first[wire.HEADER_BYTES :]).name
            to_peer = await asyncio.open_connection("127.0.0.1", self.port)
            to_peer[1].write(first)
            mean_s = self.shaping.mean_s(caller, self.name)
            await asyncio.gather(
                self._pump(reader, to_peer[1], mean_s), self._pump(to_peer[0], writer, mean_s)
            )
        writer.close()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, mean_s: float
    ) -> None:
        on_its_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        sending = asyncio.create_task(_release(on_its_way, writer))
        rng, last = Random(), 0.0
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                frame = await read_frame(reader)
                last = max(last, monotonic() + self.shaping.delay_s(mean_s, rng))
                on_its_way.put_nowait((last, frame))
        on_its_way.put_nowait((last, b""))
        await sending


async def _release(
    on_its_way: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter
) -> None:
    """Write frames when their time has come; nothing ends the connection."""
    with suppress(OSError):
        while True:
            at, frame = await on_its_way.get()
            if (left := at - monotonic()) > 0:
                await asyncio.sleep(left)
            if not frame:
                break
            writer.write(frame)
    writer.close()
