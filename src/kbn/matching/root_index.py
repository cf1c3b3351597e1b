"""The root index: who covers a filter, and whom it covers, among what is or was a root.

Both questions are answered for plain filters (`plain_filters.py`) by kernels, and for others by
candidates that are put to the oracle:

1. Whoever covers g accepts every witness of g (`witness.py`), so the candidates are what the
   matching index finds for the tokens that g's witnesses hit.
2. Whoever g covers implies each constraint of g; roots are posted under what they say
   (`postings.py`, `root_lists.py`), and the candidates are posted under what implies one of g's.

What was a root stays in the matching index as long as it is stored: roots come and go more often
than filters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from math import inf

import numpy as np

from kbn.filters import Filter
from kbn.matching.bulk_covering import BulkCovering
from kbn.matching.covering import CoverQuery, Implications
from kbn.matching.groups import Array
from kbn.matching.indexed_subscriptions import IndexedSubscriptions
from kbn.matching.kernels.covering import NO, SURELY, which_are_covered, which_cover
from kbn.matching.plain_filters import PlainCode, PlainFilters
from kbn.matching.postings import RootPostings
from kbn.ontology import Ontology

AT_ONCE = 64
"""How many roots are asked about together."""


class RootIndex:
    """Filters that are or were roots, by number."""

    def __init__(
        self,
        ontology: Ontology | None,
        implications: Implications,
        asked_max: float = inf,
        *,
        in_parts: bool = False,
    ) -> None:
        """The oracle is asked at most `asked_max` times who covers a filter: then nobody does."""
        self._asked_max = asked_max
        self.held = IndexedSubscriptions(ontology, in_parts=in_parts)
        self._index = self.held.index
        self._implications = implications
        self._query = CoverQuery(self._index, implications.memory)
        self._plain = PlainFilters(self._index)
        self._filters: dict[int, Filter] = {}
        self._postings = RootPostings(
            self._index.ontology,
            implications,
            self._query.witness,
            self._filters.__getitem__,
            asked_max,
        )
        self._roots: dict[int, None] = {}
        self._last: tuple[Filter | None, bytes] = (None, b"")
        self._last_plain: tuple[bytes, PlainCode | None] = (b"", None)

    def code_of(self, filter: Filter) -> bytes:
        """The filter's code; an error when it has none."""
        if self._last[0] is not filter:
            self._last = (filter, self._index.encoder.encode(filter.constraints))
        return self._last[1]

    def _plain_code(self, filter: Filter) -> PlainCode | None:
        """The filter's code taken apart; None when the filter is not plain."""
        code = self.code_of(filter)
        if self._last_plain[0] is not code:
            self._last_plain = (code, self._plain.code_of(filter, code))
        return self._last_plain[1]

    def add(self, root: int, filter: Filter) -> None:
        """Enter a root."""
        if root not in self._filters:
            self._filters[root] = filter
            self.held.add_code(self.code_of(filter), root)
        self._roots[root] = None
        self._postings.add(root, filter)

    def add_many(self, roots: list[int], filters: list[Filter], codes: list[Array]) -> None:
        """Enter new roots, with their codes."""
        if not roots:
            return
        starts = np.concatenate(([0], np.cumsum([code.shape[0] for code in codes])))
        self.held.add_codes(np.concatenate(codes), starts, list(roots))
        self._filters.update(zip(roots, filters, strict=True))
        for root, filter in zip(roots, filters, strict=True):
            self._roots[root] = None
            self._postings.add(root, filter)

    def in_bulk(self, filters: list[Filter]) -> BulkCovering:
        """Plain filters, encoded to be settled."""
        return BulkCovering(self._index, self._plain, filters)

    def entries_of(self, group: int) -> list[int]:
        """The entries of a group of the matching index."""
        return self.held.keys_of_groups((group,))

    def demote(self, root: int) -> None:
        """What was a root is none any more, and is still stored."""
        del self._roots[root]
        self._postings.discard(root, self._filters[root])

    def remove(self, entry: int) -> None:
        """Forget what is no root, if it ever was one."""
        if self._filters.pop(entry, None) is not None:
            self.held.remove(entry)

    def check_invariants(self) -> None:
        """The lists hold the roots (slow; for tests)."""
        self._postings.lists.check_invariants()

    # --- who covers it? ------------------------------------------------------------------------

    def covering(self, filter: Filter) -> Iterator[int]:
        """Those that cover the filter, one after another."""
        plain = self._plain_code(filter)
        found = None if plain is None else self._covering_plain(filter, plain)
        if found is None:
            candidates = self._query.candidates(filter)
            groups = None if candidates is None else np.array(candidates, np.int64)
            entries = list(self._roots) if groups is None else self._entries(groups)
            yield from self._asked(filter, entries)
            return
        groups, verdicts = found
        if groups.shape[0] == 0:
            return
        yield from self._entries(groups[verdicts == SURELY])
        unclear = (verdicts != SURELY) & (verdicts != NO)
        yield from self._asked(filter, self._entries(groups[unclear]))

    def _covering_plain(self, filter: Filter, plain: PlainCode) -> tuple[Array, Array] | None:
        """Groups and what the kernel says of each; None where no one place stands for an axis."""
        points = {axis: bounds.point() for axis, bounds in plain.bounds.items()}
        found = {axis: point for axis, point in points.items() if point is not None}
        if len(found) < len(points):
            return None
        groups = self._index.find_covering(self._plain.hits(filter), found)
        if groups.shape[0] == 0:
            return groups, groups
        codes = self._index.groups
        box = self._plain.box(plain.bounds)
        words = codes.code
        verdicts = which_cover(groups, words, words.view(np.float64), codes.code_start, box)
        return groups, verdicts

    def _asked(self, filter: Filter, entries: list[int]) -> Iterator[int]:
        for number, entry in enumerate(entries):
            if number == self._asked_max:
                return
            if self._implications.covers(self._filters[entry], filter):
                yield entry

    def _entries(self, groups: Array) -> list[int]:
        return self.held.keys_of_groups(groups.tolist())

    # --- whom does it cover? -------------------------------------------------------------------

    def covered(self, filter: Filter) -> Iterator[list[int]]:
        """The roots that the filter covers, in parts; roots may come and go in between."""
        plain = self._plain_code(filter)
        if plain is None:
            candidates = self._postings.candidates(filter, self._roots)
            decide = self._covered_by
        else:
            few = self._postings.lists.few_with_equalities(filter)
            if few is not None and not plain.words[0] >> 48:
                yield few  # there are no ranges, and an equality follows from the same alone
                return
            candidates = self._postings.lists.candidates(filter).tolist() if few is None else few
            decide = partial(self._covered_by_plain, plain)
        for first in range(0, len(candidates), AT_ONCE):
            part = candidates[first : first + AT_ONCE]
            yield decide(filter, part if first == 0 else [n for n in part if n in self._roots])

    def _covered_by(self, filter: Filter, roots: list[int]) -> list[int]:
        covers = self._implications.covers
        return [root for root in roots if covers(filter, self._filters[root])]

    def _covered_by_plain(self, plain: PlainCode, filter: Filter, roots: list[int]) -> list[int]:
        if not roots:
            return []
        codes, words = self._index.groups, plain.words
        verdicts = which_are_covered(
            self._groups(roots), codes.code, codes.code.view(np.float64), codes.code_start,
            words, words.view(np.float64), self._plain.places(),
        ).tolist()  # fmt: skip
        found = [root for root, verdict in zip(roots, verdicts, strict=True) if verdict == SURELY]
        unclear = [
            root
            for root, verdict in zip(roots, verdicts, strict=True)
            if verdict not in (SURELY, NO)
        ]
        return found + self._covered_by(filter, unclear)

    def _groups(self, entries: Iterable[int]) -> Array:
        numbers = self.held.subscribers.numbers()
        groups = self._index.groups
        return groups.entry_group[groups.entry_start[[numbers[entry] for entry in entries]]]
