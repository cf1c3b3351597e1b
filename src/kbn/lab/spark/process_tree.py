"""What this process and all it started use: CPU time, and memory, shared and private."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Event, Thread
from time import perf_counter
from typing import Any, TypeVar

import psutil

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Spent:
    """What some work took."""

    wall_s: float
    cpu_s: float


class TreeClock:
    """CPU time of a process tree: driver, JVM, Python workers, and those that ended meanwhile.

    A process that ends takes its time along, unless its parent waits for it, which Spark's daemon
    does not. So the tree is looked at again and again, and what a process was last seen to have
    used counts; an ended one loses at most what it used in the last `PERIOD_S`.
    """

    PERIOD_S = 0.25

    def __init__(self, tree: Callable[[], list[Any]] | None = None) -> None:
        """`tree` gives the processes; those of this one and all below it, unless it is given."""
        self._tree = tree or _tree
        self._seen: dict[tuple[int, float], float] = {}

    def cpu_seconds(self) -> float:
        """Of all processes ever seen; it never goes back."""
        for process in self._tree():
            try:
                times, key = process.cpu_times(), (process.pid, process.create_time())
            except psutil.Error:
                continue
            self._seen[key] = max(self._seen.get(key, 0.0), times.user + times.system)
        return sum(self._seen.values())

    def spent(self, work: Callable[[], Result]) -> tuple[Spent, Result]:
        """The wall and CPU time of some work, and its answer."""
        over = Event()
        cpu, wall = self.cpu_seconds(), perf_counter()
        watching = Thread(target=self._watch, args=(over,), daemon=True)
        watching.start()
        try:
            answer = work()
            took = perf_counter() - wall
        finally:
            over.set()
            watching.join()
        return Spent(took, self.cpu_seconds() - cpu), answer

    def _watch(self, over: Event) -> None:
        while not over.wait(self.PERIOD_S):
            self.cpu_seconds()


def worker_memory(holding: str) -> list[dict[str, int]]:
    """Each Python worker that maps files below the directory `holding`: its memory, in bytes.

    `mapped` is what it has of those files in memory, `private` what of all its memory is its own.
    """
    found: list[dict[str, int]] = []
    for process in _tree():
        try:
            maps = [m for m in process.memory_maps(grouped=False) if holding in m.path]
            if not maps or "java" in process.name():
                continue
            full = process.memory_full_info()
        except psutil.Error:
            continue
        found.append(
            {
                "resident": full.rss,
                "private": full.uss,
                "mapped": sum(m.rss for m in maps),
                "mapped_private": sum(m.private_dirty for m in maps),
            }
        )
    return found


def _tree() -> list[Any]:
    me = psutil.Process()
    return [me, *me.children(recursive=True)]
