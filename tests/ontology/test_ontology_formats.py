"""The same small ontology in every format, and what each format does with what is wrong."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from kbn.errors import LimitError, OntologyError
from kbn.ontology import Ontology

TURTLE = """@prefix ex: <http://example.org/farm#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
<http://example.org/farm> a owl:Ontology .
ex:Animal a owl:Class ; rdfs:label "animal" .
ex:Cow a owl:Class ; rdfs:subClassOf ex:Animal ; rdfs:label "Kuh"@de , "cow"@en .
ex:eats a owl:ObjectProperty .
ex:colleen a owl:NamedIndividual , ex:Cow ; ex:eats ex:grass .
ex:grass a owl:NamedIndividual .
"""

RDF_XML = """<?xml version="1.0" encoding="ISO-8859-1"?>
<!DOCTYPE rdf:RDF [ <!ENTITY ex "http://example.org/farm#"> ]>
<rdf:RDF xmlns:ex="&ex;" xmlns:owl="http://www.w3.org/2002/07/owl#"
  xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"
  xmlns:rdfs="http://www.w3.org/2000/01/rdf-schema#">
  <owl:Class rdf:about="&ex;Animal"><rdfs:label>animal</rdfs:label></owl:Class>
  <owl:Class rdf:about="&ex;Cow"><rdfs:subClassOf rdf:resource="&ex;Animal"/>
    <rdfs:label xml:lang="en">cow</rdfs:label><rdfs:label xml:lang="de">K\xfch</rdfs:label>
  </owl:Class>
  <owl:ObjectProperty rdf:about="&ex;eats"/>
  <owl:NamedIndividual rdf:about="&ex;grass"/>
  <ex:Cow rdf:about="&ex;colleen"><ex:eats rdf:resource="&ex;grass"/></ex:Cow>
