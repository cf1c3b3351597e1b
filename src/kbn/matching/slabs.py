"""The slabs: filters in blocks of similar ones, as bit sets (the scan is in `kernels/slab.py`).

A bulk of filters is ordered by the most selective part of each and by the second, so that those
that are satisfied together lie side by side, and cut into slabs. Filters that come one by one fill
an open slab at the end; when such slabs have become an eighth of all, everything is laid out anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

import numpy as np

from kbn.matching.groups import Array, Groups, grown
from kbn.matching.kernels import lane as lane_kernels
from kbn.matching.kernels import layout
from kbn.matching.kernels.lane import CELLS
from kbn.matching.kernels.slab import ALL_FAIL, NOBODY_FAILS, SLAB, SLAB_WORDS
from kbn.matching.kernels.views import Codes, SlabArrays
from kbn.matching.lanes import POINTS_MAX, Lanes

_SLAB_FIELDS = ("hull_lane", "hull_mask", "local_axis", "local_size", "local_grid")
ARRAYS = (
    *_SLAB_FIELDS, "lane_start", "lane_of", "row_of", "rows", "idle", "members", "check_start",
    "checks",
)  # fmt: skip
_arrays_of = attrgetter(*ARRAYS)
COUNTS = ("slab_count", "count", "loose", "open_free", "row_count", "check_count")
LOOSE_MIN = 8 * SLAB
OPEN_LANES_MAX = 256
WEIGHED_MAX = 1 << 16
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONE = np.uint64(1)
_CELL_NUMBERS = np.arange(CELLS, dtype=np.uint64)


class Slabs:
    """Arrays of the slabs and their growth."""

    def __init__(self) -> None:
        self.lanes = Lanes()
        self.slab_count = 0
        self.count = 0
        self.loose = 0
        self.open_free = 0
        self.row_count = 2
        self.check_count = 0
        self.hull_lane = np.zeros((0, 2), np.int32)
        self.hull_mask = np.zeros((0, 2), np.uint64)
        self.local_axis = np.zeros(0, np.int32)
        self.local_size = np.zeros(0, np.int64)
        self.local_grid = np.zeros((0, POINTS_MAX), np.float64)
        self.lane_start = np.zeros(1, np.int64)
        self.lane_of = np.zeros(0, np.int32)
        self.row_of = np.zeros((0, CELLS), np.int32)
        self.rows = np.zeros((2, SLAB_WORDS), np.uint64)
        self.rows[ALL_FAIL] = _ALL
        self.idle = np.zeros((0, SLAB_WORDS), np.uint64)
        self.members = np.zeros(0, np.int32)
        self.check_start = np.zeros(1, np.int64)
        self.checks = np.zeros((0, 3), np.int32)

    def view(self) -> SlabArrays:
        """What the kernels see."""
        arrays = _arrays_of(self)
        return SlabArrays._make((self.slab_count, *arrays, self.checks.view(np.float32)))

    def memory(self) -> int:
        return self.lanes.memory() + sum(int(getattr(self, name).nbytes) for name in ARRAYS)

    @property
    def too_loose(self) -> bool:
        """Whether so many filters came one by one that all should be laid out anew."""
        return self.loose > max(LOOSE_MIN, self.count // 8)

    def insert(self, members: Array, groups: Groups) -> None:
        """Put the groups `members` into slabs: whole ones of their own, the rest one by one."""
        codes = groups.view()
        if members.shape[0] >= SLAB:
            for _ in self.inserting(members, groups, WEIGHED_MAX):
                pass
            return
        for group in members.tolist():
            self.insert_one(group, codes)

    def inserting(self, members: Array, groups: Groups, part: int) -> Iterator[int]:
        """Put very many groups into slabs of their own, in steps that weigh `part` groups or build
        a slab; each gives about how many filters it has looked at. Groups may lose their last
        subscription in between.
        """
        codes = groups.view()
        weights = np.empty((members.shape[0], 6), np.float32)
        for first in range(0, members.shape[0], part):
            some = slice(first, first + part)
            weights[some] = self._weights(members[some], codes)
            yield weights[some].shape[0]
        order, ends = in_order(weights)
        yield members.shape[0] // 4
        start = 0
        for end in ends.tolist():
            self._build(members[order[start:end]], codes)
            start = end
            yield 4 * SLAB
        self.trim()

    def trim(self) -> None:
        """Give back the room that a bulk insert reserved and did not need."""
        self.rows = self.rows[: self.row_count].copy()
        self.checks = self.checks[: self.check_count].copy()

    def _weights(self, members: Array, codes: Codes) -> Array:
        """What `in_order` needs to know of each group; `weigh` says more, in twice the room."""
        found: Array = lane_kernels.weigh(members, codes, self.lanes.view())[:, :6]
        return found

    def insert_one(self, group: int, codes: Codes) -> None:
        """Put one group into the open slab."""
        if self.open_free == 0:
            self._open_slab()
        place = self.slab_count * SLAB - self.open_free
        words = int(codes.start[group + 1] - codes.start[group])
        self.checks = grown(self.checks, self.check_count + words)
        layout.insert_one(group, place, codes, self.lanes.view(), self.view())
        self._after_checks(place + 1, self.slab_count * SLAB)
        self.open_free -= 1
        self.count += 1
        self.loose += 1

    def _open_slab(self) -> None:
        """An empty slab at the end, with coarse rows on the first lanes and no hull."""
        lanes = min(self.lanes.count, OPEN_LANES_MAX)
        slab = self._new_slab(lanes)
        first = int(self.lane_start[slab])
        self.lane_of[first : first + lanes] = np.arange(lanes)
        self.rows = grown(self.rows, self.row_count + lanes * layout.COARSE_ROWS)
        coarse = np.concatenate(([0], 1 + np.arange(1, CELLS) // 8))
        for lane in range(lanes):
            self.row_of[first + lane] = self.row_count + coarse
            self.rows[self.row_count : self.row_count + layout.COARSE_ROWS] = 0
            self.row_count += layout.COARSE_ROWS
        self.idle[slab] = _ALL
        self.open_free = SLAB

    def _build(self, members: Array, codes: Codes) -> None:
        """A slab of just these members."""
        lanes = self.lanes.view()
        users, hulls = layout.asked_on_lanes(members, codes, lanes)
        used = self._in_order_of_use(users, hulls, members.shape[0])
        slab = self._new_slab(used.shape[0])
        self._set_hulls(slab, used[:2], users, hulls, members.shape[0])
        local = self._set_local_grid(slab, members, codes, used, users)
        slot_of_lane = np.full(self.lanes.count, -1, np.int64)
        slot_of_lane[used] = np.arange(used.shape[0])
        passing = np.zeros((used.shape[0], CELLS + 1, SLAB_WORDS), np.uint64)
        layout.mark_passing(members, codes, lanes, slot_of_lane, local, passing)
        everybody = _first_bits(members.shape[0])
        first = int(self.lane_start[slab])
        self.lane_of[first : first + used.shape[0]] = used
        self.rows = grown(self.rows, self.row_count + used.shape[0] * CELLS)
        # Cells of tokens are not merged: what they decide is not checked again.
        most = np.where(self.lanes.is_range[used], np.clip(users[used] // 2, 8, CELLS), CELLS)
        self.row_count = layout.write_rows(
            passing, most, self.row_of, first, self.rows, self.row_count, everybody
        )
        self.idle[slab] = ~everybody
        place = slab * SLAB
        self.members[place : place + members.shape[0]] = members
        words = int((codes.start[members + 1] - codes.start[members]).sum())
        self.checks = grown(self.checks, self.check_count + words)
        layout.write_all_checks(
            members, place, slot_of_lane, codes, lanes, self.check_start, self.checks,
            self.checks.view(np.float32),
        )  # fmt: skip
        self._after_checks(place + members.shape[0], place + SLAB)
        self.count += members.shape[0]

    def _after_checks(self, place: int, end: int) -> None:
        """Note where the checks end, and let the idle places up to `end` have none."""
        self.check_count = int(self.check_start[place]) >> 1
        self.check_start[place : end + 1] = self.check_start[place]

    def _in_order_of_use(self, users: Array, hulls: Array, members: int) -> Array:
        """The lanes asked on: first those all members ask on, the most selective hull first."""
        used = np.flatnonzero(users)
        share = self._hull_shares(used, hulls[used])
        shared = users[used] == members
        ordered: Array = used[np.lexsort((-users[used], np.where(shared, share, 2.0)))]
        return ordered

    def _hull_shares(self, lanes: Array, hulls: Array) -> Array:
        """The share of notifications that lie in the cells of each lane's hull."""
        inside = (hulls[:, None] >> _CELL_NUMBERS) & _ONE
        shares = (np.diff(self.lanes.below[lanes], axis=1) * inside).sum(axis=1)
        found: Array = np.where(inside[:, 0] == 0, shares, 1.0)
        return found

    def _set_hulls(self, slab: int, lanes: Array, users: Array, hulls: Array, members: int) -> None:
        self.hull_lane[slab] = self.lanes.count
        self.hull_mask[slab] = _ALL
        for n, lane in enumerate(lanes.tolist()):
            if users[lane] == members:
                self.hull_lane[slab, n] = lane
                self.hull_mask[slab, n] = hulls[lane]

    def _set_local_grid(
        self, slab: int, members: Array, codes: Codes, used: Array, users: Array
    ) -> Array:
        """A grid of its own for the first lane, if it is an axis all ask on; the masks there."""
        self.local_axis[slab] = -1
        self.local_size[slab] = 0
        axes = np.flatnonzero(self.lanes.axis_lane == used[0]) if used.shape[0] else used
        if axes.shape[0] == 0 or users[used[0]] < members.shape[0]:
            return np.zeros(0, np.uint64)
        lows, highs = layout.bounds_on(axes[0], members, codes)
        points = _local_points(lows, highs)
        self.local_axis[slab] = axes[0]
        self.local_size[slab] = points.shape[0]
        self.local_grid[slab, : points.shape[0]] = points
        masks: Array = layout.local_masks(lows, highs, self.local_grid, slab, points.shape[0])
        return masks

    def _new_slab(self, lanes: int) -> int:
        """The number of a new slab with room for so many lanes, in fours; none are set."""
        slab = self.slab_count
        self.open_free = 0
        for name in _SLAB_FIELDS:
            setattr(self, name, grown(getattr(self, name), slab + 1))
        self.idle = grown(self.idle, slab + 1)
        self.lane_start = grown(self.lane_start, slab + 2)
        start = int(self.lane_start[slab])
        end = start + (lanes + 3) // 4 * 4
        self.lane_start[slab + 1] = end
        self.lane_of = grown(self.lane_of, end)
        self.row_of = grown(self.row_of, end)
        self.lane_of[start:end] = self.lanes.count
        self.row_of[start:end] = NOBODY_FAILS
        self.hull_lane[slab] = self.lanes.count
        self.hull_mask[slab] = _ALL
        self.local_axis[slab] = -1
        places = (slab + 1) * SLAB
        self.members = grown(self.members, places)
        before = self.check_start[slab * SLAB]
        self.check_start = grown(self.check_start, places + 1)
        self.check_start[slab * SLAB : places + 1] = before
        self.slab_count += 1
        return slab


