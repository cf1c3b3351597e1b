"""A mapped ontology: the compiled tables of an ontology with a layer of mappings over them.

The rows are added as links to what was compiled, and the closures are made anew:

1. Classes, properties and individuals that rows call the same become one component; of one-way
   rows the wider term comes to lie above the narrower. A one-way row from an individual to a class
   gives it that type.
2. Types are closed upwards, and a statement holds for all properties above its own.
3. At the levels rl, el and dl, a class that rows alone put below two disjoint ones is an error, and
   so is an individual that they put into two; the error names the rows.

The layer is no axiom: no rule of the level runs again (a domain of a property that only rows put
above another says nothing new), and nothing is asked of an outside reasoner. So the layer costs
little to make, matching with it costs what matching without costs, and it is taken away by going
back to the ontology below, which is kept in the tables (`unmapped`) and tells the links of the
ontology from those of rows (`chains.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np

from kbn.errors import OntologyError, UnknownTermError
from kbn.ontology.compiling import closed_types, empty_components, lowest_types
from kbn.ontology.hierarchy import Hierarchy, Ids, Rows, compile_hierarchy
from kbn.ontology.mappings import SAME, Mapping, Mappings
from kbn.ontology.tables import Tables

if TYPE_CHECKING:
    from kbn.ontology.compiled import Ontology

CHECKED = ("rl", "el", "dl")
"""The levels at which disjoint classes are kept apart."""


@dataclass
class Layer:
    """What rows add, kind by kind; a link is (narrower, wider)."""

    classes: list[tuple[str, str]] = field(default_factory=list)
    properties: list[tuple[str, str]] = field(default_factory=list)
    same: list[tuple[str, str]] = field(default_factory=list)
    types: list[tuple[str, str]] = field(default_factory=list)
    used: list[Mapping] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def layer_of(ontology: Ontology, mappings: Mappings) -> Layer:
    """What the rows add to an ontology; an OntologyError names the row of an unknown term."""
    layer = Layer(notes=list(mappings.notes))
    for row in mappings.used:
        kinds = [_kinds(ontology, term, row) for term in (row.subject, row.object)]
        both = kinds[0] & kinds[1]
        pairs = [(row.subject, row.object)]
        if row.relation == SAME:
            pairs.append((row.object, row.subject))
        if both & {"class", "property"}:
            if "class" in both:
                layer.classes += pairs
            if "property" in both:
                layer.properties += pairs
        elif row.relation == SAME and "individual" in both:
            layer.same += pairs
        elif row.relation != SAME and "individual" in kinds[0] and "class" in kinds[1]:
            layer.types += pairs
        else:
            layer.notes.append(_unfit(row, *kinds))
            continue
        layer.used.append(row)
    return layer


def _kinds(ontology: Ontology, term: str, row: Mapping) -> frozenset[str]:
    try:
        ontology.require(term)
    except UnknownTermError as error:
        raise OntologyError(str(error), path=row.file, line=row.line) from error
    return ontology.kinds(term)


def _unfit(row: Mapping, one: frozenset[str], other: frozenset[str]) -> str:
    are = "the same" if row.relation == SAME else "one narrower than the other"
    first, second = (" and ".join(sorted(each)) for each in (one, other))
    return f"{row.place}: a {first} and a {second} cannot be {are}; the row is not used"


def mapped_tables(tables: Tables, layer: Layer, digest: str) -> Tables:
    """The tables of an ontology with a layer over them; nothing is checked."""
    class_tree, class_of = _extended(tables.classes, tables.class_tree, layer.classes)
    property_tree, property_of = _extended(
        tables.properties, tables.property_tree, layer.properties
    )
    same, individual_of = _extended(tables.individuals, tables.same, layer.same)
    held: dict[int, set[int]] = defaultdict(set)
    for component in range(len(tables.direct_types)):
        kinds = class_of[tables.direct_types[component]].tolist()
        held[int(individual_of[component])].update(kinds)
    ids = {name: number for number, name in enumerate(tables.individuals)}
    kind_ids = {name: number for number, name in enumerate(tables.classes)}
    for individual, kind in layer.types:
        component = int(same.component_of[ids[individual]])
        held[component].add(int(class_tree.component_of[kind_ids[kind]]))
    types = closed_types(held, class_tree, len(same.members))
    starts, of_property, of_object = _relations(
        tables, property_tree, property_of, individual_of, len(same.members)
    )
    facts = replace(
        tables.facts,
        digest=sha256(f"{tables.facts.digest}\n{digest}".encode()).hexdigest(),
        mappings=tuple(layer.used),
        mapping_notes=tuple(layer.notes),
    )
    return replace(
        tables,
        facts=facts,
        class_tree=class_tree,
        property_tree=property_tree,
        same=same,
        types=types,
        direct_types=lowest_types(types, class_tree),
        instances=types.flipped(len(class_tree.members)),
        relation_starts=starts,
        relation_properties=of_property,
        relation_objects=of_object,
        domains=_joined(tables.domains, property_of, len(property_tree.members), unique=True),
        ranges=_joined(tables.ranges, property_of, len(property_tree.members), unique=True),
        disjoint_groups=_joined(tables.disjoint_groups, class_of, len(class_tree.members)),
        unmapped=tables,
    )


def _extended(
    names: tuple[str, ...], tree: Hierarchy, added: Iterable[tuple[str, str]]
) -> tuple[Hierarchy, Ids]:
    """A hierarchy with more links, and old component -> new one."""
    listed = list(added)
    if not listed:
        return tree, np.arange(len(tree.members), dtype=np.int32)
    ids = {name: number for number, name in enumerate(names)}
    firsts = tree.members.items[tree.members.starts[:-1]]
    links = [(ids[one], ids[other]) for one, other in listed]
    for component in range(len(tree.members)):
        members = tree.members[component].tolist()
        if len(members) > 1:
            links.extend(zip(members, members[1:] + members[:1], strict=True))
        links.extend((members[0], int(firsts[parent])) for parent in tree.parents[component])
    extended = compile_hierarchy(len(names), links)
    return extended, extended.component_of[firsts]


def _relations(
    tables: Tables, tree: Hierarchy, property_of: Ids, individual_of: Ids, count: int
) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], Ids, Ids]:
    """The statements among the new components, for all properties above each one's own."""
    subjects = np.repeat(
        np.arange(len(tables.relation_starts) - 1), np.diff(tables.relation_starts)
    )
    own = property_of[tables.relation_properties]
    above = [tree.ancestors[one] for one in own]
    sizes = np.array([len(row) for row in above], dtype=np.int64)
    table = np.empty((int(sizes.sum()), 3), dtype=np.int32)
    table[:, 0] = np.repeat(individual_of[subjects], sizes)
    table[:, 1] = np.concatenate(above) if above else 0
    table[:, 2] = np.repeat(individual_of[tables.relation_objects], sizes)
    table = np.unique(table, axis=0)
    starts = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(table[:, 0], minlength=count), out=starts[1:])
    return starts, table[:, 1].copy(), table[:, 2].copy()


