"""Costs: what a filter costs a notification in the trie, and what it costs in a slab.

Both are estimates in nanoseconds for one notification and one filter, from the shares of
notifications that hit its tokens or fall into its ranges. What they leave out is the same for both:
a match must be written down. The constants are rough: chosen so that on the workloads of `kbn bench
match` filters land where they are cheaper, not measured one by one.
"""

from __future__ import annotations

import numpy as np

from kbn.matching.groups import Array
from kbn.matching.kernels.views import Codes

NODE_NS = 25.0
"""To visit a node of the trie and look for its children."""
LEAF_NS = 4.0
BLOCK_NS = 8.0
"""To verify a filter whose code lies among those of its node."""
HULL_NS = 0.002
ROWS_NS = 0.12
"""A filter's part of ORing the rows of a slab that is visited, a row for each of its lanes."""
CHECK_NS = 10.0
VERIFY_NS = 40.0
"""To compare a candidate of a slab with its whole code: mostly a miss of the cache."""
SPREAD = 0.02
"""How much wider the hull of a slab is than its filters."""


# Columns of what `weigh` gives, which says what each is.
IN_FIRST_LANE, HIT_ALL_TOKENS, REACH_LAST_NODE, IN_ALL_LANES, IS_VERIFIED, CELLS = 1, 6, 7, 8, 9, 10


def cheaper_in_slabs(weights: Array, members: Array, codes: Codes, full: float = 1.0) -> Array:
    """Which of the filters, weighed by `weigh`, cost less in a slab than in the trie.

    A slab that is not `full` costs the same, and it has no hull: every notification visits it.
    """
    headers = codes.words[codes.start[members]]
    tokens = headers & 0xFFFFF
    chained = headers != tokens
    at_leaf = weights[:, HIT_ALL_TOKENS] * np.where(chained, BLOCK_NS, LEAF_NS)
    in_trie = weights[:, REACH_LAST_NODE] * NODE_NS + at_leaf
    cells = weights[:, CELLS]
    visited = np.minimum(1.0, weights[:, IN_FIRST_LANE] + SPREAD * cells) if full == 1.0 else 1.0
    check_ns = np.where(weights[:, IS_VERIFIED] > 0, VERIFY_NS, CHECK_NS)
    candidates = weights[:, IN_ALL_LANES] * check_ns
    in_slabs = HULL_NS + visited * ROWS_NS / full * cells + candidates
    cheaper: Array = (in_slabs < in_trie) & (chained | (tokens > 0))
    return cheaper
