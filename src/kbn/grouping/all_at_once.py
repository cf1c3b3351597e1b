"""Publisher groups in one call: all publishers are known, and arrive one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from kbn.errors import InvalidInputError
from kbn.grouping.combinations import ATTRIBUTES_MAX, Advertisement, attributes_of
from kbn.grouping.families import learned_families
from kbn.grouping.publisher_groups import Groups

Connections = int | Mapping[Any, int | None] | Sequence[int | None] | None


def publisher_groups(
    advertisements: Mapping[Any, Advertisement] | Iterable[Advertisement],
    strategy: str = "4",
    connections: Connections = None,
    order: str = "descending",
    seed: int = 0,
) -> Groups:
    """The clusters of these publishers, who arrive in the order given.

    Publishers are known by their keys, or by their numbers from 0. `connections` is the most each
    may have: one number for all, one for each, or None for no limit. More than 16 attributes share
    families, learned from these advertisements (`families.py`).

    >>> groups = publisher_groups([["a", "b"], ["a", "c"]], strategy="1")
    >>> [sorted("".join(sorted(c)) for c in cluster.combinations) for cluster in groups.clusters]
    [['ab', 'b'], ['a'], ['ac', 'c']]
    >>> groups.connections
    {0: (1, 2), 1: (2, 3)}
    """
    keyed = _keyed(advertisements)
    names = {key: attributes_of(given) for key, given in keyed.items()}
    known = frozenset().union(*names.values())
    families = None
    if len(known) > ATTRIBUTES_MAX:
        families = learned_families(Counter(names.values()), {})
    groups = Groups(known, strategy=strategy, order=order, seed=seed, families=families)
    for key, limit in _limits(keyed, connections).items():
        groups.arrive(key, names[key], limit)
    if strategy == "4":
        groups.reorder()
    return groups


def _keyed(
    advertisements: Mapping[Any, Advertisement] | Iterable[Advertisement],
) -> dict[Any, Advertisement]:
    if isinstance(advertisements, Mapping):
        return dict(advertisements)
    return dict(enumerate(advertisements))


def _limits(keyed: Mapping[Any, object], connections: Connections) -> dict[Any, int | None]:
    if connections is None or isinstance(connections, int | np.integer):
        return dict.fromkeys(keyed, connections)
    if isinstance(connections, Mapping):
        missing = next((key for key in keyed if key not in connections), None)
        if missing is not None:
            raise InvalidInputError(f"`connections` does not name the publisher {missing!r}")
        return {key: connections[key] for key in keyed}
    if len(connections) != len(keyed):
        raise InvalidInputError(
            f"{len(keyed)} publishers need as many connection limits, not {len(connections)}"
        )
    return dict(zip(keyed, connections, strict=True))
