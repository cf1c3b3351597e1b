"""A population for a managed overlay: subscribers with random interests, which drift, and managed
publishers with random subjects.

Subscribers attach anywhere and know nothing of management; publishers ask where to publish. Every
few seconds a line tells how many brokers the notifications passed that came meanwhile.

    python -m kbn.transport.population --trigger URL --ontology FILE --urls URL,URL
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections import Counter
from contextlib import AsyncExitStack
from random import Random
from typing import TYPE_CHECKING, Any

from kbn.transport.ending import until_told

if TYPE_CHECKING:
    from kbn.placement import SemanticMap
    from kbn.transport.client import Client
    from kbn.transport.feed import Feed

TOPIC = "topic"
TELL_EVERY_S = 5.0


class Population:
    """Subscribers s0, s1, … and publishers with ids of their own, at the brokers with `urls`."""

    def __init__(self, semantic_map: SemanticMap, trigger: str, urls: list[str], seed: int) -> None:
        self._ontology = semantic_map.ontology
        self._map = semantic_map
        self._trigger = trigger
        self._urls = urls
        self._rng = Random(seed)
        self._stack = AsyncExitStack()
        self._feeds: dict[str, tuple[Client, Feed, asyncio.Task[None]]] = {}
        self._publishers: list[tuple[Any, str]] = []
        self._publishing: dict[str, asyncio.Future[None]] = {}
        self.hops: Counter[int] = Counter()

    async def __aenter__(self) -> Population:
        return self

    async def __aexit__(self, *details: Any) -> None:
        for _, _, reading in self._feeds.values():
            reading.cancel()
        for publishing in self._publishing.values():
            publishing.cancel()
        await asyncio.gather(*self._publishing.values(), return_exceptions=True)
        await self._stack.__aexit__(*details)

    async def grow(self, subscribers: int, publishers: int) -> None:
        """Have so many more of each."""
        from kbn.transport.connecting import connect
        from kbn.transport.managed_publisher import ManagedPublisher

        for number in range(len(self._feeds), len(self._feeds) + subscribers):
            client = connect(self._rng.choice(self._urls), name=f"s{number}")
            await self._stack.enter_async_context(client)
            await self._want(client)
        individuals = sorted(self._ontology.individuals) or sorted(self._ontology.classes)
        for _ in range(publishers):
            url = self._rng.choice(self._urls)
            publisher = ManagedPublisher(self._trigger, self._map, url=url)
            await self._stack.enter_async_context(publisher)
            self._publishers.append((publisher, self._rng.choice(individuals)))

    async def drift(self) -> None:
        """One subscriber's interests become others."""
        if not self._feeds:
            return
        client, feed, reading = self._feeds[self._rng.choice(sorted(self._feeds))]
        reading.cancel()
        await feed.cancel()
        await self._want(client)

    async def publish(self) -> None:
        """One publisher publishes on its subject; one that waits for its broker waits alone."""
        from kbn.ontology import Term

        if not self._publishers:
            return
        publisher, subject = self._rng.choice(self._publishers)
        before = self._publishing.get(publisher.name)
        if before is None or before.done():
            if before is not None:
                before.result()
            publishing = publisher.publish({TOPIC: Term(subject)})
            self._publishing[publisher.name] = asyncio.ensure_future(publishing)

    async def _want(self, client: Client) -> None:
        wanted = self._rng.choice(sorted(self._ontology.classes))
        feed = await client.subscribe(f"{TOPIC} @= <{wanted}> or {TOPIC} @> <{wanted}>")
        reading = asyncio.ensure_future(self._read(feed))
        self._feeds[client.name] = (client, feed, reading)

    async def _read(self, feed: Feed) -> None:
        async for delivery in feed.deliveries():
            self.hops[delivery.hops] += 1


def told(hops: Counter[int]) -> dict[str, Any]:
    """What a line says of the notifications that came."""
    count = sum(hops.values())
    mean = sum(n * times for n, times in hops.items()) / count if count else None
    return {"delivered": count, "mean_hops": None if mean is None else round(mean, 2)}


async def live(arguments: argparse.Namespace) -> None:
    """Publish, drift and tell, until told to end."""
    from kbn.ontology import Ontology
    from kbn.placement import MapSettings, Ties, weights_of

    settings = MapSettings(weights_of(arguments.weights), Ties(arguments.ties))
    ontology = Ontology.load(arguments.ontology, reasoning=arguments.reasoning)
    semantic_map = settings.map_of(ontology)
    urls = arguments.urls.split(",")
    async with Population(semantic_map, arguments.trigger, urls, arguments.seed) as all_:
        await all_.grow(arguments.subscribers, arguments.publishers)
        print(json.dumps({"subscribers": arguments.subscribers}), flush=True)
        async with asyncio.TaskGroup() as group:
            if arguments.rate:
                group.create_task(_every(1 / arguments.rate, all_.publish))
            if arguments.drift:
                group.create_task(_every(1 / arguments.drift, all_.drift))
            group.create_task(_tell(all_))


async def _every(seconds: float, act: Any) -> None:
    while True:
        await asyncio.sleep(seconds)
        await act()


async def _tell(population: Population) -> None:
    while True:
        await asyncio.sleep(TELL_EVERY_S)
        hops, population.hops = population.hops, Counter()
        print(json.dumps(told(hops)), flush=True)


def parsed(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="kbn.transport.population", description=__doc__)
    parser.add_argument("--trigger", required=True)
    parser.add_argument("--ontology", action="append", required=True)
    parser.add_argument("--reasoning", default="rdfs")
    parser.add_argument("--urls", required=True)
    parser.add_argument("--subscribers", type=int, default=30)
    parser.add_argument("--publishers", type=int, default=30)
    parser.add_argument("--rate", type=float, default=20.0)
    parser.add_argument("--drift", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--weights", default="")
    parser.add_argument("--ties", default="individual-first")
    parser.add_argument("--end-with-stdin", action="store_true")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    given = parsed(sys.argv[1:])
    asyncio.run(until_told(live(given), with_stdin=given.end_with_stdin))
