"""Postings of roots: whom a filter could cover.

A filter covers a root when each of its constraints follows from one of the root's. Roots are posted
under their *atoms* (their constraints, plain super-bags element by element, ranges apart by axis),
and atoms under what their witness is, so that "which atoms imply `@> C`" is a look-up: an atom that
does has a witness below C. Conclusions that cannot be looked up are put to every atom, once.

All of this only narrows down whom to ask the oracle about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import inf
from typing import Any

from kbn.filters import (
    AnyOperator,
    Bag,
    Composite,
    Constraint,
    Filter,
    Near,
    Negated,
    Operator,
    split_bag_operator,
    value_key,
)
from kbn.matching.covering import Implications, bytes_of_all
from kbn.matching.memos import Memo, Memory
from kbn.matching.root_lists import Axis, RootLists, bounds_by_axis, on_axis
from kbn.ontology import NOTHING, THING, Ontology, Term

FEW = 32
"""Candidates so few that asking them all costs less than narrowing down further."""


class RootPostings:
    """The roots, by their atoms and in their lists."""

    def __init__(
        self,
        ontology: Ontology,
        implications: Implications,
        witness: Callable[[Constraint], Any],
        filter_of: Callable[[int], Filter],
        asked_max: float = inf,
    ) -> None:
        """At most `asked_max` atoms are looked at for one conclusion."""
        self._ontology = ontology
        self._asked_max = asked_max
        self._implications = implications
        self._witness = witness
        self._posted: dict[Constraint, set[int]] = {}
        self._attributes: dict[str, _Atoms] = {}
        self.lists = RootLists(self._posted, filter_of)

    def add(self, entry: int, filter: Filter) -> None:
        for atom in dict.fromkeys(_premises(filter)):
            posted = self._posted.get(atom)
            if posted is None:
                posted = self._posted[atom] = set()
                atoms = self._attributes.get(atom.attribute)
                if atoms is None:
                    atoms = self._attributes[atom.attribute] = _Atoms(self._implications.memory)
                atoms.add(atom, _names(self._witness(atom), self._ontology))
            posted.add(entry)
        self.lists.add(entry, filter)

    def discard(self, entry: int, filter: Filter) -> None:
        for atom in dict.fromkeys(_premises(filter)):
            posted = self._posted[atom]
            posted.discard(entry)
            if not posted:
                del self._posted[atom]
                names = _names(self._witness(atom), self._ontology)
                self._attributes[atom.attribute].discard(atom, names)
        self.lists.discard(entry)

    def candidates(self, filter: Filter, roots: Iterable[int]) -> list[int]:
        """Some roots, among which are all that the filter covers."""
        best: set[int] | None = None
        for constraint in _conclusions(filter):
            found = self._posted_under(constraint)
            if found is not None and (best is None or len(found) < len(best)):
                best = found
            if best is not None and len(best) <= FEW:
                return list(best)
        for axis, bounds in bounds_by_axis(filter, with_equalities=False).items():
            found = self._inside(axis, bounds)
            if found is not None and (best is None or len(found) < len(best)):
                best = found
        return list(roots if best is None else best)

    def _posted_under(self, conclusion: Constraint) -> set[int] | None:
        """The roots with some atom, or some range, that could imply the conclusion.

        None where too many atoms would have to be looked at.
        """
        atoms = self._attributes.get(conclusion.attribute)
        found: set[int] = set()
        if atoms is not None:
            implying = atoms.implying(conclusion, self._implications, self._asked_max)
            if implying is None:
                return None
            for atom in implying:
                found |= self._posted[atom]
        if _may_follow_from_ranges(conclusion.operator):
            found.update(self.lists.on(conclusion.attribute))
        return found

    def _inside(self, axis: Axis, bounds: tuple[float, float]) -> set[int] | None:
        """The roots whose own bounds lie inside, or that have another say in the attribute."""
        found = set(self.lists.inside(axis, *bounds))
        atoms = self._attributes.get(axis[0])
        if atoms is not None:
            if len(atoms) > self._asked_max:
                return None
            for atom in atoms.all():
                found |= self._posted[atom]
        return found


def _may_follow_from_ranges(operator: AnyOperator) -> bool:
    if isinstance(operator, Negated):
        return isinstance(operator.operator, Near)
    return operator is Operator.NE or operator is Operator.EXISTS


def _premises(filter: Filter) -> Iterator[Constraint]:
    """What a filter says, constraint by constraint, plain super-bags element by element.

    `#> {a, b}` implies just what `#> {a}` or `#> {b}` implies, of constraints about one element.
    """
    for constraint in filter.constraints:
        if on_axis(constraint):
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
        if on_axis(constraint):
            continue
        parts = split_bag_operator(constraint.operator)
        bag: Any = constraint.operand
        if parts is not None and parts[0] is Operator.SUPER_BAG and bag.items:
            yield from _element_by_element(constraint, parts[1])
        else:
            yield constraint


def _element_by_element(constraint: Constraint, element: AnyOperator) -> Iterator[Constraint]:
    bag: Any = constraint.operand
    operator: AnyOperator = Composite(Operator.SUPER_BAG, element)
    for item in {value_key(item): item for item in bag.items}.values():
        yield Constraint.trusted(constraint.attribute, operator, Bag.of((item,)))


class _Atoms:
    """The distinct atoms of one attribute, by the names of their witnesses."""

    def __init__(self, memory: Memory) -> None:
        self._all: dict[Constraint, None] = {}
        self._named: dict[object, dict[Constraint, None]] = {}
        self._nameless: dict[Constraint, None] = {}
        self._implying: Memo[Constraint, list[Constraint]] = Memo(memory)

    def add(self, atom: Constraint, names: set[object] | None) -> None:
        self._all[atom] = None
        if names is None:
            self._nameless[atom] = None
        else:
            for name in names:
                self._named.setdefault(name, {})[atom] = None
        self._implying.forget()

    def discard(self, atom: Constraint, names: set[object] | None) -> None:
        del self._all[atom]
        self._nameless.pop(atom, None)
        for name in names or ():
            del self._named[name][atom]
            if not self._named[name]:
                del self._named[name]
        self._implying.forget()

    def __len__(self) -> int:
        return len(self._all)

    def all(self) -> Iterable[Constraint]:
        return self._all

    def implying(
        self, conclusion: Constraint, implications: Implications, asked_max: float
    ) -> list[Constraint] | None:
        """The atoms that imply the conclusion, and perhaps some that do not.

        None when more than so many would have to be looked at.
        """
        name = _name_accepted(conclusion.operator, conclusion.operand)
        if name is not None:
            named = self._named.get(name, ())
            if len(named) + len(self._nameless) > asked_max:
                return None
            return [*named, *self._nameless]
        known = self._implying.get(conclusion)
        if known is None:
            if len(self._all) > asked_max:
                return None
            known = [atom for atom in self._all if implications.implies(atom, conclusion)]
            if implications.is_spent:
                return None
            size = bytes_of_all((conclusion,)) + 8 * len(known)
            self._implying.remember(conclusion, known, size)
        return known


def _name_accepted(operator: AnyOperator, operand: Any) -> object | None:
    """The name that every value the constraint accepts has, if it is one of those we keep."""
    if type(operand) is Term or (isinstance(operand, Term) and operand.iri in (THING, NOTHING)):
        return None
    if operator is Operator.EQ and not isinstance(operand, Bag):
        return ("=", value_key(operand))
    if operator is Operator.MORE_SPECIFIC and operand.kind == "class":
        return ("@>", operand.iri)
    if operator is Operator.ISA:
        return ("@=", operand.iri)
    parts = split_bag_operator(operator)
    if parts is not None and parts[0] is Operator.SUPER_BAG and len(operand) == 1:
        inner = _name_accepted(parts[1], operand.items[0])
        return None if inner is None else ("#>", inner)
    return None


def _names(value: Any, ontology: Ontology) -> set[object] | None:
    """What a value is called by: itself, the classes above it, its types, its elements' names.

    None where it cannot be listed.
    """
    if value is None or type(value) is Term:
        return None
    if isinstance(value, Bag):
        found: set[object] = set()
        for item in value.items:
            of_item = _names(item, ontology)
            if of_item is None:
                return None
            found.update(("#>", name) for name in of_item)
        return found
    names: set[object] = {("=", value_key(value))}
    if isinstance(value, Term):
        if value.iri in (THING, NOTHING):
            return None
        if value.kind == "class":
            names.update(("@>", iri) for iri in ontology.ancestors(value.iri))
        elif value.kind == "individual":
            names.update(("@=", iri) for iri in ontology.types(value.iri))
    return names
