"""What takes long is done in a thread, while the broker serves."""

from __future__ import annotations

import asyncio
from threading import get_ident
from typing import Any

import pytest

import kbn
from kbn import data
from kbn.broker import NodeSettings, RoutingTable, warming
from kbn.transport import BrokerServer


@pytest.fixture
def made_in(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The threads in which subscriptions were entered into a table."""
    threads: list[int] = []
    add = RoutingTable.add

    def noted(table: RoutingTable, *given: Any) -> Any:
        threads.append(get_ident())
        return add(table, *given)

    monkeypatch.setattr(RoutingTable, "add", noted)
    return threads


def test_a_table_for_another_ontology_is_made_in_a_thread(made_in: list[int]) -> None:
    async def change() -> None:
        async with BrokerServer(NodeSettings("b")) as server, kbn.connect(server.url) as client:
            await client.subscribe("price < 5")
            made_in.clear()
            await server.load_ontology([data.path("animals")])
            assert len(server.broker.table) == 1

    asyncio.run(change())
    assert made_in and get_ident() not in made_in


def test_kernels_are_loaded_in_a_thread_before_a_broker_listens(
    made_in: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def start() -> None:
        async with BrokerServer(NodeSettings("b")):
            assert warming.is_warm()

    monkeypatch.setattr(warming, "_is_warm", False)
    asyncio.run(start())
    assert len(made_in) > 1_000 and get_ident() not in made_in
