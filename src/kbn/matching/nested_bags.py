"""Bags within bags, in batches: a column of them as arrays, and what is asked about them.

A column in JSON whose cells are bags of bags is read by a kernel (`kernels/nested.py`); only the
distinct elements become values. A residual constraint that is a composite over a composite is a
`NestedRule`: one `ValueIndex` per element operator says which wants a value satisfies, as for
other residual constraints, and another kernel decides it for many rows at a time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kbn.errors import InvalidInputError
from kbn.filters import (
    ORDER_OPERATORS,
    AnyOperator,
    Bag,
    Constraint,
    Negated,
    bag_with_known_kinds,
    negate_operator,
    split_bag_operator,
    value_from_json,
)
from kbn.matching import kernels
from kbn.matching.composites import KINDS, ORDERS, ordered_pair
from kbn.matching.elements import OrderedValues, ordered_values, token_runs
from kbn.matching.groups import Array, grown
from kbn.matching.kernels.bags import PLACES_MAX
from kbn.matching.kernels.nested import HOLDS, REFUTED, UNKNOWN
from kbn.matching.kernels.views import NestedBags, NestedRule, Partners, TokenMasks
from kbn.matching.text_search import Texts
from kbn.matching.value_index import ValueIndex
from kbn.ontology import Ontology

_NO_RUNS = (np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(0, np.int64))
_NO_ORDER = OrderedValues(np.zeros(0, np.int8), np.zeros(0, np.float64), np.zeros(0, np.int64))


class NestedColumn:
    """The cells of a column in JSON that are bags of bags; `is_read` says which."""

    def __init__(
        self, is_read: Array, row_start: Array, inner_start: Array, codes: Array, values: list[Any]
    ) -> None:
        self.is_read = is_read
        self._row_start = row_start
        self._inner_start = inner_start
        self._codes = codes
        self._values = values
        self._runs: dict[tuple[int, int], tuple[Array, Array, Array]] = {}
        self._ordered: OrderedValues | None = None
        self._last: tuple[int, Bag] | None = None

    def bag(self, row: int) -> Bag:
        """The bag of a row that was read; several constraints may ask for it in turn."""
        if self._last is not None and self._last[0] == row:
            return self._last[1]
        first, last = self._row_start[row], self._row_start[row + 1]
        starts = self._inner_start[first : last + 1].tolist()
        codes = self._codes[starts[0] : starts[-1]].tolist()
        items = [*map(self._values.__getitem__, codes)]
        bounds = [start - starts[0] for start in starts]
        made = Bag.of(Bag.of(items[a:b]) for a, b in pairwise(bounds))
        self._last = row, made
        return made

    def counts(self, rows: Array) -> Array:
        """How many inner bags each of these rows has."""
        found: Array = self._row_start[rows + 1] - self._row_start[rows]
        return found

    def view(self, index: ValueIndex | None) -> NestedBags:
        """What the kernels see: what the elements hit in an index or, without one, their order."""
        runs, ordered = _NO_RUNS, _NO_ORDER
        if index is None:
            if self._ordered is None:
                self._ordered = _in_pairs(self._values)
            ordered = self._ordered
        else:
            name = (id(index), index.version)
            if name not in self._runs:
                self._runs[name] = _runs(index, self._values)
            runs = self._runs[name]
        return NestedBags(
            self._row_start, self._inner_start, self._codes, *runs,
            ordered.family, ordered.values, ordered.rests,
        )  # fmt: skip


def read_nested(array: pa.Array) -> NestedColumn | None:
    """The bags of bags in an array of JSON texts; None where it has none, or has wrong ones."""
    if not pa.types.is_string(array.type) or len(array) == array.null_count:
        return None
    _, offsets, data = array.buffers()
    bounds = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    text = np.frombuffer(data, np.uint8).copy()
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    read = kernels.nested.read(text, bounds.astype(np.int64), valid)
    is_read, row_start, inner_start, spans = read
    if not is_read.any():
        return None
    joined, starts = kernels.nested.put_side_by_side(text, spans)
    elements = pa.StringArray.from_buffers(
        spans.shape[0], pa.py_buffer(starts), pa.py_buffer(joined)
    ).dictionary_encode()
    try:
        values = _values(elements.dictionary.to_pylist())
    except (InvalidInputError, ValueError):
        return None  # who reads cell by cell says which, and why
    codes = elements.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return NestedColumn(is_read, row_start, inner_start, codes, values)


def _values(texts: Sequence[str]) -> list[Any]:
    found: list[Any] = json.loads("[" + ",".join(texts) + "]")
    kinds = set(map(type, found))
    if kinds <= {str} or (kinds == {float} and np.isfinite(found).all()):
        return found
    return [each if type(each) is str else value_from_json(each) for each in found]


def _runs(index: ValueIndex, values: list[Any]) -> tuple[Array, Array, Array]:
    """What each value hits; texts are searched together."""
    if set(map(type, values)) == {str}:
        found = index.text_hits(Texts(pa.array(values, pa.string())))
        if found is not None:
            return found
    return token_runs(map(index.hits, values))


def _in_pairs(values: list[Any]) -> OrderedValues:
    if set(map(type, values)) != {float}:
        return ordered_values(values)
    count = len(values)
    exact = np.array(values, np.float64) + 0.0
    return OrderedValues(np.ones(count, np.int8), exact, np.zeros(count, np.int64))


class NestedCheck:
    """A residual constraint that kernels decide for rows of bags within bags.

    Where the numbers of inner bags tell, or are too large for kernels, elements are not looked at.
    """

    def __init__(self, kinds: _Kinds, groups: int, prepare: Callable[[], _Prepared]) -> None:
        self._kinds = kinds
        self._groups = groups
        self._prepare = prepare

    @cached_property
    def prepared(self) -> _Prepared:
        """What is wanted of the elements, made when it is first asked for."""
        return self._prepare()

    def decide(self, column: NestedColumn, rows: Array) -> Array:
        """For each of the rows, which must be read, REFUTED, HOLDS or UNKNOWN."""
        counts = column.counts(rows)
        fit = _FITS[self._kinds.outer](counts, self._groups)
        answers = np.where(fit, UNKNOWN, HOLDS if self._kinds.negated else REFUTED).astype(np.int8)
        asked = np.flatnonzero(fit & (counts <= PLACES_MAX))
        if asked.shape[0]:
            answers[asked] = self.prepared.decide(column, rows[asked])
        return answers


class _Kinds(NamedTuple):
    """The relations of a composite over a composite, and what is negated."""

    outer: int
    inner: int
    negated: bool
    inner_negated: bool


# Whether a bag of so many elements can stand in a relation to one of so many others.
_FITS: dict[int, Callable[[Array, int], Array]] = {
    kernels.bags.SUPER: np.greater_equal,
    kernels.bags.EQUAL: np.equal,
    kernels.bags.SUB: np.less_equal,
}


class _Prepared:
    """The wants of a rule, and room to work in."""

    def __init__(self, rule: NestedRule, index: ValueIndex | None, wants: int) -> None:
        self.index = index
        self._rule = rule
        groups = rule.group_start.shape[0] - 1
        self._bits = np.zeros(max(groups, 1), np.uint64)
        longest = max(int(np.diff(rule.group_start).max(initial=0)), groups, 1)
        self._room = _room_for(longest)
        self._marks = TokenMasks(
            np.zeros(1, np.int64),
            np.zeros(max(wants, 1), np.int64),
            np.zeros(max(wants, 1), np.uint64),
        )

    def decide(self, column: NestedColumn, rows: Array) -> Array:
        view = column.view(self.index)
        clock, at, mask = self._marks
        highest = int(view.tokens.max(initial=0)) + 1
        if at.shape[0] < highest:
            self._marks = TokenMasks(clock, grown(at, highest, 0), grown(mask, highest, 0))
        answers: Array = kernels.nested.decide(
            rows, tuple(view), tuple(self._rule), tuple(self._marks), tuple(self._room), self._bits
        )
        return answers


def nested_check(
    constraint: Constraint,
    ontology: Ontology,
    numbered: Callable[[AnyOperator, Sequence[Any]], tuple[ValueIndex, list[int]]],
) -> NestedCheck | None:
    """The check of a composite over a composite over another operator; None for anything else.

    `numbered` gives, for an element operator and elements that are wanted, the index that says who
    satisfies them and their numbers in it.
    """
    positive, negated = _positive(constraint.operator)
    outer = split_bag_operator(positive)
    if outer is None or type(constraint.operand) is not Bag:
        return None
    inner_positive, inner_negated = _positive(outer[1])
    inner = split_bag_operator(inner_positive)
    if inner is None or split_bag_operator(inner[1]) is not None:
        return None
    operand = bag_with_known_kinds(constraint.operand, ontology)
    groups = [item.items for item in operand if type(item) is Bag]
    if operand.bare or len(groups) < len(operand):
        return None
    kinds = _Kinds(KINDS[outer[0]], KINDS[inner[0]], negated, inner_negated)
    return NestedCheck(kinds, len(groups), partial(_prepared, kinds, inner[1], groups, numbered))


def _prepared(
    kinds: _Kinds,
    element: AnyOperator,
    groups: list[tuple[Any, ...]],
    numbered: Callable[[AnyOperator, Sequence[Any]], tuple[ValueIndex, list[int]]],
) -> _Prepared:
    starts = np.zeros(len(groups) + 1, np.int64)
    np.cumsum([len(group) for group in groups], out=starts[1:])
    if element in ORDER_OPERATORS:
        pairs = [sorted(ordered_pair(one) for one in group) for group in groups]
        families = {family for group in pairs for family, _, _ in group}
        if len(families) == 1 and 0 not in families:
            bounds = np.array([value for group in pairs for _, value, _ in group], np.float64)
            rests = np.array([rest for group in pairs for _, _, rest in group], np.int64)
            order, family = ORDERS[element], families.pop()
            none = np.zeros(0, np.int64)
            return _Prepared(
                NestedRule(*kinds, order, family, starts, none, bounds, rests), None, 0
            )
    index, wants = numbered(element, [item for group in groups for item in group])
    no_bounds = np.zeros(0, np.float64), np.zeros(0, np.int64)
    rule = NestedRule(*kinds, 0, 0, starts, np.array(wants, np.int64), *no_bounds)
    return _Prepared(rule, index, max(wants, default=0) + 1)


def _positive(operator: AnyOperator) -> tuple[AnyOperator, bool]:
    if isinstance(operator, Negated):
        return negate_operator(operator), True
    return operator, False


def _room_for(wants: int) -> Partners:
    none = np.zeros(0, np.int64)
    return Partners(
        masks=np.zeros(wants, np.uint64),
        partner=np.zeros(wants, np.int64),
        queue=np.zeros(PLACES_MAX + 1, np.int64),
        holder=np.zeros(PLACES_MAX, np.int64),
        asked_by=np.zeros(PLACES_MAX, np.int64),
        values=np.zeros(PLACES_MAX, np.float64),
        rests=np.zeros(PLACES_MAX, np.int64),
        seen=none,
        promising=none,
    )
