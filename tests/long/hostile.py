"""Hostile clients: what the broken and the malicious say to a broker, from a seed.

`python -m tests.long.hostile HOST PORT --seed N --seconds S` attacks until the time is up, or until
it is ended; it prints how often each kind of attack was made. Each attack is one connection, or a
few, and ends by itself: none waits for an answer that a broker need not give.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from random import Random
from time import monotonic
from typing import Any

from kbn.broker import content, wire
from kbn.broker.messages import (
    Advertise,
    Alive,
    AnyMessage,
    Barrier,
    Connect,
    Credit,
    DeliverAck,
    Explain,
    Greet,
    Hops,
    Leave,
    Publish,
    Subscribe,
    Unsubscribe,
    Who,
)

WORKERS = 6
NICE = 10  # they have the processors that the broker and the bystander do not want
READ_S = 0.3

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Attack = Callable[["Attacker"], Awaitable[None]]


class Attacker:
    """One of several that attack at once; all chance comes from its generator."""

    def __init__(self, address: tuple[str, int], rng: Random, attacks: Sequence[Attack]) -> None:
        self.address = address
        self.rng = rng
        self.attacks = attacks
        self.made: Counter[str] = Counter()

    async def attack_until(self, end: float) -> None:
        while monotonic() < end:
            attack = self.rng.choice(self.attacks)
            with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
                async with asyncio.timeout(20):
                    await attack(self)
            self.made[attack.__name__] += 1

    async def open(self) -> Streams:
        return await asyncio.open_connection(*self.address)

    async def say(self, data: bytes, *, reads: bool = True) -> None:
        """Say something on a new connection; listen a little, or not at all; go."""
        reader, writer = await self.open()
        try:
            writer.write(data)
            if reads:
                with suppress(TimeoutError):
                    async with asyncio.timeout(READ_S):
                        await writer.drain()
                        while await reader.read(65536):
                            pass
            else:
                await asyncio.sleep(self.rng.random() * READ_S)
        finally:
            writer.transport.abort()

    def name(self) -> str:
        return f"h{self.rng.randrange(50)}"

    def hello(self, **given: Any) -> bytes:
        return wire.encode(Connect(self.name(), self.rng.randrange(1, 1000), **given))


# What can be said.


def words(rng: Random, count: int, length: int) -> list[str]:
    return ["".join(rng.choices("ab", k=length)) for _ in range(count)]


def heavy_subscription(rng: Random) -> str:
    """One that costs as much as may be, or nearly."""
    operator = rng.choice(["#>/*", "#</*", "#=/*", "#>/!*", "!#>/*", "#>/>*", "#>/!=", "#>", "#<"])
    paired = operator not in ("#>", "#<", "#>/!=")
    operand: list[Any] = words(rng, rng.choice([64, 128] if paired else [500, 1000]), 6)
    if rng.random() < 0.2:
        operator, operand = "#>/#>/*", [operand[i : i + 8] for i in range(0, 96, 8)]
    if rng.random() < 0.1:
        operand = operand * 20  # too much
    return json.dumps([{"attribute": rng.choice("abc"), "op": operator, "value": operand}])


def heavy_text(rng: Random) -> str:
    return rng.choice(
        [
            "not " * rng.choice([60, 1000, 16_000, 200_000]) + "a = 1",
            "(" * rng.choice([60, 5_000, 60_000]),
            "a #> {" + "1," * rng.choice([500, 2_000, 30_000]) + "1}",
            " and ".join(f"(a{n} = 1 or a{n} = 2)" for n in range(rng.choice([5, 6, 12]))),
            " or ".join(f"a * '{word}'" for word in words(rng, 60, 12)),
            "x @> a:" + ":" * rng.choice([10, 60_000]),
            "a = '" + "x" * rng.choice([100, 60_000, 900_000]) + "'",
        ]
    )


def heavy_notification(rng: Random) -> dict[str, Any]:
    kind = rng.randrange(5)
    if kind == 0:
        return {rng.choice("abc"): words(rng, rng.choice([1000, 4000, 9000]), 12)}
    if kind == 1:
        return {rng.choice("abc"): "ab" * rng.choice([1_000, 250_000])}
    if kind == 2:
        return {rng.choice("abc"): [words(rng, 8, 6) for _ in range(rng.choice([50, 400]))]}
    if kind == 3:
        return {f"attribute{n}": n for n in range(rng.choice([100, 4000]))}
    return {rng.choice("abc"): list(range(rng.choice([100, 4096, 50_000])))}


def any_message(rng: Random, number: int) -> AnyMessage:
    """Something a client may say, light or heavy."""
    kind = rng.randrange(12)
    if kind < 3:
        encoded = content.encode(heavy_notification(rng) if rng.random() < 0.2 else {"a": "ab"})
        return Publish(number, 0.0, encoded, rng.random() < 0.2)
    if kind == 3:
        return Subscribe(number, heavy_subscription(rng))
    if kind == 4:
        return Subscribe(number, heavy_text(rng), True)
    if kind == 5:
        return Subscribe(number, f"a * '{words(rng, 1, 4)[0]}'", True)
    return rng.choice(
        [
            Unsubscribe(rng.randrange(number + 1)),
            Advertise(number, "a any", True),
            Barrier(number),
            Credit(rng.choice([0, 10, 2**62])),
            DeliverAck(rng.choice([0, 10, 2**62])),
            Hops(tuple((n, n) for n in range(rng.choice([3, 2000])))),
            Leave(number),
            Alive(),
        ]
    )


# Attacks.


async def noise(attacker: Attacker) -> None:
    """Bytes that mean nothing."""
    await attacker.say(attacker.rng.randbytes(attacker.rng.choice([1, 10, 1000, 100_000])))


async def frames_of_noise(attacker: Attacker) -> None:
    """Frames that mean nothing, after a greeting or without."""
    rng = attacker.rng
    data = attacker.hello() if rng.random() < 0.5 else b""
    for _ in range(rng.randrange(1, 50)):
        body = rng.randbytes(rng.choice([1, 20, 2_000]))
        data += len(body).to_bytes(4, "big") + body
    await attacker.say(data)


async def half_a_frame(attacker: Attacker) -> None:
    """A frame that never ends."""
    rng = attacker.rng
    whole = attacker.hello() + wire.encode(Subscribe(1, heavy_subscription(rng)))
    length = rng.choice([1 << 20, 4 << 20, 5 << 20, (1 << 32) - 1])
    promised = length.to_bytes(4, "big") + rng.randbytes(100_000)
    await attacker.say(rng.choice([whole[: rng.randrange(len(whole))], promised]), reads=False)


async def mutated_session(attacker: Attacker) -> None:
    """What a client might say, with some bytes changed."""
    rng = attacker.rng
    said = [attacker.hello()]
    said += [wire.encode(any_message(rng, n)) for n in range(1, rng.randrange(2, 20))]
    data = bytearray(b"".join(said)[:500_000])
    for _ in range(rng.randrange(0, 20)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    await attacker.say(bytes(data))


async def heavy_session(attacker: Attacker) -> None:
    """Everything that may be said, and much of it."""
    rng = attacker.rng
    said = [attacker.hello(durable=rng.random() < 0.1)]
    said += [wire.encode(any_message(rng, n)) for n in range(1, rng.randrange(2, 60))]
    await attacker.say(b"".join(said))


async def stall(attacker: Attacker) -> None:
    """The most expensive subscriptions, then the most expensive notifications."""
    rng = attacker.rng
    said = [attacker.hello()]
    said += [wire.encode(Subscribe(n, heavy_subscription(rng))) for n in range(1, 20)]
    said += [
        wire.encode(Publish(n, 0.0, content.encode(heavy_notification(rng)))) for n in range(1, 8)
    ]
    await attacker.say(b"".join(said))


async def slow_reader(attacker: Attacker) -> None:
    """Wants everything, and reads nothing."""
    rng = attacker.rng
    blocks = rng.choice(["drop", "drop", "block"])
    said = attacker.hello(window=100_000, when_slow=blocks)
    said += wire.encode(Subscribe(1, "true", True))
    said += b"".join(
        wire.encode(Publish(n, 0.0, content.encode({"a": "ab" * 500}))) for n in range(1, 200)
    )
    await attacker.say(said, reads=False)


async def flood(attacker: Attacker) -> None:
    """Very many small messages."""
    rng = attacker.rng
    one = wire.encode(rng.choice([Alive(), Credit(1), Unsubscribe(9), Barrier(1)]))
    small = content.encode({"a": "ab"})
    published = b"".join(wire.encode(Publish(n, 0.0, small)) for n in range(1, 900))
    await attacker.say(attacker.hello() + rng.choice([one * 5_000, published]))


async def churn(attacker: Attacker) -> None:
    """Subscribes and unsubscribes again and again."""
    said = [attacker.hello()]
    for n in range(1, 150):
        said.append(wire.encode(Subscribe(n, f"a = {n} and b < {n}", True)))
        said.append(wire.encode(Unsubscribe(n)))
    await attacker.say(b"".join(said))


async def connection_storm(attacker: Attacker) -> None:
    """Many connections at once that say nothing, or ask for a name."""
    rng = attacker.rng
    opened = await asyncio.gather(*(attacker.open() for _ in range(100)), return_exceptions=True)
    streams = [each for each in opened if not isinstance(each, BaseException)]
    for _, writer in streams:
        writer.write(rng.choice([b"", wire.encode(Who()), b"\0"]))
    await asyncio.sleep(rng.random() * READ_S)
    for _, writer in streams:
        writer.transport.abort()


async def login_storm(attacker: Attacker) -> None:
    """Comes in again and again, mostly under the same name."""
    rng = attacker.rng
    for n in range(50):
        name = "storm" if rng.random() < 0.8 else attacker.name()
        data = wire.encode(Connect(name, n + 1, durable=rng.random() < 0.1))
        reader, writer = await attacker.open()
        writer.write(data + wire.encode(Subscribe(1, f"a = {n}", True)))
        if rng.random() < 0.5:
            with suppress(TimeoutError):
                async with asyncio.timeout(READ_S):
                    await reader.read(100)
        writer.transport.abort()


async def false_broker(attacker: Attacker) -> None:
    """Comes as the broker itself, or as one of another version; then makes no sense."""
    rng = attacker.rng
    role = rng.choice(["peer", "parent", "child"])
    known = Greet("tested", rng.randrange(1000), 0, role, "")
    greet = wire.encode(rng.choice([known, Greet("x", 1, 0, role, "", version=77)]))
    await attacker.say(greet + rng.randbytes(rng.randrange(100)))


async def durable_names(attacker: Attacker) -> None:
    """Comes in under ever new names, to be kept for ever."""
    for _ in range(30):
        name = f"kept{attacker.rng.randrange(100_000)}"
        said = wire.encode(Connect(name, 1, durable=True, token="t"))
        await attacker.say(said + wire.encode(Subscribe(1, "zz any", True)), reads=False)


async def advertisements(attacker: Attacker) -> None:
    """Advertises very much, and goes."""
    said = [wire.encode(Advertise(n, f"a = {n}", True)) for n in range(1, 2_000)]
    await attacker.say(attacker.hello() + b"".join(said))


async def table_of_tables(attacker: Attacker) -> None:
    """Very many subscriptions of many filters, one that covers them, and away."""
    rng = attacker.rng
    said = [attacker.hello(), wire.encode(Subscribe(9_999, "a any", True))]
    for n in range(1, 60):
        parts = (f"a = {rng.randrange(10**6)} and b{k} < {n}" for k in range(60))
        said.append(wire.encode(Subscribe(n, " or ".join(parts), True)))
    said.append(wire.encode(Unsubscribe(9_999)))
    await attacker.say(b"".join(said))


async def asks_why(attacker: Attacker) -> None:
    """Has the heaviest explained, again and again."""
    rng = attacker.rng
    said = [attacker.hello()]
    for n in range(1, 30):
        encoded = content.encode(heavy_notification(rng))
        said.append(wire.encode(Explain(n, encoded, 0, heavy_text(rng), True)))
    await attacker.say(b"".join(said))


async def half_gone(attacker: Attacker) -> None:
    """Durable: leaves, comes back at once, and asks again for all that it had."""
    rng = attacker.rng
    name = f"gone{rng.randrange(20)}"
    had = b"".join(wire.encode(Subscribe(n, f"a = {n}", True)) for n in range(1, 300))
    for epoch in (1, 2):
        hello = wire.encode(Connect(name, epoch, durable=True, token="t"))
        await attacker.say(hello + had + wire.encode(Leave(1)), reads=rng.random() < 0.5)


ATTACKS: list[Attack] = [
    noise, frames_of_noise, half_a_frame, mutated_session, heavy_session, stall, slow_reader,
    flood, churn, connection_storm, login_storm, false_broker,
    durable_names, advertisements, table_of_tables, asks_why, half_gone,
]  # fmt: skip


def named(names: str) -> list[Attack]:
    """The attacks of these names, with commas between them.

    >>> [each.__name__ for each in named("noise,stall")]
    ['noise', 'stall']
    """
    by_name = {each.__name__: each for each in ATTACKS}
    return [by_name[name] for name in names.split(",")]


async def attack(
    address: tuple[str, int], seed: int, seconds: float, attacks: Sequence[Attack] = ATTACKS
) -> Counter[str]:
    """Attack with several at once."""
    attackers = [Attacker(address, Random(f"{seed}/{n}"), attacks) for n in range(WORKERS)]
    end = monotonic() + seconds
    await asyncio.gather(*(each.attack_until(end) for each in attackers))
    return sum((each.made for each in attackers), Counter())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("host")
    parser.add_argument("port", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--attacks", type=named, default=ATTACKS, help="names, with commas")
    given = parser.parse_args()
    os.nice(NICE)
    address = (given.host, given.port)
    made = asyncio.run(attack(address, given.seed, given.seconds, given.attacks))
    print(json.dumps(dict(sorted(made.items()))))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
