"""The trie: filters by their tokens, rarest token first (the walk is in `kernels/trie.py`).

Any fixed order of the tokens is right; rarest first keeps the walk narrow. The order is set by
`rebuild` from how often each token is asked for, and tokens that come later queue up behind, until
the matcher has doubled and rebuilds.
"""

from __future__ import annotations

import numpy as np

from kbn.matching.groups import Array, Groups, grown
from kbn.matching.kernels import listing
from kbn.matching.kernels import trie as kernels
from kbn.matching.kernels.code import EMPTY
from kbn.matching.kernels.views import NodeArrays, TrieArrays

ARRAYS = ("slots", "masks", "chains", "chain_next", "rank", "block_of", "blocks", "listed",
          "root_of", "loose")  # fmt: skip
COUNTS = ("node_count", "bits", "depth", "loose_count")


class Trie:
    """Arrays of the trie and their growth."""

    def __init__(self) -> None:
        self.node_count = 1
        self.bits = 5
        self.slots = np.full((1 << self.bits, 2), EMPTY, np.int64)
        self.masks = np.zeros(16, np.uint64)
        self.chains = np.full(16, EMPTY, np.int32)
        self.chain_next = np.full(16, EMPTY, np.int32)
        self.rank = np.empty(0, np.int32)
        self.block_of = np.zeros((0, 2), np.int64)
        self.blocks = np.zeros(0, np.int64)
        self.listed = np.zeros((0, listing.COLUMNS), np.int32)
        self.root_of = np.zeros(0, np.int32)
        self.depth = 0
        self.loose = np.zeros(0, np.int32)
        self.loose_count = 0
        self._path = np.empty(64, np.int64)

    def set_ranks(self, frequencies: Array) -> None:
        """Order the tokens by how many groups hold them; only while the trie is empty."""
        assert self.node_count == 1
        order = np.argsort(frequencies, kind="stable")
        self.rank = np.empty(frequencies.shape[0], np.int32)
        self.rank[order] = np.arange(frequencies.shape[0], dtype=np.int32)

    def cover_tokens(self, count: int) -> None:
        """Make room for tokens up to `count`; new ones rank behind the old."""
        have = self.rank.shape[0]
        if have < count:
            new = np.arange(have, max(count, have + have // 2, 64), dtype=np.int32)
            self.rank = np.concatenate((self.rank, new))

    def insert(self, members: Array, groups: Groups, tokens: int, longest: int) -> None:
        """Hang the groups `members`, with `tokens` tokens in all and at most `longest` each."""
        self._reserve(self.node_count + tokens, groups.group_count)
        if self._path.shape[0] < longest:
            self._path = np.empty(2 * longest, np.int64)
        nodes = NodeArrays(
            self.rank, self.slots, self.bits, self.masks, self.chains, self.chain_next
        )
        self.node_count = kernels.insert_groups(
            members, groups.code, groups.code_start, nodes, self.node_count, self._path
        )
        loose = self.loose_count + members.shape[0]
        self.loose = grown(self.loose, loose)
        self.loose[self.loose_count : loose] = members
        self.loose_count = loose

    def view(self) -> TrieArrays:
        """What the kernels see."""
        return TrieArrays(
            self.rank, self.slots, self.bits, self.masks, self.chains, self.chain_next,
            self.block_of, self.blocks, self.blocks.view(np.float64), self.listed, self.root_of,
            self.depth, self.loose, self.loose_count,
        )  # fmt: skip

    def memory(self) -> int:
        return sum(int(getattr(self, name).nbytes) for name in ARRAYS)

    def trim(self) -> None:
        """Give back the room that a bulk insert reserved and did not need."""
        self.masks = self.masks[: self.node_count].copy()
        self.chains = self.chains[: self.node_count].copy()
        self._resize(max(5, int(2 * self.node_count - 1).bit_length()))

    def lay(self, groups: Groups) -> None:
        """List the nodes, and put the groups that need verifying side by side; after a build."""
        self.listed, self.root_of, self.depth, self.block_of, self.blocks = listing.lay(
            self.view(), groups.view(), self.node_count
        )
        self.loose, self.loose_count = np.zeros(0, np.int32), 0

    def _reserve(self, nodes: int, groups: int) -> None:
        self.masks = grown(self.masks, nodes)
        self.chains = grown(self.chains, nodes)
        self.chain_next = grown(self.chain_next, groups, EMPTY)
        # At most half of the slots are used; a bulk insert grows in steps to keep within bounds.
        bits = max(self.bits, int(2 * nodes - 1).bit_length())
        if bits > self.bits:
            self._resize(bits)

    def _resize(self, bits: int) -> None:
        if bits == self.bits:
            return
        bigger = np.empty((1 << bits, 2), np.int64)
        kernels.rehash_trie(self.slots, bigger, bits)
        self.slots, self.bits = bigger, bits
