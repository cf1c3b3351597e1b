"""What a unit of work costs: CPU time of a node, turn by turn, for each kind of what clients say.

`python -m tests.long.unit_costs [NAME …]` drives a node in this process, without sockets, its store
in a file. For each trial it prints microseconds per unit: of all turns, and of the worst turn that
did a good part of what a turn may. A unit is meant to be a microsecond (`broker/work.py`).
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path
from time import thread_time

from kbn.broker import Node, NodeSettings, SqliteStore, content, warm_up, wire
from kbn.broker.messages import (
    Advertise,
    Alive,
    AnyMessage,
    Connect,
    Credit,
    Explain,
    Leave,
    Publish,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from kbn.broker.node import effects, events
from kbn.transport import GarbageSearch

SAID_AT_ONCE = 64
A_GOOD_PART = 4_000  # units of a turn whose ratio counts


class Trial:
    """A node, and what its turns cost while `measures`."""

    def __init__(self, folder: str) -> None:
        self.store = SqliteStore(Path(folder) / "store.db")
        self.node = Node(NodeSettings("b", store=self.store), 1.0)
        self.node.start(1.0)
        self.ids = count(1)
        self.now = 1.0
        self.measures = False
        self.cpu = self.units = self.worst = self.largest = 0.0
        self.garbage = GarbageSearch()
        self.garbage.begin()

    def turn(self, *happened: events.Event) -> None:
        before, begun = self.node.turns.work, thread_time()
        for effect in self.node.handle(happened, self.now):
            if isinstance(effect, effects.Send):
                b"".join(map(wire.encode, effect.messages))
        cpu, units = thread_time() - begun, self.node.turns.work - before
        self.now += 0.001
        self.garbage.go_on()
        if self.measures:
            self.cpu += cpu
            self.units += units
            self.largest = max(self.largest, cpu)
            if units > A_GOOD_PART:
                self.worst = max(self.worst, 1e6 * cpu / units)

    def rest(self) -> None:
        for _ in range(1_000_000):
            if not self.node.has_more:
                return
            self.turn()

    def come(self, name: str = "c", **given: object) -> int:
        id = next(self.ids)
        self.turn(events.Opened(id, "127.0.0.1:1", None, None))
        self.say(id, [Connect(name, 1, **given)])  # type: ignore[arg-type]
        return id

    def say(self, id: int, messages: Iterable[AnyMessage]) -> None:
        """Say all of it; some at a time, as fast as it is taken."""
        frames = [wire.encode(each)[wire.HEADER_BYTES :] for each in messages]
        for first in range(0, len(frames), SAID_AT_ONCE):
            self.turn(events.Received(id, frames[first : first + SAID_AT_ONCE]))
            self.rest()
            self.turn(events.Tick())
            self.rest()


# What is said.


def equalities(size: int) -> Iterator[str]:
    return (f"k = {n}" for n in range(size))


def texts(size: int) -> Iterator[str]:
    return (f"k = 'text{n}' and l >* 'p{n % 5000}' and m != 'x{n}'" for n in range(size))


def ranges(size: int) -> Iterator[str]:
    return (
        f"a > {n % 977} and b < {n % 1009} and c > {n / 7} and c < {n / 7 + 5}" for n in range(size)
    )


def alternatives(size: int) -> Iterator[str]:
    return (" or ".join(f"k{m} = {n} and l{m} < {n}" for m in range(64)) for n in range(size))


def same_alternatives(size: int) -> Iterator[str]:
    """Few attributes; each constant is another."""
    return (" or ".join(f"a = {64 * n + m} and b < {n}" for m in range(64)) for n in range(size))


def long_ones(size: int) -> Iterator[str]:
    return (" and ".join(f"k{n}x{m} = {m}" for m in range(100)) for n in range(size))


def large_bags(size: int) -> Iterator[str]:
    return ("b #> {" + ", ".join(f"'{m}y{n}'" for m in range(500)) + "}" for n in range(size))


def paired_bags(size: int) -> Iterator[str]:
    return ("b #>/* {" + ", ".join(f"'{m}y{n}'" for m in range(128)) + "}" for n in range(size))


def negations(size: int) -> Iterator[str]:
    return ("not (" * 30 + f"a = {n} or b < {n} and c = 'x'" + ")" * 30 for n in range(size))


def distributed(size: int) -> Iterator[str]:
    """Becomes 64 filters when it is normalised."""
    return (" and ".join(f"(a{m} = {n} or b{m} = {n})" for m in range(6)) for n in range(size))


SHAPES: dict[str, tuple[Callable[[int], Iterator[str]], int]] = {
    "equalities": (equalities, 4_000),
    "texts": (texts, 2_000),
    "ranges": (ranges, 2_000),
    "alternatives": (alternatives, 100),
    "same-alternatives": (same_alternatives, 200),
    "long-ones": (long_ones, 100),
    "large-bags": (large_bags, 60),
    "paired-bags": (paired_bags, 100),
    "negations": (negations, 400),
    "distributed": (distributed, 200),
}

Attempt = Callable[[Trial], None]


def subscribing(shape: str, *, durable: bool = False, neighbours: int = 0) -> Attempt:
    def attempt(trial: Trial) -> None:
        made, size = SHAPES[shape]
        for n in range(neighbours):
            trial.node.broker.link(f"neighbour{n}")
        id = trial.come(durable=durable)
        said = [Subscribe(n, text, True) for n, text in enumerate(made(size), 1)]
        trial.measures = True
        trial.say(id, said)

    return attempt


def unsubscribing(shape: str, *, durable: bool = False, neighbours: int = 0) -> Attempt:
    def attempt(trial: Trial) -> None:
        subscribing(shape, durable=durable, neighbours=neighbours)(trial)
        _, size = SHAPES[shape]
        trial.cpu = trial.units = trial.worst = trial.largest = 0
        trial.say(1, map(Unsubscribe, range(1, size + 1)))

    return attempt


def going(shape: str) -> Attempt:
    def attempt(trial: Trial) -> None:
        subscribing(shape)(trial)
        trial.cpu = trial.units = trial.worst = trial.largest = 0
        trial.turn(events.Closed(1))
        trial.rest()

    return attempt


def advertising(trial: Trial) -> None:
    id = trial.come()
    trial.measures = True
    trial.say(id, [Advertise(n, f"k = {n}", True) for n in range(1, 3_000)])
    trial.say(id, [Unadvertise(n) for n in range(1, 3_000)])


def publishing(durable: bool, clients: int, content_of: Callable[[int], object]) -> Attempt:
    def attempt(trial: Trial) -> None:
        for n in range(clients):
            id = trial.come(f"s{n}", durable=durable, window=100_000)
            trial.say(id, [Subscribe(1, "j any", True), Credit(10_000_000)])
        publisher = trial.come("p")
        size = 4_000 // (clients + 1) + 10
        encoded = [content.encode({"j": content_of(n)}) for n in range(size)]
        trial.measures = True
        trial.say(publisher, [Publish(n + 1, 0.0, each, durable) for n, each in enumerate(encoded)])

    return attempt


def coming(durable: bool) -> Attempt:
    def attempt(trial: Trial) -> None:
        trial.measures = True
        for n in range(1_000):
            id = trial.come(f"c{n}", durable=durable)
            trial.turn(events.Closed(id))
        trial.rest()

    return attempt


def coming_again(durable: bool) -> Attempt:
    """On one connection, again and again."""

    def attempt(trial: Trial) -> None:
        id = trial.come(durable=durable)
        trial.measures = True
        trial.say(id, [Connect("c", 1, durable=durable) for _ in range(3_000)])

    return attempt


def chatting(trial: Trial) -> None:
    id = trial.come()
    trial.measures = True
    trial.say(id, [Alive() for _ in range(10_000)])


def leaving(trial: Trial) -> None:
    trial.measures = True
    for n in range(500):
        id = trial.come(f"c{n}", durable=True)
        trial.say(id, [Subscribe(1, f"k = {n}", True), Leave(1)])


def explaining(trial: Trial) -> None:
    id = trial.come()
    bag = content.encode({"b": [f"{m}y" for m in range(2_000)], "c": 3})
    wanted = " and ".join(f"b #>/* {{'{m}y', 'a{m}'}}" for m in range(90))
    trial.measures = True
    trial.say(id, [Explain(n, bag, 0, wanted, True) for n in range(1, 40)])


TRIALS: dict[str, Attempt] = {
    **{f"subscribe {shape}": subscribing(shape) for shape in SHAPES},
    **{f"subscribe {shape} durable": subscribing(shape, durable=True) for shape in SHAPES},
    **{f"subscribe {shape} told 3": subscribing(shape, neighbours=3) for shape in SHAPES},
    **{f"unsubscribe {shape} told 3": unsubscribing(shape, neighbours=3) for shape in SHAPES},
    **{f"unsubscribe {shape}": unsubscribing(shape) for shape in SHAPES},
    **{f"unsubscribe {shape} durable": unsubscribing(shape, durable=True) for shape in SHAPES},
    **{f"go {shape}": going(shape) for shape in SHAPES},
    "advertise": advertising,
    "publish to nobody": publishing(False, 0, lambda n: n),
    "publish to 1": publishing(False, 1, lambda n: n),
    "publish to 100": publishing(False, 100, lambda n: n),
    "publish durable to nobody": publishing(True, 0, lambda n: n),
    "publish durable to 1": publishing(True, 1, lambda n: n),
    "publish durable to 100": publishing(True, 100, lambda n: n),
    "publish texts to 1": publishing(False, 1, lambda n: "x" * 900),
    "publish bags to 1": publishing(False, 1, lambda n: list(range(2_000))),
    "come and go": coming(False),
    "come and go durable": coming(True),
    "come again": coming_again(False),
    "come again durable": coming_again(True),
    "alive": chatting,
    "leave": leaving,
    "explain": explaining,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="only trials whose names begin like this")
    given = parser.parse_args()
    warm_up()
    print(f"{'':34} {'us/unit':>8} {'worst':>8} {'largest turn, ms':>18} {'units':>10}")
    for name, attempt in TRIALS.items():
        if given.names and not name.startswith(tuple(given.names)):
            continue
        with tempfile.TemporaryDirectory(prefix="kbn-units-") as folder:
            trial = Trial(folder)
            attempt(trial)
            each = 1e6 * trial.cpu / max(1, trial.units)
            print(
                f"{name:34} {each:8.2f} {trial.worst:8.2f} {1e3 * trial.largest:18.1f} "
                f"{trial.units:10.0f}",
                flush=True,
            )
            trial.store.close()


if __name__ == "__main__":
    main()
