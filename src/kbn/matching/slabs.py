"""The slabs: filters by their ranges, as bit sets over a grid (the scan is in `kernels/slab.py`).

Each axis has a grid of up to 62 points at the quantiles of the bounds asked for. Per slab of 2,048
filters, axis and cell there is a row of bits: which filters cannot accept a value in that cell. The
number of points falls as axes grow in number, to keep a filter's share of the rows near 256 bytes.
"""

from __future__ import annotations

import numpy as np

from kbn.matching.groups import Array, Groups, grown
from kbn.matching.kernels import slab as kernels
from kbn.matching.kernels.views import SlabArrays

_PLACE_FIELDS = ("members", "pivot_axis", "pivot_low", "pivot_high")
_SLAB_FIELDS = ("hull_axis", "hull_low", "hull_high")
ARRAYS = ("rows", "idle", "grid", "grid_size", *_PLACE_FIELDS, *_SLAB_FIELDS, "copy", "copy_start")
POINTS_MAX = 62
SHARE_BITS = 2048


class Slabs:
    """Arrays of the slabs and their growth."""

    def __init__(self) -> None:
        self.count = 0
        self.axes = 0
        self.with_tokens = False
        self.rows = np.zeros((0, 0, 2, kernels.SLAB_WORDS), np.uint64)
        self.idle = np.zeros((0, kernels.SLAB_WORDS), np.uint64)
        self.grid = np.zeros((0, 1), np.float64)
        self.grid_size = np.zeros(0, np.int64)
        self.members = np.zeros(0, np.int32)
        self.pivot_axis = np.zeros(0, np.int32)
        self.pivot_low = np.zeros(0, np.float64)
        self.pivot_high = np.zeros(0, np.float64)
        self.hull_axis = np.zeros(0, np.int32)
        self.hull_low = np.zeros(0, np.float64)
        self.hull_high = np.zeros(0, np.float64)
        self.copy = np.zeros(0, np.int64)
        self.copy_start = np.zeros(1, np.int64)

    @property
    def slab_count(self) -> int:
        return (self.count + kernels.SLAB - 1) // kernels.SLAB

    def set_grid(self, members: Array, groups: Groups, axes: int) -> None:
        """Lay the grid of each axis by the quantiles of the members' bounds; while empty."""
        assert self.count == 0
        room = (max(4, axes) + 3) // 4 * 4
        points = max(4, min(POINTS_MAX, SHARE_BITS // room))
        sample = members[:: max(1, members.shape[0] // 50_000)]
        axis_of, bounds = kernels.collect_bounds(sample, groups.view())
        self.grid = np.zeros((room, points), np.float64)
        self.grid_size = np.zeros(room, np.int64)
        finite = np.isfinite(bounds)
        for axis in range(axes):
            mine = bounds[finite & (axis_of == axis)]
            if mine.shape[0]:
                quantiles = np.linspace(0, 1, points + 2)[1:-1]
                found = np.unique(np.quantile(mine, quantiles))
                self.grid[axis, : found.shape[0]] = found
                self.grid_size[axis] = found.shape[0]
        self.axes = axes
        self.rows = np.zeros((0, room, points + 2, kernels.SLAB_WORDS), np.uint64)

    def cover_axes(self, axes: int) -> None:
        """Make room for axes up to `axes`; a new axis has one cell until the next rebuild."""
        if self.grid.shape[0] < axes:
            room = (axes + axes // 2 + 3) // 4 * 4
            grid = np.zeros((room, self.grid.shape[1]), np.float64)
            grid[: self.grid.shape[0]] = self.grid
            self.grid = grid
            self.grid_size = grown(self.grid_size, room, 0)
            shape = (self.rows.shape[0], room, *self.rows.shape[2:])
            rows = np.zeros(shape, np.uint64)
            rows[:, : self.rows.shape[1]] = self.rows
            self.rows = rows
        self.axes = max(self.axes, axes)

    def insert(self, members: Array, groups: Groups, with_tokens: bool) -> None:
        """Put the groups `members` into the next free places."""
        words = int((groups.code_start[members + 1] - groups.code_start[members]).sum())
        self._reserve(self.count + members.shape[0], words)
        codes = groups.view()
        pivots = kernels.find_pivots(members, codes, self.grid, self.grid_size)
        if members.shape[0] > 1:
            order = np.lexsort((pivots[1], pivots[0]))
            members = members[order]
            pivots = tuple(part[order] for part in pivots)
        kernels.insert_slabs(members, pivots, self.count, codes, self.view())
        self.count += members.shape[0]
        self.with_tokens = self.with_tokens or with_tokens

    def memory(self) -> int:
        return sum(int(getattr(self, name).nbytes) for name in ARRAYS)

    def view(self) -> SlabArrays:
        """What the kernels see."""
        arrays = (getattr(self, name) for name in ARRAYS)
        copy_as_float = self.copy.view(np.float64)
        return SlabArrays._make((self.axes, self.slab_count, *arrays, copy_as_float))

    def _reserve(self, count: int, words: int) -> None:
        self.copy = grown(self.copy, int(self.copy_start[self.count]) + words)
        self.copy_start = grown(self.copy_start, count + 1)
        slabs = (count + kernels.SLAB - 1) // kernels.SLAB
        if slabs > self.rows.shape[0]:
            room = max(slabs, self.rows.shape[0] + self.rows.shape[0] // 8)
            rows = np.zeros((room, *self.rows.shape[1:]), np.uint64)
            rows[: self.rows.shape[0]] = self.rows
            idle = np.full((room, kernels.SLAB_WORDS), kernels.ALL_BITS, np.uint64)
            idle[: self.idle.shape[0]] = self.idle
            self.rows, self.idle = rows, idle
            for name in _SLAB_FIELDS:
                setattr(self, name, grown(getattr(self, name), room))
            for name in _PLACE_FIELDS:
                setattr(self, name, grown(getattr(self, name), room * kernels.SLAB))
