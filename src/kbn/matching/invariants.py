"""Invariants: what holds of a matcher whatever was added, removed and loaded, checked in full.

`check_invariants` reads every array the kernels read and works out anew, filter by filter, what
must stand there. It is slow and for tests; each assertion names the part that is wrong.

* Every key has its number, every entry its place in one list, every count its sum.
* A code names only tokens, residual constraints and axes that exist.
* A filter that somebody asks for is in one place: a path of the trie that spells its tokens in the
  order of the ranks, or one place of one slab. One in the trie is listed there, or loose.
* In a slab, a filter fails in no row of a cell that its mask holds, every hull holds its members'
  masks, what a row decides exactly is decided there or checked, and free places are idle.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from kbn.matching.index import Index
from kbn.matching.kernels.code import EMPTY
from kbn.matching.kernels.lane import CELLS, PARTS_MAX, parts_of
from kbn.matching.kernels.layout import CHECKS_MAX, bounds_on, local_masks
from kbn.matching.kernels.slab import ALL_FAIL, DECIDED, NOBODY_FAILS, SLAB
from kbn.matching.kernels.trie import TO_VERIFY
from kbn.matching.lanes import POINTS_MAX, Lanes
from kbn.matching.matcher import Matcher, subscriptions_of
from kbn.matching.subscribers import is_key

if TYPE_CHECKING:
    from kbn.matching.groups import Array, Groups
    from kbn.matching.indexed_subscriptions import IndexedSubscriptions

_ALL = (1 << 64) - 1


def check_invariants(matcher: Matcher) -> None:
    """AssertionError if something in the matcher does not stand where it should (slow)."""
    held = subscriptions_of(matcher)
    _check_keys(held)
    check_index(held.index)


def check_index(index: Index) -> None:
    """The same for an index alone."""
    index.groups.check_invariants()
    _check_codes(index)
    _check_lanes(index.slabs.lanes)
    in_trie = _places_in_trie(index)
    _check_listing(index, in_trie)
    in_slabs = _places_in_slabs(index)
    _check_placed(index, in_trie, in_slabs)


def _check_keys(held: IndexedSubscriptions) -> None:
    groups, keys = held.index.groups, held.subscribers.keys()
    assert len(keys) == groups.subscription_count, "a key for each subscription"
    live = {number: key for number, key in enumerate(keys) if is_key(key)}
    assert len(held) == len(live), "the number of subscriptions"
    for number, key in live.items():
        assert held.subscribers.number_of(key) == number, f"the number of the key {key!r}"
    entered = Counter(one for group in range(groups.group_count) for one in groups.members(group))
    for number in range(len(keys)):
        entries = len(groups.groups_of(number)) if number in live else 0
        assert entered[number] == entries, f"the entries of subscription {number}"


def _check_codes(index: Index) -> None:
    """Codes are as long as their headers say and name only what exists."""
    groups, table, encoder = index.groups, index.table, index.encoder
    assert len(table.peers) == len(table.constraints), "a lane for each token"
    for group in range(groups.group_count):
        code = _Code(groups, group)
        assert code.length == groups.words(group).shape[0], f"the length of code {group}"
        for token in (*code.tokens, *code.negatives):
            assert 0 <= token < len(table), f"a token of group {group}"
        assert all(0 <= one < len(encoder.residuals) for one in code.residuals), f"group {group}"
        assert all(0 <= axis < len(encoder.axes) for axis, _, _ in code.ranges), f"group {group}"
        assert len({axis for axis, _, _ in code.ranges}) == len(code.ranges), f"group {group}"


class _Code:
    """The parts of one group's code."""

    def __init__(self, groups: Groups, group: int) -> None:
        words = groups.words(group)
        header = int(words[0])
        counts = [header & 0xFFFFF, *(header >> shift & 0x3FFF for shift in (20, 34, 48))]
        ends = np.cumsum([1, *counts[:3]]).tolist()
        self.tokens: list[int] = words[ends[0] : ends[1]].tolist()
        self.negatives: list[int] = words[ends[1] : ends[2]].tolist()
        self.residuals: list[int] = words[ends[2] : ends[3]].tolist()
        self.length = ends[3] + 3 * counts[3]
        ranges = words[ends[3] : self.length].reshape(-1, 3)
        bounds = np.ascontiguousarray(ranges[:, 1:]).view(np.float64)
        axes = (ranges[:, 0] & 0xFFFFFF).tolist()
        self.ranges = [(axis, *pair) for axis, pair in zip(axes, bounds.tolist(), strict=True)]
        self.plain = header == counts[0]


