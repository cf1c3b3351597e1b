"""`kbn bench move`: subscribers move between broker processes while others publish.

Four brokers over TCP: `a` and `b` below a root, `x` below `a`. A publisher at the root goes on at a
steady rate, each notification for one subscriber. The subscribers sit at `x`. First `x` moves with
all of them from `a` to `b`; then they move to `a` one after another, each when the one before has
arrived. In the end every subscriber must have had all that was for it, once, in order.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack, ExitStack
from dataclasses import asdict, dataclass, field
from random import Random
from subprocess import PIPE
from time import monotonic, perf_counter
from typing import Any

from kbn.errors import InvalidInputError, KbnError
from kbn.lab.experiment import Progress, silent
from kbn.lab.measuring import versions
from kbn.lab.overlay.broker_bench import started
from kbn.transport import Client, connect

PATIENCE_S = 120.0
SOURCE_S = {"with their broker": 9.6, "one by one": 16.3}


@dataclass(frozen=True, slots=True)
class Settings:
    """How many move, and how many notifications a second are published meanwhile."""

    subscribers: int = 1_000
    rate: int = 1_000
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.subscribers, self.rate) < 1:
            raise InvalidInputError("subscribers and rate are positive numbers")


@dataclass(frozen=True, slots=True)
class Row:
    """One way of moving. `published` and `received` count from its beginning to its end."""

    how: str
    subscribers: int
    seconds: float
    source_seconds: float
    published: int
    lost: int
    doubled: int
    disordered: int


@dataclass(slots=True)
class Report:
    settings: Settings
    rows: list[Row] = field(default_factory=list)
    machine: dict[str, Any] = field(default_factory=versions)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def run(settings: Settings, progress: Progress = silent) -> Report:
    """Move them both ways, and account for every notification."""
    with ExitStack() as stack:
        urls: dict[str, str] = {}
        for name, parent in (("root", None), ("a", "root"), ("b", "root"), ("x", "a")):
            command = [sys.executable, "-m", "kbn.lab.overlay.broker_process", "--name", name]
            command += ["--routing", "hierarchical"]
            if parent is not None:
                command += ["--parent", urls[parent]]
            process = stack.enter_context(started(command, stdout=PIPE, text=True))
            assert process.stdout is not None
            urls[name] = process.stdout.readline().strip()
        return asyncio.run(_Moving(settings, urls, progress).report())


class _Moving:
    def __init__(self, settings: Settings, urls: dict[str, str], progress: Progress) -> None:
        self.settings = settings
        self.urls = urls
        self.progress = progress
        self.random = Random(settings.seed)
        self.clients: list[Client] = []
        self.got: list[list[int]] = [[] for _ in range(settings.subscribers)]
        self.sent: list[list[int]] = [[] for _ in range(settings.subscribers)]
        self.count = 0
        self.stopping = False

    async def report(self) -> Report:
        report = Report(self.settings)
        async with AsyncExitStack() as stack:
            await self._attach(stack)
            publisher = await stack.enter_async_context(
                connect(self.urls["root"], name="publisher", when_slow="block")
            )
            await publisher.barrier()
            for how, move in (
                ("with their broker", self._move_broker),
                ("one by one", self._move_one_by_one),
            ):
                report.rows.append(await self._measured(how, move, publisher))
            for reader in self.readers:
                reader.cancel()
            await asyncio.gather(*self.readers, return_exceptions=True)
        return report

    async def _attach(self, stack: AsyncExitStack) -> None:
        for n in range(self.settings.subscribers):
            self.progress("attaching", n, self.settings.subscribers)
            client = connect(self.urls["x"], name=f"s{n}")
            self.clients.append(await stack.enter_async_context(client))
        self.readers = [
            asyncio.ensure_future(self._read(n, client)) for n, client in enumerate(self.clients)
        ]
        self.chief = await stack.enter_async_context(connect(self.urls["x"], name="chief"))
        await asyncio.gather(*(client.barrier() for client in self.clients))

    async def _read(self, n: int, client: Client) -> None:
        async for notification in client.subscribe(f"to = {n}"):
            self.got[n].append(int(notification["number"]))  # type: ignore[arg-type]

    async def _measured(self, how: str, move: Any, publisher: Client) -> Row:
        self.progress(how, 0, 0)
        self.stopping = False
        before = self.count
        publishing = asyncio.ensure_future(self._publish(publisher))
        await self._until(lambda: self.count - before >= self.settings.rate // 10)
        started = perf_counter()
        await move()
        seconds = perf_counter() - started
        self.stopping = True
        await publishing
        await publisher.barrier()
        await asyncio.sleep(0.2)
        with_all = sum(map(len, self.sent))
        await self._until(lambda: sum(map(len, self.got)) >= with_all, must=False)
        lost = sum(len(set(s) - set(g)) for s, g in zip(self.sent, self.got, strict=True))
        doubled = sum(len(g) - len(set(g)) for g in self.got)
        disordered = sum(g != sorted(g) for g in self.got)
        subscribers = self.settings.subscribers
        return Row(
            how, subscribers, seconds, SOURCE_S[how], self.count - before, lost, doubled, disordered
        )

    async def _publish(self, publisher: Client) -> None:
        """At a steady rate, until told to stop."""
        started, first = monotonic(), self.count
        while not self.stopping:
            due = first + int((monotonic() - started) * self.settings.rate)
            while self.count < due:
                to = self.random.randrange(self.settings.subscribers)
                self.count += 1
                self.sent[to].append(self.count)
                await publisher.publish({"to": to, "number": self.count})
            await asyncio.sleep(0.002)

    async def _move_broker(self) -> None:
        await self.chief.move_broker(self.urls["b"])
        end = monotonic() + PATIENCE_S
        while not (moved := (await self.chief.status()).moved):
            if monotonic() > end:
                raise KbnError("the broker did not move")
            await asyncio.sleep(0.005)
        if moved[0].trouble:
            raise KbnError(f"the broker did not move: {moved[0].trouble}")

    async def _move_one_by_one(self) -> None:
        for n, client in enumerate(self.clients):
            self.progress("one by one", n, len(self.clients))
            await self.chief.move_clients("a", self.urls["a"], [client.name])
            await self._until(lambda client=client: client.broker == "a" and not client.is_moving)

    async def _until(self, condition: Any, *, must: bool = True) -> None:
        end = monotonic() + PATIENCE_S / (1 if must else 12)
        while not condition():
            if monotonic() > end:
                if must:
                    raise KbnError("a move did not come to its end")
                return
            await asyncio.sleep(0.001)
