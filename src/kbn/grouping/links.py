"""Links between peers: how long they take, as far as anybody knows.

A tree asks three things: which links to a peer are known, their moments (to look at many at once),
and the distribution of one (to be exact about the few that look good).

`MeasuredLinks` is what peers report. Both ends of a link measure it, and who lies can only lie
about its own end: what counts is the later of what both ends say, at every probability. So a peer
that claims to be near gains nothing, and one that claims to be far is believed: it loses places
and disturbs nobody. `suspects` names those who say far less than their counterparts.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Hashable, Iterable
from statistics import median
from typing import Any, Protocol

import numpy as np

from kbn.errors import InvalidInputError
from kbn.grouping.distribution import Distribution, Moments, worst_of

Array = np.ndarray[Any, Any]
Peer = Hashable

SAMPLES_MAX = 256
LINKS_MAX = 4096  # that one peer may report
VALUE_MAX_S = 10.0
SUSPECT_FACTOR = 2.0
SUSPECT_LINKS_MIN = 3


UNKNOWN = Moments(math.inf, 0.0, 0.0)


class Links(Protocol):
    """What a tree needs to know of links.

    >>> links: Links = MeasuredLinks()
    >>> links.between("ann", "bob") is None
    True
    """

    def known(self, child: Peer) -> Collection[Peer] | None:
        """Whose links to that peer are known; None when everybody's are."""

    def moments(self, parents: Array, child: Peer) -> tuple[Array, Array, Array]:
        """Mean, variance and third moment of known links, by parent."""

    def between(self, parent: Peer, child: Peer) -> Distribution | None:
        """How long a link takes; None when nobody knows."""


class MeasuredLinks:
    """What both ends of links measured, the latest `samples_max` of each end.

    >>> links = MeasuredLinks()
    >>> links.report("ann", "bob", [0.01] * 99)
    >>> links.report("bob", "ann", [0.04] * 99)  # ann, who claims to be near, gains nothing
    >>> links.between("ann", "bob").quantile(0.95)
    0.04
    """

    def __init__(self, value_max: float = VALUE_MAX_S, samples_max: int = SAMPLES_MAX) -> None:
        if not 0 < value_max < math.inf or samples_max < 1:
            raise InvalidInputError("links need a largest delay above 0 and at least one sample")
        self._value_max = value_max
        self._samples_max = samples_max
        self._said: dict[Peer, dict[Peer, array[float]]] = {}  # who says it -> of whom
        self._neighbours: dict[Peer, dict[Peer, None]] = {}
        self._agreed: dict[tuple[Peer, Peer], Distribution] = {}
        self._rough: dict[tuple[Peer, Peer], Moments] = {}

    def report(self, reporter: Peer, other: Peer, samples: Iterable[float]) -> None:
        """Take in what one end measured; all of it or, if any value is impossible, nothing.

        One peer may report at most LINKS_MAX links, so that who floods fills nobody's memory.
        """
        if reporter == other:
            raise InvalidInputError(f"{reporter!r} cannot measure the way to itself")
        values = [self._checked(reporter, value) for value in samples]
        if not values:
            return
        said = self._said.setdefault(reporter, {})
        if other not in said and len(said) >= LINKS_MAX:
            raise InvalidInputError(f"{reporter!r} reports more than {LINKS_MAX} links")
        kept = said.setdefault(other, array("d"))
        kept.extend(values)
        del kept[: -self._samples_max]
        self._neighbours.setdefault(reporter, {})[other] = None
        self._neighbours.setdefault(other, {})[reporter] = None
        self._drop(reporter, other)

    def _drop(self, one: Peer, other: Peer) -> None:
        for pair in ((one, other), (other, one)):
            self._agreed.pop(pair, None)
            self._rough.pop(pair, None)

    def forget(self, peer: Peer) -> None:
        """Drop all links of a peer."""
        self._said.pop(peer, None)
        for other in self._neighbours.pop(peer, {}):
            self._neighbours[other].pop(peer, None)
            self._said.get(other, {}).pop(peer, None)
            self._drop(peer, other)

    def known(self, child: Peer) -> Collection[Peer]:
        """Who measured a link to that peer, or was measured by it."""
        return self._neighbours.get(child, {}).keys()

    def between(self, parent: Peer, child: Peer) -> Distribution | None:
        """The later of what both ends say; one end's word when the other is silent."""
        found = self._agreed.get((parent, child))
        if found is None:
            said = [
                Distribution.of_array(np.array(values))
                for one, other in ((parent, child), (child, parent))
                if (values := self._said.get(one, {}).get(other))
            ]
            if not said:
                return None
            found = worst_of(said)
            self._agreed[parent, child] = self._agreed[child, parent] = found
        return found

    def moments(self, parents: Array, child: Peer) -> tuple[Array, Array, Array]:
        """Mean, variance and third moment of each parent's link; infinite means: not known.

        Of the end that measured more on average: good enough to choose whom to look at closely.
        """
        rows = np.array([self._roughly(parent, child) for parent in parents])
        mean, variance, third = rows.reshape(-1, 3).T
        return mean, variance, third

    def _roughly(self, parent: Peer, child: Peer) -> Moments:
        found = self._rough.get((parent, child))
        if found is None:
            ends = ((parent, child), (child, parent))
            said = [self._said.get(one, {}).get(other) for one, other in ends]
            found = max((_moments(values) for values in said if values), default=UNKNOWN)
            self._rough[parent, child] = self._rough[child, parent] = found
        return found

    def suspects(self) -> dict[Peer, float]:
        """Who says far less than those at the other ends, and by what factor (the median).

        One end that differs may be a link that is slower one way, so it takes some links.
        """
        factors: dict[Peer, list[float]] = {}
        for reporter, links in self._said.items():
            for other, mine in links.items():
                theirs = self._said.get(other, {}).get(reporter)
                if theirs and (own := median(mine)) < (said := median(theirs)):
                    factors.setdefault(reporter, []).append(said / own if own else math.inf)
                elif theirs:
                    factors.setdefault(reporter, []).append(1.0)
        return {
            peer: factor
            for peer, found in factors.items()
            if len(found) >= SUSPECT_LINKS_MIN and (factor := median(found)) >= SUSPECT_FACTOR
        }

    def _checked(self, reporter: Peer, value: float) -> float:
        if not isinstance(value, int | float) or not 0 <= value <= self._value_max:
            raise InvalidInputError(
                f"{reporter!r} reports a delay of {value!r}; delays are from 0 to "
                f"{self._value_max:g}"
            )
        return float(value)


def _moments(values: Collection[float]) -> Moments:
    away = np.array(values)
    mean = float(away.mean())
    away -= mean
    squares = away * away
    return Moments(mean, float(squares.mean()), float((squares * away).mean()))
