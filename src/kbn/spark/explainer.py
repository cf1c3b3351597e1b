"""Why pairs match, for a column of Spark: the library's sentences, each made once.

Pairs are many and reasons are few. A pair was found by a group, which is one distinct filter; so
what is explained is a row and a group, not a row and a subscription. What a constraint says depends
on the constraint and the value alone: sentences are made for the distinct pairs of these, and
remembered from batch to batch. The column is then written out by a kernel, in pieces of bounded
size.

That the value satisfies the constraint need not be asked again: the group was found.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kbn.filters import Constraint, has_one_reason, reason_for
from kbn.matching import AttributeColumn, FoundPairs, IndexedSubscriptions, StoreView, kernels
from kbn.ontology import Ontology

SENTENCES_MAX = 50_000
CONSTRAINTS_MAX = 100_000
"""What is remembered before the memory starts afresh."""
BYTES_MAX = 1 << 25
"""Of sentences in one piece of a column; one pair with more makes a piece of its own."""

ANY_VALUE = -1

Array = NDArray[Any]


class KnownConstraints:
    """The constraints of the groups of an index, by number."""

    def __init__(self, held: IndexedSubscriptions) -> None:
        self._held = held
        self.version = held.version
        self._groups: dict[int, list[int]] = {}
        self._numbers: dict[Constraint, int] = {}
        self.constraints: list[Constraint] = []
        self.asks_value: list[bool] = []

    def of(self, groups: Array) -> tuple[Array, Array]:
        """The numbers of each group's constraints, one after another, and how many it has."""
        if len(self.constraints) > CONSTRAINTS_MAX or len(self._groups) > CONSTRAINTS_MAX:
            self.__init__(self._held)  # type: ignore[misc]
        distinct, places = np.unique(groups, return_inverse=True)
        lists = [self._of_group(group) for group in distinct.tolist()]
        counts = np.array([len(each) for each in lists], np.int64)
        flat = np.array([number for each in lists for number in each], np.int64)
        starts = np.cumsum(counts) - counts
        return flat[_runs(starts[places], counts[places])], counts[places]

    def _of_group(self, group: int) -> list[int]:
        found = self._groups.get(group)
        if found is None:
            constraints = self._held.index.filter_of(group).constraints
            found = self._groups[group] = [self._number(each) for each in constraints]
        return found

    def _number(self, constraint: Constraint) -> int:
        found = self._numbers.setdefault(constraint, len(self.constraints))
        if found == len(self.constraints):
            self.constraints.append(constraint)
            self.asks_value.append(not has_one_reason(constraint))
        return found


class _Lists(NamedTuple):
    """The sentences of each finding: texts[starts[i]:starts[i+1]], numbers of `content`."""

    starts: Array
    texts: Array
    text_start: Array
    content: Array


_KNOWN: WeakKeyDictionary[IndexedSubscriptions, KnownConstraints] = WeakKeyDictionary()
_SENTENCES: WeakKeyDictionary[StoreView, dict[Any, bytes]] = WeakKeyDictionary()


