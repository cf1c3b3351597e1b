"""An ontology file without the axioms that use some constructs.

What a level does not find must be due to a construct that it lists. So what the complete reasoner
finds in the axioms that use none of the listed constructs, the level must find in the whole file.
The constructs of an axiom are found here from RDF, by other code than the one that lists them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pyoxigraph as ox

OWL = "http://www.w3.org/2002/07/owl#"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"
CARDINALITIES = "cardinality minCardinality maxCardinality"
CARDINALITIES += " qualifiedCardinality minQualifiedCardinality maxQualifiedCardinality"
WORDS = {
    **dict.fromkeys(CARDINALITIES.split(), "cardinality"),
    **{word: word for word in ["someValuesFrom", "allValuesFrom", "hasValue", "hasSelf", "hasKey"]},
    **{word: word for word in ["complementOf", "unionOf", "oneOf"]},
    "disjointUnionOf": "unionOf",
    "inverseOf": "inverse properties",
}
PROPERTY_KINDS = {
    "FunctionalProperty": "functional properties",
    "InverseFunctionalProperty": "inverse functional properties",
    "AsymmetricProperty": "asymmetric properties",
    "IrreflexiveProperty": "irreflexive properties",
    "ReflexiveProperty": "reflexive properties",
    "SymmetricProperty": "symmetric properties",
    "TransitiveProperty": "transitive properties",
}
DESCRIPTIONS = {OWL + word for word in WORDS} | {
    *(OWL + word for word in ("intersectionOf", "onProperty", "onClass", "onDataRange")),
    *(OWL + word for word in ("inverseOf", "hasSelf")),
    RDF + "first",
    RDF + "rest",
}


def listed(unsupported: Iterable[str], *, wholly: bool = False) -> set[str]:
    """The constructs that `Ontology.unsupported` names; those that are not used at all only."""
    found: set[str] = set()
    for sentence in unsupported:
        how = "not used" if wholly else "(?:not used|used in part)"
        if said := re.match(rf"(?:none|rdfs|rl|el): {how}: (.*)", sentence):
            found |= {name.rpartition(" (")[0] for name in said[1].split(", ")}
    return found


class Axioms:
    """The triples of some files, and the constructs that each axiom uses."""

    def __init__(self, paths: Iterable[str | Path]) -> None:
        self.quads: list[ox.Quad] = []
        for path in map(Path, paths):
            form = ox.RdfFormat.TURTLE if path.suffix == ".ttl" else ox.RdfFormat.RDF_XML
            base = "file:///" + path.name
            content = path.read_bytes()
            self.quads += ox.parse(content, form, base_iri=base, rename_blank_nodes=True)
        self.of: dict[object, list[ox.Quad]] = defaultdict(list)
        for quad in self.quads:
            self.of[quad.subject].append(quad)

    def write_without(self, constructs: set[str], path: Path) -> int:
        """Write what is left without the axioms that use one of these; how many were left out."""
        left = [quad for quad in self.quads if not self.uses(quad) & constructs]
        triples = (ox.Triple(quad.subject, quad.predicate, quad.object) for quad in left)
        ox.serialize(triples, output=str(path), format=ox.RdfFormat.N_TRIPLES)
        return len(self.quads) - len(left)

    def uses(self, quad: ox.Quad) -> set[str]:
        """The constructs of the axiom that a triple makes; none when it is only part of one."""
        subject, predicate, node = quad.subject, quad.predicate.value, quad.object
        if isinstance(subject, ox.BlankNode) and predicate in DESCRIPTIONS:
            return set()
        used = self._inside(subject) if isinstance(subject, ox.BlankNode) else set()
        if predicate in DESCRIPTIONS:
            used |= self._construct(quad)
        if predicate == RDF + "type" and isinstance(node, ox.NamedNode):
            kind = PROPERTY_KINDS.get(node.value.removeprefix(OWL))
            used |= {kind} if kind else set()
        return used | self._inside(node)

    def _construct(self, quad: ox.Quad) -> set[str]:
        name = WORDS.get(quad.predicate.value.removeprefix(OWL))
        if name == "hasValue" and isinstance(quad.object, ox.Literal):
            name = "hasValue of literals"
        return {name} if name else set()

    def _inside(self, node: object) -> set[str]:
        found: set[str] = set()
        seen: set[object] = set()
        waiting = [node]
        while waiting:
            node = waiting.pop()
            if isinstance(node, ox.BlankNode) and node not in seen:
                seen.add(node)
                for quad in self.of[node]:
                    inverse = quad.predicate.value == OWL + "inverseOf"
                    found |= {"restrictions on inverses"} if inverse else self._construct(quad)
                    waiting.append(quad.object)
        return found
