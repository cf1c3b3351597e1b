"""collection-cost: what do requests for management data cost the broker that answers them?

The thesis (6.4.2, Figures 28 to 30, Tables 18 to 23) has one broker with 500 subscribers of one
filter of 2 to 5 attributes, and asks it 0 to 10 times a minute for its medoids or for its
utilisation, in turns. For each request the broker worked out all its subscribers' medoids: with
ten a minute a subscription took 20 ms, without any 6.6 ms; a publication 700 ms and 6 ms.

Here the broker is a process, and so is the trigger broker it reports to; subscribers are sockets of
a third. A publisher publishes at a steady rate, each notification for one subscriber; another
client subscribes and unsubscribes all the time, so that what the broker has worked out is never
still good. Windows of time with each rate of requests take turns, in another order every round, so
that a disturbance from outside meets all alike. *µs*: processor time of the broker process for
everything it does in a window, by publications. *ms*: from the publisher's socket to the
subscriber's, and from asking to subscribe to the answer. *unmanaged*: the broker without an agent.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path
from subprocess import PIPE
from time import monotonic
from typing import TYPE_CHECKING, Any

from kbn.broker import administration
from kbn.lab.experiment import Experiment, Parameters, Progress, Scale, Table

if TYPE_CHECKING:
    from kbn.transport import Client

ANSWER_S = 30.0
ATTRIBUTES = (2, 5)
UNMANAGED = "unmanaged"
WANTS = (
    "ontClass @> <{here}Contribution>",
    "ontInstance @= <{here}Paper>",
    "pubTime >= 0",
    "text any",
)
RESTLESS_S = 0.1


def run(parameters: Parameters, seed: int, progress: Progress) -> list[Table]:
    import pyarrow as pa

    rows: list[dict[str, Any]] = []
    with _brokers() as urls:
        rows = asyncio.run(_Measuring(parameters, seed, urls, progress).rows())
    return [
        Table("costs", pa.Table.from_pylist(rows), "What requests cost", _NOTES, pa.table(_THEIRS))
    ]


_NOTES = (
    "× none: against the managed broker without requests, in the same run.",
    "Each figure is the median over the windows of one rate.",
)
_THEIRS: dict[str, list[Any]] = {
    "requests a minute": ["0", "10"],
    "publication ms": [6.0, 700.0],
    "subscription ms": [6.6, 20.0],
}


@contextmanager
def _brokers() -> Iterator[dict[str, str]]:
    """A trigger broker, a managed broker and one that is not: their urls."""
    from kbn import data
    from kbn.lab.overlay.broker_bench import started

    content, management = str(data.path("conference")), str(data.path("management"))
    with ExitStack() as stack:

        def start(name: str, ontology: str, *more: str) -> str:
            command = [sys.executable, "-m", "kbn.lab.overlay.broker_process", "--name", name]
            command += ["--ontology", ontology, *more]
            process = stack.enter_context(started(command, stdout=PIPE, text=True))
            assert process.stdout is not None
            pids[name] = str(process.pid)
            return str(process.stdout.readline().strip())

        pids: dict[str, str] = {}
        trigger = start("trigger", management)
        urls = {
            "managed": start("managed", content, "--trigger", trigger),
            UNMANAGED: start(UNMANAGED, content),
        }
        yield {**urls, **{f"{name} pid": pid for name, pid in pids.items()}}


class _Measuring:
    def __init__(
        self, parameters: Parameters, seed: int, urls: dict[str, str], progress: Progress
    ) -> None:
        from random import Random

        self._given = parameters
        self._rng = Random(seed)
        self._urls = urls
        self._progress = progress

    async def rows(self) -> list[dict[str, Any]]:
        from statistics import median

        async with AsyncExitStack() as stack:
            brokers = {name: await self._at(name, stack) for name in ("managed", UNMANAGED)}
            rates = [UNMANAGED, *map(str, self._given["rates"])]
            measured: dict[str, list[dict[str, float]]] = {rate: [] for rate in rates}
            rounds = int(self._given["rounds"])
            for done in range(-1, rounds):  # the first round warms up
                for rate in self._rng.sample(rates, len(rates)):
                    self._progress(f"{rate} requests a minute", max(done, 0), rounds)
                    broker = brokers[UNMANAGED if rate == UNMANAGED else "managed"]
                    figures = await broker.window(0 if rate == UNMANAGED else int(rate))
                    if done >= 0:
                        measured[rate].append(figures)
        middle = {
            rate: {name: median(each[name] for each in windows) for name in windows[0]}
            for rate, windows in measured.items()
        }
        return [_row(rate, figures, middle["0"]) for rate, figures in middle.items()]

    async def _at(self, name: str, stack: AsyncExitStack) -> _Broker:
        broker = _Broker(self._urls[name], int(self._urls[f"{name} pid"]), self._given)
        await broker.begin(stack, self._rng)
        return broker


def _row(rate: str, figures: dict[str, float], none: dict[str, float]) -> dict[str, Any]:
    row: dict[str, Any] = {"requests a minute": rate, **figures}
    for name in ("publication µs", "publication ms", "subscription ms"):
        row[f"{name} × none"] = figures[name] / none[name]
    return row


class _Broker:
    """One broker under a steady load, and who asks it for reports."""

    def __init__(self, url: str, pid: int, given: Parameters) -> None:
        import psutil

        from kbn.lab.overlay.load import Arrivals

        self._url = url
        self._process = psutil.Process(pid)
        self._given = given
        self._arrivals = Arrivals()
        self._asker: Client
        self._restless: Client

    async def begin(self, stack: AsyncExitStack, rng: Any) -> None:
        from kbn import data
        from kbn.lab.overlay.conference_wire import ConferenceWire
        from kbn.transport import connect, parse_url

        place = parse_url(self._url)
        loop = asyncio.get_running_loop()
        here = data.namespace("conference")

        async def attach(name: str, wants: list[str]) -> ConferenceWire:
            made = ConferenceWire(name, wants, self._arrivals)
            await loop.create_connection(lambda: made, place.host, place.port)
            await made.ready
            stack.callback(made.transport.close)
            return made

        for number in range(self._given["subscribers"]):
            more = rng.sample(WANTS, rng.randint(ATTRIBUTES[0] - 1, ATTRIBUTES[1] - 1))
            want = " and ".join([f"to = {number}", *more]).replace("{here}", here)
            await attach(f"s{number}", [want])
        self._publisher = await attach("publisher", [])
        self._asker = await stack.enter_async_context(connect(self._url, name="asker"))
        self._restless = await stack.enter_async_context(connect(self._url, name="restless"))

    async def window(self, requests_a_minute: int) -> dict[str, float]:
        """What a window of time with so many requests a minute shows."""
        from statistics import fmean

        seconds, rate = float(self._given["seconds"]), int(self._given["publications a second"])
        before, self._waits = self._busy(), list[float]()
        beside = [asyncio.ensure_future(self._change())]
        if requests_a_minute:
            beside.append(asyncio.ensure_future(self._ask(60 / requests_a_minute)))
        published = await self._publish(seconds, rate)
        busy = self._busy() - before
        async with asyncio.timeout(ANSWER_S):  # a short window on a busy machine may see none
            while not self._waits:
                await asyncio.sleep(0.01)
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
        return {
            "publication µs": busy / published * 1e6,
            "publication ms": fmean(self._arrivals.latencies) * 1e3,
            "subscription ms": fmean(self._waits) * 1e3,
        }

    async def _publish(self, seconds: float, rate: int) -> int:
        total = max(1, int(seconds * rate))
        self._arrivals.expect(total)
        begun = monotonic()
        for number in range(total):
            wait = begun + number / rate - monotonic()
            if wait > 0:
                await asyncio.sleep(wait)
            await self._publisher.publish([number % self._given["subscribers"]])
        await self._arrivals.reached.wait()
        return total

    async def _change(self) -> None:
        """Subscribe to another thing and give it up again, over and over."""
        from kbn import data

        here = data.namespace("conference")
        names = ("City", "Person", "Event", "Topic")
        for turn in range(10**9):
            asked = monotonic()
            feed = await self._restless.subscribe(f"topic @= <{here}{names[turn % 4]}>")
            self._waits.append(monotonic() - asked)
            await feed.cancel()
            await asyncio.sleep(RESTLESS_S)

    async def _ask(self, every_s: float) -> None:
        kinds = (administration.Report("medoids", groups=2), administration.Report("utilisation"))
        for turn in range(10**9):
            await self._asker.admin(kinds[turn % 2])
            await asyncio.sleep(every_s)

    def _busy(self) -> float:
        times = self._process.cpu_times()
        return float(times.user + times.system)


def plot(tables: Sequence[Table], folder: Path) -> list[Path]:
    from kbn.pages import plots

    rows = [row for row in tables[0].data.to_pylist() if row["requests a minute"] != UNMANAGED]
    lines = {
        name: [(float(row["requests a minute"]), row[f"{name} × none"]) for row in rows]
        for name in ("publication µs", "publication ms", "subscription ms")
    }
    return [
        plots.lines(
            folder / "costs.svg",
            lines,
            title="What requests cost",
            x="requests a minute",
            y="× without requests",
        )
    ]


EXPERIMENT = Experiment(
    name="collection-cost",
    source="thesis, 6.4.2, Figures 28 to 30 and Tables 18 to 23",
    question="what do requests for management data cost the broker that answers them?",
    scales={
        Scale.SMALL: {
            "subscribers": 20, "rates": [0, 1000], "seconds": 0.5, "rounds": 1,
            "publications a second": 100,
        },
        Scale.PAPER: {
            "subscribers": 500, "rates": [0, 5, 10, 100, 1000], "seconds": 8.0,
            "rounds": 7, "publications a second": 300,
        },
        Scale.BEYOND: {
            "subscribers": 5000, "rates": [0, 10, 100, 1000, 10_000], "seconds": 30.0,
            "rounds": 5, "publications a second": 300,
        },
    },
    run=run,
    plot=plot,
)  # fmt: skip
