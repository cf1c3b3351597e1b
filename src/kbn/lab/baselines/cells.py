"""Cells of the notification space, and multicast clusters formed of them.

The same publishers and subscribers as in `publisher_groups.py`, seen the other way round. A *cell*
is a set Ψ some publisher sends; its rate is how many notifications come in it; those interested in
it are the subscribers whose combination Φ ⊆ Ψ. A multicast cluster is a set of cells whose
notifications are sent to it and a set of combinations whose subscribers have joined it: everyone in
it receives everything sent to it. Who is interested and not in a cluster of that cell is reached
one by one (unicast). Each notification reaches a subscriber at most once.

Cells nobody is interested in, and combinations nobody offers, are in no cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from kbn.errors import InvalidInputError, LimitError
from kbn.grouping import Advertisement, Attributes, Combination, Delivery, attributes_of

Advertisements = Mapping[Any, Advertisement] | Iterable[Advertisement]

TABLE_MAX = 1 << 24
"""The most pairs of a cell and a combination: 16 million, 16 MB."""


class Cells(NamedTuple):
    """The cells, the combinations wanted, and which of them meet."""

    attributes: Attributes
    publishers: dict[Any, int]  # what each sends, as a mask
    kinds: Any  # the mask of each cell
    rates: Any  # notifications in each cell
    wants: Any  # the mask of each combination
    subscribers: Any  # of each combination
    interested: Any  # cells by combinations: whether Φ ⊆ Ψ


def cells_of(
    advertisements: Advertisements,
    wanted: Mapping[Combination, int] | None = None,
    sent: Mapping[Any, int] | None = None,
) -> Cells:
    """The cells of these publishers; `wanted` and `sent` are those of `Groups.deliveries`.

    So by default there is one subscriber for each combination on offer, and each publisher sends
    one notification.
    """
    if not isinstance(advertisements, Mapping):
        advertisements = dict(enumerate(advertisements))
    names = {key: attributes_of(given) for key, given in advertisements.items()}
    attributes = Attributes(frozenset().union(*names.values()))
    publishers = {
        key: attributes.mask(given, f"the publisher {key!r}") for key, given in names.items()
    }
    rates, there = _sending(attributes, publishers, sent)
    advertised = over_supersets(there) > 0
    counts = _wanting(attributes, advertised, wanted)
    kinds = np.flatnonzero((there > 0) & (over_subsets(counts) > 0))
    wants = np.flatnonzero((counts > 0) & advertised)
    if len(kinds) * len(wants) > TABLE_MAX:
        raise LimitError(
            f"{len(kinds)} sets of attributes with {len(wants)} combinations wanted are too many "
            f"to cluster; up to {TABLE_MAX} pairs can be: leave out attributes nobody asks for",
            limit="pairs of cells and combinations",
            maximum=TABLE_MAX,
        )
    interested = (kinds[:, None] & wants[None, :]) == wants[None, :]
    return Cells(attributes, publishers, kinds, rates[kinds], wants, counts[wants], interested)


def _sending(
    attributes: Attributes, publishers: Mapping[Any, int], sent: Mapping[Any, int] | None
) -> tuple[Any, Any]:
    """For each mask how many notifications come with it, and how many publishers send it."""
    rates, there = (np.zeros(1 << len(attributes), np.int64) for _ in range(2))
    for kind in publishers.values():
        there[kind] += 1
    if sent is None:
        return there, there
    for publisher, count in sent.items():
        if publisher not in publishers:
            raise InvalidInputError(f"there is no publisher {publisher!r}")
        rates[publishers[publisher]] += _count(count, f"what {publisher!r} sends")
    return rates, there


def _wanting(
    attributes: Attributes, advertised: Any, wanted: Mapping[Combination, int] | None
) -> Any:
    if wanted is None:
        counts = advertised.astype(np.int64)
        counts[0] = 0  # nobody wants the empty combination
        return counts
    counts = np.zeros(1 << len(attributes), np.int64)
    for combination, count in wanted.items():
        mask = attributes.mask(combination, "a combination wanted")
        counts[mask] += _count(count, f"the subscribers of {sorted(combination)}")
    return counts


def _count(value: int, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidInputError(f"{what} must be a whole number of at least 0, not {value!r}")
    return value


def over_subsets(values: Any) -> Any:
    """For each mask the sum over all masks within it."""
    return _summed(values, 0, 1)


def over_supersets(values: Any) -> Any:
    """For each mask the sum over all masks it is within."""
    return _summed(values, 1, 0)


def _summed(values: Any, source: int, target: int) -> Any:
    sums = values.copy()
    for bit in range(len(values).bit_length() - 1):
        halves = sums.reshape(-1, 2, 1 << bit)
        halves[:, target] += halves[:, source]
    return sums


@dataclass(frozen=True, slots=True)
class MulticastCluster:
    """A cluster: which cells are sent to it, and who has joined.

    The rate is of what is sent to this cluster; numbers count from 1.
    """

    number: int
    cells: frozenset[Combination]
    combinations: frozenset[Combination]
    publishers: int
    subscribers: int
    false_positive_rate: float


class SubscriptionClusters:
    """What a clustering of subscriptions made; it can be asked what `Groups` can be asked.

    `sends` says for each cell which clusters it is sent to; `joined` for each cluster which
    combinations' subscribers are in it.
    """

    def __init__(self, algorithm: str, cells: Cells, sends: Any, joined: Any) -> None:
        is_used = sends.any(axis=0) & joined.any(axis=1)
        self.algorithm = algorithm
        self._cells = cells
        self._sends = sends[:, is_used]
        self._joined = joined[is_used]
        # Products of 0 and 1 count the copies a subscriber gets.
        self._copies = (self._sends.astype(float) @ self._joined.astype(float)).astype(np.int64)
        self._missed = cells.interested & (self._copies == 0)

    @property
    def clusters(self) -> tuple[MulticastCluster, ...]:
        """The clusters; none is empty."""
        return tuple(self._cluster(place) for place in range(len(self._joined)))

    def _cluster(self, place: int) -> MulticastCluster:
        cells, name = self._cells, self._cells.attributes.combination
        senders, members = self._sends[:, place], self._joined[place]
        kinds = {int(kind) for kind in cells.kinds[senders]}
        subscribers = int(cells.subscribers[members].sum())
        received = int(cells.rates[senders].sum()) * subscribers
        unwanted = ~cells.interested[np.ix_(senders, members)]
        in_vain = int(cells.rates[senders] @ (unwanted @ cells.subscribers[members]))
        return MulticastCluster(
            number=place + 1,
            cells=frozenset(name(kind) for kind in kinds),
            combinations=frozenset(name(int(want)) for want in cells.wants[members]),
            publishers=sum(kind in kinds for kind in cells.publishers.values()),
            subscribers=subscribers,
            false_positive_rate=Delivery(received, in_vain).rate,
        )

    @property
    def connections(self) -> dict[Any, tuple[int, ...]]:
        """For each publisher the numbers of the clusters it sends to."""
        of_kind = {
            int(kind): _numbers(row)
            for kind, row in zip(self._cells.kinds, self._sends, strict=True)
        }
        return {key: of_kind.get(kind, ()) for key, kind in self._cells.publishers.items()}

    @property
    def memberships(self) -> dict[Combination, tuple[int, ...]]:
        """For each combination wanted and on offer the clusters its subscribers have joined."""
        name = self._cells.attributes.combination
        return {
            name(int(want)): _numbers(row)
            for want, row in zip(self._cells.wants, self._joined.T, strict=True)
        }

    @property
    def unicast(self) -> dict[Any, int]:
        """For each publisher how many subscribers it must reach one by one."""
        counts = self._missed @ self._cells.subscribers
        of_kind = dict(zip(self._cells.kinds.tolist(), counts.tolist(), strict=True))
        return {key: of_kind.get(kind, 0) for key, kind in self._cells.publishers.items()}

    def deliveries(self) -> Delivery:
        """What arrives in all, by multicast and by unicast, counted as `Groups` counts it."""
        cells = self._cells
        received = (self._copies + self._missed) @ cells.subscribers
        in_vain = (self._copies * ~cells.interested) @ cells.subscribers
        return Delivery(int(cells.rates @ received), int(cells.rates @ in_vain))

    def unicast_deliveries(self) -> int:
        """How many of the deliveries are made one by one."""
        return int(self._cells.rates @ (self._missed @ self._cells.subscribers))

    def false_positive_rate(self) -> float:
        """False positives among the notifications received."""
        return self.deliveries().rate

    def check_invariants(self) -> None:
        """Assert that nobody gets a notification twice, and that everyone interested gets it."""
        assert (self._copies <= 1).all(), "a subscriber gets a notification twice"
        assert ((self._copies + self._missed) >= self._cells.interested).all(), "one is lost"


def _numbers(row: Any) -> tuple[int, ...]:
    return tuple(int(place) + 1 for place in np.flatnonzero(row))
