"""What a workload is: a seeded stream of subscriptions and a seeded table of notifications."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from kbn.filters import Subscription
from kbn.ontology import Ontology

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK = 50_000

Pair = tuple[Subscription, int]


class Workload(Protocol):
    """What a benchmark asks of a workload."""

    name: str
    ontology: Ontology | None

    def subscriptions(self, count: int, seed: int) -> Iterator[list[Pair]]:
        """`count` subscriptions with keys 0…, in chunks."""

    def notifications(self, count: int, seed: int) -> pa.Table:
        """`count` notifications, a row each."""


def chunks(count: int) -> Iterator[tuple[int, int]]:
    """The first key and the size of each chunk of `count` subscriptions.

    >>> list(chunks(120_000))
    [(0, 50000), (50000, 50000), (100000, 20000)]
    """
    for first in range(0, count, CHUNK):
        yield first, min(CHUNK, count - first)
