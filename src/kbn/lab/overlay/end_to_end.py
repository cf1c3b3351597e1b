"""How long a notification takes from one socket to another through one broker.

The broker is a process of its own; a hundred sockets hold the subscriptions, another publishes. One
notification at a time is on its way, so nothing waits behind another: what is measured is reading,
matching, writing and two ways over loopback.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from statistics import fmean, pstdev
from subprocess import PIPE
from typing import TYPE_CHECKING

from kbn.broker import content
from kbn.lab.overlay.broker_bench import started
from kbn.lab.overlay.load import PATIENCE_S, Arrivals, KbnWire
from kbn.transport import parse_url

if TYPE_CHECKING:
    from kbn.filters import Notification, Subscription

SOCKETS = 100
WARMING = 20


@dataclass(frozen=True, slots=True)
class EndToEnd:
    """Of the notifications somebody wanted: how many, mean and deviation of their times."""

    delivered: int
    mean_ms: float
    sd_ms: float


class _Publisher(KbnWire):
    """A client with its notifications made beforehand."""

    contents: Sequence[bytes] = ()

    def content(self, target: int, number: int) -> bytes:
        return self.contents[target]


def end_to_end(
    subscriptions: Sequence[Subscription],
    wanted: Sequence[tuple[Notification, bool]],
    ontology: str,
) -> EndToEnd:
    """Publish each notification, one after the other; `wanted` says whether one subscriber has it.

    The first few are sent once more beforehand, so that no import and no first touch is measured.
    """
    command = [sys.executable, "-m", "kbn.lab.overlay.broker_process", "--ontology", ontology]
    with started(command, stdout=PIPE, text=True) as process:
        assert process.stdout is not None
        url = str(process.stdout.readline().strip())
        return asyncio.run(_measured(url, subscriptions, wanted))


async def _measured(
    url: str, subscriptions: Sequence[Subscription], wanted: Sequence[tuple[Notification, bool]]
) -> EndToEnd:
    arrivals = Arrivals()
    place = parse_url(url)
    loop = asyncio.get_running_loop()
    texts = [subscription.to_text() for subscription in subscriptions]
    async with AsyncExitStack() as stack:

        async def attach(made: KbnWire) -> None:
            await loop.create_connection(lambda: made, place.host, place.port)
            await made.ready
            stack.callback(made.transport.close)

        for number in range(min(SOCKETS, len(texts))):
            await attach(KbnWire(f"s{number}", texts[number::SOCKETS], arrivals))
        publisher = _Publisher("publisher", [], arrivals)
        publisher.contents = [content.encode(each.attributes) for each, _ in wanted]
        await attach(publisher)
        await _publish(publisher, arrivals, wanted[:WARMING])
        times = await _publish(publisher, arrivals, wanted)
    return EndToEnd(len(times), fmean(times) * 1e3, pstdev(times) * 1e3)


async def _publish(
    publisher: KbnWire, arrivals: Arrivals, wanted: Sequence[tuple[Notification, bool]]
) -> list[float]:
    times: list[float] = []
    for number, (_, is_wanted) in enumerate(wanted):
        arrivals.expect(1)
        await publisher.publish([number])
        if is_wanted:
            async with asyncio.timeout(PATIENCE_S):
                await arrivals.reached.wait()
            times += arrivals.latencies
    return times
