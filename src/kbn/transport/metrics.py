"""Metrics of a broker, in Prometheus' text format 0.0.4.

Written by hand: it is a page of plain lines over numbers the broker counts anyway, so a library
with a registry of its own would only hold them a second time. Clients are summed up, neighbours
named: there are few of them, and what matters is which one is in trouble.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from kbn.broker import Store
from kbn.transport.turn_times import TurnTimes

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
COMMIT_BOUNDS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)

COUNTED = {
    "published": "Notifications that clients published here.",
    "delivered": "Deliveries sent to clients.",
    "forwarded": "Notifications sent to neighbours.",
    "received": "Notifications that came from neighbours.",
    "dropped": "Notifications dropped because a queue was full.",
    "refused": "Requests of clients that were refused.",
    "unknown_terms": "Notifications of clients here with terms that the ontology does not know.",
    "lost": "Deliveries to durable clients dropped because they were owed too much.",
    "set_aside": "Rows of the store that cannot be read, kept apart.",
    "matched": "Notifications matched with the routing table.",
}

OF_NEIGHBOURS = {
    "queued": ("gauge", "Notifications waiting to be sent to a neighbour."),
    "unacked": ("gauge", "Durable notifications kept for a neighbour."),
    "unacked_bytes": ("gauge", "Bytes of these."),
    "told": ("gauge", "Root filters a neighbour was told."),
    "wants": ("gauge", "Filters a neighbour announced."),
    "dropped": ("counter", "Notifications dropped on the way to a neighbour."),
}

Samples = Iterable[tuple[Mapping[str, str], float]]


class CommitTimer:
    """A store whose commits are timed; everything else goes to the store itself."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.buckets = [0] * (len(COMMIT_BOUNDS_S) + 1)
        self.total_s = 0.0

    @classmethod
    def around(cls, store: Store) -> tuple[Store, CommitTimer]:
        """The store to use in place of the given one, and its timer (they are the same)."""
        timer = cls(store)
        return cast(Store, timer), timer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @property
    def is_dirty(self) -> bool:
        return self._store.is_dirty

    def commit(self) -> None:
        begun = time.perf_counter()
        self._store.commit()
        took = time.perf_counter() - begun
        self.total_s += took
        self.buckets[bisect_left(COMMIT_BOUNDS_S, took)] += 1


def metrics_text(
    status: Mapping[str, Any], commits: CommitTimer, times: TurnTimes, *, healthy: bool
) -> str:
    """All metrics of a broker, from what it answers when asked for its status."""
    families = (
        _counters(status["counts"]),
        _of_table(status, healthy),
        _of_clients(status["totals"]),
        _of_neighbours(status["neighbours"]),
        _of_turns(status["turns"], times),
        _of_commits(commits),
        process_metrics(),
    )
    return "\n".join(line for family in families for line in family) + "\n"


def family(name: str, kind: str, help: str, samples: Samples) -> Iterator[str]:
    """The lines of one metric."""
    yield f"# HELP {name} {help}"
    yield f"# TYPE {name} {kind}"
    for labels, value in samples:
        yield _sample(name, labels, value)


def _sample(name: str, labels: Mapping[str, str], value: float) -> str:
    inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return f"{name}{{{inside}}} {value}" if inside else f"{name} {value}"


def _escaped(text: str) -> str:
    # A lone surrogate has no form in UTF-8.
    safe = text.encode("utf-8", "backslashreplace").decode()
    return safe.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _gauge(name: str, help: str, value: float) -> Iterator[str]:
    return family(name, "gauge", help, [({}, value)])


def _counters(counts: Mapping[str, int]) -> Iterator[str]:
    for name, help in COUNTED.items():
        yield from family(f"kbn_{name}_total", "counter", help, [({}, counts.get(name, 0))])


