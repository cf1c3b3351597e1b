"""The worst turns of a broker: what one client, within the limits, can make it do at once.

`python -m tests.long.worst_turns [NAME …]` starts a broker for each trial, over real sockets, and
prints the largest turn in units of work and in CPU time. `--size` is how many subscriptions (or
clients, for some) a trial has.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import tempfile
from collections.abc import Awaitable, Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter

from tests.long.broker_process import BrokerProcess, broker_process

from kbn.broker import content, wire
from kbn.broker.administration import GetStatus, LoadOntology, MoveClients
from kbn.broker.messages import (
    AdminRequest,
    Advertise,
    Alive,
    AnyMessage,
    Barrier,
    BarrierReached,
    Connect,
    Credit,
    Done,
    PubAck,
    Publish,
    Subscribe,
    Unsubscribe,
)

ANSWER_S = 300.0
BATCH = 2_000


class Talker:
    """A client that says many things, and listens for one answer."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker

    async def come(self, name: str, **given: object) -> Talker:
        self.reader, self.writer = await asyncio.open_connection(*self.broker.address)
        self.writer.write(wire.encode(Connect(name, 1, **given)))  # type: ignore[arg-type]
        self.alive = asyncio.create_task(self._live())
        self.tail = b""
        return self

    async def _live(self) -> None:
        while True:
            await asyncio.sleep(5)
            self.writer.write(wire.encode(Alive()))

    async def say(self, messages: Iterable[AnyMessage], until: AnyMessage | None = None) -> None:
        """Say all of it, listening meanwhile; return when an answer has come."""
        hearing = None if until is None else asyncio.create_task(self.hear(wire.encode(until)))
        said = bytearray()
        for number, message in enumerate(messages, 1):
            said += wire.encode(message)
            if number % BATCH == 0:
                self.writer.write(bytes(said))
                said.clear()
                await self.writer.drain()
        self.writer.write(bytes(said))
        await self.writer.drain()
        if hearing is not None:
            await hearing

    async def hear(self, wanted: bytes) -> None:
        async with asyncio.timeout(ANSWER_S):
            while wanted not in self.tail:
                data = await self.reader.read(1 << 20)
                assert data, "the broker has closed the connection"
                self.tail = self.tail[-len(wanted) :] + data

    def go(self) -> None:
        self.alive.cancel()
        self.writer.transport.abort()


