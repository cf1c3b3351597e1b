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


def cheaper_in_slabs(weights: Array, members: Array, codes: Codes) -> Array:
    """Which of the filters, weighed by `weigh`, cost less in a slab than in the trie."""
    headers = codes.words[codes.start[members]]
    tokens = headers & 0xFFFFF
    chained = headers != tokens
    in_trie = weights[:, 7] * NODE_NS + weights[:, 6] * np.where(chained, BLOCK_NS, LEAF_NS)
    several = weights[:, 10]
    visited = np.minimum(1.0, weights[:, 1] + SPREAD * several)
    candidates = weights[:, 8] * np.where(weights[:, 9] > 0, VERIFY_NS, CHECK_NS)
    in_slabs = HULL_NS + visited * ROWS_NS * several + candidates
    cheaper: Array = (in_slabs < in_trie) & (chained | (tokens > 0))
    return cheaper
