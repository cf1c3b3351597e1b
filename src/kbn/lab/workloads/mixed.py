"""Mixed: equalities of few values and ranges of numbers, in any mixture.

Some attributes are *coded* (few distinct values, asked for by `=`), the others hold numbers (asked
for by a range, two-sided or one-sided). A filter draws its attributes by their popularity and its
codes evenly. What selectivity the codes leave over is shared among its ranges, so that every filter
with a range accepts about the same share of the notifications that carry its attributes. Ranges
are placed among the quantiles of the values that are published, so that this holds for skewed
values as for even ones.

`NEUTRAL` names the mixtures that published engines are compared on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kbn.errors import InvalidInputError
from kbn.filters import Constraint, Filter, Operator, Subscription
from kbn.lab.workloads.contract import Pair, chunks
from kbn.ontology import Ontology

if TYPE_CHECKING:
    import pyarrow as pa

TOP = 1_000_000
"""Numbers are whole and below this."""
CELLS = 1_000
"""A skewed attribute prefers some of so many equal parts of its numbers."""
WORLD_SEED = 20
"""Of which values are preferred: the same for every seed of subscriptions and notifications."""
TWO_SIDED, AT_MOST = 0.6, 0.8
"""Shares of ranges, cumulated: two-sided, then `<=`, the rest `>=`."""


@dataclass(frozen=True, slots=True)
class Mixture:
    """What filters and notifications are like.

    `equalities` is the share of attributes that are coded. `skew` is the exponent of Zipf's law,
    for attributes as for values. `present` is the share of the attributes a notification carries.
    """

    attributes: int = 20
    least: int = 1
    most: int = 6
    values: int = 10
    equalities: float = 0.3
    skew: float = 0.0
    present: float = 1.0
    selectivity: float = 0.001
    texts: bool = False
    """Whether codes are texts and not numbers."""
    equalities_max: int = 1_000
    ranges_min: int = 0
    width: float | None = None
    """The share of the numbers that each range holds, in place of `selectivity`."""

    def __post_init__(self) -> None:
        for name in ("attributes", "least", "values"):
            if getattr(self, name) < 1:
                raise InvalidInputError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not self.least <= self.most <= self.attributes:
            raise InvalidInputError(
                f"{self.least} to {self.most} constraints of {self.attributes} attributes cannot "
                "be drawn: give fewer constraints or more attributes"
            )
        for name in ("equalities", "present", "selectivity"):
            if not 0 <= getattr(self, name) <= 1:
                raise InvalidInputError(f"{name} is a share, 0 to 1, not {getattr(self, name)}")
        if not 0 <= self.skew <= 10:
            raise InvalidInputError(f"skew is 0 (even) to 10, not {self.skew}")

    @property
    def carried(self) -> int:
        """How many attributes a notification has."""
        return max(1, round(self.present * self.attributes))


_SELECTIVE = {"equalities": 0.5, "equalities_max": 2, "ranges_min": 1}
NEUTRAL: dict[str, Mixture] = {
    "u20": Mixture(**_SELECTIVE),  # type: ignore[arg-type]
    "z20": Mixture(skew=1.0, **_SELECTIVE),  # type: ignore[arg-type]
    "u100": Mixture(attributes=100, present=0.2, **_SELECTIVE),  # type: ignore[arg-type]
    "z100": Mixture(attributes=100, present=0.2, skew=1.0, **_SELECTIVE),  # type: ignore[arg-type]
    "s20": Mixture(equalities=1.0, values=160, texts=True),
    "w20": Mixture(equalities=0.0, least=10, most=10, width=0.4),
}


class Mixed:
    """The workload of a mixture."""

    ontology: Ontology | None = None

    def __init__(self, mixture: Mixture | None = None, name: str = "mixed") -> None:
        self.name = name
        self.mixture = made = mixture or Mixture()
        digits = len(str(made.attributes - 1))
        self._names = [f"a{i:0{max(2, digits)}d}" for i in range(made.attributes)]
        whole = np.floor(np.arange(made.attributes + 1) * made.equalities + 1e-9)
        self._coded = np.diff(whole) > 0
        self._popularity = _zipf(made.attributes, made.skew)
        rng = np.random.default_rng(WORLD_SEED)
        self._cells = _preferences(rng, made.attributes, CELLS, made.skew)
        self._code_shares = _preferences(rng, made.attributes, made.values, made.skew)
        self._selectivity = self._calibrated(rng)
        self._codes = _codes(made)
        self._equal = [
            [Constraint.trusted(name, Operator.EQ, code) for code in self._codes]
            for name in self._names
        ]

    def subscriptions(self, count: int, seed: int) -> Iterator[list[Pair]]:
        rng = np.random.default_rng(seed)
        for first, size in chunks(count):
            drawn = self._draw(rng, size)
            rows = zip(*(part.tolist() for part in drawn), strict=True)
            yield [(self._subscription(*row), key) for key, row in enumerate(rows, first)]

    def notifications(self, count: int, seed: int) -> pa.Table:
        import pyarrow as pa

        made = self.mixture
        rng = np.random.default_rng([seed, 1])
        absent = np.ones((count, made.attributes), bool)
        np.put_along_axis(absent, self._attributes(rng, count, made.carried), False, axis=1)
        columns: dict[str, Any] = {}
        for attribute, name in enumerate(self._names):
            places = rng.random(count)
            missing = absent[:, attribute] if made.carried < made.attributes else None
            if self._coded[attribute]:
                columns[name] = self._code_column(attribute, places, missing)
            else:
                columns[name] = pa.array(self._quantiles(attribute, places), mask=missing)
        return pa.table(columns)

    def _code_column(self, attribute: int, places: Any, missing: Any) -> pa.Array:
        import pyarrow as pa

        bounds = np.cumsum(self._code_shares[attribute])
        drawn = np.searchsorted(bounds, places, "right").clip(0, len(self._codes) - 1)
        if not self.mixture.texts:
            return pa.array(np.array(self._codes)[drawn], mask=missing)
        chosen = pa.array(drawn.astype(np.int32), mask=missing)
        return pa.DictionaryArray.from_arrays(chosen, pa.array(self._codes))

    def _attributes(self, rng: np.random.Generator, rows: int, size: int) -> Any:
        """Per row, `size` distinct attributes by popularity."""
        # The largest of such sums are a weighted sample without replacement (Gumbel's trick).
        keys = np.log(self._popularity) + rng.gumbel(size=(rows, self.mixture.attributes))
        return np.argsort(-keys, axis=1)[:, :size]

    def _wanted(self, rng: np.random.Generator, sizes: Any) -> Any:
        """Per row, the attributes of a filter of sizes[row] constraints, -1 behind them."""
        made = self.mixture
        found = np.empty((sizes.shape[0], made.most), np.int64)
        todo = np.arange(sizes.shape[0])
        while todo.shape[0]:
            drawn = self._attributes(rng, todo.shape[0], made.most)
            drawn[np.arange(made.most) >= sizes[todo, None]] = -1
            found[todo] = drawn
            coded = (self._coded[drawn] & (drawn >= 0)).sum(axis=1)
            refused = (coded > made.equalities_max) | (sizes[todo] - coded < made.ranges_min)
            todo = todo[refused]
        return found

    def _calibrated(self, rng: np.random.Generator) -> float:
        """The share that gives `selectivity` on average, where attributes may be absent."""
        made = self.mixture
        if made.carried == made.attributes:
            return made.selectivity
        carried, asked = np.zeros((2, 2000, made.attributes), np.float32)
        np.put_along_axis(carried, self._attributes(rng, 2000, made.carried), 1, axis=1)
        sizes = rng.integers(made.least, made.most + 1, 2000)
        wanted = self._wanted(rng, sizes)
        rows, places = np.nonzero(wanted >= 0)
        asked[rows, wanted[rows, places]] = 1
        share = float((carried @ asked.T == sizes).mean())
        return min(1.0, made.selectivity / max(share, 1e-9))

    def _draw(self, rng: np.random.Generator, count: int) -> _Drawn:
        made = self.mixture
        sizes = rng.integers(made.least, made.most + 1, count)
        wanted = np.sort(self._wanted(rng, sizes), axis=1)
        used = wanted >= 0
        coded = self._coded[wanted] & used
        ranged = ~coded & used
        codes = rng.integers(0, made.values, wanted.shape)
        shares = self._shares(rng, wanted, codes, coded, ranged)
        kinds = rng.random(wanted.shape)
        below = rng.random(wanted.shape) * (1 - shares)
        if made.width is not None:
            kinds[:] = 0.0
        at_most, at_least = kinds < AT_MOST, (kinds < TWO_SIDED) | (kinds >= AT_MOST)
        below = np.where(kinds < TWO_SIDED, below, np.where(at_least, 1 - shares, 0.0))
        lows, highs = np.zeros((2, *wanted.shape), np.int64)
        for attribute in np.flatnonzero(~self._coded).tolist():
            mine = ranged & (wanted == attribute)
            lows[mine] = self._quantiles(attribute, below[mine])
            highs[mine] = self._quantiles(attribute, (below + shares)[mine])
        return _Drawn(wanted, codes, at_least, at_most, lows, np.maximum(lows, highs))

    def _shares(
        self, rng: np.random.Generator, wanted: Any, codes: Any, coded: Any, ranged: Any
    ) -> Any:
        """What share of the values each range accepts."""
        if self.mixture.width is not None:
            return np.full(wanted.shape, self.mixture.width)
        by_codes = np.where(coded, self._code_shares[wanted, codes], 1.0).prod(axis=1)
        left = np.minimum(1.0, self._selectivity / by_codes)
        weights = np.where(ranged, rng.uniform(0.5, 1.5, wanted.shape), 0.0)
        weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1e-9)
        return left[:, None] ** weights

    def _quantiles(self, attribute: int, places: Any) -> Any:
        """The numbers below which these shares of an attribute's values lie."""
        edges = np.concatenate(([0.0], np.cumsum(self._cells[attribute])))
        numbers = np.interp(places, edges, np.arange(CELLS + 1) * (TOP / CELLS))
        return np.minimum(TOP - 1, numbers).astype(np.int64)

    def _subscription(
        self,
        wanted: list[int],
        codes: list[int],
        at_least: list[bool],
        at_most: list[bool],
        lows: list[int],
        highs: list[int],
    ) -> Subscription:
        constraints: list[Constraint] = []
        for place, attribute in enumerate(wanted):
            if attribute < 0:
                continue
            if self._coded[attribute]:
                constraints.append(self._equal[attribute][codes[place]])
                continue
            name = self._names[attribute]
            if at_most[place]:
                constraints.append(Constraint.trusted(name, Operator.LE, highs[place]))
            if at_least[place]:
                constraints.append(Constraint.trusted(name, Operator.GE, lows[place]))
        return Subscription.trusted((Filter.trusted(tuple(constraints)),))


class _Drawn(NamedTuple):
    """Filters as arrays, a row each: the attributes, ascending, and what is asked of them."""

    wanted: Any
    codes: Any
    at_least: Any
    at_most: Any
    lows: Any
    highs: Any


def _codes(mixture: Mixture) -> list[Any]:
    """The values of a coded attribute, spread over the numbers, or texts."""
    if mixture.texts:
        return [f"v{code:03d}" for code in range(mixture.values)]
    step = TOP / mixture.values
    return [int(code * step + step / 2) for code in range(mixture.values)]


def _zipf(count: int, skew: float) -> Any:
    shares = 1 / np.arange(1, count + 1) ** skew
    return shares / shares.sum()


def _preferences(rng: np.random.Generator, rows: int, of: int, skew: float) -> Any:
    """Per row, the shares of so many values, those preferred in an order of the row's own."""
    shares = _zipf(of, skew)
    return np.stack([shares[rng.permutation(of)] for _ in range(rows)])