# --- the trie -----------------------------------------------------------------------------------

_HASH = 0x9E3779B97F4A7C15


def _places_in_trie(index: Index) -> list[int]:
    """The groups in the trie, once for each place; every one is reached by the path it belongs."""
    groups, trie = index.groups, index.trie
    ranks = trie.rank.tolist()
    assert len(set(ranks)) == len(ranks), "a rank for each token"
    parents, owned = _nodes(index)
    found: list[int] = []
    for node in range(trie.node_count):
        path = _path(parents, node)
        assert sorted(path, key=ranks.__getitem__) == path, f"the order of the path to {node}"
        verified = [*_block_of(index, node), *_chain_of(index, node)]
        for group in (*owned.get(node, ()), *verified):
            assert sorted(_Code(groups, group).tokens) == sorted(path), f"the path of {group}"
        for group in verified:
            assert node == 0 or not _Code(groups, group).plain, f"{group} needs no verifying"
            assert trie.masks[node] & TO_VERIFY, f"node {node} says that it has groups to verify"
        assert all(_Code(groups, group).plain for group in owned.get(node, ())), f"node {node}"
        found += [*owned.get(node, ()), *verified]
    return found


def _nodes(index: Index) -> tuple[dict[int, tuple[int, int]], dict[int, list[int]]]:
    """Each node's parent and token, and the group that is the node's own."""
    trie = index.trie
    parents: dict[int, tuple[int, int]] = {}
    owned: dict[int, list[int]] = {}
    used = np.flatnonzero(trie.slots[:, 0] != EMPTY).tolist()
    assert len(used) == trie.node_count - 1, "a slot for each node"
    for slot in used:
        key, payload = trie.slots[slot].tolist()
        node, token, child = key >> 32, key & 0xFFFFFFFF, payload >> 33
        assert 0 <= node < trie.node_count, f"the parent in slot {slot}"
        assert 0 < child < trie.node_count and child not in parents, f"the child in slot {slot}"
        parents[child] = (node, token)
        bit = 1 << max(1, (token * _HASH & _ALL) >> 58)
        assert int(trie.masks[node]) & bit, f"the mask of node {node}"
        at = (key * _HASH & _ALL) >> (64 - trie.bits)
        while at != slot:
            assert trie.slots[at, 0] != EMPTY, f"slot {slot} is found by its key"
            at = (at + 1) % trie.slots.shape[0]
        group = (payload >> 1 & 0xFFFFFFFF) - 1
        if group >= 0:
            owned[child] = [group]
        below = trie.masks[child] or _block_of(index, child) or _chain_of(index, child)
        assert payload & 1 or not below, f"node {child} is said to be a leaf"
    return parents, owned


def _path(parents: dict[int, tuple[int, int]], node: int) -> list[int]:
    path: list[int] = []
    while node != 0:
        assert len(path) <= len(parents), "a path has an end"
        node, token = parents[node]
        path.append(token)
    return path[::-1]


def _block_of(index: Index, node: int) -> list[int]:
    """The groups side by side at a node; each copy is its code."""
    trie = index.trie
    if node >= trie.block_of.shape[0]:
        return []
    return _copies(index, *trie.block_of[node].tolist())


