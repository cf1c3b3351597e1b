"""What an ontology says about its named terms: the plain, unclosed form every level starts from.

`axiom_extraction.py` fills it from triples, a reasoning level adds to it, `compiling.py` closes it.
All is sets of IRIs, pairs and triples of IRIs; a blank node (a string that starts with `_:`) can
stand for an individual in statements, and for a class expression in `expressions` only.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from kbn.ontology.expressions import Expressions

Pair = tuple[str, str]
Fact = tuple[str, str, str]


@dataclass
class Axioms:
    """Sets of IRIs, pairs and triples; `axiom_extraction.py` says what counts as a term."""

    classes: set[str] = field(default_factory=set)
    properties: set[str] = field(default_factory=set)
    individuals: set[str] = field(default_factory=set)
    object_properties: set[str] = field(default_factory=set)
    """The properties that are neither annotation nor datatype properties."""
    subclasses: set[Pair] = field(default_factory=set)
    """(narrower, wider) as written; an equivalence is two pairs."""
    unfolded: set[Pair] = field(default_factory=set)
    """(narrower, wider) read out of intersections and unions."""
    subproperties: set[Pair] = field(default_factory=set)
    inverses: set[Pair] = field(default_factory=set)
    symmetric: set[str] = field(default_factory=set)
    transitive: set[str] = field(default_factory=set)
    reflexive: set[str] = field(default_factory=set)
    chains: set[tuple[str, tuple[str, ...]]] = field(default_factory=set)
    domains: set[Pair] = field(default_factory=set)
    ranges: set[Pair] = field(default_factory=set)
    named_domains: set[Pair] = field(default_factory=set)
    """(property, class) for each class a domain names, those of unions too: what a property is
    about, and no rule to reason with."""
    named_ranges: set[Pair] = field(default_factory=set)
    same: set[Pair] = field(default_factory=set)
    different: set[tuple[str, ...]] = field(default_factory=set)
    """Groups whose members are pairwise different."""
    types: set[Pair] = field(default_factory=set)
    members: set[Pair] = field(default_factory=set)
    """(individual, class) read out of enumerations."""
    facts: set[Fact] = field(default_factory=set)
    """(subject, property, object)."""
    disjoint: set[tuple[str, ...]] = field(default_factory=set)
    """Groups whose members are pairwise disjoint."""
    unsatisfiable: set[str] = field(default_factory=set)
    names: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    """IRI -> (how well it names it, a text), best first; the qualities are in `vocabulary.py`."""
    beyond: Counter[str] = field(default_factory=Counter)
    """Construct that reaches past named terms -> how many axioms use it (`constructs.py`)."""
    expressions: Expressions = field(default_factory=Expressions)
    """The class expressions, for the levels that can use them."""
    is_skos: bool = False
    notes: list[str] = field(default_factory=list)
