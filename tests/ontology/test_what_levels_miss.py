"""What a level misses is due to a construct that it lists: compared with the complete reasoner."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.ontology.ontology_oracle import PREFIXES
from tests.ontology.test_ontology_real_files import REAL, real
from tests.ontology.without_constructs import Axioms, listed

from kbn.ontology import Ontology

Load = Callable[..., Ontology]
ONE = '"1"^^xsd:nonNegativeInteger'

# Construct -> an ontology that uses it and entails that A is below B; its terms are given a prefix.
MISSED_BY_EL = {
    "allValuesFrom": """
        :A rdfs:subClassOf [ owl:onProperty :p ; owl:someValuesFrom :D ] ,
            [ owl:onProperty :p ; owl:allValuesFrom :E ] .
        :B owl:equivalentClass [ owl:onProperty :p ; owl:someValuesFrom :E ] .""",
    "functional properties": """
        :p a owl:FunctionalProperty .
        :A rdfs:subClassOf [ owl:onProperty :p ; owl:someValuesFrom :D ] ,
            [ owl:onProperty :p ; owl:someValuesFrom :E ] .
        :B owl:equivalentClass [ owl:onProperty :p ; owl:someValuesFrom
            [ owl:intersectionOf ( :D :E ) ] ] .""",
    "inverse functional properties": """
        :p a owl:InverseFunctionalProperty . :x a :D .
        :A rdfs:subClassOf [ owl:onProperty :p ; owl:hasValue :x ] . :y a :B ; :p :x .""",
    "restrictions on inverses": """
        :A rdfs:subClassOf [ owl:onProperty [ owl:inverseOf :p ] ; owl:someValuesFrom :D ] .
        :p rdfs:range :B .""",
    "inverse properties": """
        :p owl:inverseOf :q .
        :A rdfs:subClassOf [ owl:onProperty :p ; owl:someValuesFrom :D ] .
        :B owl:equivalentClass [ owl:onProperty :p ; owl:someValuesFrom
            [ owl:onProperty :q ; owl:someValuesFrom :A ] ] .""",
    "unionOf": """
        :A rdfs:subClassOf [ owl:unionOf ( :D :B ) ] , :E . :D owl:disjointWith :E .""",
    "oneOf": """
        :A rdfs:subClassOf [ owl:oneOf ( :x :y ) ] , :E . :x a :B . :y a :D .
        :D owl:disjointWith :E .""",
    "complementOf": """
        :A rdfs:subClassOf [ owl:unionOf ( :D :B ) ] , [ owl:complementOf :D ] .""",
    "cardinality": f"""
        :A rdfs:subClassOf [ owl:onProperty :p ; owl:maxCardinality {ONE} ] ,
            [ owl:onProperty :p ; owl:someValuesFrom :D ] ,
            [ owl:onProperty :p ; owl:someValuesFrom :E ] .
        :B owl:equivalentClass [ owl:onProperty :p ; owl:someValuesFrom
            [ owl:intersectionOf ( :D :E ) ] ] .""",
    "hasValue of literals": """
        :d a owl:DatatypeProperty .
        :A rdfs:subClassOf [ owl:onProperty :d ; owl:hasValue 3 ] .
        :B owl:equivalentClass [ owl:onProperty :d ; owl:hasValue 3 ] .""",
}


def prefixed(construct: str) -> str:
    """The ontology of a construct, its terms in a namespace of their own."""
    named = "".join(word.capitalize() for word in construct.split())
    return f"@prefix : <urn:{named}#> ." + MISSED_BY_EL[construct]


def pair(construct: str) -> tuple[str, str]:
    named = "".join(word.capitalize() for word in construct.split())
    return f"urn:{named}#A", f"urn:{named}#B"


@pytest.mark.java
def test_each_construct_that_el_misses_something_of_is_listed(tmp_path: Path, load: Load) -> None:
    whole, rest = tmp_path / "whole.ttl", tmp_path / "rest.nt"
    whole.write_text(PREFIXES + "\n".join(map(prefixed, MISSED_BY_EL)), encoding="utf-8")
    el, dl = Ontology.load(whole, "el"), Ontology.load(whole, "dl")
    constructs = listed(el.unsupported)
    assert constructs == set(MISSED_BY_EL)
    Axioms([whole]).write_without(constructs, rest)
    left = Ontology.load(rest, "dl")
    for construct in MISSED_BY_EL:
        assert dl.is_subclass(*pair(construct)), construct
        assert not el.is_subclass(*pair(construct)), construct
        assert not left.is_subclass(*pair(construct)), construct
        alone = load(prefixed(construct), "el")
        assert construct in listed(alone.unsupported)


Pairs = dict[str, set[tuple[str, ...]]]


def pairs_of(ontology: Ontology) -> Pairs:
    """Everything that an ontology relates, by what it relates."""
    individuals = ontology.individuals
    return {
        "links": {(c, d) for c in ontology.classes for d in ontology.ancestors(c) - {c}},
        "empty": {(c,) for c in ontology.unsatisfiable},
        "subproperties": {
            (p, q) for p in ontology.properties for q in ontology.property_ancestors(p) - {p}
        },
        "types": {(i, c) for i in individuals for c in ontology.types(i)},
        "relations": {(i, *one) for i in individuals for one in ontology.relations(i)},
        "same": {(i, j) for i in individuals for j in ontology.same_as(i) - {i}},
    }


# Of classes, RL leaves much out by design; of individuals it finds what its constructs entail.
ASKED = {"el": ("links", "empty", "subproperties", "types", "relations", "same")}
ASKED["rl"] = ("types", "relations", "same")
FILES = {
    "Service.owl": {},
    "cmt.owl": {},
    "confOf.owl": {},
    "foaf.rdf": {},
    "iptc_cptall-en-GB.ttl": {},
    "pizza.owl": {"links": 70},
    "schemaorg-30.0.owl": {},
    "univ-bench.owl": {},
    "wine.rdf": {"links": 51, "types": 43, "relations": 12},
}
"""File -> how many pairs that dl finds el does not; wine imports food."""


@pytest.mark.slow
@pytest.mark.java
@pytest.mark.skipif(not REAL.is_dir(), reason="no real ontologies at hand")
@pytest.mark.parametrize("name", FILES)
def test_every_pair_that_a_level_misses_is_due_to_a_construct_it_lists(
    name: str, tmp_path: Path
) -> None:
    whole = Ontology.load(real(name), "dl")
    dl = pairs_of(whole)
    for level, asked in ASKED.items():
        ontology = Ontology.load(real(name), level)  # type: ignore[arg-type]
        found = pairs_of(ontology)
        assert all(found[kind] <= dl[kind] for kind in dl)  # sound
        missed = {kind: len(dl[kind] - found[kind]) for kind in asked if dl[kind] - found[kind]}
        if level == "el":
            assert missed == FILES[name]
        if missed:
            rest = tmp_path / f"{level}.nt"
            assert Axioms(whole.sources).write_without(listed(ontology.unsupported), rest) > 0
            left = pairs_of(Ontology.load(rest, "dl"))
            assert all(left[kind] <= found[kind] for kind in asked)
