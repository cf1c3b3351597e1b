"""Which constructs the axioms of an ontology use, counted by axiom.

A level lists what it does not use. What a reader wants to know then is how many axioms that
concerns, not how often a word stands in the file: an axiom that says "some" three times counts
once. An axiom is a pair of classes or class expressions (subclass, equivalent, disjoint), a type, a
domain or a range, a named class that carries an expression itself, or a characteristic of a
property.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain

from kbn.ontology import vocabulary as v
from kbn.ontology.expressions import Nodes
from kbn.ontology.triple_sorting import SortedTriples

_CONSTRUCTS = {
    v.SOME_VALUES_FROM: "someValuesFrom",
    v.ALL_VALUES_FROM: "allValuesFrom",
    v.HAS_VALUE: "hasValue",
    v.HAS_LITERAL: "hasValue of literals",
    v.HAS_SELF: "hasSelf",
    v.HAS_KEY: "hasKey",
    v.COMPLEMENT_OF: "complementOf",
    v.UNION_OF: "unionOf",
    v.DISJOINT_UNION_OF: "unionOf",
    v.ONE_OF: "oneOf",
    **dict.fromkeys(v.CARDINALITIES, "cardinality"),
}
_CARRIED = {
    v.INTERSECTION_OF,
    v.UNION_OF,
    v.DISJOINT_UNION_OF,
    v.ONE_OF,
    v.COMPLEMENT_OF,
    v.HAS_KEY,
}
"""What a named class may carry itself, without a blank node for the expression."""

Structure = dict[str, list[str]]


def count_constructs(found: SortedTriples) -> Counter[str]:
    """Construct -> the number of axioms that use it."""
    counts = Counter(name for _, name in found.characteristics)
    nodes = found.nodes
    for blank in _blank_parts(found):
        counts.update(_used([nodes.get(node, {}) for node in blank], nodes))
    for node, structure in nodes.items():
        if not node.startswith("_:"):
            for predicate in structure.keys() & _CARRIED:
                counts.update(_used([{predicate: structure[predicate]}], nodes))
    return counts


def _blank_parts(found: SortedTriples) -> Iterator[list[str]]:
    """The blank nodes of each axiom that has any."""
    axioms = found.axioms
    equivalent = {(min(pair), max(pair)) for pair in found.equivalent}
    pairs = (set(found.above), equivalent, axioms.types, axioms.domains, axioms.ranges)
    for axiom in chain(*pairs, axioms.disjoint):
        blank = [node for node in axiom if node.startswith("_:")]
        if blank:
            yield blank


def _used(waiting: list[Structure], nodes: Nodes) -> set[str]:
    """The constructs in some expressions, and in those that stand inside them."""
    used: set[str] = set()
    seen: set[str] = set()
    while waiting:
        for predicate, objects in waiting.pop().items():
            if predicate in _CONSTRUCTS:
                used.add(_CONSTRUCTS[predicate])
            inside = {node for node in objects if node.startswith("_:")} - seen
            if inside and predicate == v.ON_PROPERTY:
                used.add("restrictions on inverses")
            else:
                seen |= inside
                waiting.extend(nodes.get(node, {}) for node in inside)
    return used