def _copies(index: Index, at: int, end: int) -> list[int]:
    """The groups whose codes are copied to blocks[at:end]."""
    trie = index.trie
    assert 0 <= at <= end <= trie.blocks.shape[0], f"the block at {at}"
    found: list[int] = []
    while at < end:
        group, length = int(trie.blocks[at]) & 0xFFFFFFFF, int(trie.blocks[at]) >> 32
        copied = trie.blocks[at + 1 : at + 1 + length]
        assert np.array_equal(copied, index.groups.words(group)), f"the copy of group {group}"
        found.append(group)
        at += 1 + length
    assert at == end, f"the end of a block, {end}"
    return found


def _chain_of(index: Index, node: int) -> list[int]:
    """The groups that came to a node since the last build."""
    found: list[int] = []
    group = int(index.trie.chains[node])
    while group != EMPTY:
        assert len(found) < index.groups.group_count, f"the chain of node {node} has an end"
        found.append(group)
        group = int(index.trie.chain_next[group])
    return found


def _check_listing(index: Index, in_trie: list[int]) -> None:
    """The list of the trie spells the tokens of every group in it, but for the loose ones."""
    groups, trie = index.groups, index.trie
    rows: list[list[int]] = trie.listed.tolist()
    loose: list[int] = trie.loose[: trie.loose_count].tolist()
    listed = _block_of(index, 0)
    path: list[int] = []
    for place, (token, behind, depth, own, start, end) in enumerate(rows):
        del path[depth:]
        assert len(path) == depth < trie.depth, f"the depth of place {place}"
        path.append(token)
        below = next((n for n in range(place + 1, len(rows)) if rows[n][2] <= depth), len(rows))
        assert behind == below, f"what is behind place {place}"
        assert depth or trie.root_of[token] == place, f"the root's child by token {token}"
        here = [*([own] if own >= 0 else []), *_copies(index, start, end)]
        for group in here:
            assert sorted(_Code(groups, group).tokens) == sorted(path), f"the place of {group}"
        listed += here
    assert np.count_nonzero(trie.root_of >= 0) == sum(row[2] == 0 for row in rows), "the roots"
    assert sorted((*listed, *loose)) == sorted(in_trie), "each group of the trie, listed or loose"


# --- lanes and slabs ----------------------------------------------------------------------------


def _check_lanes(lanes: Lanes) -> None:
    """Grids ascend, shares add up, and an exact cell belongs to one token."""
    axes = [lane for lane in lanes.axis_lane.tolist() if lane >= 0]
    assert len(set(axes)) == len(axes), "an axis has a lane of its own"
    exact: Counter[int] = Counter()
    used: Counter[int] = Counter()
    for place in lanes.token_cell[lanes.token_cell >= 0].tolist():
        assert place >> 8 < lanes.count and place >> 8 not in axes, "the lane of a token"
        assert 1 <= place >> 1 & 127 < CELLS, "the cell of a token"
        used[place >> 1] += 1
        exact[place >> 1] += place & 1
    assert all(used[cell] == 1 for cell, count in exact.items() if count), "an exact cell is alone"
    for lane in range(lanes.count):
        points = lanes.grid[lane, : lanes.grid_size[lane]]
        assert (np.diff(points) > 0).all(), f"the grid of lane {lane} ascends"
        assert (np.diff(lanes.below[lane]) >= 0).all(), f"the shares of lane {lane} ascend"
    assert all(0 <= lane < lanes.count for lane in axes), "the lane of an axis"


def _places_in_slabs(index: Index) -> list[int]:
    """The groups in slabs, once for each place; every slab says of its members what is true."""
    slabs = index.slabs
    assert np.array_equal(slabs.rows[NOBODY_FAILS], np.zeros_like(slabs.rows[0])), "no bit set"
    assert (slabs.rows[ALL_FAIL] == _ALL).all(), "all bits set"
    found: list[int] = []
    for slab in range(slabs.slab_count):
        found += _SlabCheck(index, slab).members()
    assert slabs.count == len(found), "the number of filters in slabs"
    assert slabs.loose <= slabs.count, "the number of those that came one by one"
    assert slabs.row_count <= slabs.rows.shape[0], "room for rows"
    assert slabs.check_count <= slabs.checks.shape[0], "room for checks"
    if slabs.slab_count:
        end = int(slabs.check_start[slabs.slab_count * SLAB]) >> 1
        assert slabs.check_count == end, "the number of checks"
    return found


