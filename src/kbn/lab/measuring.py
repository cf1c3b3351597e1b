"""Clocks and scales for benchmarks: time without the collector, memory, quantiles, checksums."""

from __future__ import annotations

import gc
import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from kbn.errors import KbnError

if TYPE_CHECKING:
    import pyarrow as pa

    from kbn.filters import Notification
    from kbn.matching import Matcher

Given = ParamSpec("Given")
Result = TypeVar("Result")

Found = list[tuple[int, int]]  # (the row of a notification, the key of a subscription it matched)


class EnginesDisagreeError(KbnError):
    """Two engines gave different answers to the same input: one of them is wrong."""


@contextmanager
def undisturbed() -> Iterator[None]:
    """No garbage collection, and one core for Arrow: what is timed inside is ours alone."""
    import pyarrow as pa

    cores, collecting = pa.cpu_count(), gc.isenabled()
    gc.disable()
    pa.set_cpu_count(1)
    try:
        yield
    finally:
        pa.set_cpu_count(cores)
        if collecting:
            gc.enable()


def timed(
    work: Callable[Given, Result], *given: Given.args, **named: Given.kwargs
) -> tuple[float, Result]:
    """How many seconds the work took, and what it gave."""
    started = perf_counter()
    answer = work(*given, **named)
    return perf_counter() - started, answer


def cpu_timed(
    work: Callable[Given, Result], *given: Given.args, **named: Given.kwargs
) -> tuple[float, Result]:
    """How many seconds of CPU time the work took, and what it gave: on a busy machine the figure
    to trust."""
    started = process_time()
    answer = work(*given, **named)
    return process_time() - started, answer


def resident_bytes() -> int:
    """The memory this process holds now."""
    import psutil

    gc.collect()
    return int(psutil.Process().memory_info().rss)


def peak_bytes() -> int | None:
    """The most memory this process ever held; None where the system does not say."""
    try:
        import resource
    except ImportError:  # not a POSIX system
        return None
    import sys

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def quantile(values: Iterable[float], share: float) -> float:
    """The least value that at least `share` of the values do not exceed.

    >>> quantile([3, 1, 2, 4], 0.5), quantile([3, 1, 2, 4], 0.99)
    (2, 4)
    """
    ordered = sorted(values)
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


def checksum(found: Iterable[tuple[int, int]]) -> str:
    """A short name of a set of answers: the same for the same answers in any order.

    >>> checksum([(0, 7), (1, 2)]) == checksum([(1, 2), (0, 7)])
    True
    """
    import numpy as np

    pairs = np.array(sorted(set(found)), dtype="<i8")
    return hashlib.blake2b(pairs.tobytes(), digest_size=8).hexdigest()


def rows_as_notifications(table: pa.Table, count: int) -> list[Notification]:
    """The first `count` rows of a table, as notifications."""
    from kbn.filters import Notification
    from kbn.matching import AttributeColumn

    table = table.slice(0, count)
    columns = {name: AttributeColumn(table.field(name), table[name]) for name in table.column_names}
    return [
        Notification(
            {
                name: value
                for name, column in columns.items()
                if (value := column.value(row)) is not None
            }
        )
        for row in range(table.num_rows)
    ]


def found_in(matcher: Matcher, table: pa.Table, keys_below: int | None = None) -> Found:
    """What the matcher answers for each row, as pairs; only keys below a bound, if there is one."""
    import pyarrow.compute as pc

    pairs = matcher.match_batch(table, expand=True)
    if keys_below is not None:
        pairs = pairs.filter(pc.less(pairs["key"], keys_below))
    return list(zip(pairs["notification"].to_pylist(), pairs["key"].to_pylist(), strict=True))


def require_agreement(one: str, ours: Found, other: str, theirs: Found) -> None:
    """Raise unless both found the same pairs; the message shows the first that differs."""
    if checksum(ours) == checksum(theirs):
        return
    differing = sorted(set(ours) ^ set(theirs))
    row, key = differing[0]
    who = one if differing[0] in set(ours) else other
    raise EnginesDisagreeError(
        f"{one} and {other} disagree on {len(differing)} of {len(set(ours) | set(theirs))} pairs: "
        f"only {who} says that notification {row} matches subscription {key}"
    )


def versions() -> dict[str, Any]:
    """What a reader needs to judge absolute figures: versions, cores. No host, user or path."""
    from importlib.metadata import version

    from kbn.lab.experiment import describe_machine

    libraries = ("numba", "numpy", "pyarrow")
    return {**describe_machine(), **{name: version(name) for name in libraries}}
