"""A whole overlay on one machine: a process per broker, for trying out.

Brokers are started as soon as those they connect to listen, and are all told to end together.
Nothing is restarted: what happens when a broker dies is what one wants to see.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from kbn.errors import TransportError
from kbn.transport.topology_file import OverlayPlan, PlannedBroker

LOOK_EVERY_S = 0.1
END_S = 10.0
LINE_BYTES_MAX = 1 << 20
ERRORS_KEPT = 20

Say = Callable[[str, str], None]  # a broker's name, and a line of its log


@dataclass(slots=True)
class RunningBroker:
    """One broker's process; `url` and `http` are known once it listens."""

    plan: PlannedBroker
    process: Process
    url: str = ""
    http: str = ""
    is_expected_to_end: bool = False
    last_lines: list[str] = field(default_factory=list)
    forwarding: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return self.plan.name

    @property
    def last_words(self) -> str:
        """Why it ended, as far as it said so."""
        text = "\n".join(self.last_lines)
        return text.partition("error: ")[2] or text or f"exit code {self.process.returncode}"

    @property
    def pid(self) -> int:
        return self.process.pid


class Overlay:
    """The brokers of a plan, as processes. Use it with `async with`: at the end all of them end."""

    def __init__(
        self, plan: OverlayPlan, say: Say, *, log_format: str = "text", log_level: str = "info"
    ) -> None:
        self._plan = plan
        self._say = say
        self._log = ("--log-format", log_format, "--log-level", log_level)
        self.brokers: dict[str, RunningBroker] = {}

    async def __aenter__(self) -> Overlay:
        return self

    async def __aexit__(self, *details: object) -> None:
        await self.end()

    async def start(self, timeout_s: float) -> None:
        """Start all; returns when every broker is healthy: it knows what all others want."""
        if self._plan.store is not None:
            self._plan.store.mkdir(parents=True, exist_ok=True)
        try:
            async with asyncio.timeout(timeout_s):
                await self._start_all()
                for running in self.brokers.values():
                    await self._or_its_end(running, self._healthy(running))
        except TimeoutError:
            late = await self._late()
            raise TransportError(
                f"not up within {timeout_s:g} s; give it more time with --wait\n  "
                + "\n  ".join(late)
            ) from None

    def watched(self) -> list[RunningBroker]:
        """The brokers whose end is told."""
        return list(self.brokers.values())

    async def died(self) -> RunningBroker | None:
        """The next broker that ends without being told to; None when none is left."""
        alive = [each for each in self.watched() if not each.is_expected_to_end]
        if not alive:
            return None
        waits = {asyncio.ensure_future(each.process.wait()): each for each in alive}
        try:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        dead = waits[done.pop()]
        dead.is_expected_to_end = True
        return dead

    def again(self, name: str) -> tuple[str, ...]:
        """The command that starts a broker again where it was: after `kbn`."""
        dead = self.brokers[name]
        port, metrics_port = (urlsplit(url).port or 0 for url in (dead.url, dead.http))
        plan = replace(dead.plan, port=port, metrics_port=metrics_port)
        return ("broker", *self._options(plan))

    async def end(self) -> None:
        """Have all brokers end; those that do not are killed."""
        for each in self.brokers.values():
            each.is_expected_to_end = True
            tell(each.process, signal.SIGTERM)
        waits = [asyncio.ensure_future(each.process.wait()) for each in self.brokers.values()]
        if waits:
            await asyncio.wait(waits, timeout=END_S)
        for each in self.brokers.values():
            tell(each.process, signal.SIGKILL)
        await asyncio.gather(*waits)
        await asyncio.gather(
            *(each.forwarding for each in self.brokers.values() if each.forwarding)
        )

    # Starting.

    async def _start_all(self) -> None:
        waiting = list(self._plan.brokers)
        while waiting:
            ready = [each for each in waiting if all(link in self.brokers for link in each.links)]
            waiting = [each for each in waiting if each not in ready]
            started = [await self._started(each) for each in ready]
            for running in started:
                await self._or_its_end(running, self._listening(running))

    async def _started(self, broker: PlannedBroker) -> RunningBroker:
        process = await start_command("broker", "--json", *self._options(broker))
        running = self.brokers[broker.name] = RunningBroker(broker, process)
        running.forwarding = asyncio.ensure_future(self._forward(running))
        return running

    def _options(self, broker: PlannedBroker) -> list[str]:
        plan = self._plan
        options = [
            "--name", broker.name, "--host", plan.host, "--port", str(broker.port),
            "--metrics-port", str(broker.metrics_port), "--routing", plan.routing, *self._log,
        ]  # fmt: skip
        role = "--parent" if plan.routing == "hierarchical" else "--peer"
        for link in broker.links:
            options += [role, self.brokers[link].url]
        for path in plan.ontology:
            options += ["--ontology", str(path)]
        if plan.ontology:
            options += ["--reasoning", plan.reasoning]
        if plan.advertisements:
            options.append("--advertisements")
        if plan.unknown_terms != "tell":
            options += ["--unknown-terms", plan.unknown_terms]
        if plan.store is not None:
            options += ["--store", str(plan.store / f"{broker.name}.db")]
        if plan.access is not None:
            options += ["--access", str(plan.access)]
        return options

    async def _listening(self, running: RunningBroker) -> None:
        assert running.process.stdout is not None
        line = await running.process.stdout.readline()
        if not line:
            await asyncio.Event().wait()  # it ends, and that is noticed elsewhere
        told = json.loads(line)
        running.url = told["url"]
        running.http = told["metrics"].removesuffix("/metrics")

    async def _healthy(self, running: RunningBroker) -> None:
        while True:
            is_well, _ = await ask_health(running.http)
            if is_well:
                return
            await asyncio.sleep(LOOK_EVERY_S)

    async def _late(self) -> list[str]:
        found = []
        for each in self.brokers.values():
            if not each.http:
                found.append(f"{each.name}: does not listen yet")
                continue
            is_well, about = await ask_health(each.http)
            if not is_well:
                found.append(f"{each.name}: waits for {'; '.join(about.get('waiting_for', []))}")
        return found

    async def _or_its_end(self, running: RunningBroker, work: Awaitable[None]) -> None:
        """Wait for something about a broker, unless it ends before."""
        doing, ended = asyncio.ensure_future(work), asyncio.ensure_future(running.process.wait())
        try:
            await asyncio.wait({doing, ended}, return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                doing.result()
                return
        finally:
            doing.cancel()
            ended.cancel()
        assert running.forwarding is not None
        await running.forwarding
        raise TransportError(f"broker {running.name} did not start: {running.last_words}")

    async def _forward(self, running: RunningBroker) -> None:
        """Pass on what a broker logs, its name in front."""
        assert running.process.stderr is not None
        while True:
            try:
                line = await running.process.stderr.readline()
            except ValueError:  # longer than any of ours
                continue
            if not line:
                return
            text = line.decode("utf-8", "replace").rstrip("\n")
            running.last_lines = [*running.last_lines[-ERRORS_KEPT:], text]
            self._say(running.name, text)


async def start_command(*command: str, module: str = "kbn") -> Process:
    """A kbn command, or another module of it, as a process that ends with us."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *command, "--end-with-stdin"),
        stdin=PIPE, stdout=PIPE, stderr=PIPE, limit=LINE_BYTES_MAX,
        start_new_session=True,  # Ctrl-C is for us: we tell them when to end
    )  # fmt: skip


def tell(process: Process, number: int) -> None:
    """Send a signal to a process, unless it has ended."""
    # Not `process.terminate()`: that may collect the exit code before asyncio does, and lose it.
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)


async def ask_health(url: str) -> tuple[bool, dict[str, Any]]:
    """What a broker's `/health` says; not well when nobody answers."""
    parts = urlsplit(url)
    try:
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        try:
            writer.write(f"GET /health HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode())
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        finally:
            writer.close()
        return head.startswith(b"HTTP/1.1 200 "), json.loads(body)
    except (OSError, ValueError):
        return False, {}
