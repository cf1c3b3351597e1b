"""A managed overlay on one machine: a trigger broker, brokers that report to it, and companions.

Companions are processes that belong to the overlay and are no brokers: a policy server, a simulated
population. What they print is passed on, and one that ends can be started again.
"""

from __future__ import annotations

import asyncio
import signal
from asyncio.subprocess import Process
from collections.abc import Callable
from dataclasses import dataclass, replace

from kbn.management import terms
from kbn.transport.processes import END_S, Overlay, RunningBroker, Say, start_command, tell
from kbn.transport.topology_file import OverlayPlan, PlannedBroker

TRIGGER = "trigger"


@dataclass(slots=True)
class Companion:
    """A process beside the brokers; `command` starts it (again)."""

    name: str
    command: Callable[[], tuple[str, ...]]
    module: str = "kbn"
    process: Process | None = None
    forwarding: asyncio.Task[None] | None = None


class ManagedOverlay(Overlay):
    """The brokers of a plan, managed: `trigger` is where they report once `start` has returned."""

    def __init__(
        self, plan: OverlayPlan, say: Say, *, log_format: str = "text", log_level: str = "info"
    ) -> None:
        super().__init__(plan, say, log_format=log_format, log_level=log_level)
        self._says = say
        # The trigger broker is alone, and does not route for the others.
        alone = PlannedBroker(TRIGGER, plan.managed.trigger_port, 0, ())
        its_plan = replace(
            plan, routing="acyclic", ontology=(terms.path(),), reasoning="rdfs",
            advertisements=False, unknown_terms="tell", store=None, brokers=(alone,),
        )  # fmt: skip
        self._trigger = Overlay(its_plan, say, log_format=log_format, log_level=log_level)
        self.companions: dict[str, Companion] = {}
        self._is_ending = False

    @property
    def trigger(self) -> RunningBroker:
        return self._trigger.brokers[TRIGGER]

    def watched(self) -> list[RunningBroker]:
        """The brokers, and last the trigger broker."""
        return [*super().watched(), *self._trigger.watched()]

    async def start(self, timeout_s: float) -> None:
        """Start the trigger broker and then all others."""
        await self._trigger.start(timeout_s)
        await super().start(timeout_s)

    async def join(self, companion: Companion) -> None:
        """Start a companion; one that runs is left alone."""
        known = companion.process
        if known is not None and known.returncode is None:
            return
        self.companions[companion.name] = companion
        process = await start_command(*companion.command(), module=companion.module)
        companion.process = process
        companion.forwarding = asyncio.ensure_future(self._pass_on(companion.name, process))

    async def end(self) -> None:
        """Have companions end before the brokers they talk to."""
        self._is_ending = True
        running = [each.process for each in self.companions.values() if each.process is not None]
        await end_all(running)
        await asyncio.gather(
            *(each.forwarding for each in self.companions.values() if each.forwarding)
        )
        await super().end()
        await self._trigger.end()

    def _options(self, broker: PlannedBroker) -> list[str]:
        settings = self._plan.managed.settings.arguments()
        return [*super()._options(broker), "--trigger", self.trigger.url, *settings]

    async def _pass_on(self, name: str, process: Process) -> None:
        await asyncio.gather(
            *(self._lines(name, stream) for stream in (process.stdout, process.stderr) if stream)
        )
        code = await process.wait()
        if not self._is_ending:
            self._says(name, f"has ended: exit code {code}")

    async def _lines(self, name: str, stream: asyncio.StreamReader) -> None:
        while True:
            try:
                line = await stream.readline()
            except ValueError:  # longer than any of ours
                continue
            if not line:
                return
            self._says(name, line.decode("utf-8", "replace").rstrip("\n"))


async def end_all(processes: list[Process]) -> None:
    """Have processes end; those that do not are killed."""
    for process in processes:
        tell(process, signal.SIGTERM)
    waits = [asyncio.ensure_future(process.wait()) for process in processes]
    if waits:
        await asyncio.wait(waits, timeout=END_S)
    for process in processes:
        tell(process, signal.SIGKILL)
    await asyncio.gather(*waits)
