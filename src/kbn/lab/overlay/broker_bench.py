"""`kbn bench broker`: how much one broker carries, and how fast, beside a plain topic broker.

A broker process on one core, all clients in this process on the other, over loopback. First as many
notifications as go through, never more than a few thousand on their way; then at half that rate,
evenly, for the latency. Each notification goes to one subscriber. The topic broker (mosquitto) gets
payloads of the same size on a topic for each subscriber, in the same run.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import monotonic, perf_counter
from typing import Any
from urllib.parse import urlsplit

import psutil

from kbn.errors import InvalidInputError, KbnError
from kbn.lab.experiment import Progress, silent
from kbn.lab.measuring import quantile, versions
from kbn.lab.overlay.load import IN_FLIGHT_MAX, PATIENCE_S, Arrivals, KbnWire, MqttWire

CHUNK = 100


@dataclass(frozen=True, slots=True)
class Settings:
    """`subscribers`: one row each. `loaded` subscriptions, held by a hundred clients, make one
    more row. `topics` runs mosquitto beside, if it is there.
    """

    subscribers: tuple[int, ...] = (1, 100, 10_000)
    loaded: int = 1_000_000
    notifications: int = 100_000
    topics: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        if min((*self.subscribers, self.notifications)) < 1 or self.loaded < 0:
            raise InvalidInputError("subscribers and notifications are positive numbers")


@dataclass(frozen=True, slots=True)
class Row:
    """One broker with one number of subscribers."""

    broker: str
    subscribers: int
    subscriptions: int
    per_second: float
    broker_cpu_us: float
    p50_ms: float
    p99_ms: float
    at_rate: float
    loading_s: float
    memory_bytes: int


@dataclass(slots=True)
class Report:
    settings: Settings
    rows: list[Row] = field(default_factory=list)
    machine: dict[str, Any] = field(default_factory=versions)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def run(settings: Settings, progress: Progress = silent) -> Report:
    """Measure every row."""
    report = Report(settings)
    cases = [(number, 1) for number in settings.subscribers]
    if settings.loaded:
        cases.append((100, max(1, settings.loaded // 100)))
    brokers = [kbn_broker]
    if settings.topics and shutil.which("mosquitto"):
        brokers.append(mosquitto)
    _allow_sockets(max(settings.subscribers))
    for done, (subscribers, each) in enumerate(cases):
        for broker in brokers:
            progress(f"{broker.__name__}, {subscribers * each:,} subscriptions", done, len(cases))
            with broker() as (process, address, kind):
                load = _Load(settings, process, address, kind, subscribers, each)
                report.rows.append(asyncio.run(load.measure(broker.__name__)))
    return report


Started = tuple[psutil.Process, tuple[str, int], Callable[..., Any]]


@contextmanager
def kbn_broker() -> Iterator[Started]:
    command = [sys.executable, "-m", "kbn.lab.overlay.broker_process"]
    with started(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = urlsplit(process.stdout.readline().strip())
        if url.port is None:
            raise KbnError("the broker process did not start")
        yield psutil.Process(process.pid), ("127.0.0.1", url.port), KbnWire


@contextmanager
def mosquitto() -> Iterator[Started]:
    with ExitStack() as stack:
        place = Path(stack.enter_context(TemporaryDirectory(prefix="kbn-mosquitto-")))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        config = place / "mosquitto.conf"
        config.write_text(
            f"listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n"
            "set_tcp_nodelay true\npersistence false\n"
        )
        command = ["mosquitto", "-c", str(config)]
        process = stack.enter_context(started(command, stderr=subprocess.DEVNULL))
        _wait_for(port)
        yield psutil.Process(process.pid), ("127.0.0.1", port), MqttWire


@contextmanager
def started(command: list[str], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    process = subprocess.Popen(command, **options)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _wait_for(port: int) -> None:
    end = monotonic() + 10
    while monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
    raise KbnError("mosquitto did not start")


class _Load:
    def __init__(
        self,
        settings: Settings,
        process: psutil.Process,
        address: tuple[str, int],
        kind: Callable[..., Any],
        subscribers: int,
        each: int,
    ) -> None:
        self.settings = settings
        self.process = process
        self.address = address
        self.kind = kind
        self.subscribers = subscribers
        self.each = each
        self.random = Random(settings.seed)

    async def measure(self, broker: str) -> Row:
        self.arrivals = Arrivals()
        self.wires: list[Any] = []
        try:
            return await self._measured(broker)
        finally:
            for wire in self.wires:
                wire.transport.abort()
            await asyncio.sleep(0)

    async def _measured(self, broker: str) -> Row:
        started = perf_counter()
        await self._subscribe()
        self.publisher = await self._connect("publisher", [])
        await self._all_at_once(min(2_000, self.settings.notifications))  # warm up
        loading_s = perf_counter() - started
        cpu = _cpu_s(self.process)
        seconds = await self._all_at_once(self.settings.notifications)
        cpu = _cpu_s(self.process) - cpu
        rate = self.settings.notifications / seconds
        await self._evenly(rate / 2)
        latencies = self.arrivals.latencies
        return Row(
            broker,
            self.subscribers,
            self.subscribers * self.each,
            rate,
            cpu / self.settings.notifications * 1e6,
            quantile(latencies, 0.5) * 1e3,
            quantile(latencies, 0.99) * 1e3,
            rate / 2,
            loading_s,
            self.process.memory_info().rss,
        )

    async def _subscribe(self) -> None:
        text = "to/{}" if self.kind is MqttWire else "to = {}"
        for start in range(0, self.subscribers, 200):
            numbers = range(start, min(start + 200, self.subscribers))
            await asyncio.gather(
                *(
                    self._connect(
                        f"s{n}",
                        [text.format(n * self.each + m) for m in range(self.each)],
                    )
                    for n in numbers
                )
            )

    async def _connect(self, name: str, wants: list[str]) -> Any:
        loop = asyncio.get_running_loop()
        _, made = await loop.create_connection(
            lambda: self.kind(name, wants, self.arrivals), *self.address
        )
        self.wires.append(made)
        await asyncio.wait_for(made.ready, PATIENCE_S + self.subscribers * self.each / 2_000)
        return made

    async def _all_at_once(self, count: int) -> float:
        """Publish so many as fast as they arrive; how long it took."""
        started = perf_counter()
        self.arrivals.expect(count)
        first = self.arrivals.count
        for sent in range(0, count, CHUNK):
            while sent - (self.arrivals.count - first) > IN_FLIGHT_MAX:
                self.arrivals.moved.clear()
                await asyncio.wait_for(self.arrivals.moved.wait(), PATIENCE_S)
            await self.publisher.publish(self._targets(min(CHUNK, count - sent)))
            await asyncio.sleep(0)
        await asyncio.wait_for(self.arrivals.reached.wait(), PATIENCE_S)
        return perf_counter() - started

    async def _evenly(self, rate: float) -> None:
        """Publish at a steady rate, a few at a time."""
        count = int(min(self.settings.notifications, rate * 5))
        self.arrivals.expect(count)
        started, sent = monotonic(), 0
        while sent < count:
            due = min(count, int((monotonic() - started) * rate) + 1)
            if due > sent:
                await self.publisher.publish(self._targets(due - sent))
                sent = due
            await asyncio.sleep(0.0005)
        await asyncio.wait_for(self.arrivals.reached.wait(), PATIENCE_S)

    def _targets(self, count: int) -> list[int]:
        last = self.subscribers * self.each
        return [self.random.randrange(last) for _ in range(count)]


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _allow_sockets(count: int) -> None:
    """Raise the limit on open files as far as it takes; children inherit it."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(hard, max(soft, count + 1_000))
    if wanted < count + 100:
        raise KbnError(
            f"{count} subscribers need as many open files; this system allows {hard} "
            f"(ulimit -Hn, for user {os.getuid()})"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
