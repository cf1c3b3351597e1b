"""The meaning of levels `none` and `rdfs`, written as plainly as possible: sets and a fixpoint.
Also that of `rl` and `el`, where there are no class expressions.

Slow and obviously right; the compiled ontology must agree with it on every random ontology. The
rules stand one below the other and are applied to everything until nothing changes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product

Pair = tuple[str, str]

PREFIXES = """
@prefix : <urn:t#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
"""


@dataclass(frozen=True)
class Written:
    """A random ontology as it is written down."""

    classes: tuple[str, ...]
    properties: tuple[str, ...]
    individuals: tuple[str, ...]
    subclass: frozenset[Pair] = frozenset()
    equivalent: frozenset[Pair] = frozenset()
    disjoint: frozenset[Pair] = frozenset()
    subproperty: frozenset[Pair] = frozenset()
    equivalent_property: frozenset[Pair] = frozenset()
    inverse: frozenset[Pair] = frozenset()
    symmetric: frozenset[str] = frozenset()
    transitive: frozenset[str] = frozenset()
    chains: frozenset[tuple[str, str, str]] = frozenset()
    """(p, q, r): q ∘ r ⊑ p."""
    domain: frozenset[Pair] = frozenset()
    range: frozenset[Pair] = frozenset()
    same: frozenset[Pair] = frozenset()
    types: frozenset[Pair] = frozenset()
    facts: frozenset[tuple[str, str, str]] = frozenset()

    def to_turtle(self) -> str:
        lines = [f":{c} a owl:Class ." for c in self.classes]
        lines += [f":{p} a owl:ObjectProperty ." for p in self.properties]
        lines += [f":{i} a owl:NamedIndividual ." for i in self.individuals]
        for pairs, name in (
            (self.subclass, "rdfs:subClassOf"),
            (self.equivalent, "owl:equivalentClass"),
            (self.disjoint, "owl:disjointWith"),
            (self.subproperty, "rdfs:subPropertyOf"),
            (self.equivalent_property, "owl:equivalentProperty"),
            (self.inverse, "owl:inverseOf"),
            (self.domain, "rdfs:domain"),
            (self.range, "rdfs:range"),
            (self.same, "owl:sameAs"),
            (self.types, "a"),
        ):
            lines += [f":{one} {name} :{other} ." for one, other in sorted(pairs)]
        lines += [f":{p} a owl:SymmetricProperty ." for p in sorted(self.symmetric)]
        lines += [f":{p} a owl:TransitiveProperty ." for p in sorted(self.transitive)]
        lines += [f":{p} owl:propertyChainAxiom (:{q} :{r}) ." for p, q, r in sorted(self.chains)]
        lines += [f":{s} :{p} :{o} ." for s, p, o in sorted(self.facts)]
        return "\n".join(lines)


@dataclass
class Entailed:
    """Everything that follows, as sets."""

    written: Written
    level: str
    below: set[Pair] = field(default_factory=set)
    below_property: set[Pair] = field(default_factory=set)
    same: set[Pair] = field(default_factory=set)
    types: set[Pair] = field(default_factory=set)
    facts: set[tuple[str, str, str]] = field(default_factory=set)

    def __post_init__(self) -> None:
        w = self.written
        self.below = {(c, c) for c in w.classes} | set(w.subclass) | both(w.equivalent)
        self.below_property = (
            {(p, p) for p in w.properties} | set(w.subproperty) | both(w.equivalent_property)
        )
        self.same = {(i, i) for i in w.individuals} | both(w.same)
        self.types = set(w.types)
        self.facts = set(w.facts)
        while self._step():
            pass

    def _step(self) -> bool:
        before = self._size()
        for relation in (self.below, self.below_property, self.same):
            relation |= {(a, d) for (a, b), (c, d) in product(relation, relation) if b == c}
        self.types |= {(i, d) for (i, c), (c2, d) in product(self.types, self.below) if c == c2}
        self.types |= {(j, c) for (i, c), (i2, j) in product(self.types, self.same) if i == i2}
        for s, p, o in list(self.facts):
            self.facts |= {(s, q, o) for p2, q in self.below_property if p2 == p}
            self.facts |= {(s2, p, o) for s1, s2 in self.same if s1 == s}
            self.facts |= {(s, p, o2) for o1, o2 in self.same if o1 == o}
        if self.level != "none":
            self._rules()
        if self.level in ("rl", "el"):
            turned = both(self.written.inverse) | {(p, p) for p in self.written.symmetric}
            self.below_property |= {
                (one, other)
                for p, q in self.below_property
                for (p2, one), (q2, other) in product(turned, turned)
                if (p2, q2) == (p, q)
            }
        return self._size() != before

    def _rules(self) -> None:
        w = self.written
        for s, p, o in list(self.facts):
            self.facts |= {(o, q, s) for p2, q in both(w.inverse) if p2 == p}
            if p in w.symmetric:
                self.facts.add((o, p, s))
            for s2, p2, o2 in list(self.facts):
                if o == s2 and p == p2 and p in w.transitive:
                    self.facts.add((s, p, o2))
                if o == s2:
                    self.facts |= {(s, r, o2) for r, q1, q2 in w.chains if (q1, q2) == (p, p2)}
            self.types |= {(s, c) for p2, c in w.domain if p2 == p}
            self.types |= {(o, c) for p2, c in w.range if p2 == p}

    def _size(self) -> tuple[int, ...]:
        sets = (self.below, self.below_property, self.same, self.types, self.facts)
        return tuple(len(one) for one in sets)

    # Questions.

    def are_disjoint(self, one: str, other: str) -> bool:
        declared = both(self.written.disjoint)
        above = [{d for c, d in self.below if c == name} for name in (one, other)]
        if any(pair in declared for pair in product(*above)):
            return True
        return self.is_unsatisfiable(one) or self.is_unsatisfiable(other)

    def is_unsatisfiable(self, name: str) -> bool:
        above = {d for c, d in self.below if c == name}
        return any(pair in both(self.written.disjoint) for pair in product(above, above))

    def is_consistent(self) -> bool:
        declared = both(self.written.disjoint)
        return not any(
            i == j and (c, d) in declared for (i, c), (j, d) in product(self.types, self.types)
        )


def both(pairs: frozenset[Pair]) -> set[Pair]:
    return set(pairs) | {(other, one) for one, other in pairs}
