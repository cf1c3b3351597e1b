"""A managed overlay of real processes: it arranges itself, also around a killed policy server."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random

import pytest
from tests.transport.overlay import until

import kbn
from kbn import data
from kbn.ontology import Individual, Ontology
from kbn.placement import Plan, SemanticMap, plan
from kbn.transport.managed_processes import Companion, ManagedOverlay
from kbn.transport.managed_publisher import ManagedPublisher
from kbn.transport.topology_file import load_topology

HERE = data.namespace("conference")
BROKERS = ("root", "left", "right", "far")
FILE = """
routing: hierarchical
ontology: conference.ttl
brokers:
  root: {}
  left: {parent: root}
  right: {parent: root}
  far: {parent: right}
"""
SUBSCRIBERS = 10
PATIENCE_S = 150.0


class Subscriber:
    """A client with an interest, that also has every number that is published."""

    def __init__(self, client: kbn.Client) -> None:
        self.client = client
        self.interest = ""
        self.numbers: list[object] = []
        self._wanted: kbn.transport.Feed | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def begin(self, interest: str) -> None:
        numbers = await self.client.subscribe("number >= 0")
        self._tasks.append(asyncio.ensure_future(self._read(numbers)))
        await self.want(interest)

    async def want(self, interest: str) -> None:
        if self._wanted is not None:
            await self._wanted.cancel()
        self.interest = interest
        self._wanted = await self.client.subscribe(f"topic @= <{interest}>")

    async def _read(self, feed: kbn.transport.Feed) -> None:
        async for notification in feed:
            self.numbers.append(notification["number"])

    def is_home(self, assignments: Plan) -> bool:
        return not self.client.is_moving and self.client.broker == assignments.broker_for(
            self.interest
        )

    def end(self) -> None:
        for task in self._tasks:
            task.cancel()


async def publish_numbers(client: kbn.Client, published: list[int], enough: asyncio.Event) -> None:
    while not enough.is_set():
        published.append(len(published))
        await client.publish({"number": published[-1]})
        await asyncio.sleep(0.002)


def said_by(lines: list[tuple[str, str]]) -> list[dict[str, object]]:
    """What the policy server has told, line by line."""
    return [json.loads(line) for name, line in lines if name == "boss" and line[:1] == "{"]


async def scenario(folder: Path, rng: Random) -> None:
    ontology = Ontology.load(data.path("conference"))
    assignments = plan(ontology, BROKERS)
    classes = sorted(ontology.classes)
    (folder / "overlay.yaml").write_text(FILE)
    (folder / "conference.ttl").write_bytes(data.path("conference").read_bytes())
    lines: list[tuple[str, str]] = []
    async with AsyncExitStack() as stack:
        overlay = ManagedOverlay(
            load_topology(folder / "overlay.yaml"), lambda *said: lines.append(said)
        )
        await stack.enter_async_context(overlay)
        await overlay.start(PATIENCE_S)
        urls = {name: each.url for name, each in overlay.brokers.items()}
        boss = Companion(
            "boss",
            lambda: (
                *("policy-server", "--json", "--trigger", overlay.trigger.url, "--name", "boss"),
                *("--ontology", str(data.path("conference")), "--mib", str(folder / "mib.db")),
            ),
        )
        await overlay.join(boss)
        published: list[int] = []
        source = await stack.enter_async_context(kbn.connect(urls["far"], name="source"))

        async def subscriber(name: str) -> Subscriber:
            client = kbn.connect(rng.choice(list(urls.values())), name=name, window=100_000)
            found = Subscriber(await stack.enter_async_context(client))
            stack.callback(found.end)
            await found.begin(rng.choice(classes))
            return found

        # Subscribers attach anywhere and end up in their cluster.
        people = [await subscriber(f"s{number}") for number in range(SUBSCRIBERS)]
        await people[-1].client.barrier()
        enough = asyncio.Event()
        publishing = asyncio.ensure_future(publish_numbers(source, published, enough))
        stack.callback(publishing.cancel)
        await until(lambda: all(each.is_home(assignments) for each in people))

        # Publishers are told where to publish.
        semantic_map = SemanticMap(ontology)
        for subject in ("Paper_17", "Dublin"):
            made = ManagedPublisher(
                overlay.trigger.url, semantic_map, url=urls["root"], wait_s=PATIENCE_S
            )
            publisher = await stack.enter_async_context(made)
            await publisher.publish({"topic": Individual(HERE + subject)})
            assert publisher.broker == assignments.broker_for(HERE + subject)

        # Killed, the policy server is missed by nobody but those who would have to move.
        assert boss.process is not None
        os.kill(boss.process.pid, signal.SIGKILL)
        await boss.process.wait()
        homes = [each.client.broker for each in people]
        for each in people[:5]:
            await each.want(rng.choice(classes))
        goal = len(published) + 200
        await until(lambda: len(published) >= goal)
        assert [each.client.broker for each in people] == homes

        # Back, it goes on from what it knew: drift leads to moves.
        await overlay.join(boss)
        await until(lambda: all(each.is_home(assignments) for each in people))
        for each in people[5:]:
            await each.want(rng.choice(classes))
        await until(lambda: all(each.is_home(assignments) for each in people))

        # And nothing was lost meanwhile, nothing came twice, all in order.
        enough.set()
        await publishing
        last = published[-1]
        await until(lambda: all(each.numbers[-1:] == [last] for each in people))
        for each in people:
            first = int(str(each.numbers[0]))
            assert each.numbers == list(range(first, last + 1)), each.client.name
        assert min(int(str(each.numbers[0])) for each in people) == 0
    placed = [entry for entry in said_by(lines) if entry.get("action") == "place-subscriber"]
    assert placed and all(entry["policy"] for entry in placed)
    assert len({(entry["name"], entry.get("detail")) for entry in placed}) > SUBSCRIBERS


@pytest.mark.parametrize("seed", [1])
def test_an_overlay_arranges_itself_and_loses_nothing_around_a_killed_policy_server(
    seed: int, tmp_path: Path
) -> None:
    print(f"seed {seed}")

    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await scenario(tmp_path, Random(seed))

    asyncio.run(bounded())
