"""Costs: what a filter costs a notification in the trie, and what it costs in a slab.

Both are estimates in nanoseconds for one notification and one filter, from the shares of
notifications that hit its tokens or fall into its ranges. What they leave out is the same for both:
a match must be written down. The constants were measured, see `docs/decisions/`.
"""

from __future__ import annotations

import numpy as np

from kbn.matching.groups import Array
from kbn.matching.kernels.views import Codes

NODE_NS = 25.0
"""To visit a node of the trie and look for its children."""
LEAF_NS = 8.0
CHAINED_NS = 60.0
"""To verify the code of a filter that hangs at a node: mostly a miss of the cache."""
HULL_NS = 0.002
ROWS_NS = 0.12
"""A filter's part of ORing the rows of a slab that is visited."""
CHECK_NS = 10.0
SPREAD = 0.02
"""How much wider the hull of a slab is than its filters."""


def cheaper_in_slabs(weights: Array, members: Array, codes: Codes) -> Array:
    """Which of the filters, weighed by `weigh`, cost less in a slab than in the trie."""
    headers = codes.words[codes.start[members]]
    tokens = headers & 0xFFFFF
    chained = headers != tokens
    in_trie = weights[:, 7] * NODE_NS + weights[:, 6] * np.where(chained, CHAINED_NS, LEAF_NS)
    visited = np.minimum(1.0, weights[:, 1] + SPREAD)
    in_slabs = HULL_NS + visited * ROWS_NS + weights[:, 8] * CHECK_NS
    cheaper: Array = (in_slabs < in_trie) & (chained | (tokens > 0))
    return cheaper
