"""Candidates for covering: a superset of who covers a filter, and of whom it covers.

Both directions only narrow down whom to ask the oracle about; see `poset.py` for the two questions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from kbn.filters import Bag, Constraint, Filter
from kbn.filters.operators import ORDER_OPERATORS, AnyOperator, Composite, Operator, split_bag
from kbn.filters.semantics import accepts, implies
from kbn.filters.values import Family, family, key
from kbn.matching.codes import as_pair, microseconds
from kbn.matching.groups import Array, grown
from kbn.matching.index import Index
from kbn.matching.witness import witness
from kbn.ontology import Ontology

MEMO_MAX = 100_000
_AXIS_FAMILIES = (Family.NUMBER, Family.TIME)


class Implications:
    """The oracle's `implies` and `covers`, with the answers remembered."""

    def __init__(self, ontology: Ontology | None) -> None:
        self._ontology = ontology
        self._known: dict[tuple[Constraint, Constraint], bool] = {}

    def covers(self, wider: Filter, narrower: Filter) -> bool:
        """Whether `wider` matches every notification that `narrower` matches, if provable."""
        for conclusion in wider.constraints:
            attribute = conclusion.attribute
            for premise in narrower.constraints:
                if premise.attribute == attribute and self.implies(premise, conclusion):
                    break
            else:
                return False
        return True

    def implies(self, premise: Constraint, conclusion: Constraint) -> bool:
        """Whether every value the premise accepts, the conclusion accepts, if provable."""
        if premise.operator is Operator.SUPER_BAG and conclusion.operator is Operator.SUPER_BAG:
            # By far the most common pair of bags, and too many different ones to remember.
            a, b = premise.operand, conclusion.operand
            if not (a.bare or b.bare):  # type: ignore[union-attr]
                have = a.counts()  # type: ignore[union-attr]
                return all(have.get(n, 0) >= k for n, k in b.counts().items())  # type: ignore[union-attr]
        pair = (premise, conclusion)
        known = self._known.get(pair)
        if known is None:
            if len(self._known) >= MEMO_MAX:
                self._known.clear()
            known = self._known[pair] = implies(premise, conclusion, self._ontology)
        return known