def _first_bits(count: int) -> Array:
    """The words of a slab with the first `count` bits set."""
    bits = np.zeros(SLAB, np.uint8)
    bits[:count] = 1
    return np.packbits(bits, bitorder="little").view(np.uint64)


def _local_points(lows: Array, highs: Array) -> Array:
    """Grid points for the ranges of one slab: outside the first and the last, all of them fail."""
    with np.errstate(over="ignore"):  # beyond the largest number comes infinity
        beyond = np.nextafter(highs, np.inf)
    ends = [lows.min(), beyond.max()]
    bounds = np.concatenate((lows, beyond))
    points = np.unique(bounds[np.isfinite(bounds)])
    if points.shape[0] > POINTS_MAX - 2:
        quantiles = np.linspace(0, 1, POINTS_MAX - 2)
        points = np.quantile(points, quantiles, method="nearest")
    return np.unique(np.concatenate((points, [end for end in ends if np.isfinite(end)])))


def in_order(weights: Array) -> tuple[Array, Array]:
    """The order in which filters go into slabs, and where each slab ends."""
    first, second = weights[:, 0].astype(np.int64), weights[:, 3].astype(np.int64)
    order = np.lexsort((second, first))
    pieces: list[Array] = []
    bounds = np.flatnonzero(np.diff(first[order])) + 1
    for part in np.split(order, bounds):
        pieces += _cut(part, weights)
    sizes = [piece.shape[0] for piece in pieces]
    return np.concatenate(pieces), np.cumsum(_joined(sizes))


