"""collection-cost: what do requests for management data cost the broker that answers them?

The thesis (6.4.2, Figures 28 to 30, Tables 18 to 23) has one broker with 500 subscribers of one
filter of 2 to 5 attributes, and asks it 0 to 10 times a minute for its medoids or for its
utilisation, in turns. For each request the broker worked out all its subscribers' medoids: with
ten a minute a subscription took 20 ms, without any 6.6 ms; a publication 700 ms and 6 ms.

Here the broker is a process, and so is the trigger broker it reports to; subscribers are sockets of
a third. A publisher publishes at a steady rate, each notification for one subscriber; another
client subscribes and unsubscribes all the time, so that what the broker has worked out is never
still good. Both kinds of request are measured apart, at each of the source's rates, over ten of
them. A window of time has one request; windows of all rates and kinds take turns in a random order,
so that a disturbance from outside meets all alike. *µs*: processor time of the broker process for
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
KINDS = {
    "medoids": administration.Report("medoids", groups=2),
    "utilisation": administration.Report("utilisation"),
}
"""The source's two kinds of management message."""
Figures = tuple[float, int, list[float], list[float]]
"""Of a window: busy seconds, publications, their times and those of subscriptions."""


def run(parameters: Parameters, seed: int, progress: Progress) -> list[Table]:
    import pyarrow as pa

    rows: list[dict[str, Any]] = []
    with _brokers() as urls:
        rows = asyncio.run(_Measuring(parameters, seed, urls, progress).rows())
    theirs = pa.table(_theirs())
    return [Table("costs", pa.Table.from_pylist(rows), "What requests cost", _NOTES, theirs)]


_NOTES = (
    "× none: against the managed broker without requests, in the same run.",
    "Means over all publications and subscriptions of a row, each with their standard deviation; "
    "error: the deviation over the root of how many there were. The source's standard error is the "
    "sum of its deviations over that root, so it is larger.",
)
# Tables 19, 21 and 23: by kind of message, at 0, 2, 4, 6, 8 and 10 a minute.
THEIR_RATES = (0, 2, 4, 6, 8, 10)
THEIR_ERRORS = {
    ("subscription", "medoids"): (1.65, 11.33, 15.91, 22.94, 29.40, 26.57),
    ("subscription", "utilisation"): (3.98, 55.46, 44.83, 63.45, 70.57, 81.64),
    ("publication", "medoids"): (3.28, 253.15, 313.50, 347.56, 388.20, 409.66),
    ("publication", "utilisation"): (3.03, 258.92, 299.95, 388.98, 401.77, 408.73),
    ("end to end", "medoids"): (7.04, 258.89, 314.09, 358.83, 392.55, 399.27),
    ("end to end", "utilisation"): (8.63, 271.38, 343.20, 358.98, 396.98, 406.80),
}
# What the text says of Figures 28 to 30.
THEIR_MEANS = {"subscription": (6.6, 20.0), "publication": (6.0, 700.0), "end to end": (6.0, 700.0)}


def _theirs() -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {"requests a minute": [str(rate) for rate in THEIR_RATES]}
    for what, (none, ten) in THEIR_MEANS.items():
        found[f"{what} ms"] = [none, None, None, None, None, ten]
    for (what, kind), errors in THEIR_ERRORS.items():
        found[f"{what}, {kind}, error"] = list(errors)
    return found


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
        given = self._given
        async with AsyncExitStack() as stack:
            brokers = {name: await self._at(name, stack) for name in ("managed", UNMANAGED)}
            for broker in brokers.values():  # warm up
                await broker.window("", float(given["rest s"]))
            setups = [(UNMANAGED, 0), ("", 0)]
            setups += [(kind, rate) for kind in KINDS for rate in given["rates"] if rate]
            windows = [setup for setup in setups for _ in range(given["requests"])]
            self._rng.shuffle(windows)
            measured: dict[tuple[str, int], list[Figures]] = {setup: [] for setup in setups}
            for done, (kind, rate) in enumerate(windows):
                self._progress("windows", done, len(windows))
                broker = brokers[UNMANAGED if kind == UNMANAGED else "managed"]
                seconds = 60 / rate if rate else float(given["rest s"])
                asked = kind if kind in KINDS else ""
                measured[kind, rate].append(await broker.window(asked, seconds))
        none = _together(measured["", 0])
        return [_row(*setup, _together(found), none) for setup, found in measured.items()]

    async def _at(self, name: str, stack: AsyncExitStack) -> _Broker:
        broker = _Broker(self._urls[name], int(self._urls[f"{name} pid"]), self._given)
        await broker.begin(stack, self._rng)
        return broker


def _together(windows: list[Figures]) -> dict[str, float]:
    """Means, deviations and errors over the windows of a row."""
    from statistics import fmean, pstdev

    busy, published = sum(each[0] for each in windows), sum(each[1] for each in windows)
    found = {"publication µs": busy / published * 1e6}
    all_times = {
        "publication": [seconds * 1e3 for each in windows for seconds in each[2]],
        "subscription": [seconds * 1e3 for each in windows for seconds in each[3]],
    }
    for name, times in all_times.items():
        found[f"{name} ms"] = fmean(times)
        found[f"{name} sd"] = pstdev(times)
        found[f"{name} error"] = pstdev(times) / len(times) ** 0.5
    return found


def _row(kind: str, rate: int, figures: dict[str, float], none: dict[str, float]) -> dict[str, Any]:
    told = UNMANAGED if kind == UNMANAGED else str(rate)
    row: dict[str, Any] = {"requests a minute": told, "kind": kind or "none", **figures}
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

    async def window(self, kind: str, seconds: float) -> Figures:
        """A window of time, with a request of this kind at its beginning if there is one."""
        rate = int(self._given["publications a second"])
        before, self._waits = self._busy(), list[float]()
        beside: list[asyncio.Future[Any]] = [asyncio.ensure_future(self._change())]
        if kind:
            beside.append(asyncio.ensure_future(self._asker.admin(KINDS[kind])))
        published = await self._publish(seconds, rate)
        busy = self._busy() - before
        async with asyncio.timeout(ANSWER_S):  # a short window on a busy machine may see none
            while not self._waits:
                await asyncio.sleep(0.01)
        beside[0].cancel()
        await asyncio.gather(*beside, return_exceptions=True)
        return busy, published, list(self._arrivals.latencies), self._waits

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

    def _busy(self) -> float:
        times = self._process.cpu_times()
        return float(times.user + times.system)


def plot(tables: Sequence[Table], folder: Path) -> list[Path]:
    from kbn.pages import plots

    rows = [row for row in tables[0].data.to_pylist() if row["requests a minute"] != UNMANAGED]
    lines = {
        f"{name}, {kind}": [
            (float(row["requests a minute"]), row[f"{name} × none"])
            for row in rows
            if row["kind"] in ("none", kind)
        ]
        for name in ("publication µs", "publication ms", "subscription ms")
        for kind in KINDS
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
            "subscribers": 20, "rates": [0, 240], "requests": 1, "rest s": 0.25,
            "publications a second": 100,
        },
        Scale.PAPER: {
            "subscribers": 500, "rates": [0, 2, 4, 6, 8, 10], "requests": 10, "rest s": 6.0,
            "publications a second": 100,
        },
        Scale.BEYOND: {
            "subscribers": 5000, "rates": [0, 10, 100, 1000], "requests": 100, "rest s": 6.0,
            "publications a second": 300,
        },
    },
    run=run,
    plot=plot,
)  # fmt: skip
