"""A bystander: publishes to itself all the time, misses nothing, and measures how long it takes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from time import perf_counter

import kbn


@dataclass
class Bystander:
    """Counts and latencies of one honest client."""

    url: str
    every_s: float = 0.01
    sent: int = 0
    heard: int = 0
    out_of_order: int = 0
    latencies_s: list[float] = field(default_factory=list)

    async def live(self, until: asyncio.Event) -> None:
        """Publish until told to stop; then hear the rest."""
        async with kbn.connect(self.url, name="bystander") as client:
            feed = await client.subscribe('who = "bystander"')
            hearing = asyncio.create_task(self._hear(feed))
            while not until.is_set():
                self.sent += 1
                await client.publish({"who": "bystander", "n": self.sent, "at": perf_counter()})
                await asyncio.sleep(self.every_s)
            async with asyncio.timeout(60):
                await client.publish({"who": "bystander", "n": 0, "at": 0.0})
                await hearing

    async def _hear(self, feed: kbn.Feed) -> None:
        async for notification in feed:
            if notification["n"] == 0:
                return
            self.heard += 1
            self.out_of_order += notification["n"] != self.heard
            self.latencies_s.append(perf_counter() - float(notification["at"]))  # type: ignore[arg-type]

    def latency_ms(self, share: float) -> float:
        """What this share of its notifications stayed below, in milliseconds.

        >>> Bystander("", latencies_s=[0.001, 0.002, 0.003, 0.1]).latency_ms(0.5)
        2.0
        """
        ordered = sorted(self.latencies_s)
        place = min(len(ordered) - 1, max(0, round(share * len(ordered)) - 1))
        return round(1000 * ordered[place], 1)

    def report(self) -> str:
        shown = ", ".join(
            f"{name} {self.latency_ms(share)} ms"
            for name, share in (
                ("p50", 0.5),
                ("p90", 0.9),
                ("p99", 0.99),
                ("p99.9", 0.999),
                ("max", 1),
            )
        )
        return f"bystander: {self.heard} of {self.sent} heard; {shown}"
