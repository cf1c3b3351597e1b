"""What takes long is done beside the work of a broker, in a thread."""

from __future__ import annotations

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


async def test_a_table_for_another_ontology_is_made_in_a_thread(made_in: list[int]) -> None:
    async with BrokerServer(NodeSettings("b")) as server, kbn.connect(server.url) as client:
        feed = await client.subscribe("price < 5")
        made_in.clear()
        await server.load_ontology([data.path("animals")])
        assert made_in and get_ident() not in made_in
        await client.publish({"price": 3})
        assert (await anext(aiter(feed)))["price"] == 3


async def test_kernels_are_loaded_in_a_thread_before_a_broker_listens(
    made_in: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warming, "_is_warm", False)
    async with BrokerServer(NodeSettings("b")):
        assert len(made_in) > 1_000 and get_ident() not in made_in
        assert warming.is_warm()
