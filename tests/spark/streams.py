"""A small world for streams, and what its sink must hold: worked out one filter at a time.

Which rows belong to which batch, and at which version a batch is matched, is read from the offsets
Spark wrote down; what matches is asked of the plain evaluator. Nothing here goes through a matcher,
a task or a manifest.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

from kbn.filters import Notification, Subscription
from kbn.matching.linear_scan import LinearScan
from kbn.matching.store import SubscriptionStore
from kbn.spark.io.slices import lines
from kbn.spark.io.sources import FilesSource, Offset

Pair = tuple[str, str, str]


class World:
    """Folders of one stream, and someone who publishes and subscribes at random.

    One subscription takes everything from the beginning on, so every notification is delivered.
    """

    def __init__(self, root: Path, seed: int) -> None:
        self.root = root
        self.random = Random(seed)
        self.inbox = root / "in"
        self.checkpoint = root / "checkpoint"
        self.delivered = root / "out"
        self.inbox.mkdir(parents=True)
        self.store = SubscriptionStore.create(root / "store")
        self.published: set[str] = set()
        self._number = 0
        self._subscribed = 0
        self._live: list[str] = []

    def publish(self, name: str, count: int) -> None:
        """Drop a file of so many notifications; now and then a line is no notification."""
        made = []
        for _ in range(count):
            self._number += 1
            id = f"n{self._number}"
            attributes = {"price": self.random.randrange(12), "kind": self.random.choice("abc")}
            line = json.dumps({"id": id, "attributes": attributes})
            is_good = self.random.random() < 0.95
            made.append(line if is_good else line[:-3])
            self.published |= {id} if is_good else set()
        beside = self.root / "beside"
        beside.write_text("".join(f"{line}\n" for line in made))
        beside.rename(self.inbox / name)

    def resubscribe(self) -> int:
        """Some leave, some come: a new version."""
        gone = self.random.sample(self._live, min(len(self._live), self.random.randrange(3)))
        self._live = [name for name in self._live if name not in gone]
        new = [] if self._subscribed else [("all", "everyone", "price >= 0")]
        for _ in range(self.random.randrange(1, 4)):
            self._subscribed += 1
            name = f"s{self._subscribed}"
            self._live.append(name)
            new.append((name, f"who{self._subscribed % 5}", self._filter()))
        return self.store.change(add=new, remove=gone)

    def _filter(self) -> str:
        price = f"price {self.random.choice(['<', '>=', '='])} {self.random.randrange(12)}"
        kind = f'kind = "{self.random.choice("abc")}"'
        return self.random.choice([price, kind, f"{price} and {kind}"])

    def expected(self) -> Counter[Pair]:
        """Every pair that must have been delivered, by the offsets in the checkpoint."""
        found: Counter[Pair] = Counter()
        for version, batch in planned_batches(self.checkpoint, self.inbox):
            oracle, subscribers = subscriptions_at(self.store, version)
            for notification in batch:
                for name in oracle.match(notification):
                    found[notification.id or "", str(name), subscribers[str(name)]] += 1
        return found


def planned_batches(checkpoint: Path, inbox: Path) -> Iterator[tuple[int, list[Notification]]]:
    """The version and the notifications of every batch Spark has planned."""
    start = Offset()
    for _, offset in offsets(checkpoint):
        end = Offset.from_json(offset)
        parts = FilesSource(inbox).slices(start, end)
        yield offset["version"], [n for part in parts for n in _notifications(lines(part))]
        start = end


def offsets(checkpoint: Path) -> list[tuple[int, dict[str, int]]]:
    """The offset each batch ends at, by number."""
    names = [path for path in (checkpoint / "offsets").iterdir() if path.name.isdigit()]
    return [
        (int(path.name), json.loads(path.read_text().splitlines()[2]))
        for path in sorted(names, key=lambda path: int(path.name))
    ]


def _notifications(numbered: Iterator[tuple[int, bytes]]) -> Iterator[Notification]:
    for _, line in numbered:
        try:
            yield Notification.from_json(json.loads(line))
        except json.JSONDecodeError:
            continue


def subscriptions_at(store: SubscriptionStore, version: int) -> tuple[LinearScan, dict[str, str]]:
    """The plain evaluator with the subscriptions of a version, and whose they are."""
    live: dict[str, tuple[str, str]] = {}
    for number in range(1, version + 1):
        added, removed = store.changes(number)
        for name in removed:
            del live[name]
        live |= {name: (subscriber, text) for name, subscriber, text in added}
    oracle = LinearScan()
    oracle.add_many((Subscription.parse(text), name) for name, (_, text) in live.items())
    return oracle, {name: subscriber for name, (subscriber, _) in live.items()}


def pairs(rows: list[dict[str, str]]) -> Counter[Pair]:
    return Counter((r["notification"], r["subscription"], r["subscriber"]) for r in rows)
