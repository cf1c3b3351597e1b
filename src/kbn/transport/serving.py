"""Running a server until its process is told to end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol, TypeVar


class Running(Protocol):
    """A server, or one under watch."""

    async def __aenter__(self) -> Any: ...

    async def __aexit__(self, *details: object) -> None: ...

    async def wait(self) -> None: ...

    def reload(self) -> None: ...


Server = TypeVar("Server", bound=Running)


async def serve(server: Server, ready: Callable[[Server], None] = lambda server: None) -> None:
    """Run a server until the process is told to end (SIGTERM, SIGINT); SIGHUP reloads.

    `ready` is called when it listens.
    """
    loop = asyncio.get_running_loop()
    ending = asyncio.Event()
    async with server:
        for name in ("SIGTERM", "SIGINT"):
            with suppress(NotImplementedError):
                loop.add_signal_handler(getattr(signal, name), ending.set)
        if hasattr(signal, "SIGHUP"):
            loop.add_signal_handler(signal.SIGHUP, server.reload)
        ready(server)
        ended = asyncio.ensure_future(server.wait())
        waiting = asyncio.ensure_future(ending.wait())
        await asyncio.wait({ended, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if ended.done():
            ended.result()
        else:
            ended.cancel()
