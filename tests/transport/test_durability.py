"""Brokers that are killed under load, and come back: nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random
from subprocess import Popen

import pytest
from tests.transport.overlay import make_server, run, start_process, take, until

import kbn
from kbn.errors import InvalidInputError
from kbn.transport import Feed, LinkTo
from kbn.transport.urls import parse_url

KILLS = 4
PUBLISHED_BETWEEN = 400
AHEAD = 50


class Processes:
    """Brokers in processes of their own, that can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, Popen[str]] = {}
        self._links: dict[str, tuple[str, ...]] = {}
        self.urls: dict[str, str] = {}

    def start(self, name: str, *links: str) -> None:
        port = parse_url(self.urls[name]).port if name in self.urls else 0
        process, url = start_process(name, self._folder / f"{name}.kbns", port, *links)
        assert self.urls.setdefault(name, url) == url
        self._running[name], self._links[name] = process, links

    def kill(self, name: str) -> None:
        process = self._running.pop(name)
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()

    def kill_and_restart(self, name: str) -> None:
        self.kill(name)
        self.start(name, *self._links[name])

    def end(self) -> None:
        for name in list(self._running):
            self.kill(name)


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    started = Processes(tmp_path)
    yield started
    started.end()


async def publish_all(bob: kbn.Client, total: int, stored: list[int]) -> None:
    """Publish the numbers in order, some at once; `stored` gets those that are safe."""
    room = asyncio.Semaphore(AHEAD)

    async def publish(n: int) -> None:
        async with room:
            await bob.publish({"n": n}, durable=True)
        stored.append(n)

    await asyncio.gather(*[publish(n) for n in range(total)])


async def read_all(feed: Feed, total: int, got: list[object]) -> None:
    async for notification in feed:
        got.append(notification["n"])
        if len(got) >= total:
            return


async def disturbed(
    processes: Processes, ann: kbn.Client, bob: kbn.Client, victims: list[str], rng: Random
) -> None:
    """Have bob publish to ann while brokers are killed; each notification arrives once."""
    total = KILLS * PUBLISHED_BETWEEN
    stored: list[int] = []
    got: list[object] = []
    feed = await ann.subscribe("n any").in_force()
    reading = asyncio.ensure_future(read_all(feed, total, got))
    publishing = asyncio.ensure_future(publish_all(bob, total, stored))
    for kill in range(KILLS - 1):
        reached = kill * PUBLISHED_BETWEEN + rng.randrange(PUBLISHED_BETWEEN)
        await until(lambda reached=reached: len(stored) > reached)  # type: ignore[misc]
        await asyncio.to_thread(processes.kill_and_restart, rng.choice(victims))
    await publishing
    await reading
    assert sorted(stored) == list(range(total))
    assert got == list(range(total)), "each once, and in order"


def test_a_killed_broker_loses_nothing_and_repeats_nothing(processes: Processes, seed: int) -> None:
    async def story() -> None:
        processes.start("b")
        url = processes.urls["b"]
        ann = kbn.connect(url, name="ann", durable=True, window=100)
        async with ann, kbn.connect(url, name="bob") as bob:
            await disturbed(processes, ann, bob, ["b"], Random(seed))

    run(story())


def test_linked_brokers_that_are_killed_lose_nothing_and_repeat_nothing(
    processes: Processes, seed: int
) -> None:
    async def story() -> None:
        processes.start("a")
        processes.start("b", processes.urls["a"])
        processes.start("c", processes.urls["b"])
        ann = kbn.connect(processes.urls["c"], name="ann", durable=True, window=100)
        async with ann, kbn.connect(processes.urls["a"], name="bob") as bob:
            while not (await ann.status()).neighbours[0].complete:
                await asyncio.sleep(0.01)
            await disturbed(processes, ann, bob, ["a", "b", "c"], Random(seed))

    run(story())


def test_a_named_neighbour_gets_what_was_published_before_it_was_ever_there(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        async with make_server("b", path=tmp_path / "b.kbns") as b:
            port, url = b.address.port, b.url
            async with kbn.connect(url, name="ann", durable=True) as ann:
                await ann.subscribe("n any")
        link = LinkTo(url, name="b")
        async with make_server("a", path=tmp_path / "a.kbns", links=(link,)) as a:
            async with kbn.connect(a.url) as bob:
                for n in range(5):
                    await bob.publish({"n": n}, durable=True)
            async with (
                make_server("b", path=tmp_path / "b.kbns", port=port) as b,
                kbn.connect(b.url, name="ann", durable=True) as ann,
            ):
                feed = ann.subscribe("n any")
                assert [n["n"] for n in await take(feed, 5)] == list(range(5))

    run(story())


def test_a_neighbour_is_remembered_until_it_is_unlinked(tmp_path: Path) -> None:
    async def story() -> None:
        async with make_server("a", path=tmp_path / "a.kbns") as a:
            async with make_server("b", links=(LinkTo(a.url),)):
                await until(lambda: "b" in a.broker.neighbours)
            await until(lambda: not a.broker.neighbours["b"].is_connected)
        async with make_server("a", path=tmp_path / "a.kbns") as a, kbn.connect(a.url) as manager:
            assert "b" in a.broker.neighbours
            with pytest.raises(InvalidInputError, match="neighbours are b"):
                await manager.unlink("c")
            await manager.unlink("b")
            await until(lambda: not a.broker.neighbours)
        async with make_server("a", path=tmp_path / "a.kbns") as a:
            assert not a.broker.neighbours

    run(story())


def test_a_link_that_is_no_longer_configured_is_forgotten(tmp_path: Path) -> None:
    async def story() -> None:
        async with make_server("b") as b:
            async with make_server("a", path=tmp_path / "a.kbns", links=(LinkTo(b.url),)) as a:
                await until(lambda: "b" in a.broker.neighbours)
            async with make_server("a", path=tmp_path / "a.kbns") as a:
                assert not a.broker.neighbours

    run(story())