def _joined(sizes: list[int]) -> list[int]:
    """Neighbours that fit into one slab joined, where one of them would fill less than half."""
    joined: list[int] = []
    for size in sizes:
        fits = bool(joined) and joined[-1] + size <= SLAB
        if fits and min(joined[-1], size) < SLAB // 2:
            joined[-1] += size
        else:
            joined.append(size)
    return joined


def _cut(part: Array, weights: Array) -> list[Array]:
    """Slabs of the filters that have their most selective part on the same lane."""
    slabs = max(1, part.shape[0] // SLAB)
    alone = weights[part, 3] < 0
    found: list[Array] = []
    for some in (part[alone], part[~alone]):
        if some.shape[0] == 0:
            continue
        pieces = _pieces(some, weights)
        placed = some[np.argsort(weights[some, 2], kind="stable")]
        for piece in np.array_split(placed, pieces):
            keys = (weights[piece, 5], weights[piece, 3]) if pieces < slabs else ()
            ordered = piece[np.lexsort(keys)] if keys else piece
            found += [ordered[i : i + SLAB] for i in range(0, ordered.shape[0], SLAB)]
    return found


def _pieces(part: Array, weights: Array) -> int:
    """Into how many pieces along the first lane to cut, before the second lane is looked at."""
    slabs = -(-part.shape[0] // SLAB)
    best, fewest = slabs, np.inf
    pieces = 1
    _, of_lane, sizes = np.unique(weights[part, 3], return_inverse=True, return_counts=True)
    second = np.bincount(of_lane, weights[part, 4]) / sizes
    narrow = weights[part, 1].mean()
    while pieces <= 2 * slabs:
        along = min(pieces, slabs)
        rest = sizes / along / SLAB
        through = np.where(rest < 1, 1.0, np.minimum(1.0, second + 1 / np.maximum(rest, 1)))
        visited = min(1.0, narrow + 1 / along) * float((through * sizes).sum() / sizes.sum())
        if visited < fewest:
            best, fewest = along, visited
        pieces *= 2
    return int(best)
