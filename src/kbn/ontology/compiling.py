"""From axioms to compiled tables: ids, hierarchies, statements, types, and the consistency check.

The order matters, because each step rests on the one before:

1. Names are sorted and numbered, kind by kind; blank nodes get the last individual numbers.
2. Subclass, subproperty and sameAs links become hierarchies (`hierarchy.py`).
3. Statements between individuals are closed under the property rules (`statements.py`).
4. Types are collected (as written, from enumerations, from domains and ranges) and closed upwards.
5. Disjointness is checked: a class below two disjoint ones is unsatisfiable, an individual in two
   disjoint classes, or in an unsatisfiable one, makes the ontology inconsistent.
6. Blank individuals are dropped.

At level `none` only what is written counts: links are followed and equivalence and sameAs are
mutual (a relation that is no preorder would make covering unsound), but no rule adds a statement,
a type or a link that was not written.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from kbn.ontology import vocabulary as v
from kbn.ontology.axioms import Axioms
from kbn.ontology.contradiction import Contradiction
from kbn.ontology.hierarchy import Hierarchy, Ids, Rows, compile_hierarchy
from kbn.ontology.statements import Rules, Statement, entailed
from kbn.ontology.tables import Facts, Labels, Tables

SHOWN_MAX = 20
"""How many names a note lists before it only counts."""


def compile_axioms(axioms: Axioms, facts: Facts) -> Tables:
    """The tables of `axioms`, or a Contradiction when they cannot all hold."""
    as_written = facts.reasoning == "none"
    classes, properties = sorted(axioms.classes), sorted(axioms.properties)
    named = sorted(iri for iri in axioms.individuals if not iri.startswith("_:"))
    blanks = sorted(iri for iri in axioms.individuals if iri.startswith("_:"))
    class_ids, property_ids = _numbered(classes), _numbered(properties)
    individual_ids = _numbered(named + blanks)

    links = axioms.subclasses if as_written else axioms.subclasses | axioms.unfolded
    class_tree = compile_hierarchy(len(classes), _ids(links, class_ids))
    property_tree = compile_hierarchy(len(properties), _property_links(axioms, property_ids))
    same_links = list(_ids(axioms.same, individual_ids))
    same = compile_hierarchy(
        len(individual_ids), same_links + [(other, one) for one, other in same_links]
    )

    statements = _statements(axioms, property_tree, same, property_ids, individual_ids, as_written)
    held = _types(axioms, class_tree, same, class_ids, individual_ids, as_written)
    if not as_written:
        _add_domains_and_ranges(axioms, held, statements, class_tree, property_tree, property_ids)

    groups = _disjoint_groups(axioms, class_tree, class_ids)
    dead = _unsatisfiable(axioms, class_tree, class_ids, groups)
    type_rows = closed_types(held, class_tree, len(same.members))
    names = _Names(classes, named + blanks, class_tree, same)
    wrong = [
        *_wrong_types(type_rows, groups, dead, names),
        *_wrong_sameness(axioms, same, individual_ids),
        *(f"<{one}> is in owl:Nothing" for one, kind in axioms.types if kind == v.NOTHING),
    ]
    if wrong:
        raise Contradiction(wrong, [name for c in dead for name in names.classes(c)])

    kept, renumbered = _without_blanks(same, len(named))
    starts, of_property, of_object = _relation_arrays(statements, renumbered, len(kept.members))
    types = _renumbered_rows(type_rows, renumbered)
    return Tables(
        facts=_with_unsatisfiable(facts, dead, names),
        classes=tuple(classes),
        properties=tuple(properties),
        individuals=tuple(named),
        class_tree=class_tree,
        property_tree=property_tree,
        same=kept,
        types=types,
        direct_types=lowest_types(types, class_tree),
        instances=types.flipped(len(class_tree.members)),
        relation_starts=starts,
        relation_properties=of_property,
        relation_objects=of_object,
        domains=_named_ends(
            axioms.named_domains | (set() if as_written else _turned(axioms, axioms.named_ranges)),
            property_tree,
            property_ids,
            class_ids,
            inherited=not as_written,
        ),
        ranges=_named_ends(
            axioms.named_ranges | (set() if as_written else _turned(axioms, axioms.named_domains)),
            property_tree,
            property_ids,
            class_ids,
            inherited=not as_written,
        ),
        disjoint_groups=groups,
        labels=Labels.of(axioms.names),
    )


class _Names:
    """Component numbers back to names, for messages."""

    def __init__(
        self, classes: list[str], individuals: list[str], tree: Hierarchy, same: Hierarchy
    ) -> None:
        self._classes, self._individuals = classes, individuals
        self._tree, self._same = tree, same

    def classes(self, component: int) -> list[str]:
        return [self._classes[i] for i in self._tree.members[component]]

    def individual(self, component: int) -> str:
        return self._individuals[int(self._same.members[component][0])]


def _numbered(names: list[str]) -> dict[str, int]:
    return {name: number for number, name in enumerate(names)}


def _ids(pairs: Iterable[tuple[str, str]], ids: dict[str, int]) -> Iterable[tuple[int, int]]:
    for one, other in pairs:
        if one in ids and other in ids:
            yield ids[one], ids[other]


def _property_links(axioms: Axioms, ids: dict[str, int]) -> set[tuple[int, int]]:
    links = set(_ids(axioms.subproperties, ids))
    # A chain of one link is how some tools write a subproperty.
    links.update((ids[chain[0]], ids[name]) for name, chain in axioms.chains if len(chain) == 1)
    return links


def _statements(
    axioms: Axioms,
    tree: Hierarchy,
    same: Hierarchy,
    property_ids: dict[str, int],
    individual_ids: dict[str, int],
    as_written: bool,
) -> set[Statement]:
    def component(name: str) -> int:
        return int(tree.component_of[property_ids[name]])

    stated = {
        (
            int(same.component_of[individual_ids[subject]]),
            component(name),
            int(same.component_of[individual_ids[node]]),
        )
        for subject, name, node in axioms.facts
    }
    wider = {
        number: tuple(int(one) for one in tree.ancestors[number] if one != number)
        for number in range(len(tree.members))
    }
    rules = Rules(wider)
    if not as_written:
        for one, other in axioms.inverses:
            rules.add_inverse(component(one), component(other))
        for name in axioms.symmetric & property_ids.keys():
            rules.add_inverse(component(name), component(name))
        for name in axioms.transitive & property_ids.keys():
            rules.steps[component(name)].add((component(name), component(name)))
        fresh = len(tree.members)
        for name, chain in sorted(axioms.chains):
            if len(chain) > 1:
                links = tuple(component(link) for link in chain)
                fresh = rules.add_chain(links, component(name), fresh)
    total = len(tree.members)
    return {statement for statement in entailed(stated, rules) if statement[1] < total}


def _types(
    axioms: Axioms,
    tree: Hierarchy,
    same: Hierarchy,
    class_ids: dict[str, int],
    individual_ids: dict[str, int],
    as_written: bool,
) -> dict[int, set[int]]:
    held: dict[int, set[int]] = defaultdict(set)
    pairs = axioms.types if as_written else axioms.types | axioms.members
    for individual, kind in pairs:
        if individual in individual_ids and kind in class_ids:
            component = int(same.component_of[individual_ids[individual]])
            held[component].add(int(tree.component_of[class_ids[kind]]))
    return held


def _add_domains_and_ranges(
    axioms: Axioms,
    held: dict[int, set[int]],
    statements: set[Statement],
    class_tree: Hierarchy,
    property_tree: Hierarchy,
    property_ids: dict[str, int],
) -> None:
    class_ids = _numbered(sorted(axioms.classes))

    def by_property(pairs: set[tuple[str, str]]) -> dict[int, set[int]]:
        found: dict[int, set[int]] = defaultdict(set)
        for name, kind in pairs:
            if name in property_ids and kind in class_ids:
                component = int(property_tree.component_of[property_ids[name]])
                found[component].add(int(class_tree.component_of[class_ids[kind]]))
        return found

    domains, ranges = by_property(axioms.domains), by_property(axioms.ranges)
    for subject, name, node in statements:
        if name in domains:
            held[subject] |= domains[name]
        if name in ranges:
            held[node] |= ranges[name]


def _named_ends(
    pairs: set[tuple[str, str]],
    tree: Hierarchy,
    property_ids: dict[str, int],
    class_ids: dict[str, int],
    *,
    inherited: bool,
) -> Rows:
    """Property component -> the classes named in its domain (or range), or else in those above."""
    named: dict[int, set[int]] = defaultdict(set)
    for name, kind in pairs:
        named[int(tree.component_of[property_ids[name]])].add(class_ids[kind])
    rows: list[set[int]] = []
    for component in range(len(tree.members)):
        found = named.get(component, set())
        if not found and inherited:
            # Wider components have smaller numbers, so their rows are there.
            found = set().union(*(rows[wider] for wider in tree.parents[component]))
        rows.append(found)
    return Rows.of(np.array(sorted(row), dtype=np.int32) for row in rows)


def _turned(axioms: Axioms, named: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """The domains that follow from the ranges of inverses, or the ranges from domains."""
    turned: dict[str, set[str]] = defaultdict(set)
    for one, other in axioms.inverses | {(name, name) for name in axioms.symmetric}:
        turned[one].add(other)
        turned[other].add(one)
    return {(one, kind) for name, kind in named for one in turned[name]}


def closed_types(held: dict[int, set[int]], tree: Hierarchy, count: int) -> Rows:
    """Individual component -> every class component at or above those it is `held` to be in."""
    empty = np.empty(0, dtype=np.int32)
    seen: dict[frozenset[int], Ids] = {frozenset(): empty}
    rows = []
    for individual in range(count):
        kinds = frozenset(held.get(individual, ()))
        if kinds not in seen:
            seen[kinds] = np.unique(np.concatenate([tree.ancestors[kind] for kind in kinds]))
        rows.append(seen[kinds])
    return Rows.of(rows)


def lowest_types(types: Rows, tree: Hierarchy) -> Rows:
    """Closed types without those that lie above another."""
    rows = []
    for individual in range(len(types)):
        kinds = types[individual]
        if len(kinds) > 1:
            above = np.concatenate([tree.parents[kind] for kind in kinds])
            kinds = np.setdiff1d(kinds, above)
        rows.append(kinds)
    return Rows.of(rows)


def _disjoint_groups(axioms: Axioms, tree: Hierarchy, ids: dict[str, int]) -> Rows:
    """Class component -> numbers of the groups it is in, once per member it stands for."""
    of_component: list[list[int]] = [[] for _ in range(len(tree.members))]
    for number, group in enumerate(sorted(axioms.disjoint)):
        for name in group:
            of_component[int(tree.component_of[ids[name]])].append(number)
    return Rows.of(np.array(groups, dtype=np.int32) for groups in of_component)


def _unsatisfiable(axioms: Axioms, tree: Hierarchy, ids: dict[str, int], groups: Rows) -> set[int]:
    """The class components that can have no member."""
    start = {int(tree.component_of[ids[name]]) for name in axioms.unsatisfiable if name in ids}
    start |= empty_components(tree, groups)
    return {int(below) for component in start for below in tree.descendants[component]}


def empty_components(tree: Hierarchy, groups: Rows) -> set[int]:
    """The class components that lie below two disjoint ones."""
    start: set[int] = set()
    by_group = groups.flipped(_group_count(groups))
    for group in range(len(by_group)):
        # A component that stands for two members is listed, and so counted, twice.
        below = np.concatenate([tree.descendants[component] for component in by_group[group]])
        found, times = np.unique(below, return_counts=True)
        start.update(int(one) for one in found[times > 1])
    return start


def _group_count(groups: Rows) -> int:
    return int(groups.items.max()) + 1 if len(groups.items) else 0


def _wrong_types(types: Rows, groups: Rows, dead: set[int], names: _Names) -> list[str]:
    """The individuals whose types cannot all hold, a sentence each."""
    in_groups = {c for c in range(len(groups)) if len(groups[c])}
    if not in_groups and not dead:
        return []
    wrong: list[str] = []
    for individual in range(len(types)):
        kinds = {int(kind) for kind in types[individual]}
        clash = _clash(kinds & in_groups, groups)
        why = "disjoint classes" if clash else "unsatisfiable class"
        clash = clash or tuple(sorted(kinds & dead)[:1])
        if clash:
            found = " and ".join(f"<{names.classes(kind)[0]}>" for kind in sorted(clash))
            wrong.append(f"<{names.individual(individual)}> is in the {why} {found}")
    return wrong


def _clash(kinds: set[int], groups: Rows) -> tuple[int, ...]:
    by_group: dict[int, int] = {}
    for kind in kinds:
        for group in groups[kind]:
            if by_group.setdefault(int(group), kind) != kind:
                return by_group[int(group)], kind
    return ()


def _wrong_sameness(axioms: Axioms, same: Hierarchy, ids: dict[str, int]) -> list[str]:
    wrong: list[str] = []
    for group in axioms.different:
        components = [int(same.component_of[ids[one]]) for one in group if one in ids]
        if len(set(components)) < len(components) and len(set(group)) > 1:
            listed = " and ".join(f"<{one}>" for one in sorted(set(group)))
            wrong.append(f"of {listed}, two are said to be different and are the same")
    return wrong


def _with_unsatisfiable(facts: Facts, dead: set[int], names: _Names) -> Facts:
    found = tuple(sorted(name for component in dead for name in names.classes(component)))
    if not found:
        return facts
    shown = ", ".join(found[:SHOWN_MAX])
    note = f"unsatisfiable classes, kept where they were written ({len(found)}): {shown}"
    return Facts(
        facts.reasoning,
        facts.digest,
        facts.sources,
        facts.prefixes,
        (*facts.unsupported, note),
        found,
        facts.is_skos,
    )


def _without_blanks(same: Hierarchy, named: int) -> tuple[Hierarchy, Ids]:
    """`same` over the named individuals only, and old component -> new one (-1: dropped)."""
    links: list[tuple[int, int]] = []
    for component in range(len(same.members)):
        members = [int(i) for i in same.members[component] if i < named]
        links.extend(zip(members, members[1:] + members[:1], strict=True))
    kept = compile_hierarchy(named, links)
    renumbered = np.full(len(same.members), -1, dtype=np.int32)
    renumbered[same.component_of[:named]] = kept.component_of
    return kept, renumbered


def _renumbered_rows(rows: Rows, renumbered: Ids) -> Rows:
    kept = np.flatnonzero(renumbered >= 0)
    order = kept[np.argsort(renumbered[kept])]
    return Rows.of(rows[row] for row in order)


def _relation_arrays(
    statements: set[Statement], renumbered: Ids, count: int
) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], Ids, Ids]:
    table = np.array(sorted(statements), dtype=np.int32).reshape(-1, 3)
    table[:, 0], table[:, 2] = renumbered[table[:, 0]], renumbered[table[:, 2]]
    table = table[(table[:, 0] >= 0) & (table[:, 2] >= 0)]
    table = table[np.lexsort((table[:, 2], table[:, 1], table[:, 0]))]
    starts = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(table[:, 0], minlength=count), out=starts[1:])
    return starts, table[:, 1].copy(), table[:, 2].copy()