def _of_table(status: Mapping[str, Any], healthy: bool) -> Iterator[str]:
    about = {"broker": status["broker"], "routing": status["routing"]}
    yield from family("kbn_broker_info", "gauge", "What this broker is.", [(about, 1)])
    yield from _gauge("kbn_healthy", "Whether /health says ok.", int(healthy))
    yield from _gauge("kbn_connections", "Open connections.", status["connections"])
    yield from _gauge("kbn_subscriptions", "Entries of the routing table.", status["subscriptions"])
    yield from _gauge("kbn_filters", "Distinct filters of the table.", status["filters"])
    yield from _gauge("kbn_advertisements", "Advertisements known.", status["advertisements"])


def _of_clients(totals: Mapping[str, int]) -> Iterator[str]:
    yield from family(
        "kbn_clients", "gauge", "Clients, attached or kept while they are away.",
        [({"state": state}, totals[state]) for state in ("connected", "away")],
    )  # fmt: skip
    for name, meaning in (
        ("queued", "Deliveries waiting for clients."),
        ("queued_max", "The longest such queue."),
        ("unacked", "Durable deliveries kept for clients."),
        ("unacked_max", "The most kept for one."),
        ("queued_bytes", "Bytes of these."),
        ("unacked_bytes", "Bytes of these."),
    ):
        yield from _gauge(f"kbn_clients_{name}", meaning, totals[name])


def _of_neighbours(links: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield from family(
        "kbn_neighbour", "gauge", "A neighbour: what it is to us, and how it stands.",
        [
            ({"name": each["broker"], "role": each["role"], "state": state_of(each)}, 1)
            for each in links
        ],
    )  # fmt: skip
    for name, (kind, help) in OF_NEIGHBOURS.items():
        samples = [({"name": each["broker"]}, each[name]) for each in links]
        suffix = "_total" if kind == "counter" else ""
        yield from family(f"kbn_neighbour_{name}{suffix}", kind, help, samples)


def state_of(link: Mapping[str, Any]) -> str:
    """How the link to a neighbour stands: away, greeting, in session, or complete."""
    if not link["connected"]:
        return "away"
    if not link["in_session"]:
        return "greeting"
    return "complete" if link["complete"] else "session"


def _of_turns(turns: Mapping[str, Any], times: TurnTimes) -> Iterator[str]:
    name = "kbn_turn_work"
    yield f"# HELP {name} What a turn of the event loop did, in units of about a microsecond."
    yield f"# TYPE {name} histogram"
    reached = 0
    for bound, number in zip((*turns["bounds"], "+Inf"), turns["buckets"], strict=True):
        reached += number
        yield _sample(f"{name}_bucket", {"le": str(bound)}, reached)
    yield _sample(f"{name}_sum", {}, turns["work"])
    yield _sample(f"{name}_count", {}, turns["count"])
    yield from _gauge("kbn_turn_work_max", "What the largest turn did.", turns["largest"])
    yield from family(
        "kbn_turn_cpu_seconds_total", "counter", "CPU time of turns.", [({}, times.total_s)]
    )
    yield from _gauge("kbn_turn_cpu_seconds_max", "CPU time of the longest.", times.largest_s)


def _of_commits(commits: CommitTimer) -> Iterator[str]:
    name = "kbn_store_commit_seconds"
    yield f"# HELP {name} How long the store took to make changes permanent."
    yield f"# TYPE {name} histogram"
    reached = 0
    for bound, number in zip((*COMMIT_BOUNDS_S, "+Inf"), commits.buckets, strict=True):
        reached += number
        yield _sample(f"{name}_bucket", {"le": str(bound)}, reached)
    yield _sample(f"{name}_sum", {}, commits.total_s)
    yield _sample(f"{name}_count", {}, reached)


def process_metrics() -> Iterator[str]:
    """What any process of ours says of itself."""
    import psutil

    process = psutil.Process(os.getpid())
    used = process.cpu_times()
    yield from _gauge("process_resident_memory_bytes", "Memory in use.", process.memory_info().rss)
    yield from family(
        "process_cpu_seconds_total", "counter", "Processor time used.",
        [({}, used.user + used.system)],
    )  # fmt: skip
    yield from _gauge(
        "process_start_time_seconds", "When it started, since 1970.", process.create_time()
    )
