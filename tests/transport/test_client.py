"""Clients and brokers over real sockets: what is published arrives, everywhere, once, in order."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.transport.overlay import make_server, run, take, three_brokers, until

import kbn
import kbn.sync
from kbn.broker import LinkTo
from kbn.broker.access import NotAllowedError
from kbn.broker.store import StoreError
from kbn.errors import FilterSyntaxError, InvalidInputError, TransportError
from kbn.transport import BrokerServer


def test_a_subscriber_gets_what_it_wants_and_nothing_else() -> None:
    async def story() -> None:
        async with (
            make_server() as server,
            kbn.connect(server.url, name="ann") as ann,
            kbn.connect(server.url, name="bob") as bob,
        ):
            feed = await ann.subscribe("price < 10")
            for price in (5, 50, 7):
                await bob.publish({"price": price})
            assert await take(feed, 2) == [{"price": 5}, {"price": 7}]

    run(story())


def test_a_notification_says_who_published_it_and_how_it_came() -> None:
    async def story() -> None:
        async with (
            make_server("home") as server,
            kbn.connect(server.url, name="ann") as ann,
            kbn.connect(server.url, name="bob", with_path=True) as bob,
        ):
            feed = await ann.subscribe("price any")
            await bob.publish({"price": 1})
            async for delivery in feed.deliveries():
                notification = delivery.notification
                assert notification.publisher == "bob" == delivery.id.publisher
                assert notification.id and notification.time
                assert (delivery.hops, delivery.path) == (1, ("home",))
                assert (delivery.durable, delivery.dropped) == (False, 0)
                break

    run(story())


@pytest.mark.parametrize("routing", ["hierarchical", "acyclic", "general"])
def test_what_is_published_anywhere_arrives_everywhere(routing: str) -> None:
    async def story() -> None:
        async with three_brokers(routing) as servers:
            clients = [kbn.connect(each.url, name=f"at-{each.broker.name}") for each in servers]
            async with clients[0], clients[1], clients[2]:
                feeds = [await client.subscribe("n any").in_force() for client in clients]
                for round in range(20):
                    for client in clients:
                        await client.publish({"n": round, "by": client.name})
                for feed in feeds:
                    got = await take(feed, 60)
                    for client in clients:
                        assert [n["n"] for n in got if n["by"] == client.name] == list(range(20))

    run(story())


@pytest.mark.parametrize("routing", ["hierarchical", "acyclic", "general"])
def test_what_must_not_be_lost_crosses_brokers(routing: str, tmp_path: Path) -> None:
    async def story() -> None:
        async with three_brokers(routing, keeps=True) as servers:
            b, c = servers[1], servers[2]
            async with (
                kbn.connect(b.url, name="ann", durable=True) as ann,
                kbn.connect(c.url, name="bob") as bob,
            ):
                feed = await ann.subscribe("n any").in_force()
                await asyncio.gather(*[bob.publish({"n": n}, durable=True) for n in range(50)])
                assert [n["n"] for n in await take(feed, 50)] == list(range(50))

    run(story())


def test_two_brokers_that_connect_to_each_other_keep_one_connection() -> None:
    async def story() -> None:
        async with make_server("a") as a:
            first = a.address
        async with make_server("b", links=(LinkTo(first.url),)) as b:
            links = (LinkTo(b.url),)
            async with (
                make_server("a", links=links, port=first.port) as a,
                kbn.connect(a.url) as ann,
                kbn.connect(b.url) as bob,
            ):
                await until(lambda: a.broker.is_complete and bool(a.broker.neighbours))
                feed = await ann.subscribe("n any").in_force()
                await bob.publish({"n": 1})
                assert await take(feed, 1) == [{"n": 1}]
                await until(lambda: len(a._connections) == 2 == len(b._connections))

    run(story())


def test_a_subscription_that_is_wrong_is_refused_and_the_client_lives_on() -> None:
    async def story() -> None:
        async with make_server() as server, kbn.connect(server.url) as client:
            with pytest.raises(FilterSyntaxError, match="line 1"):
                await client.subscribe("price <")
            with pytest.raises(FilterSyntaxError):
                async for _ in client.subscribe("< 3"):
                    pass
            feed = await client.subscribe("price < 3")
            await client.publish({"price": 1})
            assert await take(feed, 1) == [{"price": 1}]

    run(story())


def test_a_cancelled_feed_ends_and_gets_nothing_more() -> None:
    async def story() -> None:
        async with make_server() as server, kbn.connect(server.url) as client:
            feed = await client.subscribe("n any")
            other = await client.subscribe("n > 0")
            await client.publish({"n": 1})
            assert await take(feed, 1) == [{"n": 1}] == await take(other, 1)
            await feed.cancel()
            await client.publish({"n": 2})
            assert await take(other, 1) == [{"n": 2}]
            assert [n async for n in feed] == []

    run(story())


def test_a_durable_publication_is_refused_where_nothing_is_kept() -> None:
    async def story() -> None:
        async with make_server() as server, kbn.connect(server.url) as client:
            with pytest.raises(InvalidInputError, match="start it with a store"):
                await client.publish({"n": 1}, durable=True)
            with pytest.raises(InvalidInputError, match="start it with a store"):
                async with kbn.connect(server.url, name="ann", durable=True):
                    pass

    run(story())


def test_nobody_answers_at_a_closed_port() -> None:
    async def story() -> None:
        server = make_server()
        await server.start()
        url = server.url
        await server.stop()
        with pytest.raises(TransportError, match=r"no broker listens there \(tried for .* s\)$"):
            async with kbn.connect(url, timeout=0.2):
                pass

    run(story())


def test_a_newer_epoch_of_a_client_takes_the_place_of_the_older() -> None:
    async def story() -> None:
        async with make_server() as server, kbn.connect(server.url, name="ann") as older:
            old_feed = await older.subscribe("old any")
            async with kbn.connect(server.url, name="ann") as newer:
                feed = await newer.subscribe("n any")
                await newer.publish({"n": 1})
                assert await take(feed, 1) == [{"n": 1}]
                with pytest.raises(InvalidInputError, match="newer epoch"):
                    while True:
                        await older.barrier()
                assert len(server.broker.clients["ann"].subscriptions) == 1
                with pytest.raises(InvalidInputError, match="newer epoch"):
                    await anext(old_feed)

    run(story())


def test_clients_find_their_broker_again_on_the_same_port() -> None:
    async def story() -> None:
        first = make_server()
        await first.start()
        port, url = first.address.port, first.url
        async with kbn.connect(url, name="ann") as ann, kbn.connect(url, name="bob") as bob:
            feed = await ann.subscribe("n any")
            await bob.publish({"n": 1})
            assert await take(feed, 1) == [{"n": 1}]
            await first.stop()
            async with make_server(port=port) as second:
                await until(lambda: bool(second.broker.table.filter_count))
                await bob.publish({"n": 2})
                assert await take(feed, 1) == [{"n": 2}]

    run(story())


def test_brokers_find_each_other_again() -> None:
    async def story() -> None:
        async with (
            three_brokers("acyclic") as (a, b, c),
            kbn.connect(b.url) as ann,
            kbn.connect(c.url) as bob,
        ):
            feed = await ann.subscribe("n any").in_force()
            for round in range(5):
                for connection in list(a._connections.values()):
                    connection.abort()
                await until(lambda: all(n.is_connected for n in a.broker.neighbours.values()))
                await ann.barrier()
                await bob.publish({"n": round})
                assert await take(feed, 1) == [{"n": round}]

    run(story())


async def _published_throughout(bob: kbn.Client, moves: list[BrokerServer], ann: kbn.Client) -> int:
    """Bob publishes while ann moves from place to place; how many he published."""
    published = 0

    async def publishing() -> None:
        nonlocal published
        while True:
            await bob.publish({"n": published}, durable=True)
            published += 1

    task = asyncio.ensure_future(publishing())
    for server in moves:
        reached = published + 30
        await until(lambda reached=reached: published >= reached)  # type: ignore[misc]
        await ann.move(server.url)
        assert ann.broker == server.broker.name
    task.cancel()
    await asyncio.wait([task])
    await bob.publish({"n": published + 1, "last": True}, durable=True)
    return published


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("routing", ["hierarchical", "acyclic", "general"])
def test_a_client_that_moves_loses_nothing_and_gets_nothing_twice(
    routing: str, durable: bool
) -> None:
    async def story() -> None:
        async with three_brokers(routing, keeps=True) as (a, b, c):
            ann = kbn.connect(b.url, name="ann", durable=durable, window=50, when_slow="block")
            async with ann, kbn.connect(c.url, name="bob") as bob:
                feed = await ann.subscribe("n any").in_force()
                got: list[int] = []

                async def reading() -> None:
                    async for notification in feed:
                        got.append(notification["n"])  # type: ignore[arg-type]
                        if "last" in notification:
                            return

                reader = asyncio.ensure_future(reading())
                published = await _published_throughout(bob, [c, a, b], ann)
                await reader
                sure = list(range(published))
                assert got[: len(sure)] == sure
                assert got in ([*sure, published + 1], [*sure, published, published + 1])

    run(story())


def test_a_publisher_that_moves_loses_nothing() -> None:
    async def story() -> None:
        async with (
            three_brokers("acyclic", keeps=True) as (_a, b, c),
            kbn.connect(b.url) as ann,
            kbn.connect(c.url, name="bob") as bob,
        ):
            feed = await ann.subscribe("n any").in_force()
            sent = 0

            async def publishing() -> None:
                nonlocal sent
                for sent in range(300):
                    await bob.publish({"n": sent}, durable=True)

            task = asyncio.ensure_future(publishing())
            for target in (b, c, b):
                reached = sent + 40
                await until(lambda reached=reached: sent >= reached)  # type: ignore[misc]
                await bob.move(target.url)
            await task
            assert [n["n"] for n in await take(feed, 300)] == list(range(300))

    run(story())


def test_a_broker_sends_its_clients_elsewhere_and_they_go() -> None:
    async def story() -> None:
        async with (
            three_brokers("acyclic") as (_a, b, c),
            kbn.connect(b.url, name="ann") as ann,
            kbn.connect(c.url) as manager,
        ):
            feed = await ann.subscribe("n any").in_force()
            async with kbn.connect(b.url) as at_b:
                told = await at_b.move_clients("c", c.url, ["ann"])
                assert told == 1
            await until(lambda: ann.broker == "c" and "ann" not in b.broker.clients)
            await manager.publish({"n": 1})
            assert await take(feed, 1) == [{"n": 1}]

    run(story())


def test_a_client_that_cannot_move_stays() -> None:
    async def story() -> None:
        async with (
            make_server("a") as a,
            make_server("b", authorizer=_Nobody()) as b,
            kbn.connect(a.url) as client,
        ):
            feed = await client.subscribe("n any")
            with pytest.raises(InvalidInputError, match="not admitted"):
                await client.move(b.url)
            await client.publish({"n": 1})
            assert await take(feed, 1) == [{"n": 1}]
            assert client.broker == "a"

    run(story())


class _Nobody:
    def admit(self, name: str, token: str) -> None:
        return None


def test_a_durable_client_finds_what_came_while_it_was_away(tmp_path: Path) -> None:
    async def story() -> None:
        async with make_server(path=tmp_path / "b.kbns") as server:
            async with kbn.connect(server.url, name="ann", durable=True) as ann:
                feed = await ann.subscribe("n any").in_force()
                await ann.publish({"n": 0}, durable=True)
                assert await take(feed, 1) == [{"n": 0}]
            async with kbn.connect(server.url) as bob:
                for n in range(1, 2001):
                    await bob.publish({"n": n})
                await bob.barrier()
            async with kbn.connect(server.url, name="ann", durable=True) as ann:
                await ann.barrier()  # deliveries may come before the subscription is made
                feed = ann.subscribe("n any")
                assert [n["n"] for n in await take(feed, 2000)] == list(range(1, 2001))
                reading = asyncio.ensure_future(anext(feed, None))
                await ann.leave()
                reading.cancel()
            assert "ann" not in server.broker.clients

    run(story())


def test_clients_are_told_of_a_new_ontology(tmp_path: Path) -> None:
    path = tmp_path / "tea.ttl"
    path.write_text(
        "@prefix : <http://x/#> . @prefix owl: <http://www.w3.org/2002/07/owl#> ."
        "@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> ."
        ":Tea a owl:Class . :Oolong a owl:Class ; rdfs:subClassOf :Tea ."
    )

    async def story() -> None:
        told: list[str] = []
        async with (
            make_server(folder=tmp_path) as server,
            kbn.connect(server.url, on_ontology=told.append) as client,
        ):
            await client.load_ontology([str(path)], reasoning="rdfs")
            await until(lambda: bool(told))
            assert told == [client.ontology] and client.ontology
            feed = await client.subscribe("kind @> <http://x/#Tea>")
            await client.publish({"kind": kbn.Class("http://x/#Oolong")})
            await take(feed, 1)
            (tmp_path / "wrong.ttl").write_text("this is no Turtle")
            await client.load_ontology(["wrong.ttl"])
            await until(lambda: bool(server.node.ontology_problem))
            status = await client.status()
            assert "wrong.ttl" in status.ontology_problem
            assert status.ontology == client.ontology
            server.reload()

    run(story())


def test_a_slow_subscriber_stops_its_publisher_when_it_asked_for_that() -> None:
    from kbn.broker.limits import ClientLimits

    async def story() -> None:
        limits = ClientLimits(queue=100, publish_ahead=50)
        async with make_server(broker_limits=limits) as server:
            slow = kbn.connect(server.url, window=10, when_slow="block")
            async with slow, kbn.connect(server.url) as bob:
                feed = await slow.subscribe("n any")

                async def publishing() -> None:
                    for n in range(1000):
                        await bob.publish({"n": n})

                task = asyncio.ensure_future(publishing())
                await until(lambda: bob.core.unpublished > 0)
                assert not task.done()
                assert [n["n"] for n in await take(feed, 1000)] == list(range(1000))
                await task

    run(story())


def test_scripts_use_the_same_client_without_asyncio(tmp_path: Path) -> None:
    from tests.transport.overlay import start_process

    process, url = start_process("b", tmp_path / "b.kbns")
    try:
        with kbn.sync.connect(url) as client, kbn.sync.connect(url, name="bob") as bob:
            feed = client.subscribe("n any", timeout=0.2).in_force()
            for n in range(5):
                bob.publish({"n": n}, durable=True)
            assert feed.next(timeout=30)["n"] == 0
            delivery = feed.next_delivery(timeout=30)
            assert (delivery.notification["n"], delivery.hops, delivery.durable) == (1, 1, False)
            assert [n["n"] for n in feed] == [2, 3, 4]
            with pytest.raises(TimeoutError):
                feed.next(timeout=0.01)
            assert client.status().broker == "b" == client.broker
            feed.cancel()
            assert list(feed) == []
    finally:
        process.terminate()
        assert process.wait(30) == 0, "told to end, it ends in good order"
        assert process.stdout is not None
        process.stdout.close()


def test_a_closed_client_says_so() -> None:
    async def story() -> None:
        async with make_server() as server:
            client = kbn.connect(server.url)
            with pytest.raises(InvalidInputError, match="async with"):
                await client.publish({"n": 1})
            async with client:
                feed = await client.subscribe("n any")
            assert [n async for n in feed] == []
            with pytest.raises(TransportError, match="closed"):
                await client.publish({"n": 1})

    run(story())


@pytest.mark.parametrize(
    "options", [{"durable": True}, {"window": 0}, {"name": "x", "tls_ca": "nowhere.pem"}]
)
def test_impossible_options_are_refused_at_once(options: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError):
        kbn.connect("kbn://localhost:1", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("url", ["http://x", "kbn://", "kbn://h:99999", "kbn://h/x", "nonsense"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidInputError, match="not a broker's address"):
        kbn.connect(url)


def test_not_allowed_is_an_error_of_its_own() -> None:
    from kbn.transport.refusals import error_of

    assert isinstance(error_of("NotAllowedError", "no"), NotAllowedError)
    assert type(error_of("SomethingNew", "no")) is kbn.KbnError


def test_a_durable_one_is_not_acknowledged_before_a_slower_feed_is_done_with_it(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        async with make_server(path=tmp_path / "b.kbns") as server:
            ann = kbn.connect(server.url, name="ann", durable=True)
            async with kbn.connect(server.url) as bob:
                await ann.__aenter__()
                quick, slow = await ann.subscribe("n any"), await ann.subscribe("n = 2")
                for n in range(1, 101):
                    await bob.publish({"n": n})
                await take(quick, 100)
                await ann.close(all_is_done=False)
            async with kbn.connect(server.url, name="ann", durable=True) as again:
                quick, slow = again.subscribe("n any"), again.subscribe("n = 2")
                assert await take(slow, 1) == [{"n": 2}]
                assert [n["n"] for n in await take(quick, 99)] == list(range(2, 101))

    run(story())


def test_what_was_published_just_before_the_end_still_arrives() -> None:
    async def story() -> None:
        async with make_server() as server, kbn.connect(server.url, window=5000) as ann:
            feed = await ann.subscribe("n any")
            async with kbn.connect(server.url) as bob:
                for n in range(900):
                    await bob.publish({"n": n, "text": "x" * 1000})
            assert [n["n"] for n in await take(feed, 900)] == list(range(900))

    run(story())


def test_a_crowd_of_subscribers_gets_the_same() -> None:
    async def story() -> None:
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(make_server())
            bob, *crowd = [
                await stack.enter_async_context(kbn.connect(server.url)) for _ in range(30)
            ]
            feeds = [await client.subscribe("n any") for client in crowd]
            for n in range(100):
                await bob.publish({"n": n})
            for feed in feeds:
                assert [n["n"] for n in await take(feed, 100)] == list(range(100))

    run(story())


def test_a_store_that_cannot_be_written_stops_the_broker_before_it_promises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with (
            make_server(path=tmp_path / "b.kbns") as server,
            kbn.connect(server.url, name="bob") as bob,
        ):
            await bob.publish({"n": 1}, durable=True)

            def full() -> None:
                raise StoreError("the disk is full", path="b.kbns")

            monkeypatch.setattr(server.node.store, "commit", full)
            publishing = asyncio.ensure_future(bob.publish({"n": 2}, durable=True))
            with pytest.raises(StoreError, match="disk is full"):
                await server.wait()
            assert not publishing.done()
            publishing.cancel()

    run(story())
