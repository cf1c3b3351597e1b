"""Terms by name: whatever people call them, the same term in every process."""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ontology.test_ontology_real_files import real

from kbn.errors import InvalidInputError, UnknownTermError
from kbn.ontology import Class, Individual, Ontology, Property
from kbn.ontology.names import NameIndex, fold, telling_label

T = "urn:t#"
Load = Callable[..., Ontology]

DRINKS = """
@prefix oio: <http://www.geneontology.org/formats/oboInOwl#> .
:Coffee a owl:Class ; rdfs:label "coffee"@en , "Café"@fr ; skos:altLabel "java" ;
    skos:hiddenLabel "cofee" ; skos:notation "D-17" ; oio:hasExactSynonym "brew" ;
    oio:hasNarrowSynonym "espresso" ; oio:hasBroadSynonym "drink" ; oio:hasRelatedSynonym "cup" .
:GreenTea a owl:Class .
:Java a owl:Class ; rdfs:label "Java" .
:java1 a owl:NamedIndividual ; rdfs:label "Java" .
:drinks a owl:ObjectProperty ; rdfs:label "drinks" .
:Pair a owl:Class . :Pair a owl:NamedIndividual .
"""


@pytest.fixture
def index(load: Load) -> NameIndex:
    return NameIndex(load(DRINKS))


@pytest.mark.parametrize(
    "text",
    [
        *("urn:t#Coffee", "<urn:t#Coffee>", ":Coffee", " urn:t#Coffee "),
        *("coffee", "COFFEE", "  coffee ", "Café", "cafe", "CAFÉ", "cofee", "brew", "D-17", "d 17"),
        *("espresso", "Coffee"),
    ],
)
def test_a_class_goes_by_its_iri_its_curie_and_every_name_it_has(
    index: NameIndex, text: str
) -> None:
    assert index.find(text) == Class(T + "Coffee")


@pytest.mark.parametrize("text", ["drink", "cup", "", "   ", "urn:t#Tea", "tea:Coffee", "<>", ":"])
def test_what_is_broader_or_only_related_or_unknown_names_nothing(
    index: NameIndex, text: str
) -> None:
    assert index.find(text) is None
    assert index.all(text) == ()
    assert not index.is_ambiguous(text)


@pytest.mark.parametrize("text", ["GreenTea", "green tea", "Green_Tea", "green-tea", "greentea"])
def test_a_local_name_is_a_name_and_so_are_the_words_in_it(index: NameIndex, text: str) -> None:
    assert index.find(text) == Class(T + "GreenTea")


def test_a_preferred_label_comes_before_a_synonym_and_a_class_before_an_individual(
    index: NameIndex,
) -> None:
    assert index.all("Java") == (Class(T + "Java"), Individual(T + "java1"), Class(T + "Coffee"))
    assert index.is_ambiguous("Java")
    assert index.find("java", "individual") == Individual(T + "java1")
    assert not index.is_ambiguous("java", "individual")


def test_among_equals_the_text_as_written_comes_first(load: Load) -> None:
    index = NameIndex(
        load(':a a owl:Class; rdfs:label "resume" . :b a owl:Class; rdfs:label "résumé" .')
    )
    assert index.find("résumé") == Class(T + "b")
    assert index.find("RESUME") == Class(T + "a")
    assert not index.is_ambiguous("résumé")
    assert index.is_ambiguous("RÉSUMÉ")


def test_a_kind_that_was_asked_for_is_given_or_nothing(index: NameIndex) -> None:
    assert index.find("coffee", "class") == Class(T + "Coffee")
    assert index.find("coffee", "term") == Class(T + "Coffee")
    assert index.find("coffee", "property") is None
    assert index.find("drinks") == Property(T + "drinks")
    assert index.find("pair") == Class(T + "Pair")
    assert index.find("urn:t#Pair", "individual") == Individual(T + "Pair")
    with pytest.raises(InvalidInputError, match="'klass'"):
        index.find("coffee", "klass")


def test_labels_show_what_is_meant_to_be_shown(index: NameIndex, load: Load) -> None:
    ontology = load(DRINKS)
    shown = ontology.labels(T + "Coffee")
    assert shown[:2] == ("coffee", "Café")
    assert {"java", "brew", "drink", "cup"} <= set(shown)
    assert not {"cofee", "D-17"} & set(shown)


def test_skos_xl_labels_are_names_and_no_terms(load: Load) -> None:
    ontology = load(
        """
        @prefix xl: <http://www.w3.org/2008/05/skos-xl#> .
        :c a skos:Concept ; xl:prefLabel :l1 ; xl:altLabel [ xl:literalForm "Kaffee"@de ] .
        :l1 a xl:Label ; xl:literalForm "coffee"@en .
        """
    )
    assert ontology.is_skos
    assert ontology.classes == (T + "c",)
    assert ontology.individuals == ()
    assert ontology.labels(T + "c") == ("coffee", "Kaffee")
    assert NameIndex(ontology).find("KAFFEE") == Class(T + "c")


def test_names_survive_saving(load: Load, tmp_path: Path) -> None:
    ontology = load(DRINKS)
    ontology.save(tmp_path / "drinks.kbno")
    opened = NameIndex(Ontology.open(tmp_path / "drinks.kbno"))
    for text in ("cofee", "D-17", "Café", "Java", "espresso", "drink"):
        assert opened.all(text) == NameIndex(ontology).all(text)


