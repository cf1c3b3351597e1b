"""Members of a publisher group as processes that a test controls by a pipe, and may kill."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import kbn.groups
from kbn.peering import CoordinatorSettings
from kbn.transport import CoordinatorServer
from kbn.transport.clock import now

LOOK_EVERY_S = 0.02


class Heard(NamedTuple):
    """A delivery; `is_promised` if the bound was admitted then."""

    publisher: str
    number: int
    delay_s: float
    is_promised: bool


class Fed(NamedTuple):
    """From `at` on these are the parents in a cluster; `is_fed` once all of them feed us."""

    at: float
    cluster: int
    parents: tuple[str, ...]
    is_fed: bool


def value(number: int, attribute: str) -> int:
    """What a notification of that number says."""
    return (number * 13 + 7 * int(attribute[1:])) % 100


@dataclass
class Member:
    """A peer, and what its process is told to do."""

    peer: kbn.groups.GroupPeer
    heard: list[Heard] = field(default_factory=list)
    fed: list[Fed] = field(default_factory=list)
    attributes: tuple[str, ...] = ()
    feed: kbn.groups.GroupFeed | None = None
    published: int = 0
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    async def told(self, what: str, *said: Any) -> Any:
        """Do what the test says; the answer."""
        match what:
            case "advertise":
                self.attributes = said[0]
                self.peer.advertise(*said)
            case "subscribe":
                text, within_s, probability = said
                self.feed = self.peer.subscribe(text, within_s=within_s, probability=probability)
                self.tasks += [asyncio.create_task(self._listen(self.feed))]
            case "promise":
                return None if self.feed is None else self.feed.promise
            case "publish":
                self.tasks.append(asyncio.create_task(self._publish(*said)))
            case "published":
                return self.published
            case "heard":
                return self.heard
            case "fed":
                return self.fed
            case "facts":
                async with asyncio.timeout(said[0]):
                    return await self.peer.facts()
        return None

    async def _listen(self, feed: kbn.groups.GroupFeed) -> None:
        async for each in feed.deliveries():
            promise = feed.promise
            is_promised = promise is not None and promise.state == "admitted"
            publisher = each.notification.publisher or ""
            self.heard.append(Heard(publisher, each.number, each.delay_s, is_promised))

    async def _publish(self, count: int, gap_s: float) -> None:
        begun = now()
        for place in range(count):
            self.published += 1
            await self.peer.publish({each: value(self.published, each) for each in self.attributes})
            await asyncio.sleep(max(0.0, begun + (place + 1) * gap_s - now()))

    async def look(self) -> None:
        """Note who feeds us, when that changes."""
        last: dict[int, tuple[tuple[str, ...], bool]] = {}
        while True:
            for number, each in self.peer.core.clusters.items():
                is_fed = all(each.attached.get(name) is each.from_source for name in each.parents)
                if last.get(number) != (known := (tuple(each.parents), is_fed)):
                    last[number] = known
                    self.fed.append(Fed(now(), number, *known))
            await asyncio.sleep(LOOK_EVERY_S)


def member(control: Connection, urls: list[str], name: str, slots: int, ports: Any) -> None:
    """The process of a peer; `ports`: where it listens, and where others find it."""
    asyncio.run(_member(control, urls, name, slots, ports))


async def _member(control: Connection, urls: list[str], name: str, slots: int, ports: Any) -> None:
    listen, shown = ports
    made = kbn.groups.connect(
        urls, name=name, slots=slots, port=listen, shown_url=f"kbn://127.0.0.1:{shown}",
        timeout=120,
    )  # fmt: skip
    orders: asyncio.Queue[Any] = asyncio.Queue()
    async with made as peer:
        known = Member(peer)
        looking = asyncio.create_task(known.look())
        control.send("joined")
        asyncio.get_running_loop().add_reader(
            control.fileno(), lambda: orders.put_nowait(control.recv())
        )
        while (order := await orders.get())[0] != "end":
            try:
                control.send(await known.told(*order))
            except Exception as error:  # the test is to see it
                control.send(error)
        for each in (looking, *known.tasks):
            each.cancel()


def coordinator(control: Connection, name: str, standby_of: str) -> None:
    """The process of a coordinator; it says where it listens."""
    asyncio.run(_coordinator(control, name, standby_of))


async def _coordinator(control: Connection, name: str, standby_of: str) -> None:
    settings = CoordinatorSettings(name, lambda: f"key of {name}", standby_of=standby_of)
    async with CoordinatorServer(settings) as server:
        control.send(server.url)
        await asyncio.Event().wait()
