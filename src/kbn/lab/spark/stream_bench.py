"""`kbn bench stream`: notifications at a steady rate, subscriptions added, and how late it gets.

A publisher appends lines to files; the source "kbn" reads them, `match` pairs them with the podcast
subscriptions, the sink "kbn" commits them. A subscription is added every second. The latency of a
notification is from when its line was in the file to when the manifest of its batch was linked into
place: which batch it was in is read from the checkpoint, afterwards. What the first seconds bring
is not counted: Spark compiles then.

Sustained means that the stream does not fall behind: `behind_s` is how long it took to commit the
rest once the publisher had stopped.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from bisect import bisect_left, bisect_right
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kbn.errors import InvalidInputError
from kbn.lab.experiment import Progress, silent
from kbn.lab.measuring import versions
from kbn.lab.workloads.podcast import Podcast
from kbn.matching import ShardBuilder, SubscriptionStore
from kbn.spark import match, register, session

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

WARM_ROWS = 8_000
TEXTS = 20_000


@dataclass(frozen=True, slots=True)
class Settings:
    """How much, for how long. `warm_s` are published and not counted."""

    rate: int = 10_000
    subscriptions: int = 100_000
    seconds: float = 30.0
    warm_s: float = 15.0
    add_every_s: float = 1.0
    expand: bool = False
    cores: int = 2
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("rate", "subscriptions", "cores", "seconds", "add_every_s"):
            if not getattr(self, name) > 0:
                raise InvalidInputError(f"{name} must be positive, not {getattr(self, name)}")


@dataclass(frozen=True, slots=True)
class Report:
    """What was measured."""

    settings: Settings
    notifications: int
    batches: int
    p50_s: float
    p99_s: float
    longest_s: float
    behind_s: float
    versions_seen: int
    added: int
    added_ms: float
    phases_ms: dict[str, float]
    machine: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def run(settings: Settings, progress: Progress = silent) -> Report:
    """Publish, match, deliver and measure."""
    with TemporaryDirectory(prefix="kbn-stream-", ignore_cleanup_errors=True) as place:
        return _Run(settings, Path(place), progress).report()


class _Run:
    def __init__(self, settings: Settings, place: Path, progress: Progress) -> None:
        self.settings = settings
        self.place = place
        self.progress = progress
        self.workload = Podcast()
        self.added_s: list[float] = []
        for name in ("inbox", "out", "checkpoint"):
            (place / name).mkdir()

    def report(self) -> Report:
        self.progress("preparing", 0, 0)
        self._write_texts()
        store = self._store()
        spark = session(
            f"local[{self.settings.cores}]",
            app="kbn bench stream",
            settings={"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g"},
        )
        try:
            register(spark)
            source = spark.readStream.format("kbn")
            source = source.option("subscriptions", str(self.place / "store"))
            stream = source.option("maxRowsPerBatch", str(5 * self.settings.rate)).load(
                str(self.place / "inbox")
            )
            writer = match(stream, store, expand=self.settings.expand).writeStream.format("kbn")
            writer = writer.option("checkpointLocation", str(self.place / "checkpoint"))
            query = writer.start(str(self.place / "out"))
            query.processAllAvailable()
            behind_s = self._publish(store, query)
            durations = [each["durationMs"] for each in query.recentProgress]
            query.stop()
        finally:
            spark.stop()
        return self._measured(behind_s, durations)

    def _write_texts(self) -> None:
        rows = self.workload.notifications(TEXTS, self.settings.seed + 1).to_pylist()
        for row in rows:
            row["category"] = [{"class": iri} for iri in row["category"]]
        texts = [f'"attributes":{json.dumps(row)}}}\n' for row in rows]
        (self.place / "texts").write_text("".join(texts), encoding="utf-8")
        warm = "".join(f'{{"id":"w{n}",{text}' for n, text in enumerate(texts[:WARM_ROWS]))
        (self.place / "inbox" / "0.jsonl").write_text(warm, encoding="utf-8")

    def _store(self) -> SubscriptionStore:
        store = SubscriptionStore.create(self.place / "store", self.workload.ontology)
        builder = ShardBuilder(store.ontology)
        count = self.settings.subscriptions
        for chunk in self.workload.subscriptions(count, self.settings.seed):
            keys = [f"s{key}" for _, key in chunk]
            filters = [str(asked) for asked, _ in chunk]
            builder.add(pa.table([keys, keys, filters], ["subscription", "subscriber", "filter"]))
        with store.new_base() as base:
            base.reports.append(builder.save(base.directory / "shard=0"))
        return store

    def _publish(self, store: SubscriptionStore, query: StreamingQuery) -> float:
        """Publish and subscribe for as long as asked; how long the stream needs after that."""
        settings = self.settings
        names = [str(self.place / name) for name in ("texts", "inbox", "published")]
        seconds = str(settings.warm_s + settings.seconds)
        command = [sys.executable, "-m", "kbn.lab.spark.publisher", *names, str(settings.rate)]
        stopping = threading.Event()
        subscriber = threading.Thread(target=self._subscribe, args=(store, stopping))
        subscriber.start()
        try:
            self.progress("streaming", 0, 0)
            subprocess.run([*command, seconds], check=True)
        finally:
            stopping.set()
            subscriber.join()
        ended = perf_counter()
        query.processAllAvailable()
        return perf_counter() - ended

    def _subscribe(self, store: SubscriptionStore, stopping: threading.Event) -> None:
        assert self.workload.ontology is not None
        category = self.workload.ontology.classes[3]
        while not stopping.wait(self.settings.add_every_s):
            number = len(self.added_s)
            asked = f"category #>/@> {{<{category}>}} and duration < {number}"
            started = perf_counter()
            store.change(add=[(f"x{number}", f"x{number}", asked)])
            self.added_s.append(perf_counter() - started)

    def _measured(self, behind_s: float, durations: list[dict[str, int]]) -> Report:
        noted = np.loadtxt(self.place / "published", ndmin=2)
        warmed = (self.place / "inbox" / "0.jsonl").stat().st_size
        marks, counts, times = noted[:, 0] + warmed, noted[:, 1], noted[:, 2]
        late: list[float] = []
        weights: list[float] = []
        seen: set[int] = set()
        batches, start = 0, 0
        for end, version, committed in self._batches():
            inside = slice(bisect_right(marks, start), bisect_left(marks, end) + 1)
            counted = times[inside] >= times[0] + self.settings.warm_s
            late += (committed - times[inside][counted]).tolist()
            weights += counts[inside][counted].tolist()
            if counted.any():
                batches += 1
                seen.add(version)
            start = end
        p50, p99, longest = _quantiles(late, weights, (0.5, 0.99, 1.0))
        later = durations[len(durations) // 3 :]
        names = {name for each in later for name in each}
        return Report(
            self.settings, int(sum(weights)), batches, p50, p99, longest, behind_s,
            len(seen), len(self.added_s), 1000 * median(self.added_s or [0.0]),
            {name: mean(each.get(name, 0) for each in later) for name in sorted(names)},
            versions(),
        )  # fmt: skip

    def _batches(self) -> list[tuple[int, int, float]]:
        """Each batch's end in bytes, its version, and when it was committed."""
        found = []
        for number in sorted(
            int(path.name)
            for path in (self.place / "checkpoint" / "offsets").iterdir()
            if path.name.isdigit()
        ):
            text = (self.place / "checkpoint" / "offsets" / str(number)).read_text(encoding="utf-8")
            offset = json.loads(text.splitlines()[2])
            manifest = self.place / "out" / "manifests" / f"{number:016d}.json"
            found.append((offset["bytes"], offset["version"], manifest.stat().st_ctime))
        return found


def _quantiles(values: list[float], weights: list[float], shares: tuple[float, ...]) -> list[float]:
    """The values that these shares of the weight do not exceed."""
    if not values:
        return [float("nan")] * len(shares)
    order = np.argsort(values)
    summed = np.cumsum(np.array(weights)[order])
    places = [min(int(np.searchsorted(summed, s * summed[-1])), len(order) - 1) for s in shares]
    return [float(np.array(values)[order][place]) for place in places]
