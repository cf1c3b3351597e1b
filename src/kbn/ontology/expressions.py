"""Class expressions as OWL writes them: each node of the RDF graph with what it stands for.

A node is a blank node or, in the style of OWL 1, the named class that carries the expression
itself; either way `node` and what it stands for are equivalent. `pairs` relates nodes and named
classes as (narrower, wider). The rule engines for RL and EL read this; other levels do not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kbn.ontology import vocabulary as v

DIGITS_MAX = 9
"""A greater number of values is no bound in practice, and is not read."""
Pair = tuple[str, str]
Nodes = dict[str, dict[str, list[str]]]
"""Subject -> predicate -> objects, for the predicates expressions and lists are made of."""


@dataclass
class Expressions:
    """What each node stands for, by the kind of expression."""

    pairs: set[Pair] = field(default_factory=set)
    intersections: dict[str, tuple[str, ...]] = field(default_factory=dict)
    unions: dict[str, tuple[str, ...]] = field(default_factory=dict)
    complements: dict[str, str] = field(default_factory=dict)
    enumerations: dict[str, tuple[str, ...]] = field(default_factory=dict)
    somes: dict[str, Pair] = field(default_factory=dict)
    """Node -> (property, filler): has some value in the filler."""
    alls: dict[str, Pair] = field(default_factory=dict)
    """Node -> (property, filler): has values in the filler only."""
    values: dict[str, Pair] = field(default_factory=dict)
    """Node -> (property, individual)."""
    at_most: dict[str, tuple[str, int, str]] = field(default_factory=dict)
    """Node -> (property, number, filler): has at most so many values in the filler."""
    at_least: dict[str, tuple[str, int, str]] = field(default_factory=dict)
    """Node -> (property, number, filler): has at least so many values in the filler."""
    exact: set[str] = field(default_factory=set)
    """The nodes that say both at least and at most."""
    selves: dict[str, str] = field(default_factory=dict)
    """Node -> property: has itself as a value."""
    types: set[Pair] = field(default_factory=set)
    """(individual, node), blank nodes included."""
    domains: set[Pair] = field(default_factory=set)
    ranges: set[Pair] = field(default_factory=set)
    keys: set[tuple[str, tuple[str, ...]]] = field(default_factory=set)
    functional: set[str] = field(default_factory=set)
    inverse_functional: set[str] = field(default_factory=set)

    def keep_individuals(self, individuals: set[str], properties: set[str]) -> None:
        """Leave out what names an individual that is none, or a value of what is no property.

        An enumeration with such a member says of the others that they are in it, and no longer that
        there are no more.
        """
        for node, members in list(self.enumerations.items()):
            if not individuals.issuperset(members):
                del self.enumerations[node]
                self.types.update((member, node) for member in members)
        self.types = {(one, node) for one, node in self.types if one in individuals}
        self.values = {
            node: (name, one)
            for node, (name, one) in self.values.items()
            if name in properties and one in individuals
        }


def read_expressions(
    nodes: Nodes,
    above: Iterable[Pair],
    equivalent: Iterable[Pair],
    types: Iterable[Pair],
    domains: Iterable[Pair],
    ranges: Iterable[Pair],
) -> Expressions:
    """The expressions among `nodes`, and the pairs that relate them to classes."""
    found = Expressions(set(above), types=set(types), domains=set(domains), ranges=set(ranges))
    for one, other in equivalent:
        found.pairs.update(((one, other), (other, one)))
    for node, structure in nodes.items():
        _read_sets(found, nodes, node, structure)
        if v.ON_PROPERTY in structure:
            _read_restriction(found, node, structure)
        for head in structure.get(v.HAS_KEY, ()):
            found.keys.add((node, tuple(read_list(nodes, head))))
    return found


def read_list(nodes: Nodes, head: str) -> list[str]:
    """The members of an RDF list; a broken or circular one ends where it breaks."""
    members: list[str] = []
    seen: set[str] = set()
    while head != v.NIL and head not in seen:
        seen.add(head)
        cell = nodes.get(head, {})
        members.extend(cell.get(v.FIRST, ())[:1])
        head = next(iter(cell.get(v.REST, ())), v.NIL)
    return members


def _read_sets(
    found: Expressions, nodes: Nodes, node: str, structure: dict[str, list[str]]
) -> None:
    for table, predicate in (
        (found.intersections, v.INTERSECTION_OF),
        (found.unions, v.UNION_OF),
        (found.unions, v.DISJOINT_UNION_OF),
        (found.enumerations, v.ONE_OF),
    ):
        for head in structure.get(predicate, ())[:1]:
            members = tuple(read_list(nodes, head))
            if members:
                table[node] = members
    for other in structure.get(v.COMPLEMENT_OF, ())[:1]:
        found.complements[node] = other


def _read_restriction(found: Expressions, node: str, structure: dict[str, list[str]]) -> None:
    name = structure[v.ON_PROPERTY][0]
    if name.startswith("_:"):
        return
    for table, predicate in (
        (found.somes, v.SOME_VALUES_FROM),
        (found.alls, v.ALL_VALUES_FROM),
        (found.values, v.HAS_VALUE),
    ):
        for filler in structure.get(predicate, ())[:1]:
            table[node] = (name, filler)
    if {"true", "1"} & set(structure.get(v.HAS_SELF, ())):
        found.selves[node] = name
    filler = next(iter(structure.get(v.ON_CLASS, ())), v.THING)
    for kind in v.CARDINALITIES:
        for number in structure.get(kind, ()):
            if number.isdecimal() and len(number) <= DIGITS_MAX:
                bound = (name, int(number), filler)
                if kind not in v.MIN_CARDINALITIES:
                    found.at_most[node] = bound
                if kind not in v.MAX_CARDINALITIES:
                    found.at_least[node] = bound
                if kind in v.EXACT_CARDINALITIES:
                    found.exact.add(node)
