"""Health, metrics and logs of a broker, as machines and people that look after it see them."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import re
from collections.abc import Iterator
from typing import Any

import pytest
from tests.transport.overlay import run, until

from kbn.broker import (
    AccessRules,
    AllowAll,
    Authorizer,
    LinkTo,
    MemoryStore,
    NodeSettings,
    RulesInForce,
)
from kbn.errors import InvalidInputError, TransportError
from kbn.transport import Listen, Watch, Watched, connect
from kbn.transport import watched as make_watched
from kbn.transport.health import CONNECTIONS_MAX, REQUEST_BYTES_MAX, HealthListener
from kbn.transport.logs import RateLimiter, set_up
from kbn.transport.metrics import CommitTimer

SAMPLE = re.compile(r'[a-z_]+(\{([a-z]+="([^"\\\n]|\\.)*",?)+\})? [0-9.e+-]+')


def watched(name: str = "b", port: int = 0, links: tuple[LinkTo, ...] = ()) -> Watched:
    return make_watched(NodeSettings(name, links=links), Listen(port=port), Watch(port=0))


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    kept = {name: _kept(name) for name in ("kbn", "kbn.transport", "asyncio")}
    raises = logging.raiseExceptions
    set_up("b", "json", "info", stream)
    yield stream
    logging.raiseExceptions = raises
    for name, (handlers, level, propagates) in kept.items():
        logger = logging.getLogger(name)
        logger.handlers[:] = handlers
        logger.setLevel(level)
        logger.propagate = propagates


def _kept(name: str) -> tuple[list[logging.Handler], int, bool]:
    logger = logging.getLogger(name)
    return list(logger.handlers), logger.level, logger.propagate


def events(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


async def fetch(url: str, request: bytes) -> tuple[str, bytes]:
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request)
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return head.decode().partition("\r\n")[0], body


async def get(url: str, path: str) -> tuple[str, bytes]:
    return await fetch(url, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())


def http_of(server: Watched) -> str:
    assert server.http
    return server.http


@pytest.mark.parametrize(
    ("host", "authorizer", "warns"),
    [
        ("127.0.0.1", AllowAll(), False),
        ("0.0.0.0", AllowAll(), True),
        ("0.0.0.0", RulesInForce(AccessRules()), False),
    ],
)
def test_a_broker_that_is_open_to_strangers_warns_once_when_it_starts(
    host: str, authorizer: Authorizer, warns: bool, logged: io.StringIO
) -> None:
    async def main() -> None:
        settings = NodeSettings("b", authorizer=authorizer)
        async with make_watched(settings, Listen(host), Watch()):
            pass

    run(main())
    warnings = [each for each in events(logged) if each["event"] == "anybody may come in"]
    assert len(warnings) == warns
    assert not warns or "--access" in warnings[0]["advice"]


def test_a_broker_alone_is_healthy_and_says_so() -> None:
    async def main() -> None:
        async with watched() as server:
            first, body = await get(http_of(server), "/health")
            assert first == "HTTP/1.1 200 OK"
            assert json.loads(body) == {"status": "ok", "broker": "b", "waiting_for": []}
            assert (await get(http_of(server), "/live"))[0] == "HTTP/1.1 200 OK"

    run(main())


def test_a_broker_whose_neighbour_is_away_is_not_healthy_until_it_comes() -> None:
    async def main() -> None:
        async with watched("late") as late:
            address = late.server.address
        async with watched("b", links=(LinkTo(address.url),)) as server:
            first, body = await get(http_of(server), "/health")
            assert first == "HTTP/1.1 503 Service Unavailable"
            assert address.url in json.loads(body)["waiting_for"][0]
            async with watched("late", port=address.port):
                await until(lambda: server.health()[0])
                assert (await get(http_of(server), "/health"))[0] == "HTTP/1.1 200 OK"

    run(main())


def test_a_broker_that_stops_says_so() -> None:
    async def main() -> None:
        server = watched()
        async with server:
            pass
        assert server.health() == (
            False,
            {"status": "stopping", "broker": "b", "waiting_for": []},
        )

    run(main())


def test_metrics_count_what_happened_and_every_line_is_well_formed() -> None:
    async def main() -> None:
        async with watched("a") as one, watched("b", links=(LinkTo(one.server.url),)) as other:
            await until(lambda: other.health()[0] and one.health()[0])
            async with connect(one.server.url) as ann, connect(other.server.url) as bob:
                feed = await ann.subscribe("price < 10").in_force()
                await bob.publish({"price": 3})
                assert (await anext(feed))["price"] == 3
                with pytest.raises(InvalidInputError):
                    await ann.subscribe("price <")
                first, body = await get(http_of(other), "/metrics")
                told = body.decode()
                assert first == "HTTP/1.1 200 OK"
                assert "kbn_published_total 1\n" in told and "kbn_forwarded_total 1\n" in told
                assert 'kbn_neighbour{name="a",role="peer",state="complete"} 1\n' in told
                assert 'kbn_neighbour_wants{name="a"} 1\n' in told
                assert 'kbn_clients{state="connected"} 1\n' in told
                samples = [line for line in told.splitlines() if not line.startswith("#")]
                assert all(SAMPLE.fullmatch(line) for line in samples)
                there = (await get(http_of(one), "/metrics"))[1].decode()
                assert "kbn_refused_total 1\n" in there and "kbn_delivered_total 1\n" in there

    run(main())


def test_a_name_with_quotes_and_lines_cannot_break_the_metrics() -> None:
    async def main() -> None:
        async with watched('a"}\n1 \\') as server:
            told = server.metrics()
            assert 'broker="a\\"}\\n1 \\\\"' in told
            samples = [line for line in told.splitlines() if not line.startswith("#")]
            assert all(SAMPLE.fullmatch(line) for line in samples)

    run(main())


def test_commits_are_counted_in_their_buckets() -> None:
    _, timer = CommitTimer.around(MemoryStore())
    timer.commit()
    timer.commit()
    assert sum(timer.buckets) == 2 and timer.total_s > 0


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /health\r\n\r\n", "400"),
        (b"\x00\xff\x80 \xfe\r\n\r\n", "400"),
        (b"POST /health HTTP/1.1\r\n\r\n", "405"),
        (b"GET /nowhere HTTP/1.1\r\n\r\n", "404"),
        (b"GET /" + b"x" * 2 * REQUEST_BYTES_MAX + b" HTTP/1.1\r\n\r\n", "431"),
        (b"GET /health HTTP/1.1\r\nX: " + b"x" * 2 * REQUEST_BYTES_MAX, "431"),
    ],
    ids=["short", "garbage", "post", "elsewhere", "long path", "long header"],
)
def test_hostile_requests_get_an_answer_and_the_next_is_served(
    request_bytes: bytes, status: str
) -> None:
    async def main() -> None:
        async with watched() as server:
            assert (await fetch(http_of(server), request_bytes))[0].split()[1] == status
            assert (await get(http_of(server), "/health"))[0] == "HTTP/1.1 200 OK"

    run(main())


def test_who_says_nothing_is_dropped() -> None:
    async def main() -> None:
        listener = HealthListener(lambda: (True, {}), lambda: "", request_timeout_s=0.05)
        await listener.start()
        host, port = listener.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        assert await reader.read() == b""
        writer.close()
        await listener.stop()

    run(main())


def test_who_was_dropped_leaves_a_place_to_the_next() -> None:
    async def main() -> None:
        listener = HealthListener(lambda: (True, {}), lambda: "", request_timeout_s=0.05)
        await listener.start()
        host, port = listener.url.removeprefix("http://").split(":")
        silent = [await asyncio.open_connection(host, int(port)) for _ in range(CONNECTIONS_MAX)]
        for reader, _ in silent:  # their own side stays open: only the time ends them
            assert await reader.read() == b""
        listener._timeout_s = 600  # who speaks has time, however busy this machine is
        assert (await get(listener.url, "/health"))[0].split()[1] == "200"
        for _, writer in silent:
            writer.close()
        await listener.stop()

    run(main())


def test_too_many_are_turned_away_until_some_have_gone() -> None:
    async def main() -> None:
        listener = HealthListener(lambda: (True, {}), lambda: "", request_timeout_s=600)
        await listener.start()
        host, port = listener.url.removeprefix("http://").split(":")
        silent = [await asyncio.open_connection(host, int(port)) for _ in range(CONNECTIONS_MAX)]
        assert (await get(listener.url, "/health"))[0].split()[1] == "503"
        for _, writer in silent:
            writer.close()
        while (await get(listener.url, "/health"))[0].split()[1] != "200":
            await asyncio.sleep(0)
        await listener.stop()

    run(main())


def test_a_port_in_use_is_told_with_what_to_do() -> None:
    async def main() -> None:
        async with watched() as server:
            with pytest.raises(TransportError, match="in use: name another with --port"):
                await watched("c", port=server.server.address.port).start()

    run(main())


def test_what_happens_is_logged_as_json_lines(logged: io.StringIO) -> None:
    async def main() -> None:
        async with watched("a") as one, watched("b", links=(LinkTo(one.server.url),)) as other:
            await until(lambda: other.health()[0] and one.health()[0])
            async with connect(one.server.url, name="ann") as ann:
                with pytest.raises(InvalidInputError):
                    await ann.subscribe("price <\n")
            await until(lambda: "neighbour up" in logged.getvalue())

    run(main())
    found = events(logged)
    names = [each["event"] for each in found]
    for name in ("started", "listening", "client attached", "client left", "stopped"):
        assert name in names
    refused = next(each for each in found if each["event"] == "refused")
    assert (refused["client"], refused["what"], refused["level"]) == ("ann", "subscribe", "warning")
    assert "ends too early" in refused["reason"]
    assert all({"time", "level", "event", "broker"} <= each.keys() for each in found)


def test_a_client_that_is_refused_again_and_again_does_not_flood_the_log(
    logged: io.StringIO,
) -> None:
    async def main() -> None:
        async with watched() as server, connect(server.server.url, name="ann") as ann:
            for _ in range(200):
                with pytest.raises(InvalidInputError):
                    await ann.subscribe("price <")

    run(main())
    assert [each["event"] for each in events(logged)].count("refused") == 5


def test_a_rate_limiter_says_how_many_it_left_out_and_forgets_old_kinds() -> None:
    gate = RateLimiter(most=2, per_s=10)
    assert [gate.passes("a", 0.0) for _ in range(5)] == [0, 0, None, None, None]
    assert gate.passes("b", 0.0) == 0
    assert gate.passes("a", 10.0) == 3
    for number in range(RateLimiter.KINDS_MAX):
        gate.passes(number, 10.0)
    assert gate.passes("a", 10.0) == 0


def test_a_text_line_is_one_line_whatever_a_client_sends() -> None:
    stream = io.StringIO()
    from kbn.transport.logs import TextLines

    record = logging.makeLogRecord(
        {"event": "refused", "fields": {"reason": "a\nb\u2028c\x1b[31m" + "x" * 9999}}
    )
    stream.write(TextLines("b").format(record))
    told = stream.getvalue()
    assert len(told.splitlines()) == 1 and "\x1b" not in told and len(told) < 1000
