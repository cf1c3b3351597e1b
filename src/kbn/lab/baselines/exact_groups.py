"""Publisher groups over exact combinations, of any number of attributes: a baseline.

Each combination that some publisher has starts as a cluster of its own. Then, for each publisher
with more clusters than connections, the two of its clusters are merged that cost least: what those
who want the one receive of the publishers that only the other has. It moves nothing afterwards, as
strategy 4 does, and it keeps a set of publishers per combination, which is why it is no strategy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations

from kbn.grouping import Combination, Delivery


@dataclass(slots=True)
class _Cluster:
    wanted: int
    publishers: int  # bit mask


def exact_deliveries(
    advertised: Sequence[Combination],
    limits: Sequence[int | None],
    wanted: Mapping[Combination, int],
) -> Delivery:
    """What arrives when each publisher sends one notification."""
    owner = _apart(advertised, wanted)
    for number, (attributes, limit) in enumerate(zip(advertised, limits, strict=True)):
        if limit is not None:
            _fit(owner, attributes, limit, number)
    received = sum(
        count * owner[combination].publishers.bit_count()
        for combination, count in wanted.items()
        if combination in owner
    )
    meant = sum(
        count * sum(combination <= attributes for attributes in advertised)
        for combination, count in wanted.items()
    )
    return Delivery(received, received - meant)


def _apart(
    advertised: Sequence[Combination], wanted: Mapping[Combination, int]
) -> dict[Combination, _Cluster]:
    owner: dict[Combination, _Cluster] = {}
    for number, attributes in enumerate(advertised):
        for part in _parts(attributes):
            cluster = owner.setdefault(part, _Cluster(wanted.get(part, 0), 0))
            cluster.publishers |= 1 << number
    return owner


def _fit(
    owner: dict[Combination, _Cluster], attributes: Combination, limit: int, number: int
) -> None:
    while True:
        mine = list({id(owner[part]): owner[part] for part in _parts(attributes)}.values())
        if len(mine) <= limit:
            return
        one, other = min(combinations(mine, 2), key=lambda pair: _cost(*pair))
        one.wanted += other.wanted
        one.publishers |= other.publishers
        for part, cluster in owner.items():
            if cluster is other:
                owner[part] = one


def _cost(one: _Cluster, other: _Cluster) -> int:
    more = (other.publishers & ~one.publishers).bit_count()
    fewer = (one.publishers & ~other.publishers).bit_count()
    return one.wanted * more + other.wanted * fewer


def _parts(attributes: Combination) -> list[Combination]:
    names = sorted(attributes)
    sizes = range(1, len(names) + 1)
    return [frozenset(part) for part in chain.from_iterable(combinations(names, k) for k in sizes)]
