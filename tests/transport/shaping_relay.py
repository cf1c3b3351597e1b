"""A relay that delays what passes: each address behind it is a peer with a link of its own.

`Relay.front(url)` gives an address that leads to `url`. Bytes keep their order, and each read takes
a delay drawn from a fixed seed, the same law in both directions.
"""

from __future__ import annotations

import asyncio
from random import Random

from kbn.transport import parse_url

READ_BYTES = 1 << 16


class Relay:
    """Listens on many ports, one for each address that it leads to."""

    def __init__(self, seed: int, median_s: float = 0.02, sigma: float = 0.5) -> None:
        self._rng = Random(seed)
        self._median_s, self._sigma = median_s, sigma
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def delay_s(self) -> float:
        """Skewed: most near the median, some several times as long."""
        return self._median_s * self._rng.lognormvariate(0.0, self._sigma)

    async def front(self, url: str, port: int = 0) -> str:
        """An address that leads to the one given."""
        target = parse_url(url)

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                there, back = await asyncio.open_connection(target.host, target.port)
            except OSError:
                writer.close()
                return
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            try:
                await asyncio.gather(self._pass(reader, back), self._pass(there, writer))
            finally:
                self._tasks.discard(task)
                writer.close()
                back.close()

        server = await asyncio.start_server(serve, "127.0.0.1", port)
        self._servers.append(server)
        return f"kbn://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read on while what was read waits: a delay is no lower throughput."""
        loop = asyncio.get_running_loop()
        waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(1000)
        sending = asyncio.ensure_future(self._send(waiting, writer))
        try:
            before = 0.0
            while data := await reader.read(READ_BYTES):
                before = max(before, loop.time() + self.delay_s())
                await waiting.put((before, data))
            await waiting.put((before, b""))
            await sending
        except OSError:
            pass
        finally:
            sending.cancel()
            writer.close()

    async def _send(
        self, waiting: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter
    ) -> None:
        loop = asyncio.get_running_loop()
        while True:
            at, data = await waiting.get()
            await asyncio.sleep(max(0.0, at - loop.time()))
            if not data:
                return
            writer.write(data)

    async def stop(self) -> None:
        for server in self._servers:
            server.close()
        for task in [*self._tasks]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
