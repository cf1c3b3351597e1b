"""Python's search for garbage never looks through all that a broker has."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import Iterator

import pytest

from kbn.broker import NodeSettings, content, wire
from kbn.broker.messages import Connect, Publish, Subscribe
from kbn.broker.node.connections import NodeConnection
from kbn.transport import BrokerServer, GarbageSearch
from kbn.transport.connection import Connection
from kbn.transport.garbage import LOOKED_AT


@pytest.fixture
def collector() -> Iterator[None]:
    """Python's own settings come back at the end."""
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)
    gc.set_debug(0)
    gc.garbage.clear()
    gc.unfreeze()
    gc.enable()


def test_it_looks_only_through_what_is_new(collector: None) -> None:
    search = GarbageSearch()
    search.begin()
    young, middle, _ = gc.get_threshold()
    at_most = 2 * young * middle * LOOKED_AT  # it may be asked a little late
    full, kept, most = gc.get_stats()[2]["collections"], [], 0
    for n in range(600_000):
        kept.append([n])
        if n % 1_000 == 0:
            search.go_on()
            most = max(most, len(gc.get_objects()) if n % 20_000 == 0 else 0)
    assert most < at_most < len(kept)
    assert gc.get_stats()[2]["collections"] - full < 600_000 / (young * middle * LOOKED_AT) + 1
    assert gc.get_freeze_count() >= 400_000
    before = gc.get_freeze_count()
    kept.clear()
    assert gc.get_freeze_count() < before - 300_000, "what nobody refers to is gone all the same"


async def kinds_of_garbage() -> set[type]:
    """Of what clients have left behind, when all have gone, what refers to itself."""
    async with BrokerServer(NodeSettings("b")) as server:
        await asyncio.to_thread(sessions, server.address.port, 3)
        await asyncio.sleep(0.1)
        gc.collect()
        gc.disable()
        gc.set_debug(gc.DEBUG_SAVEALL)
        await asyncio.to_thread(sessions, server.address.port, 20)
        while server.broker.clients or server.node.connections.all:
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.1)
        gc.collect()
        return {type(each) for each in gc.garbage}


def test_what_a_broker_has_had_does_not_refer_to_itself(collector: None) -> None:
    kinds = asyncio.run(kinds_of_garbage())
    assert not kinds & {Connection, NodeConnection}
    assert not [kind for kind in kinds if kind.__module__.startswith(("kbn.", "asyncio."))], kinds


def sessions(port: int, count: int) -> None:
    """Clients come, say something, one of them nonsense, and go."""
    for n in range(count):
        said = [
            Connect(f"c{n}", 1), Subscribe(1, f"k = {n}", True), Subscribe(2, "k = = 3", True),
            Publish(1, 0.0, content.encode({"k": n})),
        ]  # fmt: skip
        with socket.create_connection(("127.0.0.1", port)) as raw:
            raw.sendall(b"".join(map(wire.encode, said)))
            while b"deliver" not in raw.recv(65536):
                pass
            if n % 3 == 0:
                raw.sendall(b"\\0\\0\\0\\5nonsense")