</rdf:RDF>
"""

N_TRIPLES = """
<http://example.org/farm#Cow> <http://www.w3.org/2000/01/rdf-schema#subClassOf> <http://example.org/farm#Animal> .
<http://example.org/farm#Cow> <http://www.w3.org/2000/01/rdf-schema#label> "cow" .
<http://example.org/farm#colleen> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://example.org/farm#Cow> .
<http://example.org/farm#colleen> <http://example.org/farm#eats> <http://example.org/farm#grass> .
"""  # noqa: E501

FUNCTIONAL = """Prefix(ex:=<http://example.org/farm#>)
Prefix(rdfs:=<http://www.w3.org/2000/01/rdf-schema#>)
Ontology(<http://example.org/farm>
Declaration(Class(ex:Animal))
Declaration(Class(ex:Cow))
Declaration(ObjectProperty(ex:eats))
Declaration(NamedIndividual(ex:colleen))
Declaration(NamedIndividual(ex:grass))
AnnotationAssertion(rdfs:label ex:Cow "cow")
SubClassOf(ex:Cow ex:Animal)
ClassAssertion(ex:Cow ex:colleen)
ObjectPropertyAssertion(ex:eats ex:colleen ex:grass)
)
"""

OWL_XML = """<?xml version="1.0"?>
<Ontology xmlns="http://www.w3.org/2002/07/owl#" ontologyIRI="http://example.org/farm">
  <Prefix name="ex" IRI="http://example.org/farm#"/>
  <Declaration><Class IRI="http://example.org/farm#Animal"/></Declaration>
  <Declaration><Class IRI="http://example.org/farm#Cow"/></Declaration>
  <Declaration><ObjectProperty IRI="http://example.org/farm#eats"/></Declaration>
  <Declaration><NamedIndividual IRI="http://example.org/farm#colleen"/></Declaration>
  <Declaration><NamedIndividual IRI="http://example.org/farm#grass"/></Declaration>
  <SubClassOf>
    <Class IRI="http://example.org/farm#Cow"/><Class IRI="http://example.org/farm#Animal"/>
  </SubClassOf>
  <ClassAssertion>
    <Class IRI="http://example.org/farm#Cow"/>
    <NamedIndividual IRI="http://example.org/farm#colleen"/>
  </ClassAssertion>
  <ObjectPropertyAssertion>
    <ObjectProperty IRI="http://example.org/farm#eats"/>
    <NamedIndividual IRI="http://example.org/farm#colleen"/>
    <NamedIndividual IRI="http://example.org/farm#grass"/>
  </ObjectPropertyAssertion>
  <AnnotationAssertion>
    <AnnotationProperty IRI="http://www.w3.org/2000/01/rdf-schema#label"/>
    <IRI>http://example.org/farm#Cow</IRI><Literal>cow</Literal>
  </AnnotationAssertion>
</Ontology>
"""

OBO = r"""format-version: 1.2
ontology: farm
idspace: ex http://example.org/farm#

[Term]
id: ex:Animal
name: animal
synonym: "living \"beast\"" EXACT []

[Term]
id: ex:Cow
name: cow ! a comment
is_a: ex:Animal {source="nobody"} ! animal
alt_id: ex:OldCow
relationship: eats ex:Grass

[Term]
id: ex:Grass

[Term]
id: ex:GrassEater
intersection_of: ex:Animal
intersection_of: eats ex:Grass

[Term]
id: ex:Gone
is_obsolete: true

[Typedef]
id: eats
xref: RO:0002470
is_transitive: true

[Instance]
id: ex:colleen
instance_of: ex:Cow
property_value: ex:eats ex:grass
"""

JSON_LD = """{
  "@context": {
    "ex": "http://example.org/farm#",
    "owl": "http://www.w3.org/2002/07/owl#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "below": {"@id": "rdfs:subClassOf", "@type": "@id"}
  },
  "@graph": [
    {"@id": "ex:Animal", "@type": "owl:Class", "rdfs:label": "animal"},
    {"@id": "ex:Cow", "@type": "owl:Class", "below": "ex:Animal",
     "rdfs:label": [{"@value": "cow", "@language": "en"}, {"@value": "Kuh", "@language": "de"}]},
    {"@id": "ex:eats", "@type": "owl:ObjectProperty"},
    {"@id": "ex:colleen", "@type": ["owl:NamedIndividual", "ex:Cow"],
     "ex:eats": {"@id": "ex:grass", "@type": "owl:NamedIndividual"}}
  ]
}
"""

FILES = {
    "farm.ttl": TURTLE.encode(),
    "farm.rdf": RDF_XML.encode("latin-1"),
    "farm.nt": N_TRIPLES.encode(),
    "farm.ofn": FUNCTIONAL.encode(),
    "farm.owx": OWL_XML.encode(),
    "farm.obo": OBO.encode(),
    "farm.jsonld": JSON_LD.encode(),
    "farm.ttl.gz": gzip.compress(TURTLE.encode()),
    # The ending says nothing, the content does.
    "turtle.owl": TURTLE.encode(),
    "xml.owl": RDF_XML.encode("latin-1"),
    "functional.owl": FUNCTIONAL.encode(),
    "owlxml.owl": OWL_XML.encode(),
    "obo.txt": OBO.encode(),
    "linked.json": b"\xef\xbb\xbf" + JSON_LD.encode(),
    "ntriples.dat": N_TRIPLES.encode(),
    "utf16.rdf": RDF_XML.replace("ISO-8859-1", "UTF-16").encode("utf-16"),
}
EX = "http://example.org/farm#"


@pytest.mark.parametrize("name", FILES)
def test_every_format_says_the_same(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(FILES[name])
    ontology = Ontology.load(path)
    assert ontology.ancestors(EX + "Cow") >= {EX + "Cow", EX + "Animal"}
    assert ontology.types(EX + "colleen") >= {EX + "Cow", EX + "Animal"}
    assert ontology.related(EX + "colleen", EX + "eats") == {EX + "grass"}
    assert ontology.label(EX + "Cow") == "cow"
    assert ontology.sources == (str(path),)


@pytest.mark.parametrize("name", ["farm.ttl", "farm.rdf", "farm.ofn", "farm.owx", "farm.obo"])
def test_prefixes_come_from_the_file(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(FILES[name])
    ontology = Ontology.load(tmp_path / name)
    assert ontology.expand("ex:Cow") == EX + "Cow"
    assert ontology.shorten(EX + "Cow") == "ex:Cow"
    assert ontology.expand("rdfs:label").endswith("rdf-schema#label")


def test_obo_reads_synonyms_old_ids_relations_and_skips_the_obsolete(tmp_path: Path) -> None:
    (tmp_path / "farm.obo").write_text(OBO)
    ontology = Ontology.load(tmp_path / "farm.obo", "el")
    assert ontology.labels(EX + "Animal") == ("animal", 'living "beast"')
    assert ontology.equivalents(EX + "OldCow") == {EX + "OldCow", EX + "Cow"}
    assert EX + "Gone" not in ontology.classes
    assert "http://purl.obolibrary.org/obo/RO_0002470" in ontology.properties
    assert ontology.is_subclass(EX + "Cow", EX + "GrassEater")
    rdfs = Ontology.load(tmp_path / "farm.obo")
    assert not rdfs.is_subclass(EX + "Cow", EX + "GrassEater")
    assert rdfs.is_subclass(EX + "GrassEater", EX + "Animal")
    assert any("someValuesFrom" in note for note in rdfs.unsupported)


def test_several_files_are_one_ontology(tmp_path: Path) -> None:
    (tmp_path / "a.ttl").write_text(TURTLE)
    (tmp_path / "b.nt").write_text(
        f"<{EX}Animal> <http://www.w3.org/2000/01/rdf-schema#subClassOf> <{EX}Being> .\n"
    )
    ontology = Ontology.load([tmp_path / "a.ttl", str(tmp_path / "b.nt")])
    assert ontology.is_instance(EX + "colleen", EX + "Being")


BROKEN = {
    "broken.ttl": (TURTLE.replace("ex:Cow a", "zz:Cow a"), 6, "prefix zz"),
    "broken.nt": ("<urn:a> <urn:b> .\n", 1, "N-Triples"),
    "broken.rdf": (RDF_XML.replace("</owl:Class>", "", 1), 8, "RDF/XML"),
    "broken.ofn": (FUNCTIONAL.replace("ClassAssertion(", "ClassAsertion("), 11, "functional"),
    "prefix.ofn": (FUNCTIONAL.replace("ClassAssertion(ex:", "ClassAssertion(zz:"), 11, "prefix"),
    "broken.owx": (OWL_XML[:-60], 23, "the file ends too soon"),
    "ends.owx": (OWL_XML.replace("</SubClassOf>", "</SubClasOf>"), 11, "mismatched tag"),
    "tags.owx": (OWL_XML.replace("SubClassOf>", "SubClasOf>"), 10, "found SubClasOf"),
    "short.ofn": (FUNCTIONAL[:-2], 12, "expected an axiom, and the file ends"),
    "ends.ofn": (FUNCTIONAL + ")", 14, "expected the end of the file"),
    "no.ofn": ("hello", 1, "expected Prefix(…) or Ontology(…) at 'hello'"),
    "quote.ofn": (FUNCTIONAL.replace('"', "", 1), 9, "expected Annotation Value at"),
    "broken.obo": (OBO.replace("is_a: ex:Animal", "is_a ex Animal"), 13, "tag: value"),
    "noid.obo": ("format-version: 1.2\n\n[Term]\nname: x\n", 3, "without an id"),
    "unknown.txt": ("hello world", None, "format is not recognised"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_malformed_file_is_an_error_with_path_line_and_reason(name: str, tmp_path: Path) -> None:
    content, line, reason = BROKEN[name]
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(OntologyError) as caught:
        Ontology.load(path)
    assert caught.value.path == str(path)
    assert reason in str(caught.value)
    assert not re.search(r"Error\(|Error \{|BytePosition", str(caught.value))
    if line is not None:
        assert caught.value.line == line


def test_a_missing_file_is_an_ontology_error(tmp_path: Path) -> None:
    with pytest.raises(OntologyError, match="no such file"):
        Ontology.load(tmp_path / "absent.ttl")
    with pytest.raises(OntologyError, match="cannot be read"):
        Ontology.load(tmp_path)


def test_exploding_xml_entities_are_refused(tmp_path: Path) -> None:
    levels = "".join(
        f'<!ENTITY e{n} "{"&e" + str(n - 1) + ";" if n else "ha"}{"ha" * 9}'
        f'{("&e" + str(n - 1) + ";") * 9 if n else ""}">'
        for n in range(12)
    )
    bomb = RDF_XML.replace("<!ENTITY ex", levels + "<!ENTITY ex").replace("animal<", "&e11;<")
    (tmp_path / "bomb.rdf").write_bytes(bomb.encode("latin-1"))
    with pytest.raises(LimitError):
        Ontology.load(tmp_path / "bomb.rdf")


@pytest.mark.parametrize(
    ("content", "error", "says"),
    [
        ('{"@context": "https://example.org/c", "@id": "urn:a"}', OntologyError, "not fetched"),
        ('{"@id": "urn:a", "urn:p": {"@context": [{}, "urn:c"]}}', OntologyError, "elsewhere"),
        ('{"@context": {"@import": "urn:c"}, "@id": "urn:a"}', OntologyError, "elsewhere"),
        ('{"@id": "urn:a",\n "urn:p": ', OntologyError, ":2: not well-formed JSON-LD"),
        ('{"name": "a program\'s settings"}', OntologyError, "not JSON-LD"),
        ('{"@id": "urn:a", "urn:p": ' * 5000 + "{}" + "}" * 5000, LimitError, "200 deep"),
    ],
)
def test_json_that_is_refused(
    content: str, error: type[Exception], says: str, tmp_path: Path
) -> None:
    path = tmp_path / "given.jsonld"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(error, match=says):
        Ontology.load(path)
