"""A soak: two brokers, and clients that come and go for as long as you like.

`python -m tests.long.soak --minutes 60 --seed 7` has a durable publisher at one broker and a
durable witness at the other. Visitors come, durable or not, subscribe with terms and without, move,
go, and come back for what they are owed. At the end: the witness heard everything in order, and
memory, open files and the stores stayed as they were after the first quarter.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random, SystemRandom
from statistics import median
from time import monotonic

from tests.long.broker_process import BrokerProcess, broker_process

import kbn
from kbn.ontology import Class

VISITORS = 8
LOOK_EVERY_S = 2.0
VISIT_S = 90.0  # a visit that takes longer has failed
MB = 1 << 20
# What may be more at the end than after the first quarter, besides a share of what was there.
MEMORY_MORE, MEMORY_SHARE = 16 * MB, 0.05
FILES_MORE = 8
STORE_MORE, STORE_SHARE = 8 * MB, 0.5

PODCAST = "https://kbn.example/ontology/podcast#"
CATEGORIES = ("Arts", "Design", "Food", "Literature", "Music", "Comedy", "Education", "Training",
              "Business", "Careers", "Investing", "Technology", "Podcasting")  # fmt: skip


def subscription(rng: Random) -> str:
    """Something to want."""
    category, number = rng.choice(CATEGORIES), rng.randrange(1_000)
    return rng.choice(
        [
            f"category #>/@> {{podcast:{category}}}",
            f"category #>/@> {{podcast:{category}}} and n > {number}",
            f"n = {rng.randrange(10**9)} or size < {number % 50}",
            f"title * '{number}'",
            f"tags #>/>* {{'t{number % 20}'}} and size any",
        ]
    )


def notification(rng: Random, number: int) -> dict[str, object]:
    """Something to say."""
    return {
        "kind": "soak",
        "n": number,
        "size": rng.randrange(1_000),
        "title": f"episode {rng.randrange(10**6)}",
        "category": kbn.Bag(*(Class(PODCAST + each) for each in rng.sample(CATEGORIES, 2))),
        "tags": kbn.Bag(*(f"t{rng.randrange(20)}" for _ in range(rng.randrange(1, 6)))),
    }


@dataclass
class Witness:
    """A publisher at one broker, and a durable subscriber at the other that misses nothing and
    hears nothing twice.

    Every fourth is durable. Those and the others are two streams, each with an order of its own;
    `last` is how far each is. A number that is not the next is in `odd`, and hearing goes on: only
    what comes later tells whether one was lost or overtaken.
    """

    sent: int = 0
    numbers: set[int] = field(default_factory=set)
    last: dict[bool, int] = field(default_factory=lambda: {False: 0, True: 0})
    odd: list[str] = field(default_factory=list)
    is_there: asyncio.Event = field(default_factory=asyncio.Event)

    async def publish(self, url: str, rng: Random, until: asyncio.Event) -> None:
        async with kbn.connect(url, name="publisher", stays=True) as client:
            while not until.is_set():
                self.sent += 1
                durable = self.sent % 4 == 0
                await client.publish(notification(rng, self.sent), durable=durable)
                await asyncio.sleep(0.01)
            await client.publish({"kind": "end"}, durable=True)

    async def listen(self, url: str) -> None:
        name = "witness"
        async with kbn.connect(url, name=name, durable=True, window=100_000, stays=True) as client:
            feed = await client.subscribe("kind = 'soak' or kind = 'end'")
            await client.barrier()
            self.is_there.set()
            async for found in feed:
                if found["kind"] == "end":
                    return
                self.hear(found["n"])

    @property
    def heard(self) -> int:
        return len(self.numbers)

    def hear(self, number: int) -> None:
        """One has come: not twice, and not behind a later one of its stream."""
        durable = number % 4 == 0
        if number in self.numbers:
            self.odd.append(f"{number} came twice")
        elif number < self.last[durable]:
            self.odd.append(f"{number} came after {self.last[durable]}")
        self.numbers.add(number)
        self.last[durable] = max(number, self.last[durable])

    @property
    def missing(self) -> list[int]:
        """What never came, durable or not."""
        return sorted(set(range(1, self.sent + 1)) - self.numbers)


@dataclass
class Visitor:
    """A client that comes and goes; what it does comes from a seed."""

    urls: tuple[str, str]
    number: int
    rng: Random
    done: Counter[str]

    async def live(self, until: asyncio.Event) -> None:
        visits = 0
        while not until.is_set():
            visits += 1
            home = self.rng.randrange(2)
            async with asyncio.timeout(VISIT_S):
                if self.rng.random() < 0.5:
                    await self.visit_as_kept(home)
                else:
                    await self.visit(home, f"v{self.number}-{visits}")

    async def visit(self, home: int, name: str) -> None:
        """Come, be sent something, perhaps move, and go; sometimes without a word."""
        rng = self.rng
        durable = rng.random() < 0.3
        wanted = [subscription(rng) for _ in range(rng.randrange(1, 12))]
        async with (
            kbn.connect(self.urls[home], name=name, durable=durable, stays=True) as client,
            Reading(client, wanted),
        ):
            await asyncio.sleep(rng.random() * 2)
            for _ in range(rng.randrange(3)):
                home = 1 - home
                await client.move(self.urls[home])
                self.done["moves"] += 1
                await asyncio.sleep(rng.random())
            if durable or rng.random() < 0.5:
                await client.leave()
        self.done["visits"] += 1

    async def visit_as_kept(self, home: int) -> None:
        """Come back as a durable client that was here before, for what it is owed."""
        name = f"kept{self.number}-{home}"
        wanted = [subscription(Random(f"{name}/{n}")) for n in range(4)]
        async with (
            kbn.connect(self.urls[home], name=name, durable=True, stays=True) as client,
            Reading(client, wanted),
        ):
            await asyncio.sleep(self.rng.random() * 2)
            if self.rng.random() < 0.2:
                await client.leave()
        self.done["returns"] += 1


class Reading:
    """Subscribes, and reads what comes while the block lasts."""

    def __init__(self, client: kbn.Client, wanted: list[str]) -> None:
        self._client = client
        self._wanted = wanted
        self._reading: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> None:
        for text in self._wanted:
            feed = await self._client.subscribe(text)
            self._reading.append(asyncio.create_task(self._read(feed)))

    async def __aexit__(self, *trouble: object) -> None:
        for each in self._reading:
            each.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*self._reading)

    async def _read(self, feed: kbn.Feed) -> None:
        async for _ in feed:
            pass


@dataclass
class Seen:
    """What was seen of one broker: memory, open files, bytes of its store."""

    broker: BrokerProcess
    folder: Path
    memory: list[int] = field(default_factory=list)
    files: list[int] = field(default_factory=list)
    stored: list[int] = field(default_factory=list)

    def look(self) -> None:
        assert self.broker.is_running, "a broker has ended"
        self.memory.append(self.broker.memory())
        self.files.append(self.broker.open_files())
        self.stored.append(sum(each.stat().st_size for each in self.folder.glob("store.db*")))

    def report(self) -> str:
        said = []
        rows = (("memory", self.memory, MB), ("files", self.files, 1), ("store", self.stored, MB))
        for name, values, unit in rows:
            early, late = parts_of(values)
            most = max(values) / unit
            said.append(f"{name} {early / unit:.1f} then {late / unit:.1f}, at most {most:.1f}")
        return "; ".join(said)

    def check(self) -> None:
        """All is as it was after the first quarter."""
        early, late = parts_of(self.memory)
        assert late <= early * (1 + MEMORY_SHARE) + MEMORY_MORE, self.report()
        early, late = parts_of(self.files)
        assert late <= early + FILES_MORE, self.report()
        early, late = parts_of(self.stored)
        assert late <= early * (1 + STORE_SHARE) + STORE_MORE, self.report()
        assert self.broker.metrics()["kbn_healthy"] == 1


def parts_of(values: list[int]) -> tuple[float, float]:
    """The median of the second quarter, and that of the last.

    >>> parts_of([9, 9, 1, 1, 5, 5, 2, 2])
    (1.0, 2.0)
    """
    quarter = max(1, len(values) // 4)
    return float(median(values[quarter : 2 * quarter])), float(median(values[-quarter:]))


async def soak(brokers: list[Seen], seed: int, minutes: float) -> tuple[Witness, Counter[str]]:
    """Live for so long; the witness, and how often what was done."""
    urls = (brokers[0].broker.url, brokers[1].broker.url)
    witness, over, done = Witness(), asyncio.Event(), Counter[str]()
    listening = asyncio.create_task(witness.listen(urls[1]))
    await asyncio.wait_for(witness.is_there.wait(), 60)
    living = [asyncio.create_task(witness.publish(urls[0], Random(seed), over))]
    for number in range(VISITORS):
        visitor = Visitor(urls, number, Random(f"{seed}/{number}"), done)
        living.append(asyncio.create_task(visitor.live(over)))
    end = monotonic() + 60 * minutes
    while monotonic() < end:
        for each in brokers:
            await asyncio.to_thread(each.look)
        ended = [task for task in (*living, listening) if task.done()]
        if ended:
            await ended[0]
            raise AssertionError("one has ended before its time")
        await asyncio.sleep(LOOK_EVERY_S)
    over.set()
    await asyncio.wait_for(asyncio.gather(*living, listening), VISIT_S)
    return witness, done


def two_brokers(folder: Path, stack: ExitStack) -> Iterator[Seen]:
    """Two brokers that know each other and the same ontology, each in a folder of its own."""
    link: list[str] = []
    for name in ("east", "west"):
        own = folder / name
        own.mkdir()
        options = ("--name", name, "--ontology", "podcast", "--routing", "acyclic", *link)
        broker = stack.enter_context(broker_process(own, *options))
        yield Seen(broker, own)
        link = ["--peer", broker.url]


def report(brokers: list[Seen], witness: Witness, done: Counter[str]) -> str:
    heard = f"witness: {witness.heard} of {witness.sent} heard; {dict(sorted(done.items()))}"
    return "\n".join((heard, *(each.report() for each in brokers)))


def books(brokers: list[Seen]) -> str:
    """What the brokers have counted: it shows on which way something was lost."""
    names = ("published", "forwarded", "received", "dropped")
    said = []
    for each in brokers:
        counted = each.broker.metrics()
        said.append(", ".join(f"{name} {counted[f'kbn_{name}_total']:g}" for name in names))
    return "; ".join(said)


def check(brokers: list[Seen], witness: Witness) -> None:
    """Nothing was lost, and nothing has grown."""
    assert not witness.odd, witness.odd[:20]
    assert not witness.missing, f"{witness.missing[:20]} never came; {books(brokers)}"
    assert witness.sent > 0
    for each in brokers:
        each.check()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(2**31))
    parser.add_argument("--minutes", type=float, default=60)
    given = parser.parse_args()
    print(f"seed {given.seed}: python -m tests.long.soak --seed {given.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="kbn-soak-") as folder, ExitStack() as stack:
        brokers = list(two_brokers(Path(folder), stack))
        witness, done = asyncio.run(soak(brokers, given.seed, given.minutes))
        print(report(brokers, witness, done), flush=True)
        check(brokers, witness)
    print("all is as it was")


if __name__ == "__main__":
    main()
