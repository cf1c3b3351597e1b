"""Brokers on loopback, for tests: each on a free port, all in the test's own event loop."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from kbn.broker import (
    AllowAll,
    ClientLimits,
    LinkTo,
    MemoryStore,
    NodeSettings,
    ServerLimits,
    SqliteStore,
)
from kbn.transport import BrokerServer, Feed, Listen, OntologyFolder

PATIENCE_S = 60.0


def run(work: Coroutine[Any, Any, Any], patience_s: float = PATIENCE_S) -> Any:
    """Run a test's coroutine; one that hangs fails."""

    async def bounded() -> Any:
        async with asyncio.timeout(patience_s):
            return await work

    return asyncio.run(bounded())


def make_server(
    name: str = "b",
    *,
    path: Path | None = None,
    limits: ServerLimits | None = None,
    broker_limits: Any = None,
    links: tuple[LinkTo, ...] = (),
    authorizer: Any = None,
    tls: Any = None,
    link_tls: Any = None,
    port: int = 0,
    host: str = "127.0.0.1",
    keeps: bool = False,
    folder: Path | None = None,
    **options: Any,
) -> BrokerServer:
    memory = MemoryStore() if keeps else None
    settings = NodeSettings(
        name,
        links=tuple(links),
        store=memory if path is None else SqliteStore(path),
        authorizer=authorizer or AllowAll(),
        limits=broker_limits or ClientLimits(),
        server_limits=limits or ServerLimits(),
        **options,
    )
    listen = Listen(host, port, tls, link_tls)
    return BrokerServer(settings, listen, folder=OntologyFolder(folder))


@asynccontextmanager
async def three_brokers(routing: str, **options: Any) -> AsyncIterator[list[BrokerServer]]:
    """A, b and c: b and c are linked to a; between general peers, also to each other."""
    role: Any = "parent" if routing == "hierarchical" else "peer"
    options["routing"] = routing
    async with make_server("a", **options) as a:
        up = LinkTo(a.url, role)
        async with make_server("b", links=(up,), **options) as b:
            both = (up, LinkTo(b.url)) if routing == "general" else (up,)
            async with make_server("c", links=both, **options) as c:
                servers = [a, b, c]
                await until(lambda: all(_is_joined(each) for each in servers))
                yield servers


def _is_joined(server: BrokerServer) -> bool:
    neighbours = server.broker.neighbours.values()
    in_session = [each.is_in_session for each in neighbours]
    return bool(in_session) and server.broker.is_complete and any(in_session)


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop go round until something is so."""
    while not condition():
        await asyncio.sleep(0.005)


async def take(feed: Feed, count: int) -> list[dict[str, Any]]:
    """So many notifications, as dictionaries."""
    return [dict(await anext(feed)) for _ in range(count)]


PROCESS = """
import asyncio, sys
from kbn.broker import LinkTo, NodeSettings, SqliteStore
from kbn.transport import BrokerServer, Listen, serve

async def main(name, path, port, *links):
    settings = NodeSettings(name, store=SqliteStore(path), links=tuple(map(LinkTo, links)))
    server = BrokerServer(settings, Listen(port=int(port)))
    async def told():
        while server._listener is None:
            await asyncio.sleep(0.01)
        print(server.url, flush=True)
    telling = asyncio.ensure_future(told())
    await serve(server)

asyncio.run(main(*sys.argv[1:]))
"""


def start_process(
    name: str, path: Path, port: int = 0, *links: str
) -> tuple[subprocess.Popen[str], str]:
    """A broker in a process of its own, linked to those at `links`, and its URL."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROCESS, name, str(path), str(port), *links],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()
