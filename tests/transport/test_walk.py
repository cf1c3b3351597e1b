"""A publication goes through the functions that ARCHITECTURE.md names, in that order."""

from __future__ import annotations

import asyncio

from tests.transport.overlay import make_server, run
from tests.walks import functions, not_called_in_turn, watched

import kbn


def test_a_publication_takes_the_way_that_the_architecture_tells() -> None:
    async def story() -> list[str]:
        async with make_server() as server, kbn.connect(server.url) as client:
            heard = aiter(client.subscribe("x > 1"))
            first = asyncio.ensure_future(anext(heard))
            await client.barrier()
            async with kbn.connect(server.url) as publisher:
                with watched() as calls:
                    await publisher.publish({"x": 5})
                    await first
            return calls

    calls = run(story())
    assert not_called_in_turn(functions("A publication, from socket to socket"), calls) is None
