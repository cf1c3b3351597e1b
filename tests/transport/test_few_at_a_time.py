"""An event loop that serves few sockets at a time serves all of them, one after the other."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from contextlib import ExitStack
from selectors import EVENT_READ, EVENT_WRITE

import pytest

from kbn.transport.few_at_a_time import AT_ONCE, FewAtATime, new_loop

MANY = 200


def test_of_very_many_that_are_ready_few_are_told_at_a_time_and_all_in_turn() -> None:
    with ExitStack() as stack, FewAtATime() as selector:
        for n in range(MANY):
            ours, theirs = map(stack.enter_context, socket.socketpair())
            theirs.send(b"x")
            selector.register(ours, EVENT_READ, n)
        told: Counter[int] = Counter()
        for _ in range(4 * MANY // AT_ONCE + 4):
            found = selector.select(0)
            assert 0 < len(found) <= AT_ONCE
            told.update(key.data for key, _ in found)
        assert len(told) == MANY and max(told.values()) <= min(told.values()) + 1


def test_it_tells_what_was_asked_for() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, FewAtATime() as selector:
        key = selector.register(ours, EVENT_READ, "data")
        assert selector.get_key(ours) == selector.get_map()[ours.fileno()] == key
        with pytest.raises(KeyError):
            selector.register(ours.fileno(), EVENT_READ)
        assert selector.select(0.01) == []
        key = selector.modify(ours, EVENT_READ | EVENT_WRITE, "more")
        assert selector.select(0.01) == [(key, EVENT_WRITE)]
        theirs.send(b"x")
        assert selector.select(None) == [(key, EVENT_READ | EVENT_WRITE)]
        assert selector.unregister(ours) == key
        assert selector.select(0) == []
        selector.register(ours, EVENT_READ)
        ours.close()
        with pytest.raises(KeyError):
            selector.get_key(theirs)


def test_one_that_was_closed_can_be_taken_out() -> None:
    ours, theirs = socket.socketpair()
    with theirs, FewAtATime() as selector:
        number = ours.fileno()
        selector.register(number, EVENT_READ)
        ours.close()
        assert selector.unregister(number).fd == number


def test_a_loop_serves_very_many_clients_with_it() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(4))
        await writer.drain()
        writer.close()

    async def ask(port: int, said: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(said)
        answer = await reader.read()
        writer.close()
        return answer

    async def serve() -> list[bytes]:
        async with asyncio.timeout(60):
            server = await asyncio.start_server(echo, "127.0.0.1", 0, backlog=MANY)
            port = server.sockets[0].getsockname()[1]
            found = await asyncio.gather(*(ask(port, b"%04d" % n) for n in range(MANY)))
            server.close()
            return found

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(serve()) == [b"%04d" % n for n in range(MANY)]
