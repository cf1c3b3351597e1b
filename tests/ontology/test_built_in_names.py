"""Files whose triples use the names of OWL, RDF, RDFS and XSD where others have their own terms."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from kbn.errors import OntologyError
from kbn.ontology import Ontology
from kbn.ontology import vocabulary as v

Load = Callable[..., Ontology]
LEVELS = ("none", "rdfs", "rl", "el")
T = "urn:t#"
SHACL = """
@prefix sh: <http://www.w3.org/ns/shacl#> .
:Sensor a owl:Class, sh:NodeShape ;
    rdfs:subClassOf :Device ;
    sh:property [ sh:path :reading ; sh:datatype xsd:double ; sh:minCount 1 ] ;
    sh:property [ sh:path rdf:type ; sh:in ( :Sensor owl:Thing ) ] .
:DeviceShape a sh:NodeShape ;
    sh:targetClass :Device ;
    sh:nodeKind sh:IRI ;
    sh:or ( [ sh:class owl:Class ] [ sh:datatype xsd:string ] ) .
:shape sh:datatype xsd:double .
:reading a owl:DatatypeProperty .
:thermometer a :Sensor .
"""


@pytest.mark.parametrize("level", LEVELS)
def test_a_file_with_shacl_in_it_says_what_its_ontology_says(load: Load, level: str) -> None:
    ontology = load(SHACL, level)
    assert ontology.is_subclass(T + "Sensor", T + "Device")
    assert T + "thermometer" in ontology.instances(T + "Device")
    known = {*ontology.classes, *ontology.properties, *ontology.individuals}
    assert not any(v.is_built_in(iri) for iri in known)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    "text",
    [
        ":shape sh:datatype xsd:double .",
        ":x :p owl:Thing .",
        "owl:Thing :p :x .",
        ":x rdf:value :y . :y owl:real :x .",
        ":x owl:sameAs owl:Thing . :x owl:differentFrom rdf:nil .",
        "[] a owl:AllDifferent ; owl:distinctMembers ( :x xsd:double owl:Class ) .",
        "xsd:double a :C . :C rdfs:subClassOf [ owl:onProperty :p ; owl:hasValue :x ] .",
        ":C owl:equivalentClass [ owl:onProperty rdf:type ; owl:hasValue :x ] . :y a :C .",
        ":C owl:equivalentClass [ owl:onProperty :p ; owl:hasValue owl:Thing ] . :y a :C .",
        ":o a owl:Ontology, :C . :C rdfs:subClassOf [ owl:onProperty :p ; owl:hasValue :x ] .",
        ":C owl:oneOf ( [] ) ; rdfs:subClassOf [ owl:onProperty :p ; owl:hasValue :x ] .",
        ":C rdfs:subClassOf [ owl:onProperty :p ; owl:maxCardinality '\\u00b2' ] .",
    ],
)
def test_built_in_names_may_stand_anywhere(load: Load, text: str, level: str) -> None:
    ontology = load(f"@prefix sh: <http://www.w3.org/ns/shacl#> .\n{text}", level)
    known = {*ontology.classes, *ontology.properties, *ontology.individuals}
    assert not any(v.is_built_in(iri) for iri in known)


@pytest.mark.parametrize("level", ("rl", "el"))
def test_an_enumeration_with_a_built_in_name_is_not_closed(load: Load, level: str) -> None:
    ontology = load(":C owl:oneOf ( :a owl:Thing ) . :b a :C .", level)
    assert ontology.instances(T + "C") == {T + "a", T + "b"}
    assert T + "b" not in ontology.same_as(T + "a")


OURS = [T + name for name in "abcdpq"]
BLANK = [f"_:n{number}" for number in range(6)]
BUILT_IN = [
    *(v.OWL + name for name in ("Thing", "Nothing", "Class", "topObjectProperty", "sameAs")),
    *(v.RDF + name for name in ("type", "nil", "first", "Property", "value")),
    *(v.RDFS + name for name in ("Resource", "Literal", "subClassOf", "label", "Datatype")),
    *(v.XSD + name for name in ("double", "string", "integer")),
]
PREDICATES = [
    v.TYPE, v.SUB_CLASS_OF, v.EQUIVALENT_CLASS, v.DISJOINT_WITH, v.SUB_PROPERTY_OF,
    v.EQUIVALENT_PROPERTY, v.INVERSE_OF, v.DOMAIN, v.RANGE, v.SAME_AS, v.DIFFERENT_FROM,
    v.FIRST, v.REST, v.INTERSECTION_OF, v.UNION_OF, v.COMPLEMENT_OF, v.ONE_OF, v.MEMBERS,
    v.DISTINCT_MEMBERS, v.ON_PROPERTY, v.DISJOINT_UNION_OF, v.PROPERTY_CHAIN, v.ON_CLASS,
    v.SOME_VALUES_FROM, v.ALL_VALUES_FROM, v.HAS_VALUE, v.HAS_KEY, v.BROADER, v.LABEL,
]  # fmt: skip
KINDS = [
    v.CLASS, v.OBJECT_PROPERTY, v.DATATYPE_PROPERTY, v.ANNOTATION_PROPERTY, v.NAMED_INDIVIDUAL,
    v.SYMMETRIC_PROPERTY, v.TRANSITIVE_PROPERTY, v.FUNCTIONAL_PROPERTY, v.ALL_DISJOINT_CLASSES,
    v.INVERSE_FUNCTIONAL_PROPERTY, v.ALL_DIFFERENT, v.ONTOLOGY, v.RDFS + "Datatype", v.CONCEPT,
]  # fmt: skip


def random_ontology(rng: random.Random) -> str:
    """N-Triples in which ours, blank and built-in names stand in every place."""
    lines = [_list_cell(rng, number) for number in range(3)]
    for _ in range(rng.randrange(5, 30)):
        lines += [_triple(rng)]
    for _ in range(rng.randrange(4)):
        lines += _restriction(rng)
    return "".join(f"{line} .\n" for line in lines)


def _name(rng: random.Random) -> str:
    return rng.choice(rng.choice((OURS, OURS, BLANK, BUILT_IN)))


def _written(name: str) -> str:
    return name if name.startswith("_:") else f"<{name}>"


def _line(subject: str, predicate: str, node: str) -> str:
    return f"{_written(subject)} <{predicate}> {_written(node)}"


def _triple(rng: random.Random) -> str:
    predicate = rng.choice(rng.choice((PREDICATES, PREDICATES, OURS, BUILT_IN)))
    if rng.random() < 0.2:
        return _line(_name(rng), v.TYPE, rng.choice(KINDS))
    if rng.random() < 0.1:
        return f'{_written(_name(rng))} <{predicate}> "1"^^<{rng.choice(BUILT_IN)}>'
    return _line(_name(rng), predicate, _name(rng))


def _list_cell(rng: random.Random, number: int) -> str:
    rest = BLANK[number + 1] if rng.random() < 0.5 else v.NIL
    return f"{_line(BLANK[number], v.FIRST, _name(rng))} .\n{_line(BLANK[number], v.REST, rest)}"


def _restriction(rng: random.Random) -> list[str]:
    node = _name(rng)
    kind = rng.choice((v.SOME_VALUES_FROM, v.ALL_VALUES_FROM, v.HAS_VALUE, v.CARDINALITIES[2]))
    filler = '"1"' if kind in v.CARDINALITIES else _written(_name(rng))
    return [
        _line(node, v.ON_PROPERTY, _name(rng)),
        f"{_written(node)} <{kind}> {filler}",
        _line(_name(rng), rng.choice((v.SUB_CLASS_OF, v.EQUIVALENT_CLASS, v.TYPE)), node),
    ]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("seed", range(4))
def test_whatever_triples_say_of_built_in_names_they_load_or_are_refused(
    tmp_path: Path, seed: int, level: str
) -> None:
    rng = random.Random(seed)
    loaded = 0
    for number in range(60):
        path = tmp_path / f"{number}.nt"
        path.write_text(text := random_ontology(rng), encoding="utf-8")
        try:
            ontology = Ontology.load(path, level, cache=False)  # type: ignore[arg-type]
        except OntologyError:
            continue
        except Exception as error:
            raise AssertionError(f"{error!r} for\n{text}") from error
        known = {*ontology.classes, *ontology.properties, *ontology.individuals}
        assert not any(v.is_built_in(iri) for iri in known), text
        loaded += 1
    assert loaded > 10
