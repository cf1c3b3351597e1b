"""What this process and all it started use: CPU time, and memory, shared and private."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any, TypeVar

import psutil

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Spent:
    """What some work took."""

    wall_s: float
    cpu_s: float


def cpu_seconds() -> float:
    """CPU time of the process tree so far: driver, JVM, Python workers, and those that ended."""
    total = 0.0
    for process in _tree():
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def spent(work: Callable[[], Result]) -> tuple[Spent, Result]:
    """The wall and CPU time of some work, and its answer."""
    cpu, wall = cpu_seconds(), perf_counter()
    answer = work()
    return Spent(perf_counter() - wall, cpu_seconds() - cpu), answer


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
