"""Inner rows: which bags inside one bag fit which inside another, for all pairs together.

Under a composite over a composite, 1,000 inner bags on each side are a million pairs. Here they are
decided as rows of bits by a kernel (`kernels/inner.py`): the distinct inner elements are numbered,
which of them are related is found once, and then each bag is asked about all others at a time. What
is cheap comes first: which pairs fit for sure, and which may fit. Mostly that tells already whether
the outer bags are related; if it does not, the pairs in between are decided.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kbn.filters.assignment import all_served
from kbn.filters.element_pairs import subject
from kbn.filters.operators import (
    AnyOperator,
    Negated,
    Operator,
    negate_operator,
    split_bag_operator,
)
from kbn.filters.pair_arrays import related_arrays
from kbn.filters.ranks import RANKED
from kbn.filters.values import Bag, Operand, value_key
from kbn.filters.vocabulary import Vocabulary
from kbn.ontology import Term

__all__ = ["all_inner_served"]

TABLE_WORDS_MAX = 1 << 20
READY_WORDS_MAX = 1 << 21
FIRST_SHARE = 8
"""One in so many bags is decided before the others."""
_NEGATIVE = frozenset({Operator.NE, Operator.NOT_EQUIV, Operator.IS_NOT_A})
_WORD_BITS = 64
_DENSE = 16  # a partner that is held so often that a row of it is sooner read, by words of a row

_Items: TypeAlias = Sequence[Operand]
_Numbers: TypeAlias = NDArray[np.int64]
_Words: TypeAlias = NDArray[np.uint64]


def all_inner_served(
    operator: AnyOperator, xs: _Items, vs: _Items, by_x: bool, ontology: Vocabulary
) -> bool | None:
    """Whether each x has a v of its own with `x operator v`; if not `by_x`, each v such an x.

    None where there is no such way: the operator must be a composite, negated or not, over an
    operator that is none, and where sorting does not tell; and the inner bags must not be large. No
    element holds a bare term.

    >>> from kbn.filters.operators import read_operator
    >>> from kbn.filters.vocabulary import NO_ONTOLOGY
    >>> bags = [Bag("tea", "pot"), Bag("cup", "tea")]
    >>> all_inner_served(read_operator("#>/>*"), bags, [Bag("t"), Bag("c")], False, NO_ONTOLOGY)
    True
    """
    is_negated = isinstance(operator, Negated)
    positive = operator.operator if isinstance(operator, Negated) else operator
    parts = split_bag_operator(positive)
    if parts is None or split_bag_operator(parts[1]) is not None or parts[1] in RANKED:
        return None
    bag, element = parts
    x_is_served = bag is not Operator.SUPER_BAG
    question = _asked(bag, element, xs, vs, x_is_served, ontology)
    if question is None:
        return None
    turned = x_is_served is not by_x
    mine, theirs = (xs, vs) if by_x else (vs, xs)

    def rows(matrix: _Words) -> list[int]:
        if is_negated:
            matrix = ~matrix & question.both_bags()
        if turned:
            matrix = _turned(matrix, len(mine))
        return [int.from_bytes(row.tobytes(), "little") for row in matrix[: len(mine)]]

    sure, may = question.bounds()
    least, most = (may, sure) if is_negated else (sure, may)
    if all_served(rows(least), len(theirs)):
        return True
    if not all_served(rows(most), len(theirs)):
        return False
    for some in _rounds(least, most):
        question.decide(some, sure, may)
        if all_served(rows(least), len(theirs)):
            return True
        if not all_served(rows(most), len(theirs)):
            return False
    raise AssertionError("all pairs are decided, and the answer is still open")


def _rounds(least: _Words, most: _Words) -> list[_Numbers]:
    """The rows to decide first, and the rest: mostly those with few bits tell."""
    order = np.argsort(np.bitwise_count(least).sum(axis=1), kind="stable")
    return [order[: least.shape[0] // FIRST_SHARE], order[least.shape[0] // FIRST_SHARE :]]


class _Elements(NamedTuple):
    """The inner elements of some bags: numbers of the distinct ones, bag after bag."""

    is_bag: NDArray[np.bool_]
    sizes: _Numbers
    starts: _Numbers
    codes: _Numbers
    distinct: list[Operand]


def _elements(items: _Items) -> _Elements:
    bags = [item if type(item) is Bag else None for item in items]
    flat: list[Operand] = [*chain.from_iterable(bag.items for bag in bags if bag is not None)]
    types = set(map(type, flat))
    names: Sequence[Any] = flat
    if len(types) == 1 and issubclass(next(iter(types)), Term):
        names = [*map(attrgetter("iri"), flat)]  # sooner compared than terms are
    elif bool in types:
        names = [*map(value_key, flat)]
    distinct = dict(zip(names, flat, strict=True))
    number = dict(zip(distinct, range(len(distinct)), strict=True))
    sizes = np.array([0 if bag is None else len(bag.items) for bag in bags], np.int64)
    starts = np.zeros(len(bags) + 1, np.int64)
    np.cumsum(sizes, out=starts[1:])
    return _Elements(
        np.array([bag is not None for bag in bags], bool),
        sizes,
        starts,
        np.fromiter(map(number.__getitem__, names), np.int64, len(flat)),
        [*distinct.values()],
    )


class _Question(NamedTuple):
    """What the kernels are asked: bags to be served, what is related, and the others."""

    mine: _Elements
    theirs: _Elements
    words: int
    served: tuple[Any, ...]
    relation: tuple[Any, ...]
    others: tuple[Any, ...]
    allowed: _Words
    size_class: _Numbers
    exists: _Words

    def bounds(self) -> tuple[_Words, _Words]:
        """Which pairs fit for sure, and which may fit."""
        from kbn.filters.kernels import inner

        sure = np.zeros((self.mine.sizes.shape[0], self.words), np.uint64)
        may = np.zeros_like(sure)
        inner.bound(
            self.allowed, self.size_class, self.served, self.relation, self.others, self.exists,
            sure, may,
        )  # fmt: skip
        return sure, may

    def decide(self, some: _Numbers, sure: _Words, may: _Words) -> None:
        """Find out of some of the bags to be served which others they fit."""
        from kbn.filters.kernels import inner

        between = np.zeros_like(sure)
        between[some] = may[some] & ~sure[some]
        inner.decide(self.served, self.relation, self.others, between)
        sure[some] |= between[some]
        may[some] = sure[some]

    def both_bags(self) -> _Words:
        """Which pairs are two bags."""
        theirs = _packed(self.theirs.is_bag, self.words)
        made: _Words = np.where(self.mine.is_bag[:, None], theirs, np.uint64(0))
        return made


def _asked(
    bag: Operator,
    element: AnyOperator,
    xs: _Items,
    vs: _Items,
    x_is_served: bool,
    ontology: Vocabulary,
) -> _Question | None:
    from kbn.filters.kernels import inner

    of_x, of_v = _elements(xs), _elements(vs)
    mine, theirs = (of_x, of_v) if x_is_served else (of_v, of_x)
    places = max(1, int(theirs.sizes.max(initial=0)))
    words = -(-len(theirs.sizes) // (_WORD_BITS * inner.WORDS)) * inner.WORDS
    longest = max(1, int(mine.sizes.max(initial=0)))
    if places > inner.PLACES_MAX or longest * places * words > TABLE_WORDS_MAX:
        return None
    held = _held(theirs, places, words)
    relation = _relation(element, of_x, of_v, x_is_served, held, ontology)
    if relation is None:
        return None
    wanted, size_class = np.unique(mine.sizes, return_inverse=True)
    is_equal = bag is Operator.EQUAL_BAG
    fits = np.equal if is_equal else np.greater_equal
    of_size = fits(theirs.sizes[None, :], wanted[:, None]) & theirs.is_bag[None, :]
    has_place = theirs.sizes[None, :] > np.arange(places)[:, None]
    exists = _packed(has_place, words).ravel() if is_equal else np.zeros(0, np.uint64)
    return _Question(
        mine,
        theirs,
        words,
        (mine.starts, mine.codes, *_ready(mine, relation, held)),
        relation,
        held,
        _packed(of_size, words),
        np.where(mine.is_bag, size_class, -1),
        exists,
    )


def _held(theirs: _Elements, places: int, words: int) -> tuple[Any, ...]:
    """Where each distinct element is held: at which places of which bags."""
    from kbn.filters.kernels import inner

    bags = np.repeat(np.arange(theirs.sizes.shape[0]), theirs.sizes)
    at = np.arange(bags.shape[0]) - theirs.starts[:-1][bags]
    order = np.argsort(theirs.codes, kind="stable")
    counts = np.bincount(theirs.codes, minlength=len(theirs.distinct))
    starts = np.zeros(counts.shape[0] + 1, np.int64)
    np.cumsum(counts, out=starts[1:])
    often = counts * _DENSE > places * words
    dense = np.where(often, np.cumsum(often) - 1, -1)
    place, bag = at[order], bags[order]
    rows = inner.dense_rows(starts, place, bag, dense, int(often.sum()), places, words)
    return starts, place, bag, dense, rows, places, words


def _relation(
    element: AnyOperator,
    of_x: _Elements,
    of_v: _Elements,
    x_is_served: bool,
    held: tuple[Any, ...],
    ontology: Vocabulary,
) -> tuple[Any, ...] | None:
    """Which distinct elements are related, row by row for those to be served.

    For a negative operator these are the pairs that are not, out of all that it takes.
    """
    from kbn.filters.kernels import inner

    mine, theirs = (of_x, of_v) if x_is_served else (of_v, of_x)
    places, words = held[5], held[6]
    is_negative = isinstance(element, Negated) or element in _NEGATIVE
    positive = negate_operator(element) if is_negative else element
    none = np.zeros(0, np.int64)
    if element is Operator.EXISTS:
        pairs = (none, none)
    else:
        found = related_arrays(positive, of_x.distinct, of_v.distinct, ontology)
        if found is None:
            return None
        pairs = found if x_is_served else (found[1], found[0])
    kinds = np.zeros(len(mine.distinct), np.int64)
    taken = np.zeros(0, np.uint64)
    if is_negative or element is Operator.EXISTS:
        numbers: dict[Hashable, int] = {}
        kinds = _kinds(positive, mine.distinct, x_is_served, numbers)
        its = _kinds(positive, theirs.distinct, not x_is_served, numbers)
        taken = _taken(its[theirs.codes], len(numbers), theirs, places, words)
    is_complement = is_negative or element is Operator.EXISTS
    rows = inner.rows_of(pairs[0], pairs[1], len(mine.distinct))
    return *rows, kinds, taken, is_complement


def _ready(
    mine: _Elements, relation: tuple[Any, ...], held: tuple[Any, ...]
) -> tuple[_Numbers, _Words]:
    """The rows of elements that are many times in bags and take long to find out."""
    from kbn.filters.kernels import inner

    starts, related = relation[0], relation[1]
    size = held[5] * held[6]
    steps = np.minimum(np.diff(held[0]), size // _DENSE)
    before = np.concatenate([[0], np.cumsum(steps[related])])
    counts = np.bincount(mine.codes, minlength=len(mine.distinct))
    is_ready = (counts > 1) & (before[starts[1:]] - before[starts[:-1]] > size // 8)
    is_ready &= np.cumsum(is_ready) * size <= READY_WORDS_MAX
    numbers = np.where(is_ready, np.cumsum(is_ready) - 1, -1)
    return numbers, inner.ready_rows(numbers, int(is_ready.sum()), relation, held)


def _kinds(
    operator: AnyOperator, items: list[Operand], is_value: bool, numbers: dict[Hashable, int]
) -> _Numbers:
    """A number for what the operator takes each item as; -1 if it does not take it."""
    by_type: dict[type, int] = {}
    for kind, item in {type(item): item for item in items}.items():
        name: Hashable = "anything"
        if operator is not Operator.EXISTS:
            name = subject(operator, item, is_value=is_value)
        by_type[kind] = -1 if name is None else numbers.setdefault(name, len(numbers))
    return np.fromiter((by_type[type(item)] for item in items), np.int64, len(items))


def _taken(kinds: _Numbers, count: int, theirs: _Elements, places: int, words: int) -> _Words:
    """For each kind and place a row of the bags that have one of that kind there."""
    bags = np.repeat(np.arange(theirs.sizes.shape[0]), theirs.sizes)
    at = np.arange(bags.shape[0]) - theirs.starts[:-1][bags]
    bits = np.zeros((max(count, 1), places, words * _WORD_BITS), bool)
    is_taken = kinds >= 0
    bits[kinds[is_taken], at[is_taken], bags[is_taken]] = True
    return _packed(bits, words).ravel()


def _packed(bits: NDArray[np.bool_], words: int) -> _Words:
    """Truth values as bits of words, along the last axis."""
    room = words * _WORD_BITS - bits.shape[-1]
    if room:
        bits = np.concatenate([bits, np.zeros((*bits.shape[:-1], room), bool)], axis=-1)
    return np.packbits(bits, axis=-1, bitorder="little").view(np.uint64)


def _turned(matrix: _Words, columns: int) -> _Words:
    """Columns for rows."""
    bits = np.unpackbits(matrix.view(np.uint8), axis=-1, bitorder="little")[:, :columns]
    words = -(-matrix.shape[0] // _WORD_BITS)
    return _packed(np.ascontiguousarray(bits.T).astype(bool), words)
