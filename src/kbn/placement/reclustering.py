"""Re-clustering: who had better sit at another broker, by where its notifications really come from.

A medoid says what a client is about; the hops of its deliveries say whether that has put it near
its partners. An *assignment* is a client at its broker with the deliveries it shared, by the
broker at the other end: for a subscriber the brokers of the publishers it heard, for a publisher
those of the subscribers that heard it. While the others stay, every client's hops are known for
every broker:

    hops(client, b) = Σ over o of deliveries(client, o) · (links from b to o + 1)

so this is an assignment problem with a limit on each broker's load. `propose_moves` improves the
present assignments step by step, the largest gain first. A step is one of

1. a misplaced client (mean hops above `mean_hops_max`) moves to a broker that has room for it;
2. a misplaced client moves to a full broker, and one from there makes room for it: by taking the
   place that became free (an exchange), or by going to a third broker that has room (a shift).

A step must gain at least `gain_min` hops for every move in it, so nobody is sent around for next to
nothing, and a second look at the same figures moves nobody: the search ends where no step helps.

All gains suppose that those at the other end stay. So have subscribers and publishers move in turn,
not at once on the same figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kbn.errors import InvalidInputError
from kbn.placement.balancing import load_limit
from kbn.placement.distances import Distances

MEAN_HOPS_MAX = 1.5
GAIN_MIN = 1.0
STEPS_PER_ASSIGNMENT = 10
TOLERANCE = 1e-9

Array = npt.NDArray[np.float64]
Indexes = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Assignment:
    """A client at its broker, and its deliveries by the broker at their other end."""

    client: str
    broker: str
    heard: Mapping[str, float] = field(default_factory=dict)
    load: float = 1.0


class Move(NamedTuple):
    """A client that had better go from one broker to another, for so many hops less."""

    client: str
    old: str
    new: str
    gain: float


def mean_hops(assignment: Assignment, distances: Distances) -> float | None:
    """The brokers a delivery of this client passes on average; None when it has none.

    >>> from kbn.placement import overlay_distances
    >>> apart = overlay_distances(["east", "west"], [("east", "west")])
    >>> mean_hops(Assignment("ann", "east", {"west": 4}), apart)
    2.0
    """
    total = sum(assignment.heard.values())
    if not total:
        return None
    passed = sum(
        n * distances.hops(assignment.broker, other) for other, n in assignment.heard.items()
    )
    return passed / total


def propose_moves(
    assignments: Sequence[Assignment],
    distances: Distances,
    load_max: float = 2.0,
    *,
    mean_hops_max: float = MEAN_HOPS_MAX,
    gain_min: float = GAIN_MIN,
    others: Mapping[str, float] | None = None,
) -> tuple[Move, ...]:
    """Who moves where, so that deliveries like those observed pass fewer brokers.

    A broker has at most `load_max` times a fair share of the load of all assignments and of
    `others`, the load on each broker that is not up for moving; one that has more already gets
    no more.

    Together the moves gain at least `gain_min` hops each. One that only makes room for another may
    gain nothing, or less than nothing; the other then gains the more. Clients without deliveries
    move for no other reason.

    >>> from kbn.placement import overlay_distances
    >>> apart = overlay_distances(["root", "east", "west"], [("east", "root"), ("west", "root")])
    >>> ann = Assignment("ann", "east", heard={"west": 6, "root": 1})
    >>> propose_moves([ann, Assignment("bob", "east")], apart)
    (Move(client='ann', old='east', new='west', gain=12.0),)
    """
    if gain_min < 0:
        raise InvalidInputError(f"a gain is a number of hops from 0 up, not {gain_min}")
    _check_clients(assignments)
    assigning = _Assigning(assignments, distances, load_max, mean_hops_max, gain_min, others or {})
    for _ in range(STEPS_PER_ASSIGNMENT * len(assignments)):
        if not assigning.improve():
            break
    return assigning.moves(assignments)


def _check_clients(assignments: Iterable[Assignment]) -> None:
    seen: set[str] = set()
    for assignment in assignments:
        if assignment.client in seen:
            raise InvalidInputError(f"the client {assignment.client!r} has two assignments")
        seen.add(assignment.client)
        if not assignment.load >= 0 or not all(n >= 0 for n in assignment.heard.values()):
            raise InvalidInputError(f"loads and deliveries are counted from 0 up: {assignment}")


class _Step(NamedTuple):
    """What it gains beyond the least it must, and the clients that move, each with its broker."""

    worth: float
    moves: tuple[tuple[int, int], ...]


class _Assigning:
    """Who sits where, what a move would gain, and what is left of every broker's limit."""

    def __init__(
        self,
        assignments: Sequence[Assignment],
        distances: Distances,
        load_max: float,
        mean_hops_max: float,
        gain_min: float,
        others: Mapping[str, float],
    ) -> None:
        brokers = len(distances.brokers)
        heard = np.zeros((len(assignments), brokers))
        for row, assignment in enumerate(assignments):
            for broker, count in assignment.heard.items():
                heard[row, distances.place(broker)] += count
        self.brokers = distances.brokers
        self.at: Indexes = np.array(
            [distances.place(s.broker) for s in assignments], dtype=np.int64
        )
        self.began = self.at.copy()
        self.load: Array = np.array(
            [assignment.load for assignment in assignments], dtype=np.float64
        )
        self.links: Array = heard @ distances.links
        """What each client's deliveries (row) would pass if it sat at a broker (column)."""
        self.links_max: Array = heard.sum(axis=1) * (mean_hops_max - 1)
        """Links that make up the mean hops a client may have without being misplaced."""
        on: Array = np.bincount(self.at, self.load, brokers).astype(np.float64)
        for broker, load in others.items():
            on[distances.place(broker)] += load
        self.on_brokers = on
        self.limit = load_limit(load_max, float(on.sum()), brokers) * (1 + TOLERANCE)
        self.gain_min = gain_min
        shape = (brokers, brokers)
        self.first, self.first_gain = np.zeros(shape, dtype=np.int64), np.full(shape, -np.inf)
        self.second, self.second_gain = np.zeros(shape, dtype=np.int64), np.full(shape, -np.inf)
        self._look(range(brokers))

    # A client is known by its row. `first[a, b]` is the misplaced one at a that gains most by going
    # to b, and `second[a, b]` the one of all. With loads that differ, a lighter one might fit where
    # the best does not; that step is then missed.

    def _look(self, brokers: Iterable[int]) -> None:
        """Find anew, for each broker and each other, whom it had best send there."""
        for old in brokers:
            here = np.flatnonzero(self.at == old)
            self.first_gain[old] = self.second_gain[old] = -np.inf
            if not len(here):
                continue
            gains = self.links[here, old][:, None] - self.links[here]
            gains[:, old] = -np.inf
            self.second[old], self.second_gain[old] = _best(here, gains)
            gains[self.links[here, old] <= self.links_max[here] + TOLERANCE] = -np.inf
            self.first[old], self.first_gain[old] = _best(here, gains)

    def improve(self) -> bool:
        """Take the step that gains most, if there is one."""
        ways = (self._single(), self._exchange(), self._shift())
        step = max(ways, key=lambda step: step.worth)
        if step.worth < 0:
            return False
        changed = set()
        for client, new in step.moves:
            old = int(self.at[client])
            self.at[client] = new
            self.on_brokers[old] -= self.load[client]
            self.on_brokers[new] += self.load[client]
            changed |= {old, new}
        self._look(changed)
        return True

    def _single(self) -> _Step:
        """The best move to a broker with room."""
        fits = self.load[self.first] <= self._room()
        worth = np.where(fits, self.first_gain, -np.inf) - max(self.gain_min, TOLERANCE)
        old, new = divmod(int(worth.argmax()), len(self.brokers))
        return _Step(float(worth[old, new]), ((int(self.first[old, new]), new),))

    def _exchange(self) -> _Step:
        """The best move for which another takes the place that becomes free."""
        room, goes, comes = self._room(), self.load[self.first], self.load[self.second.T]
        fits = (goes - comes <= room) & (comes - goes <= room[:, None])
        gain = self.first_gain + self.second_gain.T
        worth = np.where(fits, gain, -np.inf) - 2 * max(self.gain_min, TOLERANCE)
        old, new = divmod(int(worth.argmax()), len(self.brokers))
        one, other = int(self.first[old, new]), int(self.second[new, old])
        return _Step(float(worth[old, new]), ((one, new), (other, old)))

    def _shift(self) -> _Step:
        """The best move for which another goes to a third broker."""
        room = self._room()
        leaving = np.where(self.load[self.second] <= room, self.second_gain, -np.inf)
        third = leaving.argmax(axis=1)
        rows = np.arange(len(third))
        yields = self.second[rows, third]
        fits = self.load[self.first] - self.load[yields] <= room
        gain = self.first_gain + leaving[rows, third]
        worth = np.where(fits, gain, -np.inf) - 2 * max(self.gain_min, TOLERANCE)
        old, new = divmod(int(worth.argmax()), len(self.brokers))
        one, other = int(self.first[old, new]), int(yields[new])
        return _Step(float(worth[old, new]), ((one, new), (other, int(third[new]))))

    def _room(self) -> Array:
        return np.maximum(0.0, self.limit - self.on_brokers)

    def moves(self, assignments: Sequence[Assignment]) -> tuple[Move, ...]:
        """What has changed since the beginning, the largest gain first."""
        found = []
        for row, assignment in enumerate(assignments):
            old, new = self.began[row], self.at[row]
            if old != new:
                gain = float(self.links[row, old] - self.links[row, new])
                found.append(Move(assignment.client, assignment.broker, self.brokers[new], gain))
        return tuple(sorted(found, key=lambda move: (-move.gain, move.client)))


def _best(clients: Indexes, gains: Array) -> tuple[Indexes, Array]:
    """For each column the client with the largest gain, and that gain."""
    rows = gains.argmax(axis=0)
    return clients[rows], gains[rows, np.arange(gains.shape[1])]