class _SlabCheck:
    """One slab, member by member."""

    def __init__(self, index: Index, slab: int) -> None:
        self.index, self.slabs, self.slab = index, index.slabs, slab
        start, end = self.slabs.lane_start[slab : slab + 2].tolist()
        assert start <= end and (end - start) % 4 == 0, f"the lanes of slab {slab}, in fours"
        lanes: list[int] = self.slabs.lane_of[start:end].tolist()
        count = self.slabs.lanes.count
        named = [lane for lane in lanes if lane != count]
        assert all(0 <= lane < count for lane in named), f"the lanes of slab {slab}"
        assert len(set(named)) == len(named), f"slab {slab} has a lane once"
        self.slot_of = {lane: start + n for n, lane in enumerate(lanes) if lane != count}
        self.first_slot = start
        rows = self.slabs.row_of[start:end]
        assert ((rows >= 0) & (rows < self.slabs.row_count)).all(), f"the rows of slab {slab}"
        self.is_open = slab == self.slabs.slab_count - 1 and self.slabs.open_free > 0

    def members(self) -> list[int]:
        """The groups in the slab; the first places are taken, the others idle."""
        idle = self.slabs.idle[self.slab]
        free = np.unpackbits(idle.view(np.uint8), bitorder="little").astype(bool)
        size = int(np.count_nonzero(~free))
        assert not free[:size].any(), f"the free places of slab {self.slab} are the last"
        if self.is_open:
            assert size == SLAB - self.slabs.open_free, "the free places of the open slab"
        begin = self.slab * SLAB
        members: list[int] = self.slabs.members[begin : begin + size].tolist()
        starts = self.slabs.check_start[begin : begin + SLAB + 1] >> 1
        assert (np.diff(starts) >= 0).all(), f"the order of the checks of slab {self.slab}"
        assert (np.diff(starts[size:]) == 0).all(), f"a free place of slab {self.slab} has checks"
        local = self._local_masks(np.array(members, np.int32))
        for place, group in enumerate(members):
            assert 0 <= group < self.index.groups.group_count, f"a member of slab {self.slab}"
            self._check_member(place, group, local)
        return members

    def _local_masks(self, members: Array) -> Array | None:
        """The members' masks on the slab's own grid; None if it has none."""
        axis = int(self.slabs.local_axis[self.slab])
        if axis < 0:
            return None
        size = int(self.slabs.local_size[self.slab])
        assert 0 < size <= POINTS_MAX, f"the size of the grid of slab {self.slab}"
        points = self.slabs.local_grid[self.slab, :size]
        assert (np.diff(points) > 0).all(), f"the grid of slab {self.slab} ascends"
        lane = int(self.slabs.lanes.axis_lane[axis])
        assert self.slot_of.get(lane) == self.first_slot, f"the first lane of slab {self.slab}"
        lows, highs = bounds_on(axis, members, self.index.groups.view())
        masks: Array = local_masks(lows, highs, self.slabs.local_grid, self.slab, size)
        return masks

    def _check_member(self, place: int, group: int, local: Array | None) -> None:
        lanes = self.slabs.lanes
        lane_of, token_of = np.empty(PARTS_MAX, np.int64), np.empty(PARTS_MAX, np.int64)
        mask_of = np.empty(PARTS_MAX, np.uint64)
        codes = self.index.groups.view()
        count = parts_of(group, codes, lanes.view(), lane_of, mask_of, token_of)
        decided: set[int] = set()
        masks = dict(zip(lane_of[:count].tolist(), mask_of[:count].tolist(), strict=True))
        for n, (lane, mask) in enumerate(masks.items()):
            slot = self.slot_of.get(lane)
            if slot is None:
                assert self.is_built_one_by_one, f"slab {self.slab} has lane {lane} of {group}"
                continue
            if slot == self.first_slot and local is not None:
                mask = int(local[place])
            fails = self._fails(slot, place)
            assert not fails & mask, f"group {group} fails where it may pass, on lane {lane}"
            if fails | mask == _ALL:
                decided.add(int(token_of[n]))
        for hull_lane, hull in zip(*self._hulls(), strict=True):
            if hull_lane != lanes.count:
                missing = masks.get(hull_lane, _ALL) & ~hull
                assert not missing, f"group {group} is outside the hull of slab {self.slab}"
        self._check_checks(place, group, decided)

    @property
    def is_built_one_by_one(self) -> bool:
        """Whether only the first lanes have rows here."""
        return bool((self.slabs.hull_lane[self.slab] == self.slabs.lanes.count).all())

    def _hulls(self) -> tuple[list[int], list[int]]:
        return self.slabs.hull_lane[self.slab].tolist(), self.slabs.hull_mask[self.slab].tolist()

    def _fails(self, slot: int, place: int) -> int:
        """The cells of a lane in which the filter in this place fails, as a mask."""
        words = self.slabs.rows[self.slabs.row_of[slot], place >> 6]
        bits = (words >> np.uint64(place & 63)) & np.uint64(1)
        return sum(int(bit) << cell for cell, bit in enumerate(bits.tolist()))

    def _check_checks(self, place: int, group: int, decided: set[int]) -> None:
        """What rows leave open is checked here, or the whole code is verified."""
        code = _Code(self.index.groups, group)
        at = self.slab * SLAB + place
        whole = bool(self.slabs.check_start[at] & 1)
        start, end = (int(one) >> 1 for one in self.slabs.check_start[at : at + 2])
        checks = self.slabs.checks[start:end]
        bounds = checks.view(np.float32)
        tokens = {int(token) for axis, token, _ in checks if axis == -1}
        by_cell = {(DECIDED - int(axis), int(cell)) for axis, cell, _ in checks if axis <= DECIDED}
        ranges = {
            (int(axis), float(low), float(high))
            for axis, (_, low, high) in zip(checks[:, 0], bounds, strict=True)
            if axis >= 0
        }
        with np.errstate(over="ignore"):
            wanted = {(a, float(np.float32(b)), float(np.float32(c))) for a, b, c in code.ranges}
        assert tokens <= set(code.tokens) and ranges <= wanted, f"the checks of group {group}"
        cells = self.slabs.lanes.token_cell
        of_cell = {(int(cells[t]) >> 8, int(cells[t]) >> 1 & 63): t for t in code.tokens}
        known = tokens | {of_cell.get(each, -1) for each in by_cell}
        assert known <= set(code.tokens), f"the cells of the tokens of group {group}"
        if whole and len(code.tokens) + len(code.ranges) > CHECKS_MAX:
            assert not len(checks), f"all of group {group} is verified"
        else:
            some_left_out = len(by_cell) == CHECKS_MAX and checks[-1, 0] == -1
            assert set(code.tokens) <= known or some_left_out, f"the tokens of group {group}"
            assert ranges == wanted, f"the ranges of group {group} are checked"
        if not whole:
            assert set(code.tokens) <= tokens | decided, f"a token of group {group} is decided"
            assert not code.negatives and not code.residuals, f"group {group} is verified"


def _check_placed(index: Index, in_trie: list[int], in_slabs: list[int]) -> None:
    """Every group that somebody asks for is in one place, and no group in two."""
    groups = index.groups
    places = Counter((*in_trie, *in_slabs))
    assert all(count == 1 for count in places.values()), "a group has one place"
    alive = np.flatnonzero(groups.alive[: groups.group_count] > 0).tolist()
    lost = [group for group in alive if group not in places]
    assert not lost, f"groups {lost[:5]} can be found"
    marked = np.flatnonzero(index.placed[: groups.group_count]).tolist()
    assert sorted(places) == marked, "the marks of those placed"
    assert index.placed_count == len(marked), "the number of those placed"
    assert index.built_count <= index.placed_count, "the number of those placed in the last build"
