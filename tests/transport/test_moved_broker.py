"""A broker that was moved comes back where it was moved to, with what it owes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.transport.overlay import make_server, run, until

import kbn
from kbn.transport import BrokerServer, LinkTo
from kbn.transport.urls import parse_url


def below(name: str, parent: str, folder: Path, **options: Any) -> BrokerServer:
    links = (LinkTo(parent, "parent"),)
    return make_server(
        name, path=folder / f"{name}.db", routing="hierarchical", links=links, **options
    )


async def moved(x: BrokerServer, to: str) -> None:
    async with kbn.connect(x.url, name="boss") as boss:
        before = len((await boss.status()).moved)
        await boss.move_broker(to)
        while len(told := (await boss.status()).moved) == before:
            pass
        assert told[-1].trouble is None


def parents(server: BrokerServer) -> list[str]:
    return [each.name for each in server.broker.neighbours.values() if each.role == "parent"]


def test_it_is_where_it_was_moved_to_and_keeps_what_was_unacked(tmp_path: Path) -> None:
    async def scenario() -> None:
        root = make_server("root", path=tmp_path / "root.db", routing="hierarchical")
        async with root, kbn.connect(root.url, name="ann", durable=True) as ann:
            feed = await ann.subscribe("number any")
            b = below("b", root.url, tmp_path)
            await b.start()
            port = parse_url(b.url).port
            x = below("x", root.url, tmp_path)
            async with x:
                await until(lambda: parents(x) == ["root"])
                await moved(x, b.url)
                assert parents(x) == ["b"]
                await b.stop()
                async with kbn.connect(x.url, name="bob") as bob:
                    await bob.publish({"number": 1}, durable=True)
            again = below("x", root.url, tmp_path)
            async with again, below("b", root.url, tmp_path, port=port):
                assert (await anext(feed))["number"] == 1
                assert parents(again) == ["b"]
                await moved(again, root.url)
            async with below("x", root.url, tmp_path) as back:
                await until(lambda: parents(back) == ["root"])

    run(scenario())


def test_started_otherwise_it_is_where_it_is_told(tmp_path: Path) -> None:
    async def scenario() -> None:
        root = make_server("root", path=tmp_path / "root.db", routing="hierarchical")
        async with (
            root,
            below("b", root.url, tmp_path) as b,
            below("c", root.url, tmp_path) as c,
        ):
            async with below("x", root.url, tmp_path) as x:
                await until(lambda: parents(x) == ["root"])
                await moved(x, b.url)
            async with below("x", c.url, tmp_path) as other:
                await until(lambda: parents(other) == ["c"])

    run(scenario())
