"""The strategies: what happens to the clusters when a publisher arrives.

Strategies 1 to 3.1 are Algorithms 1 to 4 of D. Biliniewicz, Support for QoS in publish/subscribe
systems by partitioning the event space (Universität Stuttgart), and 4 is ours:

- **1** splits every partial overlap off into a cluster of its own. No false positives, and as many
  connections as that takes.
- **2** joins partial overlaps and merges included clusters into one. Few connections, many false
  positives.
- **3** splits while everyone connected to a cluster has a connection free, else joins, else merges.
- **3.1** does the same, but asks only who offers the combinations to be split off.
- **4** splits as far as limits allow and merges what costs least (`kernels/reordering.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kbn.errors import InvalidInputError
from kbn.grouping.combinations import parts
from kbn.grouping.kernels import arriving, lattice, reordering

Lattice = lattice.Lattice
UNLIMITED = int(lattice.UNLIMITED)

ORDERS = ("descending", "random")

Arrival = Callable[[Lattice, int, int, bool, Any], None]
"""Lattice, the newcomer's kind and limit, whether clusters are visited by size, and chance."""


def _arrive_1(tables: Lattice, kind: int, limit: int, by_size: bool, chance: Any) -> None:
    _arrive_3(tables, kind, UNLIMITED, by_size, chance)


def _arrive_2(tables: Lattice, kind: int, limit: int, by_size: bool, chance: Any) -> None:
    arriving.arrive_joining(tables, kind)
    lattice.register(tables, kind, UNLIMITED)


def _arrive_3(tables: Lattice, kind: int, limit: int, by_size: bool, chance: Any) -> None:
    arriving.arrive_splitting(tables, kind, limit, arriving.BY_CLUSTER, by_size, chance)
    lattice.register(tables, kind, limit)


def _arrive_3_1(tables: Lattice, kind: int, limit: int, by_size: bool, chance: Any) -> None:
    arriving.arrive_splitting(tables, kind, limit, arriving.BY_COMBINATION, by_size, chance)
    lattice.register(tables, kind, limit)


def _arrive_4(tables: Lattice, kind: int, limit: int, by_size: bool, chance: Any) -> None:
    if reordering.is_broad(kind):
        _arrive_3_1(tables, kind, limit, by_size, chance)
    else:
        reordering.arrive_apart(tables, kind, limit)


ARRIVALS: dict[str, Arrival] = {
    "1": _arrive_1,
    "2": _arrive_2,
    "3": _arrive_3,
    "3.1": _arrive_3_1,
    "4": _arrive_4,
}
WITHOUT_LIMITS = frozenset({"1", "2"})


def check_choice(strategy: str, order: str, seed: int) -> None:
    """Refuse a strategy, an order or a seed there is not."""
    if strategy not in ARRIVALS:
        raise InvalidInputError(
            f"there is no strategy {strategy!r}; there are {', '.join(ARRIVALS)}"
        )
    if order not in ORDERS:
        raise InvalidInputError(f"the order is descending or random, not {order!r}")
    if type(seed) is not int or seed < 0:
        raise InvalidInputError(f"a seed is a number from 0, not {seed!r}")


def chance_of(seed: int, number: int) -> Any:
    """Where the chance of one arrival starts: of the seed and the arrival's number alone.

    So an arrival meets the same chance whoever came or went before.
    """
    return np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)


def observed_tables(tables: Lattice, wanted: Any, sent: Any) -> Lattice:
    """The same clusters, where a publisher counts what it sent and a combination who wants it.

    `wanted` is by combination and `sent` by kind. What moves in the one has moved in the other.
    """
    traffic = np.asarray(sent, np.int64).copy()
    cover = np.zeros_like(traffic)
    for kind in np.flatnonzero(traffic).tolist():
        cover[np.fromiter(parts(kind), np.int64)] += traffic[kind]
    return tables._replace(publishers=traffic, cover=cover, weight=wanted.copy())


def reordered(tables: Lattice) -> bool:
    """Arrange all combinations anew if that lowers the cost; whether it did."""
    before = [table.copy() for table in tables]
    cost = reordering.cost(tables)
    reordering.reorder(tables)
    if reordering.cost(tables) < cost:
        return True
    for table, old in zip(tables, before, strict=True):
        table[...] = old
    return False
