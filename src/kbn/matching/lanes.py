"""Lanes: the directions along which slabs are cut (the arithmetic is in `kernels/lane.py`).

A range lane is an axis with a grid of up to 62 points, at the quantiles of the bounds asked for. A
token lane is the tokens of one attribute and operator: at most one of `=` is hit by a value, and
several of `@>`. Lanes are laid for the filters that are to go along them; an axis or a token that
comes later has none until the next rebuild, and is checked instead.
"""

from __future__ import annotations

from operator import attrgetter

import numpy as np

from kbn.matching.groups import Array, Groups
from kbn.matching.kernels import layout
from kbn.matching.kernels.lane import CELLS
from kbn.matching.kernels.views import LaneArrays
from kbn.matching.tokens import TokenTable

ARRAYS = ("axis_lane", "token_cell", "grid", "grid_size", "below", "token_share", "token_use")
_arrays_of = attrgetter(*ARRAYS)
POINTS_MAX = CELLS - 2
SAMPLE = 16_384
LANES_MAX = 1_024
"""So many lanes have those axes and operators of attributes that are asked for most."""
NEW_SHARE = 1 / 256
"""What a token selects of which nothing is known yet."""


class Lanes:
    """Arrays of the lanes."""

    def __init__(self) -> None:
        self.count = 0
        self.axis_lane = np.zeros(0, np.int32)
        self.token_cell = np.zeros(0, np.int32)
        self.grid = np.zeros((0, POINTS_MAX), np.float64)
        self.grid_size = np.zeros(0, np.int64)
        self.below = np.zeros((0, CELLS + 1), np.float64)
        self.token_share = np.zeros(0, np.float64)
        self.token_use = np.zeros(0, np.float64)

    def view(self) -> LaneArrays:
        """What the kernels see."""
        return LaneArrays(self.count, *_arrays_of(self))

    @property
    def is_range(self) -> Array:
        """Per lane, whether it is an axis."""
        found = np.zeros(self.count, bool)
        found[self.axis_lane[self.axis_lane >= 0]] = True
        return found

    def memory(self) -> int:
        return sum(int(getattr(self, name).nbytes) for name in ARRAYS)

    def lay(self, members: Array, groups: Groups, axes: int, table: TokenTable) -> None:
        """Lay lanes for all that the members ask for."""
        sample = members[:: max(1, -(-members.shape[0] // SAMPLE))]
        used, bounds_of = _bounds_by_axis(*layout.collect_bounds(sample, groups.view()))
        self.axis_lane = np.full(axes, -1, np.int32)
        self.axis_lane[used] = np.arange(used.shape[0])
        self.token_share = table.selectivity()
        uses = layout.use_of_tokens(members, groups.view(), len(table))
        self.token_use = uses.astype(np.float64)
        by_lane = _tokens_by_lane(uses, table)[: LANES_MAX - used.shape[0]]
        self.count = used.shape[0] + len(by_lane)
        self.grid = np.zeros((self.count, POINTS_MAX), np.float64)
        self.grid_size = np.zeros(self.count, np.int64)
        self.below = np.zeros((self.count, CELLS + 1), np.float64)
        for lane, bounds in enumerate(bounds_of):
            self._lay_grid(lane, bounds[np.isfinite(bounds)])
        self.token_cell = np.full(len(table), -1, np.int32)
        for lane, tokens in enumerate(by_lane, used.shape[0]):
            self._lay_tokens(lane, tokens)

    def cover(self, tokens: int, axes: int) -> None:
        """Make room for tokens and axes that came later: they have no lane."""
        if self.token_cell.shape[0] < tokens:
            new = max(tokens, self.token_cell.shape[0] * 5 // 4) - self.token_cell.shape[0]
            self.token_cell = np.concatenate((self.token_cell, np.full(new, -1, np.int32)))
            self.token_share = np.concatenate((self.token_share, np.full(new, NEW_SHARE)))
            self.token_use = np.concatenate((self.token_use, np.ones(new)))
        if self.axis_lane.shape[0] < axes:
            new = axes - self.axis_lane.shape[0]
            self.axis_lane = np.concatenate((self.axis_lane, np.full(new, -1, np.int32)))

    def _lay_grid(self, lane: int, bounds: Array) -> None:
        points = np.unique(bounds)
        if points.shape[0] > POINTS_MAX:
            quantiles = np.linspace(0, 1, POINTS_MAX + 2)[1:-1]
            points = np.unique(np.quantile(bounds, quantiles, method="nearest"))
        self.grid[lane, : points.shape[0]] = points
        self.grid_size[lane] = points.shape[0]
        cells = points.shape[0] + 1
        self.below[lane] = np.clip((np.arange(CELLS + 1) - 1) / cells, 0, 1)

    def _lay_tokens(self, lane: int, tokens: Array) -> None:
        """Cells of their own for the tokens asked for most, given in that order."""
        count = tokens.shape[0]
        alone = count if count < CELLS else CELLS // 2
        cells = np.arange(1, count + 1)
        cells[alone:] = 1 + alone + np.arange(count - alone) % (CELLS - 1 - alone or 1)
        exact = np.arange(count) < alone
        self.token_cell[tokens] = lane << 8 | cells << 1 | exact
        shares = np.bincount(cells, self.token_share[tokens], CELLS)
        self.below[lane, 1:] = np.cumsum(shares)


def _bounds_by_axis(axis_of: Array, bounds: Array) -> tuple[Array, list[Array]]:
    """The axes that are asked for, and the bounds on each; half of the lanes are theirs."""
    used, uses = np.unique(axis_of, return_counts=True)
    parts = np.split(bounds[np.argsort(axis_of, kind="stable")], np.cumsum(uses)[:-1])
    if used.shape[0] > LANES_MAX // 2:
        most = np.sort(np.argsort(-uses, kind="stable")[: LANES_MAX // 2])
        return used[most], [parts[place] for place in most.tolist()]
    return used, parts if used.shape[0] else []


def _tokens_by_lane(uses: Array, table: TokenTable) -> list[Array]:
    """The tokens that are asked for, by attribute and operator, the most wanted first."""
    order = np.argsort(-uses, kind="stable")
    wanted = order[uses[order] > 0]
    if not wanted.shape[0]:
        return []
    peers = np.array(table.peers, np.int64)[wanted]
    _, first, lane = np.unique(peers, return_index=True, return_inverse=True)
    places = np.argsort(np.argsort(first))[lane]  # a lane comes where its most wanted token does
    if first.shape[0] > LANES_MAX:
        kept = places < LANES_MAX
        wanted, places = wanted[kept], places[kept]
    ends = np.cumsum(np.bincount(places))
    return np.split(wanted[np.argsort(places, kind="stable")], ends[:-1])
