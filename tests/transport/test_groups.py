"""Publisher groups over TCP: only what the simulator cannot show."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.transport.certificates import Authority

import kbn.groups
from kbn.broker import wire
from kbn.errors import KbnError, TransportError
from kbn.peering import CoordinatorSettings, messages
from kbn.transport import (
    AccessFile,
    CoordinatorServer,
    GroupFeed,
    GroupPeer,
    Listen,
    Watch,
    server_tls,
)
from kbn.transport.clock import now
from kbn.transport.processes import ask_health

LONG_S = 90.0


def settings(**more: Any) -> CoordinatorSettings:
    return CoordinatorSettings("hub", lambda: "key", learn_s=0.1, **more)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something to be true."""
    async with asyncio.timeout(LONG_S):
        while not condition():
            await asyncio.sleep(0.02)


async def take(feed: GroupFeed, count: int) -> list[object]:
    """The next so many prices."""
    found: list[object] = []
    async with asyncio.timeout(LONG_S):
        async for notification in feed:
            found.append(notification["price"])
            if len(found) == count:
                return found
    return found


def eve_to_hub(peer: GroupPeer) -> int:
    """The connection of a peer to its coordinator."""
    connection = peer.core._coordinator.connection
    assert connection is not None
    return connection


def measure(peer: GroupPeer) -> bytes:
    """What a coordinator says to have a peer measured."""
    message = messages.Measure((messages.Contact(peer.name, peer.url),))
    return wire.encode(message)[wire.HEADER_BYTES :]


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 3 * LONG_S))


def test_peers_publish_and_subscribe_within_a_bound() -> None:
    async def work() -> None:
        async with (
            CoordinatorServer(settings(), watch=Watch(port=0)) as hub,
            kbn.groups.connect(hub.url, name="sender") as sender,
            kbn.groups.connect(hub.url, name="ann", slots=1) as ann,
            kbn.groups.connect(hub.url, name="bob", slots=1) as bob,
        ):
            sender.advertise(["price"], connections=1)
            feeds = [peer.subscribe("price < 10", within_s=5.0) for peer in (ann, bob)]
            async with asyncio.timeout(LONG_S):
                promises = [await feed.promised() for feed in feeds]
            assert [each.state for each in promises] == ["admitted", "admitted"]
            await until(lambda: sender.core.has_listeners)
            for price in range(20):
                await sender.publish({"price": price})
            for feed in feeds:
                assert await take(feed, 10) == list(range(10))
            facts = await sender.facts()
            assert {each["peer"] for each in facts["subscriptions"]} == {"ann", "bob"}
            is_well, about = await ask_health(hub.http)
            assert is_well and about["coordinator"] == "hub"
            assert 'kbn_group_subscriptions{state="admitted"} 2' in hub.metrics()

    run(work())


ACCESS = """
clients:
  sender: {token: send, publish: [price]}
  ann: {token: read, subscribe: "*"}
  boss: {token: rule, manage: true}
"""


def test_a_stranger_is_kept_out_and_rights_are_those_of_the_access_file(tmp_path: Path) -> None:
    access = tmp_path / "access.yaml"
    access.write_text(ACCESS)

    async def work() -> None:
        async with CoordinatorServer(settings(authorizer=AccessFile(access))) as hub:
            with pytest.raises(TransportError, match="not admitted"):
                async with kbn.groups.connect(hub.url, name="ann", token="guess"):
                    pass
            async with (
                kbn.groups.connect(hub.url, name="sender", token="send") as sender,
                kbn.groups.connect(hub.url, name="ann", token="read") as ann,
                kbn.groups.connect(hub.url, name="boss", token="rule") as boss,
            ):
                ann.advertise(["price"])
                await until(lambda: ann._refused is not None)
                with pytest.raises(KbnError, match="may not publish"):
                    await ann.publish({"price": 1})
                feed = sender.subscribe("price any")
                with pytest.raises(TransportError, match="may not subscribe"):
                    await feed.promised()
                with pytest.raises(TransportError, match="right `manage`"):
                    await sender.facts()
                assert (await boss.facts())["coordinator"] == "hub"

    run(work())


def test_a_stranger_who_knows_no_key_is_refused_by_peers() -> None:
    async def work() -> None:
        async with (
            CoordinatorServer(settings()) as hub,
            CoordinatorServer(CoordinatorSettings("other", lambda: "other", learn_s=0.0)) as other,
            kbn.groups.connect(hub.url, name="sender") as sender,
            kbn.groups.connect(other.url, name="eve") as eve,
        ):
            eve._shell.do(eve.core.received(eve_to_hub(eve), [measure(sender)], now()))
            await until(lambda: sender.core.counts.refused > 0)

    run(work())


def test_tls_between_everybody(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    listen = Listen(tls=server_tls(*authority.sign("hub"), authority.certificate))

    def member(url: str, name: str) -> GroupPeer:
        certificate, key = authority.sign(name)
        return kbn.groups.connect(
            url, name=name, tls_ca=authority.certificate, tls_certificate=certificate, tls_key=key
        )

    async def work() -> None:
        made = replace(settings(), checks_certificates=True)
        async with CoordinatorServer(made, listen) as hub:
            stranger = kbn.groups.connect(
                hub.url, name="eve", tls_ca=authority.certificate, timeout=2.0
            )
            with pytest.raises(TransportError):
                async with stranger:
                    pass
            async with member(hub.url, "sender") as sender, member(hub.url, "ann") as ann:
                assert sender.url.startswith("kbns://")
                sender.advertise(["price"])
                feed = ann.subscribe("price any")
                async with asyncio.timeout(LONG_S):
                    await feed.promised()
                await until(lambda: sender.core.has_listeners)
                await sender.publish({"price": 1})
                assert await take(feed, 1) == [1]

    run(work())