def _joined(rows: Rows, new_of: Ids, count: int, *, unique: bool = False) -> Rows:
    """Rows by old component as rows by new ones; what several have stands there for each."""
    found: list[list[int]] = [[] for _ in range(count)]
    for component in range(len(rows)):
        found[int(new_of[component])].extend(rows[component].tolist())
    listed = (sorted(set(row)) if unique else row for row in found)
    return Rows.of(np.array(row, dtype=np.int32) for row in listed)


# What cannot be.


def check_mapped(mapped: Ontology) -> None:
    """Refuse a layer that makes a class empty, or an individual impossible, where a level can tell.

    The OntologyError has the place of the first row that is to blame, and lists the links.
    """
    if mapped.reasoning not in CHECKED:
        return
    tables = mapped.tables
    dead = empty_components(tables.class_tree, tables.disjoint_groups)
    known = set(mapped.unsatisfiable)
    for component in sorted(dead):
        name = mapped.classes[int(tables.class_tree.members[component][0])]
        if name not in known:
            raise _contradiction(mapped, name, "can have no member")
    if not len(tables.disjoint_groups.items):
        return
    grouped = {c for c in range(len(tables.disjoint_groups)) if len(tables.disjoint_groups[c])}
    for component in range(len(tables.types)):
        kinds = [int(kind) for kind in tables.types[component] if int(kind) in grouped]
        groups = [int(group) for kind in kinds for group in tables.disjoint_groups[kind]]
        if len(groups) != len(set(groups)):
            name = mapped.individuals[int(tables.same.members[component][0])]
            raise _contradiction(mapped, name, "is in two disjoint classes")


def _contradiction(mapped: Ontology, name: str, trouble: str) -> OntologyError:
    """The error for a class or an individual that rows make impossible."""
    from kbn.ontology.chains import links_between

    links = [link for end in _clashing(mapped, name) for link in links_between(mapped, name, end)]
    said = dict.fromkeys(
        f"<{link.first}> {link.relation} <{link.second}> ({link.source})" for link in links
    )
    rows = {row.place: row for row in mapped.mappings}
    blamed = next((rows[link.source] for link in links if link.source in rows), None)
    return OntologyError(
        f"with these mappings <{name}> {trouble}",
        path=mapped.mappings[0].file if blamed is None else blamed.file,
        line=None if blamed is None else blamed.line,
        explanation=tuple(said),
    )


def _clashing(mapped: Ontology, name: str) -> list[str]:
    """Two disjoint classes that a term is below, as they are declared."""
    unmapped = mapped.unmapped
    above = mapped.ancestors(name) if "class" in mapped.kinds(name) else mapped.types(name)
    by_group: dict[int, str] = {}
    for kind in sorted(above):
        index = unmapped.class_index(kind)
        assert index is not None
        tree = unmapped.class_tree
        for group in unmapped.tables.disjoint_groups[int(tree.component_of[index])]:
            other = by_group.setdefault(int(group), kind)
            if other != kind and kind not in unmapped.equivalents(other):
                return [other, kind]
    return []