def test_names_in_obo_files_are_found_by_scope(tmp_path: Path) -> None:
    path = tmp_path / "tiny.obo"
    path.write_text(
        "format-version: 1.2\nontology: tiny\n\n[Term]\nid: GO:0000001\nname: coffee plant\n"
        'synonym: "Coffea" EXACT []\nsynonym: "shrub" BROAD []\nsynonym: "loose" []\n'
    )
    index = NameIndex(Ontology.load(path, cache=False))
    plant = Class("http://purl.obolibrary.org/obo/GO_0000001")
    for text in ("Coffee-Plant", "coffea", "GO:0000001", "GO_0000001"):
        assert index.find(text) == plant
    for text in ("shrub", "loose"):
        assert index.find(text) is None


@given(st.text(max_size=20))
def test_folding_again_changes_nothing(text: str) -> None:
    assert fold(fold(text)) == fold(text)


@given(st.text(st.characters(codec="utf-8"), max_size=20))
def test_case_and_accents_do_not_count(text: str) -> None:
    assert fold(text.upper()) == fold(text.upper().casefold())
    assert fold(unicodedata.normalize("NFD", text)) == fold(unicodedata.normalize("NFC", text))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Łódź", "lodz"), ("Ærø", "aero"), ("STRASSE", "straße"), ("Ａｂｃ", "abc"),
        ("Fashion & Beauty", "fashion and beauty"), ("Kids’ TV", "kids' tv"), ("a–b", "A b"),
        ("Ελλάδα", "ελλαδα"), ("İstanbul", "istanbul"), ("a\u00a0 b", "a b"),
    ],
)  # fmt: skip
def test_ways_to_write_one_name_fold_alike(one: str, other: str) -> None:
    assert fold(one) == fold(other)


@pytest.mark.parametrize(
    ("one", "other"), [("C++", "C"), ("C#", "C"), ("がく", "かく"), ("कु", "क"), ("1.5", "15")]
)
def test_other_names_stay_apart(one: str, other: str) -> None:
    assert fold(one) != fold(other)


def test_random_names_are_found_as_a_scan_of_all_names_finds_them(load: Load, seed: int) -> None:
    chosen = random.Random(seed)
    words = ["Tea", "tea", "Té", "te", "Green tea", "green_tea", "Mate", "maté", "Chai"]
    lines = []
    for number in range(40):
        kind = chosen.choice(["owl:Class", "owl:NamedIndividual", "owl:ObjectProperty"])
        label, other = chosen.choice(words), chosen.choice(words)
        lines.append(f':x{number} a {kind} ; rdfs:label "{label}" ; skos:altLabel "{other}" .')
    ontology = load("\n".join(lines))
    index = NameIndex(ontology)
    kinds = [
        (Class, ontology.classes),
        (Individual, ontology.individuals),
        (Property, ontology.properties),
    ]
    for word in words:
        expected = sorted(
            (quality, text != word, place, iri)
            for place, (_, iris) in enumerate(kinds)
            for iri in iris
            for quality, text in ontology.names(iri)
            if fold(text) == fold(word)
        )
        terms = dict.fromkeys(kinds[place][0](iri) for _, _, place, iri in expected)
        assert index.all(word) == tuple(terms), word


def test_a_large_thesaurus_is_indexed_whole(load: Load) -> None:
    concepts = "\n".join(
        f':c{n} a skos:Concept ; skos:prefLabel "Concept {n}"@en, "Begriff {n}"@de .'
        for n in range(3000)
    )
    index = NameIndex(load(concepts))
    for number in range(0, 3000, 7):
        assert index.find(f"BEGRIFF  {number}") == Class(f"{T}c{number}")


@pytest.mark.parametrize(
    "name", ["iptc_cptall-en-GB.ttl", "schemaorg-30.0.owl", "pizza.owl", "foaf.rdf", "wine.rdf"]
)
def test_every_label_of_a_real_ontology_finds_a_term_of_that_label(name: str) -> None:
    ontology = Ontology.load(real(name), cache=False)
    index = NameIndex(ontology)
    for iri in (*ontology.classes, *ontology.individuals, *ontology.properties):
        assert iri in {term.iri for term in index.all(iri)}
        preferred = [text for quality, text in ontology.names(iri) if quality == 0]
        for text in preferred:
            found = index.find(text.swapcase() if text.isascii() else text)
            assert found is not None
            assert fold(text) in {fold(label) for label in ontology.labels(found.iri)}


def test_an_unknown_term_is_told_with_labels_that_say_more(load: Load) -> None:
    ontology = load(
        """
        :C03 a owl:Class ; rdfs:label "chablis" . :Port a owl:Class ; rdfs:label "port" .
        """
    )
    assert telling_label(ontology, T + "C03") == "chablis"
    assert telling_label(ontology, T + "Port") is None
    with pytest.raises(UnknownTermError, match=r"did you mean <urn:t#C03> \(chablis\)\?"):
        ontology.require(T + "chablys")
    with pytest.raises(UnknownTermError, match=r"did you mean <urn:t#Port>\?"):
        ontology.require(T + "Prot")


def test_a_search_finds_words_anywhere_and_the_best_first(load: Load) -> None:
    ontology = load(
        """
        :C1 a owl:Class ; rdfs:label "jazz music" . :C2 a owl:Class ; rdfs:label "music" .
        :C3 a owl:Class ; rdfs:label "art" ; skos:altLabel "Musik & Tanz" .
        """
    )
    index = NameIndex(ontology)
    assert [term.iri for term, _ in index.search("music")] == [T + "C2", T + "C1"]
    assert index.search("MUSIC  jaz") == ((Class(T + "C1"), "jazz music"),)
    assert index.search("tanz and")[0][1] == "Musik & Tanz"
    assert index.search("opera") == ()
    with pytest.raises(InvalidInputError, match="nothing to search for"):
        index.search(" - ")