class CoverQuery:
    """Which stored groups could cover a filter."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._witnesses: dict[Constraint, Any] = {}

    def candidates(self, filter: Filter) -> list[int] | None:
        """Groups among which all coverers are, or None: they could be anywhere."""
        hits: list[int] = []
        points: dict[int, tuple[float, int]] = {}
        seen: dict[tuple[str, Family], list[Any]] = {}
        attributes = self._index.table.attributes
        for constraint in filter.constraints:
            value = self._witness(constraint)
            if value is None:
                return None
            index = attributes.get(constraint.attribute)
            if index is not None:
                hits += index.hits(value)
            if family(value) in _AXIS_FAMILIES:
                seen.setdefault((constraint.attribute, family(value)), []).append(value)
        for (attribute, kind), values in seen.items():
            axis = self._index.encoder.axes.get((attribute, kind))
            if axis is None:
                continue
            point = self._common_point(filter, attribute, kind, values)
            if point is None:
                return None
            points[axis] = as_pair(point if kind is Family.NUMBER else microseconds(point))
        groups: list[int] = self._index.find_covering(hits, points).tolist()
        return groups

    def _witness(self, constraint: Constraint) -> Any:
        if constraint not in self._witnesses:
            if len(self._witnesses) >= MEMO_MAX:
                self._witnesses.clear()
            self._witnesses[constraint] = witness(constraint, self._index.ontology)
        return self._witnesses[constraint]

    def _common_point(self, filter: Filter, attribute: str, kind: Family, values: list[Any]) -> Any:
        """One value that all the filter's constraints of this family accept.

        Ranges that contain every value the filter accepts contain this one, whichever of the
        filter's constraints implies which of their bounds.
        """
        mine = [c for c in filter.constraints if c.attribute == attribute]
        of_kind = [c for c in mine if c.operand is None or _takes(c, kind)]
        bounds: list[Any] = [c.operand for c in of_kind if c.operator in ORDER_OPERATORS]
        if kind is Family.NUMBER and len(bounds) == 2:
            values = [*values, (bounds[0] + bounds[1]) / 2]
        for value in values:
            if all(accepts(c, value, self._index.ontology) for c in of_kind):
                return value
        return None


def _takes(constraint: Constraint, kind: Family) -> bool:
    operand = constraint.operand
    return type(operand) in (int, float) if kind is Family.NUMBER else hasattr(operand, "tzinfo")


class RootPostings:
    """The roots under their atoms: constraints of theirs, single-element bags taken apart."""

    def __init__(self, implications: Implications) -> None:
        self._implications = implications
        self._posted: dict[Constraint, set[int]] = {}
        self._attributes: dict[str, _Atoms] = {}
        self._intervals: dict[tuple[str, Family], _Intervals] = {}

    def add(self, entry: int, filter: Filter) -> None:
        for atom in _premises(filter):
            posted = self._posted.get(atom)
            if posted is None:
                posted = self._posted[atom] = set()
                self._attributes.setdefault(atom.attribute, _Atoms()).add(atom)
            posted.add(entry)
        for axis, interval in _intervals(filter).items():
            self._intervals.setdefault(axis, _Intervals()).add(entry, *interval)

    def discard(self, entry: int, filter: Filter) -> None:
        for atom in _premises(filter):
            self._posted[atom].discard(entry)
        for axis in _intervals(filter):
            self._intervals[axis].discard(entry)

    def candidates(self, filter: Filter, roots: Iterable[int]) -> list[int]:
        """The roots among which are all that the filter covers."""
        best: list[int] | None = None
        for constraint in _conclusions(filter):
            found = self._posted_under(constraint)
            if best is None or len(found) < len(best):
                best = found
            if not best:
                return []
        for (attribute, kind), interval in _intervals(filter).items():
            found = self._inside(attribute, kind, interval)
            if best is None or len(found) < len(best):
                best = found
        return list(roots) if best is None else best

    def _posted_under(self, conclusion: Constraint) -> list[int]:
        """The roots with some atom that implies the conclusion."""
        atoms = self._attributes.get(conclusion.attribute)
        found: set[int] = set()
        if atoms is not None:
            for atom in atoms.implying(conclusion, self._implications):
                found |= self._posted[atom]
        if conclusion.operand is None or conclusion.operator in _MAY_FOLLOW_FROM_RANGES:
            for (attribute, _), intervals in self._intervals.items():
                if attribute == conclusion.attribute:
                    found.update(intervals.entries())
        return list(found)

    def _inside(self, attribute: str, kind: Family, interval: tuple[Any, Any]) -> list[int]:
        """The roots whose own interval lies inside, or that ask for equality in it."""
        found: set[int] = set()
        intervals = self._intervals.get((attribute, kind))
        if intervals is not None:
            found.update(intervals.inside(*interval))
        atoms = self._attributes.get(attribute)
        if atoms is not None:
            # Whatever else could imply a bound is rare: every root with such an atom is asked.
            for atom in atoms.all():
                found |= self._posted[atom]
        return list(found)


def _premises(filter: Filter) -> Iterator[Constraint]:
    """What a filter says, constraint by constraint, plain super-bags element by element.

    `#> {a, b}` implies just what `#> {a}` or `#> {b}` implies, of constraints about one element.
    """
    for constraint in filter.constraints:
        if _on_axis(constraint):
            continue
        bag: Any = constraint.operand
        plain = constraint.operator is Operator.SUPER_BAG and not bag.bare
        if plain and len(bag.counts()) > 1:
            yield from _element_by_element(constraint, Operator.EQ)
        else:
            yield constraint


def _conclusions(filter: Filter) -> Iterator[Constraint]:
    """What must follow for a filter to follow, super-bags element by element."""
    for constraint in filter.constraints:
        if _on_axis(constraint):
            continue
        parts = split_bag(constraint.operator)
        bag: Any = constraint.operand
        if parts is not None and parts[0] is Operator.SUPER_BAG and bag.items:
            yield from _element_by_element(constraint, parts[1])
        else:
            yield constraint


def _element_by_element(constraint: Constraint, element: AnyOperator) -> Iterator[Constraint]:
    bag: Any = constraint.operand
    operator: AnyOperator = Composite(Operator.SUPER_BAG, element)
    for item in {key(item): item for item in bag.items}.values():
        yield Constraint.trusted(constraint.attribute, operator, Bag.of((item,)))


_MAY_FOLLOW_FROM_RANGES = (Operator.NE, Operator.EXISTS)


class _Atoms:
    """The distinct atoms of one attribute, and which of them imply what."""

    def __init__(self) -> None:
        self._equalities: dict[Constraint, None] = {}
        self._others: list[Constraint] = []
        self._all: list[Constraint] = []
        self._implying: dict[Constraint, tuple[int, list[Constraint]]] = {}

    def add(self, atom: Constraint) -> None:
        self._all.append(atom)
        if _is_scalar_equality(atom):
            self._equalities[atom] = None
        else:
            self._others.append(atom)

    def all(self) -> list[Constraint]:
        return self._all

    def implying(self, conclusion: Constraint, implications: Implications) -> list[Constraint]:
        """The atoms that imply the conclusion; those that came since the last time are added."""
        scalar = _is_scalar_equality(conclusion)
        pool = self._others if scalar else self._all
        asked, known = self._implying.get(conclusion, (0, []))
        if asked < len(pool):
            known = known + [a for a in pool[asked:] if implications.implies(a, conclusion)]
            if len(self._implying) >= MEMO_MAX:
                self._implying.clear()
            self._implying[conclusion] = (len(pool), known)
        if scalar and conclusion in self._equalities:
            return [*known, conclusion]
        return known


def _is_scalar_equality(constraint: Constraint) -> bool:
    """`= v` for a plain v follows from no other equality."""
    return constraint.operator is Operator.EQ and type(constraint.operand) in _SCALARS


_SCALARS = (bool, int, float, str, bytes)


class _Intervals:
    """Roots by their interval on one axis, in arrays that are filtered as a whole."""

    def __init__(self) -> None:
        self._count = 0
        self._ids: Array = np.empty(16, np.int64)
        self._lows: Array = np.empty(16, np.float64)
        self._highs: Array = np.empty(16, np.float64)
        self._place: dict[int, int] = {}

    def add(self, entry: int, low: float, high: float) -> None:
        self._ids = grown(self._ids, self._count + 1)
        self._lows = grown(self._lows, self._count + 1)
        self._highs = grown(self._highs, self._count + 1)
        self._ids[self._count] = entry
        self._lows[self._count] = low
        self._highs[self._count] = high
        self._place[entry] = self._count
        self._count += 1

    def discard(self, entry: int) -> None:
        place = self._place.pop(entry)
        last = self._count - 1
        for array in (self._ids, self._lows, self._highs):
            array[place] = array[last]
        if place != last:
            self._place[int(self._ids[place])] = place
        self._count = last

    def entries(self) -> Iterable[int]:
        return self._place

    def inside(self, low: float, high: float) -> list[int]:
        within = (self._lows[: self._count] >= low) & (self._highs[: self._count] <= high)
        found: list[int] = self._ids[: self._count][within].tolist()
        return found


def _on_axis(constraint: Constraint) -> bool:
    return (
        constraint.operator in ORDER_OPERATORS and family(constraint.operand) in _AXIS_FAMILIES  # type: ignore[arg-type]
    )


def _intervals(filter: Filter) -> dict[tuple[str, Family], tuple[float, float]]:
    """The filter's interval per axis, rounded and closed: only to narrow down."""
    found: dict[tuple[str, Family], tuple[float, float]] = {}
    for constraint in filter.constraints:
        if not _on_axis(constraint):
            continue
        kind = family(constraint.operand)  # type: ignore[arg-type]
        operand: Any = constraint.operand
        value = float(operand if kind is Family.NUMBER else microseconds(operand))
        low, high = found.get((constraint.attribute, kind), (-np.inf, np.inf))
        if constraint.operator in (Operator.LT, Operator.LE):
            high = min(high, value)
        else:
            low = max(low, value)
        found[constraint.attribute, kind] = (low, high)
    return found
