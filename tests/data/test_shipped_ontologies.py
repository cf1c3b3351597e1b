"""The shipped ontologies hold what their comments, and the documents, say they hold."""

from __future__ import annotations

import re

import pyoxigraph as ox
import pytest

from kbn.data import names, namespace, path
from kbn.data.generated import PAPER_CLASSES, PAPER_INDIVIDUALS, event_ontology
from kbn.errors import InvalidInputError
from kbn.ontology import Ontology

OWL = "http://www.w3.org/2002/07/owl#"
RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"

# name: classes, individuals, object properties, data properties
SIZES = {
    "animals": (12, 8, 2, 2),
    "conference": (45, 19, 13, 23),
    "drinks": (18, 13, 4, 0),
    "events": (42, 27, 10, 3),
    "management": (45, 32, 4, 36),
    "podcast": (67, 0, 0, 0),
    "service_core": (4, 0, 8, 0),
    "services": (29, 7, 3, 0),
}


def parsed(text: str) -> list[ox.Triple]:
    return list(ox.parse(text, format=ox.RdfFormat.TURTLE))


def declared(triples: list[ox.Triple], kind: str) -> set[str]:
    return {
        triple.subject.value
        for triple in triples
        if triple.predicate.value == RDF_TYPE
        and triple.object == ox.NamedNode(OWL + kind)
        and isinstance(triple.subject, ox.NamedNode)
    }


def sizes(triples: list[ox.Triple]) -> tuple[int, int, int, int]:
    kinds = ("Class", "NamedIndividual", "ObjectProperty", "DatatypeProperty")
    first, second, third, fourth = (len(declared(triples, kind)) for kind in kinds)
    return first, second, third, fourth


def text_of(name: str) -> str:
    return path(name).read_text(encoding="utf-8")


def test_every_shipped_file_is_in_the_table_of_sizes() -> None:
    assert set(names()) == set(SIZES)


@pytest.mark.parametrize("name", sorted(SIZES))
def test_an_ontology_has_the_stated_size(name: str) -> None:
    assert sizes(parsed(text_of(name))) == SIZES[name]


@pytest.mark.parametrize("name", sorted(SIZES))
def test_the_comment_at_the_top_states_the_true_number_of_classes(name: str) -> None:
    top = text_of(name).split("@prefix")[0]
    stated = re.findall(r"(\d+) (?:classes|categories)", top)
    assert int(stated[-1]) == SIZES[name][0]


@pytest.mark.parametrize("name", sorted(SIZES))
def test_every_term_of_our_own_is_declared_and_labelled(name: str) -> None:
    triples = parsed(text_of(name))
    own = namespace(name)
    used = {
        term.value
        for triple in triples
        for term in (triple.subject, triple.predicate, triple.object)
        if isinstance(term, ox.NamedNode) and term.value.startswith(own)
    }
    labelled = {
        triple.subject.value
        for triple in triples
        if triple.predicate.value == RDFS + "label" and isinstance(triple.subject, ox.NamedNode)
    }
    assert used <= labelled


@pytest.mark.parametrize("name", sorted(SIZES))
def test_no_iri_is_used_as_two_kinds_of_term(name: str) -> None:
    triples = parsed(text_of(name))
    kinds = ("Class", "NamedIndividual", "ObjectProperty", "DatatypeProperty")
    terms = [term for kind in kinds for term in declared(triples, kind)]
    assert len(terms) == len(set(terms))


@pytest.mark.parametrize("name", sorted(SIZES))
def test_an_ontology_loads_at_the_rdfs_level(name: str) -> None:
    ontology = Ontology.load(path(name), reasoning="rdfs", cache=False)
    classes, individuals, objects, data = SIZES[name]
    own = [iri for iri in ontology.classes if iri.startswith("https://kbn.example/")]
    assert len(own) == classes
    assert len(ontology.individuals) == individuals
    assert len([p for p in ontology.properties if p.startswith("https://kbn.example/")]) == (
        objects + data
    )


def test_cim_indication_has_sixteen_subclasses() -> None:
    ontology = Ontology.load(path("events"), reasoning="rdfs", cache=False)
    indication = namespace("events") + "CIM_Indication"
    assert len(ontology.descendants(indication) - {indication}) == 16


def test_the_podcast_categories_are_sixteen_trees_two_levels_deep() -> None:
    ontology = Ontology.load(path("podcast"), reasoning="rdfs", cache=False)
    tops = [iri for iri in ontology.classes if ontology.ancestors(iri) == {iri}]
    assert len(tops) == 16
    assert all(len(ontology.ancestors(iri)) <= 2 for iri in ontology.classes)


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidInputError, match="animals"):
        path("animls")


def test_the_event_ontology_grows_to_the_size_in_the_paper() -> None:
    text = event_ontology()
    assert sizes(parsed(text))[:2] == (PAPER_CLASSES, PAPER_INDIVIDUALS) == (147, 563)
    assert text == event_ontology()


def test_the_grown_event_ontology_keeps_its_sixteen_indications() -> None:
    indications = {
        str(triple.subject)
        for triple in parsed(event_ontology(60, 40))
        if triple.predicate.value == RDFS + "subClassOf"
        and isinstance(triple.object, ox.NamedNode)
        and "Indication" in triple.object.value
    }
    assert len(indications) == 16


def test_the_event_ontology_cannot_shrink_below_the_shipped_one() -> None:
    with pytest.raises(InvalidInputError, match="at least 42 classes"):
        event_ontology(10, 10)