class Trial:
    """A broker (or two) under trial."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.stack = ExitStack()
        self.brokers: list[BrokerProcess] = []
        self.folders: list[Path] = []

    def broker(self, *options: str) -> BrokerProcess:
        folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="kbn-turns-")))
        self.folders.append(folder)
        self.brokers.append(self.stack.enter_context(broker_process(folder, *options)))
        return self.brokers[-1]

    async def calm(self, broker: BrokerProcess) -> None:
        """Wait until a broker has nothing to do."""
        before = -1.0
        async with asyncio.timeout(ANSWER_S):
            while True:
                await asyncio.sleep(1.0)
                work = (await asyncio.to_thread(broker.metrics))["kbn_turn_work_sum"]
                if work - before < 2_000:
                    return
                before = work


# What is subscribed.


def equalities(size: int) -> Iterable[str]:
    return (f"k = {n}" for n in range(size))


def ranges(size: int) -> Iterable[str]:
    return (
        f"a > {n % 977} and b < {n % 1009} and c > {n / 7} and c < {n / 7 + 5}" for n in range(size)
    )


def texts(size: int) -> Iterable[str]:
    return (f"k = 'text{n}' and l >* 'p{n % 5000}' and m != 'x{n}'" for n in range(size))


def alternatives(size: int) -> Iterable[str]:
    return (" or ".join(f"k{m} = {n} and l{m} < {n}" for m in range(64)) for n in range(size // 64))


def long_ones(size: int) -> Iterable[str]:
    return (" and ".join(f"k{n}x{m} = {m}" for m in range(100)) for n in range(size // 100))


def long_ranges(size: int) -> Iterable[str]:
    """Each of its 100 attributes is asked for by nobody else."""
    return (" and ".join(f"k{n}x{m} < {m}" for m in range(100)) for n in range(size // 100))


def same_attribute(size: int) -> Iterable[str]:
    """Each has 100 constraints that all have to be compared with the 100 of every other."""
    return (" and ".join(f"k * '{n}x{m}'" for m in range(100)) for n in range(size // 100))


def large_bags(size: int) -> Iterable[str]:
    def bag(n: int, count: int) -> str:
        return "{" + ", ".join(f"'{m}y{n % 7}x{m}'" for m in range(count)) + "}"

    return (f"b #>/* {bag(n, 128)}" if n % 2 else f"b #> {bag(n, 500)}" for n in range(size // 100))


def disjoint(size: int) -> Iterable[str]:
    """No one covers another; `k any` covers all."""
    return (f"k = {n} and l = {n % 97}" for n in range(size))


async def subscribe(talker: Talker, texts: Iterable[str], first: int = 1) -> int:
    said = [Subscribe(n, text, True) for n, text in enumerate(texts, first)]
    await talker.say(said, Done("subscribe", said[-1].id))
    return len(said)


# Trials.

Attempt = Callable[[Trial], Awaitable[BrokerProcess]]


def subscribing(texts: Callable[[int], Iterable[str]]) -> Attempt:
    async def attempt(trial: Trial) -> BrokerProcess:
        broker = trial.broker()
        talker = await Talker(broker).come("a")
        await subscribe(talker, texts(trial.size))
        talker.go()
        await trial.calm(broker)
        return broker

    return attempt


async def unsubscribing(trial: Trial) -> BrokerProcess:
    broker = trial.broker()
    talker = await Talker(broker).come("a")
    count = await subscribe(talker, ranges(trial.size))
    await talker.say(map(Unsubscribe, range(1, count + 1)), Done("unsubscribe", count))
    return broker


def comparing(texts: Callable[[int], Iterable[str]]) -> Attempt:
    """With a neighbour, so that all are compared with each other."""

    async def attempt(trial: Trial) -> BrokerProcess:
        broker = trial.broker()
        trial.broker("--peer", broker.url, "--name", "other")
        talker = await Talker(broker).come("a")
        count = await subscribe(talker, texts(trial.size))
        await talker.say(map(Unsubscribe, range(1, count + 1)), Done("unsubscribe", count))
        await trial.calm(broker)
        await trial.calm(trial.brokers[1])
        show(trial.brokers[1], "  its neighbour")
        return broker

    return attempt


async def churning(trial: Trial) -> BrokerProcess:
    """Of very many subscriptions some come and go, with a publication after each."""
    broker = trial.broker()
    talker = await Talker(broker).come("a")
    count = await subscribe(talker, ranges(trial.size))
    said: list[AnyMessage] = []
    for n in range(1, 2_001):
        said += [Unsubscribe(n), Subscribe(count + n, f"a > {n} and z{n} < {n}", True)]
        said.append(Publish(n, 0.0, content.encode({"a": n, "b": n, "c": n}), False))
    await talker.say([Credit(1_000_000), *said, Barrier(7)], BarrierReached(7))
    await trial.calm(broker)
    return broker


async def covering(trial: Trial) -> BrokerProcess:
    """With a neighbour: one filter comes that covers all others, and goes."""
    broker = trial.broker()
    trial.broker("--peer", broker.url, "--name", "other")
    talker = await Talker(broker).come("a")
    count = await subscribe(talker, disjoint(trial.size))
    await talker.say([Subscribe(0, "k any", True)], Done("subscribe", 0))
    await trial.calm(broker)
    await talker.say([Unsubscribe(0)], Done("unsubscribe", 0))
    await trial.calm(broker)
    await trial.calm(trial.brokers[1])
    show(trial.brokers[1], "  its neighbour")
    assert count
    return broker


async def uncovering(trial: Trial) -> BrokerProcess:
    """With a neighbour: all come below one filter, which goes."""
    broker = trial.broker()
    trial.broker("--peer", broker.url, "--name", "other")
    talker = await Talker(broker).come("a")
    await talker.say([Subscribe(0, "k any", True)], Done("subscribe", 0))
    await subscribe(talker, disjoint(trial.size))
    await talker.say([Unsubscribe(0)], Done("unsubscribe", 0))
    await trial.calm(broker)
    await trial.calm(trial.brokers[1])
    show(trial.brokers[1], "  its neighbour")
    return broker


async def joining(trial: Trial) -> BrokerProcess:
    """A neighbour comes to a broker with a large table."""
    broker = trial.broker()
    talker = await Talker(broker).come("a")
    await subscribe(talker, disjoint(trial.size))
    trial.broker("--peer", broker.url, "--name", "other")
    await trial.calm(broker)
    await trial.calm(trial.brokers[1])
    show(trial.brokers[1], "  its neighbour")
    return broker


async def advertising(trial: Trial) -> BrokerProcess:
    """Very many advertisements, a publication, and away."""
    broker = trial.broker("--advertisements")
    trial.broker("--peer", broker.url, "--name", "other", "--advertisements")
    talker = await Talker(broker).come("a")
    said = [Advertise(n, f"k = {n}", True) for n in range(1, trial.size + 1)]
    await talker.say(said, Done("advertise", said[-1].id))
    publish = Publish(1, 0.0, content.encode({"j": 1}), True)
    await talker.say([publish], PubAck(1))
    talker.go()
    await trial.calm(broker)
    return broker


async def gating(trial: Trial) -> BrokerProcess:
    """Very many subscriptions at one side of advertisements that come and go at the other."""
    broker = trial.broker("--advertisements")
    other = trial.broker("--peer", broker.url, "--name", "other", "--advertisements")
    talker = await Talker(broker).come("a")
    await subscribe(talker, disjoint(trial.size))
    await trial.calm(broker)
    seller = await Talker(other).come("seller")
    said = [Advertise(n, f"k = {n}", True) for n in range(1, trial.size + 1)]
    await seller.say(said, Done("advertise", said[-1].id))
    await trial.calm(broker)
    seller.go()
    await trial.calm(other)
    await trial.calm(broker)
    show(other, "  its neighbour")
    return broker


async def gating_ranges(trial: Trial) -> BrokerProcess:
    """The same, where nothing is equal to anything."""
    broker = trial.broker("--advertisements")
    other = trial.broker("--peer", broker.url, "--name", "other", "--advertisements")
    talker = await Talker(broker).come("a")
    await subscribe(talker, (f"k > {n} and k < {n}.5" for n in range(trial.size)))
    await trial.calm(broker)
    seller = await Talker(other).come("seller")
    said = [Advertise(n, f"k > {n}.6 and k < {n}.7", True) for n in range(1, trial.size // 100)]
    await seller.say(said, Done("advertise", said[-1].id))
    await trial.calm(broker)
    seller.go()
    await trial.calm(other)
    await trial.calm(broker)
    show(other, "  its neighbour")
    return broker


async def asking(trial: Trial) -> BrokerProcess:
    """A manager asks for the status again and again."""
    broker = trial.broker()
    talker = await Talker(broker).come("a")
    await subscribe(talker, texts(trial.size))
    asked = [AdminRequest(n, GetStatus()) for n in range(1, 200)]
    await talker.say([*asked, Barrier(7)], BarrierReached(7))
    return broker


async def unacked(trial: Trial) -> BrokerProcess:
    """A durable client comes back for very many; one with very many subscriptions comes back."""
    broker = trial.broker()
    talker = await Talker(broker).come("d", durable=True, window=100_000)
    await subscribe(talker, ["j any", *equalities(trial.size // 4)])
    talker.go()
    seller = await Talker(broker).come("p")
    await asyncio.sleep(0.5)
    said = [Publish(n, 0.0, content.encode({"j": n}), True) for n in range(1, trial.size // 2 + 1)]
    for first in range(0, len(said), 500):
        part = said[first : first + 500]
        await seller.say(part, PubAck(part[-1].number))
    back = await Talker(broker).come("d", durable=True, window=100_000)
    await back.say([Credit(1_000_000), Barrier(7)], BarrierReached(7))
    await trial.calm(broker)
    return broker


async def reloading(trial: Trial) -> BrokerProcess:
    """The access file changes what very many subscriptions and clients may."""
    folder = Path(trial.stack.enter_context(tempfile.TemporaryDirectory()))
    access = folder / "access.yaml"
    access.write_text('default: {publish: "*", subscribe: "*"}\n')
    broker = trial.broker("--access", str(access))
    talker = await Talker(broker).come("a")
    await subscribe(talker, disjoint(trial.size))
    many = [await Talker(broker).come(f"c{n}") for n in range(min(trial.size // 100, 900))]
    await subscribe(many[-1], ["l = 1"])
    access.write_text("default: {publish: [k], subscribe: [l]}\n")
    os.kill(broker.process.pid, signal.SIGHUP)
    await trial.calm(broker)
    await trial.calm(broker)
    return broker


async def another_ontology_advertised(trial: Trial) -> BrokerProcess:
    """The same, where advertisements are used."""
    return await another_ontology(trial, "--advertisements")


async def another_ontology(trial: Trial, *options: str) -> BrokerProcess:
    """The ontology changes under very many subscriptions."""
    folder = Path(trial.stack.enter_context(tempfile.TemporaryDirectory()))
    (folder / "o.ttl").write_text(
        "@prefix : <http://e.org/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> . "
        "@prefix owl: <http://www.w3.org/2002/07/owl#> . "
        ":A a owl:Class . :B a owl:Class ; rdfs:subClassOf :A ."
    )
    broker = trial.broker("--ontology-folder", str(folder), *options)
    other = trial.broker("--peer", broker.url, "--name", "other", *options)
    talker = await Talker(broker).come("a")
    await subscribe(talker, disjoint(trial.size))
    await trial.calm(broker)
    await talker.say([AdminRequest(1, LoadOntology(("o.ttl",), "rdfs"))])
    await asyncio.sleep(5)
    await trial.calm(broker)
    await trial.calm(other)
    show(other, "  its neighbour")
    return broker


async def moving(trial: Trial) -> BrokerProcess:
    """All clients are moved at once."""
    broker = trial.broker()
    many = [await Talker(broker).come(f"c{n}") for n in range(min(trial.size // 100, 900))]
    for each in many:
        await each.say([Subscribe(1, "k any", True)])
    await asyncio.sleep(1)
    await many[0].say(
        [AdminRequest(1, MoveClients("other", "kbn://127.0.0.1:1")), Barrier(7)], BarrierReached(7)
    )
    return broker


async def starting(trial: Trial) -> BrokerProcess:
    """A broker starts with a store of very many."""
    broker = await unacked(trial)
    broker.process.kill()
    broker.process.wait()
    begun = perf_counter()
    broker = trial.stack.enter_context(broker_process(trial.folders[0]))
    print(f"  it listens after {perf_counter() - begun:.1f} s")
    return broker


TRIALS: dict[str, Attempt] = {
    "equalities": subscribing(equalities),
    "ranges": subscribing(ranges),
    "texts": subscribing(texts),
    "alternatives": subscribing(alternatives),
    "long-ones": subscribing(long_ones),
    "long-ranges": subscribing(long_ranges),
    "same-attribute": comparing(same_attribute),
    "large-bags": comparing(large_bags),
    "unsubscribing": unsubscribing,
    "churning": churning,
    "covering": covering,
    "uncovering": uncovering,
    "joining": joining,
    "advertising": advertising,
    "gating": gating,
    "gating-ranges": gating_ranges,
    "asking": asking,
    "unacked": unacked,
    "reloading": reloading,
    "another-ontology": another_ontology,
    "another-ontology-advertised": another_ontology_advertised,
    "moving": moving,
    "starting": starting,
}


def show(broker: BrokerProcess, name: str) -> None:
    metrics = broker.metrics()
    print(
        f"{name:20} largest turn: {metrics['kbn_turn_work_max']:8.0f} units, "
        f"{1e3 * metrics['kbn_turn_cpu_seconds_max']:7.1f} ms; "
        f"turns: {metrics['kbn_turn_work_count']:.0f}, CPU per unit: "
        f"{1e6 * metrics['kbn_turn_cpu_seconds_total'] / metrics['kbn_turn_work_sum']:.2f} µs; "
        f"memory: {broker.memory() >> 20} MB",
        flush=True,
    )


async def run(name: str, size: int) -> None:
    trial = Trial(size)
    with trial.stack:
        broker = await TRIALS[name](trial)
        show(broker, name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*TRIALS, []])
    parser.add_argument("--size", type=int, default=100_000)
    given = parser.parse_args()
    for name in given.names or TRIALS:
        try:
            asyncio.run(run(name, given.size))
        except Exception as error:
            print(f"{name:20} FAILED: {type(error).__name__}: {error}", flush=True)


if __name__ == "__main__":
    main()
