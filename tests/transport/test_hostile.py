"""What strangers, the broken and the slow do to a server costs nobody but themselves."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from tests.transport.overlay import make_server, run, take, until

import kbn
from kbn.broker.administration import Unlink, Unlinking
from kbn.broker.limits import ClientLimits
from kbn.broker.messages import (
    AdminRequest,
    ConnAck,
    Connect,
    Credit,
    Greet,
    Publish,
    Refused,
    Subscribe,
    Who,
)
from kbn.broker.wire import FrameReader, decode_to_client, encode
from kbn.errors import LimitError
from kbn.transport import BrokerServer, ServerLimits
from kbn.transport.strangers import Strangers

HELLO = encode(Connect("eve", 1))


async def spoken_to(server: BrokerServer, data: bytes) -> list[object]:
    """Say something to a server, and hear it out until it closes."""
    reader, writer = await asyncio.open_connection(*server.address[:2])
    writer.write(data)
    heard = []
    frames = FrameReader(1 << 20)
    while chunk := await reader.read(65536):
        heard.extend(decode_to_client(body) for body in frames.feed(chunk))
    writer.close()
    return heard


async def check_is_served(client: kbn.Client) -> None:
    feed = await client.subscribe("check any")
    await client.publish({"check": 1})
    assert await take(feed, 1) == [{"check": 1}]
    await feed.cancel()


GARBAGE = {
    "an oversized frame": b"\xff\xff\xff\xff",
    "an empty frame": b"\x00\x00\x00\x00",
    "no message": b"\x00\x00\x00\x03abc",
    "HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "no greeting": encode(Publish(1, 0.0, b"\x80")),
    "another version": encode(Connect("eve", 1, version=99)),
    "two questions": encode(Who()) + encode(Who()),
    "a broker of our own name": encode(Greet("b", 1, 0, "peer", "")),
}


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE.keys())
def test_garbage_is_answered_with_a_reason_and_the_end(data: bytes) -> None:
    async def story() -> None:
        async with make_server() as server, kbn.connect(server.url) as good:
            reader, writer = await asyncio.open_connection(*server.address[:2])
            writer.write(data)
            heard = await reader.read()
            assert heard, "it is told why"
            writer.close()
            await check_is_served(good)

    run(story())


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x03abc",
        encode(ConnAck("b", 1, "", 0, 0, False, False, True)),
        encode(Connect("somebody-else", 2)),
        encode(Greet("x", 1, 0, "peer", "")),
    ],
)
def test_garbage_after_a_greeting_ends_that_connection_only(data: bytes) -> None:
    async def story() -> None:
        async with make_server() as server, kbn.connect(server.url) as good:
            heard = await spoken_to(server, HELLO + data)
            assert isinstance(heard[-1], Refused) and heard[-1].reason
            await until(lambda: "eve" not in server.broker.clients)
            await check_is_served(good)

    run(story())


def test_a_request_that_is_wrong_is_refused_and_the_connection_lives_on() -> None:
    async def story() -> None:
        async with make_server() as server:
            reader, writer = await asyncio.open_connection(*server.address[:2])
            frames = FrameReader(1 << 20)
            bad = [Publish(1, 0.0, b"\xc1"), Subscribe(1, "<<<", True), Subscribe(2, "{", False)]
            good = Subscribe(3, "n any", True)
            writer.write(HELLO + b"".join(map(encode, [*bad, good])))
            heard: list[object] = []
            while len(heard) < 5:
                heard += [decode_to_client(b) for b in frames.feed(await reader.read(65536))]
            kinds = [type(each).__name__ for each in heard]
            assert kinds == ["ConnAck", "Refused", "Refused", "Refused", "Done"]
            writer.close()

    run(story())


def test_who_says_nothing_is_not_waited_for() -> None:
    async def story() -> None:
        limits = ServerLimits(connect_timeout_s=0.05)
        async with make_server(limits=limits) as server:
            for beginning in (b"", b"\x00", HELLO[:-1], encode(Who())):
                heard = await spoken_to_name_or_client(server, beginning)
                assert b"no first message" in heard
            await until(lambda: not server._connections)

    run(story())


async def spoken_to_name_or_client(server: BrokerServer, data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(*server.address[:2])
    writer.write(data)
    heard = await reader.read()
    writer.close()
    return heard


def test_a_client_that_falls_silent_is_dropped() -> None:
    async def story() -> None:
        async with make_server(limits=ServerLimits(silent_s=0.3)) as server:
            heard = await spoken_to(server, HELLO)
            assert isinstance(heard[-1], Refused) and "nothing heard" in heard[-1].reason
            await until(lambda: not server.broker.clients)

    run(story())


def test_there_are_only_so_many_connections() -> None:
    async def story() -> None:
        async with (
            make_server(limits=ServerLimits(connections=3)) as server,
            kbn.connect(server.url) as good,
        ):
            crowd = [await asyncio.open_connection(*server.address[:2]) for _ in range(2)]
            await until(lambda: len(server._connections) == 3)
            heard = await spoken_to(server, b"")
            assert isinstance(heard[0], Refused) and "3 connections" in heard[0].reason
            await check_is_served(good)
            for _, writer in crowd:
                writer.close()

    run(story())


def test_a_flood_of_subscriptions_ends_at_the_limit() -> None:
    async def story() -> None:
        async with (
            make_server(broker_limits=ClientLimits(subscriptions=50)) as server,
            kbn.connect(server.url) as flooder,
            kbn.connect(server.url) as good,
        ):
            feeds = [flooder.subscribe(f"n = {number}") for number in range(200)]
            outcomes = await asyncio.gather(*feeds, return_exceptions=True)
            refused = [each for each in outcomes if isinstance(each, LimitError)]
            assert len(refused) == 150
            assert "limit is 50" in str(refused[0])
            assert server.broker.table.filter_count == 50
            await check_is_served(good)

    run(story())


def test_a_notification_that_is_too_large_is_refused() -> None:
    async def story() -> None:
        async with (
            make_server(broker_limits=ClientLimits(content_bytes=1000)) as server,
            kbn.connect(server.url) as client,
        ):
            await client.publish({"text": "x" * 2000})
            await client.barrier()
            with pytest.raises(LimitError, match="bytes per notification"):
                await client.publish({"n": 1})
            await check_is_served(client)

    run(story())


def test_who_does_not_read_costs_bounded_memory_and_nobody_waits_for_it() -> None:
    async def story() -> None:
        limits = ServerLimits(room_bytes=1 << 18)
        async with make_server(limits=limits, broker_limits=ClientLimits(queue=100)) as server:
            _, writer = await asyncio.open_connection(*server.address[:2])
            window = Connect("eve", 1, window=100_000)
            writer.write(encode(window) + encode(Subscribe(1, "n any", True)))
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            await until(lambda: server.broker.table.filter_count == 1)
            async with kbn.connect(server.url) as good:
                feed = await good.subscribe("n any")
                for n in range(1000):
                    await good.publish({"n": n, "text": "x" * 50_000})
                    assert (await take(feed, 1))[0]["n"] == n
                    unwritten = max(each.unwritten_bytes for each in server._connections.values())
                    assert unwritten <= 3 << 20
            eve = server.broker.clients["eve"]
            assert len(eve.deliveries.queue) == 100 and eve.deliveries.dropped > 0
            writer.transport.resume_reading()  # type: ignore[attr-defined]
            writer.close()
            await until(lambda: not server.broker.clients)

    run(story())


def test_who_reads_again_is_served_again() -> None:
    async def story() -> None:
        limits = ServerLimits(room_bytes=1 << 16)
        async with make_server(limits=limits) as server:
            reader, writer = await asyncio.open_connection(*server.address[:2])
            frames = FrameReader(1 << 20)
            writer.write(encode(Connect("eve", 1, window=2000)))
            writer.write(encode(Subscribe(1, "n any", True)))
            await until(lambda: server.broker.table.filter_count == 1)
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            async with kbn.connect(server.url) as good:
                for n in range(1000):
                    await good.publish({"n": n, "text": "x" * 20_000})
                await good.barrier()
            assert server.broker.clients["eve"].deliveries.queue
            writer.transport.resume_reading()  # type: ignore[attr-defined]
            numbers: list[int] = []
            while len(numbers) < 1000:
                for body in frames.feed(await reader.read(1 << 20)):
                    message = decode_to_client(body)
                    if (number := getattr(message, "number", None)) is not None:
                        numbers.append(number)
            assert numbers == list(range(1, 1001))
            writer.close()

    run(story())


def test_who_asks_and_never_reads_the_answers_is_not_heard_out() -> None:
    async def story() -> None:
        async with make_server() as server, kbn.connect(server.url) as good:
            _, writer = await asyncio.open_connection(*server.address[:2])
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(HELLO)
            wrong = encode(AdminRequest(1, Unlink("x" * 256))) * 1000
            sent = 0
            while sent < 400 and not any(each.is_paused for each in server._connections.values()):
                writer.write(wrong)
                sent += 1
                await asyncio.sleep(0)
                await check_is_served(good)
            assert any(each.is_paused for each in server._connections.values())
            await check_is_served(good)
            writer.transport.abort()

    run(story())


def test_credit_of_absurd_size_is_no_harm() -> None:
    async def story() -> None:
        async with make_server() as server, kbn.connect(server.url) as good:
            _, writer = await asyncio.open_connection(*server.address[:2])
            writer.write(HELLO + encode(Credit(2**63)) + encode(Credit(-1)))
            writer.write(encode(Subscribe(2**63, "check any", True)))
            await check_is_served(good)
            writer.close()

    run(story())


def test_a_bug_in_the_broker_costs_its_cause_only(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with make_server() as server:
            server.broker.administered_by(lambda body: {}["missing"])
            async with kbn.connect(server.url) as good, kbn.connect(server.url, name="x") as bad:
                feed = await bad.subscribe("n any")
                asking = asyncio.ensure_future(bad.unlink("nobody"))
                await until(lambda: any("a bug" in each.message for each in caplog.records))
                await check_is_served(good)
                server.broker.administered_by(server.node.administer)
                await asyncio.wait([asking])
                await good.barrier()
                await until(lambda: server.broker.table.filter_count == 1)
                await good.publish({"n": 1})
                assert await take(feed, 1) == [{"n": 1}]
                assert asking.exception() is not None

    run(story())


def test_random_bytes_disturb_nobody(seed: int) -> None:
    rng = Random(seed)
    said = [
        HELLO,
        encode(Subscribe(1, "n any", True)),
        encode(Publish(1, 0.0, b"\x81\xa1n\x01")),
        encode(Greet("x", 1, 0, "peer", "")),
        encode(Who("x")),
    ]

    def noise() -> bytes:
        data = bytearray(b"".join(rng.choices(said, k=rng.randrange(1, 6))))
        for _ in range(rng.randrange(4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        return bytes(data[: rng.randrange(1, len(data) + 1)]) + rng.randbytes(rng.randrange(40))

    async def throw(server: BrokerServer) -> None:
        _, writer = await asyncio.open_connection(*server.address[:2])
        writer.write(noise())
        if rng.random() < 0.5:
            writer.transport.abort()
        else:
            writer.close()

    async def story() -> None:
        async with (
            make_server() as server,
            kbn.connect(server.url) as good,
            kbn.connect(server.url) as other,
        ):
            feed = await good.subscribe("good any")
            for n in range(150):
                await asyncio.gather(*[throw(server) for _ in range(4)])
                await other.publish({"good": n})
                assert await take(feed, 1) == [{"good": n}]
            await until(lambda: len(server.broker.clients) == 2)

    run(story())


def test_more_answers_than_the_limit_end_the_connection() -> None:
    async def story() -> None:
        limits = ServerLimits(unwritten_bytes=2 << 20)
        async with make_server(limits=limits) as server, kbn.connect(server.url) as good:
            _, writer = await asyncio.open_connection(*server.address[:2])
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(HELLO)
            await until(lambda: "eve" in server.broker.clients)
            server.broker.administered_by(lambda body: Unlinking("x" * 1_000_000))
            writer.write(encode(AdminRequest(1, Unlink("much"))) * 30)
            await until(lambda: "eve" not in server.broker.clients)
            await check_is_served(good)
            writer.transport.abort()

    run(story())


def test_what_is_held_for_all_strangers_is_bounded_and_the_loudest_is_closed() -> None:
    async def story() -> None:
        async with make_server() as server:
            server.strangers = Strangers(100_000)
            quiet = await asyncio.open_connection(*server.address[:2])
            quiet[1].write(encode(Connect("quiet", 1))[:-1])
            loud = [await asyncio.open_connection(*server.address[:2]) for _ in range(4)]
            for n, (_, writer) in enumerate(loud):
                writer.write(b"\x00\x00\xff\xff" + bytes(30_000 + n))
            gone = [reader for reader, _ in loud]
            first, _ = await asyncio.wait(
                [asyncio.ensure_future(reader.read()) for reader in gone],
                return_when=asyncio.FIRST_COMPLETED,
            )
            assert first and 0 < server.strangers.bytes <= 100_000
            quiet[1].write(encode(Connect("quiet", 1))[-1:])
            assert await quiet[0].read(4), "one that says who it is comes in"
            async with kbn.connect(server.url) as good:
                await check_is_served(good)
            for _, writer in (*loud, quiet):
                writer.close()
            await until(lambda: not server.strangers.bytes)

    run(story())
