"""A client asks its broker why, over real sockets."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.transport.overlay import make_server, run

import kbn
import kbn.sync
from kbn import Class, Ontology, data
from kbn.broker.client import ClientCore
from kbn.broker.messages import ConnAck
from kbn.cli import main
from kbn.errors import FilterSyntaxError, InvalidInputError

ANIMALS = Ontology.load(data.path("animals"))
COW = {"kind": Class("animals:Cow"), "age": 7}
WANTED = "kind @> animals:Mammal and age < 3"


def test_a_client_asks_by_feed_number_or_filter() -> None:
    async def story() -> None:
        async with make_server(ontology=ANIMALS) as server, kbn.connect(server.url) as ann:
            feed = await ann.subscribe(WANTED)
            for asked in (feed, feed.id, WANTED, kbn.Subscription.parse(WANTED, ontology=ANIMALS)):
                said = await ann.explain(COW, asked)
                assert (said.matches, said.reasons) == (False, ["age: 7 is not less than 3"])
                [_, kind] = said.filters[0]
                assert kind.accepted and kind.value == COW["kind"] and len(kind.links) == 1
            assert (await ann.explain({**COW, "age": 2}, feed)).matches
            with pytest.raises(InvalidInputError, match="no subscription 77"):
                await ann.explain(COW, 77)
            with pytest.raises(FilterSyntaxError, match="line 1"):
                await ann.explain(COW, "age <")
            said = await ann.explain({"kind": Class("animals:Cw")}, feed)
            assert [each.attribute for each in said.unknown] == ["kind"]

    run(story())


def test_the_sync_client_asks_too() -> None:
    def ask(url: str) -> list[str]:
        with kbn.sync.connect(url) as ann:
            feed = ann.subscribe(WANTED)
            assert ann.explain(COW, feed, timeout=60) == ann.explain(COW, feed.id)
            return ann.explain(COW, "age > 8").reasons

    async def story() -> list[str]:
        async with make_server(ontology=ANIMALS) as server:
            return await asyncio.to_thread(ask, server.url)

    assert run(story()) == ["age: 7 is not more than 8"]


def test_kbn_explain_asks_a_broker(capsys: Any) -> None:
    async def story() -> int:
        async with make_server(ontology=ANIMALS) as server:
            given = '{"kind": {"class": "animals:Cow"}, "age": 7}'
            arguments = ["explain", "--url", server.url, WANTED, given]
            return await asyncio.to_thread(main, arguments)

    assert run(story()) == 0
    namespace = data.namespace("animals")
    assert capsys.readouterr().out.splitlines() == [
        "does not match",
        "  no   age: 7 is not less than 3",
        "  yes  kind: Cow is a kind of Mammal",
        f"         <{namespace}Cow> is a kind of <{namespace}Mammal>",
    ]
    assert main(["explain", "--url", "kbn://127.0.0.1:1", "-o", "animals", "x any", "{}"]) == 2
    assert "leave out --ontology" in capsys.readouterr().err


def test_a_broker_that_is_too_old_is_not_asked() -> None:
    core = ClientCore("ann", "b", 1)
    core.connected("b", 0.0)
    core.receive(ConnAck("b", 1, "", 0, 10, False, False, False), "b", 0.0)
    with pytest.raises(InvalidInputError, match="upgrade that broker"):
        core.explain(b"\x80", 1)
