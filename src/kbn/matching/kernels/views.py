"""What the kernels see of the index: its arrays by name.

Numba takes a named tuple of arrays as it is, so a kernel names what it needs (`trie.slots`) and its
callers pass one thing each. Scalars are plain integers and booleans.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Codes(NamedTuple):
    """The groups' codes (see `code.py`), and how many subscriptions are behind each group."""

    words: Any
    as_float: Any  # the same memory, read as float64
    start: Any
    alive: Any
    some_dead: bool


class TrieArrays(NamedTuple):
    """The trie (see `trie.py`)."""

    rank: Any
    slots: Any
    bits: int
    masks: Any
    chains: Any
    chain_next: Any


class LaneArrays(NamedTuple):
    """The lanes that slabs are cut along (see `lane.py`)."""

    lanes: int
    axis_lane: Any
    token_cell: Any
    grid: Any
    grid_size: Any
    below: Any
    token_share: Any
    token_use: Any


class SlabArrays(NamedTuple):
    """The slabs (see `slab.py`), of which `slab_count` are in use."""

    slab_count: int
    hull_lane: Any
    hull_mask: Any
    local_axis: Any
    local_size: Any
    local_grid: Any
    lane_start: Any
    lane_of: Any
    row_of: Any
    rows: Any
    idle: Any
    members: Any
    check_start: Any
    checks: Any
    checks_as_float: Any


class Points(NamedTuple):
    """Per notification and axis: where it lies, as a pair, and whether it lies there at all."""

    values: Any
    rests: Any
    present: Any


class Marks(NamedTuple):
    """Where notifications lie on the lanes (see `lane.py`)."""

    masks: Any
    cells: Any
    rounded: Any


class Stamps(NamedTuple):
    """Per token, the time it was last hit; the clock is an array of one."""

    clock: Any
    hit_at: Any
