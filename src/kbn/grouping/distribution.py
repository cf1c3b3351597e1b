"""Distributions of delays, as they were measured: no law is taken for granted.

Delays are skewed and have several peaks, so a mean and a variance say little about what 95 % of
them keep. A `Distribution` is a list of values with the chance of each (*atoms*), and the chance
that a delay is later than any of them. Whatever is rounded is rounded up (`kernels/convolving.py`),
so a promise made from it errs on the late side.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from kbn.errors import InvalidInputError
from kbn.grouping.kernels import convolving

Array = np.ndarray[Any, Any]


class Moments(NamedTuple):
    """Mean, variance and third central moment: of independent delays, each of them adds up."""

    mean: float
    variance: float
    third: float


class Distribution:
    """How long something takes, by chance; immutable.

    >>> link = Distribution.of_samples([10.0] * 15 + [30.0] * 4)
    >>> round(link.within(10), 6), round(link.within(30), 6)
    (0.75, 0.95)
    >>> round(link.then(link).within(45), 6)  # 0.75 * 0.75 + 2 * 0.75 * 0.2
    0.8625
    """

    __slots__ = ("masses", "moments", "values")

    values: Array
    masses: Array
    moments: Moments

    def __init__(self, values: Array, masses: Array, moments: Moments | None = None) -> None:
        self.values = values
        self.masses = masses
        self.moments = moments or _moments(values, masses)

    @staticmethod
    def exactly(value: float) -> Distribution:
        """It always takes this long.

        >>> Distribution.exactly(3.0).quantile(0.99)
        3.0
        """
        return Distribution(np.array([_checked(value)]), np.ones(1))

    @staticmethod
    def of_samples(samples: Iterable[float]) -> Distribution:
        """What some measurements say of the next one.

        Of n measurements the next one is later than all with a chance of 1 in n + 1. So each counts
        1 / (n + 1), and the rest stands beyond the latest: twice as far as the latest tenth is, on
        average, beyond the others (of few measurements, the latest beyond the median).
        """
        return Distribution.of_array(np.array([_checked(value) for value in samples]))

    @staticmethod
    def of_array(samples: Array) -> Distribution:
        """The same, of values that are known to be finite and not negative."""
        if not samples.size:
            raise InvalidInputError("a distribution of delays needs at least one measurement")
        found = np.sort(samples)
        values = np.append(found, found[-1] + 2 * _excess(found))
        masses = np.full(values.size, 1 / values.size)
        return Distribution(*convolving.compress(values, masses, LINK_ATOMS))

    def then(self, other: Distribution) -> Distribution:
        """Of one after the other, independently."""
        if self is NOTHING:
            return other
        return Distribution(*convolving.add(self.values, self.masses, other.values, other.masses))

    def times(self, factor: float) -> Distribution:
        """The same, stretched.

        >>> Distribution.exactly(3.0).times(2).quantile(0.5)
        6.0
        """
        mean, variance, third = self.moments
        scaled = Moments(mean * factor, variance * factor**2, third * factor**3)
        return Distribution(self.values * factor, self.masses, scaled)

    def within(self, time: float) -> float:
        """The chance that it takes no longer than `time`."""
        return float(self.masses[: self.values.searchsorted(time, "right")].sum())

    def quantile(self, probability: float) -> float:
        """The time it takes no longer than, with that probability; infinite if nobody knows."""
        place = int(np.cumsum(self.masses).searchsorted(probability - ROUNDING))
        return float(self.values[place]) if place < self.values.size else math.inf

    def __repr__(self) -> str:
        return f"Distribution(mean={self.moments.mean:.6g}, p95={self.quantile(0.95):.6g})"


FEW = 20
LINK_ATOMS = 64
ROUNDING = 1e-9
"""Sums of masses that were added up in another order differ by less."""


def worst_of(distributions: Sequence[Distribution]) -> Distribution:
    """One that is at least as late as each of them, at every probability.

    >>> worst_of([Distribution.exactly(1.0), Distribution.exactly(2.0)]).quantile(0.5)
    2.0
    """
    if not distributions:
        raise InvalidInputError("there is no worst of no distributions")
    if len(distributions) == 1:
        return distributions[0]
    values = np.unique(np.concatenate([each.values for each in distributions]))
    reached = np.ones(values.size)
    for each in distributions:
        so_far = np.concatenate(([0.0], np.cumsum(each.masses)))
        reached = np.minimum(reached, so_far[each.values.searchsorted(values, "right")])
    masses = np.diff(reached, prepend=0.0)
    is_there = masses > 0
    return Distribution(*convolving.compress(values[is_there], masses[is_there], LINK_ATOMS))


def _excess(ascending: Array) -> float:
    """How far the latest are beyond the others: the scale of the tail, if it is exponential."""
    if ascending.size < FEW:
        middle = ascending[(ascending.size - 1) // 2] if ascending.size > 1 else 0.0
        return float(ascending[-1] - middle)
    latest = ascending.size // 10
    return float(ascending[-latest:].mean() - ascending[-latest - 1])


def _moments(values: Array, masses: Array) -> Moments:
    # What is late counts at the last value: these are for choosing, not for promising.
    total = float(masses.sum())
    late = max(0.0, 1 - total)
    last = float(values[-1])
    mean = float(masses @ values) + late * last
    away = values - mean
    squares = masses * away * away
    beyond = last - mean
    return Moments(
        mean,
        float(squares.sum()) + late * beyond**2,
        float(squares @ away) + late * beyond**3,
    )


def _checked(value: float) -> float:
    if not (isinstance(value, int | float | np.floating) and 0 <= value < math.inf):
        raise InvalidInputError(f"a delay is a number from 0, not {value!r}")
    return float(value)


NOTHING = Distribution.exactly(0.0)
"""What takes no time."""
