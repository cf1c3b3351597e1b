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


class NodeArrays(NamedTuple):
    """The part of the trie that inserting changes: fields of `TrieArrays`."""

    rank: Any
    slots: Any
    bits: int
    masks: Any
    chains: Any
    chain_next: Any


class TrieArrays(NamedTuple):
    """The trie (see `trie.py`)."""

    rank: Any
    slots: Any
    bits: int
    masks: Any
    chains: Any
    chain_next: Any
    block_of: Any
    blocks: Any
    blocks_as_float: Any  # the same memory, read as float64
    listed: Any  # (see `listing.py`)
    root_of: Any
    depth: int
    loose: Any  # the groups that came since, `loose_count` of them
    loose_count: int


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


class Boxes(NamedTuple):
    """Per filter and axis, what the filter says of it: the tightest bounds (see `covering.py`)."""

    low: Any
    low_rest: Any
    low_open: Any
    high: Any
    high_rest: Any
    high_open: Any
    present: Any


class TokenPoints(NamedTuple):
    """Per token, the axis on which an equality of numbers or times lies, and where."""

    axis: Any
    value: Any
    rest: Any


class Positions(NamedTuple):
    """Where notifications lie on the lanes (see `lane.py`)."""

    masks: Any
    cells: Any
    rounded: Any


class Stamps(NamedTuple):
    """Per token, the time it was last hit; the clock is an array of one."""

    clock: Any
    hit_at: Any


class Elements(NamedTuple):
    """The elements of each row's bag, as numbers of values, and what each value hits.

    Those of row r are indices[offsets[r]:offsets[r + 1]] where valid; `present` says whether the
    row has a bag at all. A value's tokens are tokens[token_start[v]:token_end[v]]. Where some rule
    orders elements: `family` (1: a number, 2: a time), and the value as a pair.
    """

    offsets: Any
    indices: Any
    valid: Any
    present: Any
    token_start: Any
    token_end: Any
    tokens: Any
    family: Any
    values: Any
    rests: Any


class Rules(NamedTuple):
    """The residual constraints as far as kernels can decide them (see `composites.py`)."""

    attribute: Any
    kind: Any
    negated: Any
    order: Any
    family: Any
    want_start: Any
    wants: Any
    bounds: Any
    rests: Any


class NestedBags(NamedTuple):
    """Bags within bags, a row each, and what their elements satisfy.

    The inner bags of row r are row_start[r]:row_start[r + 1]; the elements of inner bag b are
    codes[inner_start[b]:inner_start[b + 1]], numbers of values; else as in `Elements`.
    """

    row_start: Any
    inner_start: Any
    codes: Any
    token_start: Any
    token_end: Any
    tokens: Any
    family: Any
    values: Any
    rests: Any


class NestedRule(NamedTuple):
    """A composite over a composite: the operand's inner bags are group_start[g]:group_start[g + 1].

    Those are numbers of wants or, under an order, sorted bounds.
    """

    outer: int
    inner: int
    negated: bool
    inner_negated: bool
    order: int
    family: int
    group_start: Any
    wants: Any
    bounds: Any
    rests: Any


class SubBagArrays(NamedTuple):
    """The sub-bag constraints (see `sub_bags.py`); the first `built` have postings and rows."""

    count: int
    built: int
    token: Any
    attribute: Any
    want_start: Any
    wants: Any
    posting_start: Any
    postings: Any
    in_order: Any
    large_enough: Any
    row_of: Any
    rows: Any


class TokenMasks(NamedTuple):
    """Per token: the places in a bag whose elements hit it, as of a time; the clock is of one."""

    clock: Any
    at: Any
    mask: Any


class Partners(NamedTuple):
    """Room to work in: masks of wants, who sits where, who was asked by whom, sorted values."""

    masks: Any
    partner: Any
    queue: Any
    holder: Any
    asked_by: Any
    values: Any
    rests: Any
    seen: Any
    promising: Any
