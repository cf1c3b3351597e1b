"""A medoid: what a set of terms is about, as one term."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Medoid:
    """The term nearest to all terms of a query set, and how near it is.

    `term` is None when no term of the set has a place on the map. Of the `terms` that have one
    (counted as often as they are named, a property as the classes of its domain), the medoid
    reaches `reached`; `cost` sums the distances to these and `spread` is their standard deviation.
    The others are `skipped`: unknown ones, and properties without a domain.
    """

    term: str | None
    spread: float = 0.0
    cost: int = 0
    terms: int = 0
    reached: int = 0
    skipped: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether the medoid reaches all terms and none was skipped."""
        return self.reached == self.terms and not self.skipped


def spread(count: int, total: int, squares: int) -> float:
    """The population standard deviation of `count` numbers, from their sum and their squares'."""
    return math.sqrt(count * squares - total**2) / count if count else 0.0