class Explainer:
    """Says why rows of a table match."""

    def __init__(self, view: StoreView, table: pa.Table) -> None:
        self._ontology = view.ontology or Ontology.empty()
        self._sentences = _SENTENCES.setdefault(view, {})
        self._columns = {
            name: AttributeColumn(table.field(name), table[name])
            for name in table.column_names
            if name
        }
        self._codes: dict[str, Array] = {}
        self._values: dict[tuple[str, int], Any] = {}

    def reasons(
        self, held: IndexedSubscriptions, found: FoundPairs
    ) -> Iterator[tuple[int, int, pa.Array]]:
        """The sentences of the pairs from one to another, each pair a list, piece by piece."""
        lists = self._lists(held, found)
        counts, sizes = kernels.texts.sizes_of_lists(lists.starts, lists.texts, lists.text_start)
        ends = np.cumsum(sizes[found.by])
        start, done = 0, 0
        while start < found.by.shape[0]:
            stop = int(np.searchsorted(ends, done + BYTES_MAX, side="right"))
            stop = min(max(stop, start + 1), found.by.shape[0])
            offsets, text_offsets, written = kernels.texts.write_lists(
                found.by[start:stop], *lists, counts, sizes
            )
            texts = pa.StringArray.from_buffers(
                text_offsets.shape[0] - 1, pa.py_buffer(text_offsets), pa.py_buffer(written)
            )
            yield start, stop, pa.ListArray.from_arrays(pa.array(offsets), texts)
            start, done = stop, int(ends[stop - 1])

    def _lists(self, held: IndexedSubscriptions, found: FoundPairs) -> _Lists:
        known = _KNOWN.get(held)
        if known is None or known.version != held.version:
            known = _KNOWN[held] = KnownConstraints(held)
        constraints, counts = known.of(found.found_groups)
        rows = np.repeat(found.found_rows, counts)
        asked = np.stack((constraints, self._codes_of(known, constraints, rows)))
        first, places = _distinct(asked)
        sentences: dict[bytes, int] = {}
        numbers = np.empty(first.shape[0], np.int64)
        for at, entry in enumerate(first.tolist()):
            said = self._sentence(known, int(constraints[entry]), int(rows[entry]))
            numbers[at] = sentences.setdefault(said, len(sentences))
        starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
        texts = numbers[places]
        kernels.texts.each_text_once(starts, texts)
        lengths = np.array([len(said) for said in sentences], np.int64)
        text_start = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
        return _Lists(starts, texts, text_start, np.frombuffer(b"".join(sentences), np.uint8))

    def _codes_of(self, known: KnownConstraints, constraints: Array, rows: Array) -> Array:
        """For each constraint and row the code of the value; one for all where it says the same."""
        codes = np.full(constraints.shape[0], ANY_VALUE, np.int64)
        used = np.unique(constraints)
        by_attribute: dict[str, list[int]] = {}
        for number in used.tolist():
            if known.asks_value[number]:
                by_attribute.setdefault(known.constraints[number].attribute, []).append(number)
        of_attribute = np.full(int(used[-1]) + 1 if used.shape[0] else 0, -1, np.int64)
        for place, numbers in enumerate(by_attribute.values()):
            of_attribute[numbers] = place
        where = of_attribute[constraints]
        for place, attribute in enumerate(by_attribute):
            if attribute not in self._codes:
                self._codes[attribute] = self._columns[attribute].codes()
            chosen = where == place
            codes[chosen] = self._codes[attribute][rows[chosen]]
        return codes

    def _sentence(self, known: KnownConstraints, number: int, row: int) -> bytes:
        """What a constraint says of the value in a row."""
        constraint = known.constraints[number]
        if known.asks_value[number]:
            value = self._value(constraint.attribute, row)
            name: Any = (constraint, value.__class__, value)
        else:
            name = constraint
        found = self._sentences.get(name)
        if found is None:
            if len(self._sentences) >= SENTENCES_MAX:
                self._sentences.clear()
            said = reason_for(constraint, self._value(constraint.attribute, row), self._ontology)
            found = self._sentences[name] = said.encode("utf-8", "replace")
        return found

    def _value(self, attribute: str, row: int) -> Any:
        code = int(self._codes[attribute][row]) if attribute in self._codes else ~row
        found = self._values.get((attribute, code))
        if found is None:
            found = self._values[attribute, code] = self._columns[attribute].value(row)
        return found


def _distinct(asked: Array) -> tuple[Array, Array]:
    """The place of each distinct column of two rows, and which of them each column is."""
    constraints, codes = asked
    width = int(codes.max(initial=0)) + 2
    key = constraints * width + (codes + 1)
    _, first, places = np.unique(key, return_index=True, return_inverse=True)
    return first, places


def _runs(starts: Array, counts: Array) -> Array:
    """The positions starts[i], starts[i] + 1, … of every run, one run after another."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if ends.shape[0] else 0
    found: Array = np.arange(total) + np.repeat(starts - (ends - counts), counts)
    return found
