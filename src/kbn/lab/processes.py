"""Cases of an experiment, each in a process of its own, so many at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Case = TypeVar("Case")
Found = TypeVar("Found")


def in_processes(
    work: Callable[[Case], Found], cases: Sequence[Case], processes: int
) -> Iterator[Found]:
    """What the work finds in each case, in their order; with one process, in this one."""
    if processes == 1:
        yield from map(work, cases)
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        yield from pool.map(work, cases)
