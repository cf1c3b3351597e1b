"""The answers of a compiled ontology at their edges: owl:Thing, unknown names, puns, SKOS."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kbn.errors import InvalidInputError, LimitError, UnknownTermError
from kbn.ontology import Ontology, hierarchy
from kbn.ontology.terms import Class, Individual, Property, Term
from kbn.ontology.vocabulary import NOTHING, THING

Load = Callable[..., Ontology]
T = "urn:t#"

FARM = """
:Animal a owl:Class ; rdfs:label "animal" . :Cow rdfs:subClassOf :Animal .
:eats a owl:ObjectProperty . :colleen a :Cow ; :eats :grass , _:b . _:b :eats :sun .
"""


def test_thing_is_above_all_for_whoever_names_it(load: Load) -> None:
    ontology = load(FARM + ":Animal rdfs:subClassOf owl:Thing .")
    assert ontology.is_subclass(T + "Cow", THING)
    assert ontology.is_instance(T + "colleen", THING)
    assert ontology.descendants(THING) >= set(ontology.classes)
    assert ontology.instances(THING) == set(ontology.individuals)
    assert THING not in ontology.classes
    assert THING not in ontology.ancestors(T + "Cow")
    assert THING in ontology.ancestors(T + "Cow", thing=True)
    assert THING in ontology.types(T + "colleen", thing=True)
    assert ontology.kinds(THING) == {"class"}
    assert ontology.children(THING) == {T + "Animal"}
    assert ontology.roots == (T + "Animal",)
    assert ontology.is_subclass(NOTHING, T + "Cow")
    assert not ontology.is_subclass(T + "Cow", NOTHING)


def test_an_unknown_name_relates_only_to_itself(load: Load) -> None:
    ontology = load(FARM)
    unknown = "urn:elsewhere#X"
    assert ontology.is_subclass(unknown, unknown)
    assert not ontology.is_subclass(unknown, THING)
    assert not ontology.is_subclass(T + "Cow", unknown)
    alone = frozenset({unknown})
    for closure in (
        ontology.ancestors,
        ontology.descendants,
        ontology.equivalents,
        ontology.property_ancestors,
        ontology.property_descendants,
        ontology.equivalent_properties,
        ontology.same_as,
    ):
        assert closure(unknown) == alone
    for nothing in (ontology.types, ontology.instances, ontology.relations, ontology.parents):
        assert nothing(unknown) == frozenset()
    assert ontology.related(unknown, T + "eats") == frozenset()
    assert not ontology.are_disjoint(unknown, T + "Cow")
    assert ontology.kinds(unknown) == frozenset()
    assert ontology.label(unknown) is None
    assert ontology.class_index(unknown) is None


def test_the_empty_ontology_knows_nothing() -> None:
    empty = Ontology.empty()
    assert (empty.classes, empty.properties, empty.individuals, empty.roots) == ((), (), (), ())
    assert empty.ancestors("urn:x") == {"urn:x"}


def test_require_names_the_closest_terms(load: Load) -> None:
    ontology = load(FARM)
    ontology.require(T + "Animal", "class")
    ontology.require(T + "Animal")
    with pytest.raises(UnknownTermError) as caught:
        ontology.require("urn:other#Animel", "class")
    assert caught.value.closest == (T + "Animal",)
    with pytest.raises(UnknownTermError, match="as class, not as individual"):
        ontology.require(T + "Animal", "individual")


def test_one_name_may_be_class_and_individual(load: Load) -> None:
    ontology = load(":Eagle a owl:Class , :Species . :harry a :Eagle .")
    assert ontology.kinds(T + "Eagle") == {"class", "individual"}
    assert ontology.types(T + "Eagle") == {T + "Species"}
    assert ontology.types(T + "harry") == {T + "Eagle"}


def test_blank_individuals_carry_statements_but_never_show(load: Load) -> None:
    ontology = load(FARM + ":eats a owl:TransitiveProperty .")
    assert ontology.related(T + "colleen", T + "eats") == {T + "grass", T + "sun"}
    assert not any(name.startswith("_:") for name in ontology.individuals)


def test_annotations_of_classes_make_no_individuals(load: Load) -> None:
    ontology = load(FARM + ":Cow :seeAlso :page ; :eats :grass .")
    assert T + "Cow" not in ontology.individuals
    assert T + "page" not in ontology.individuals


CONCEPTS = """
:news a skos:Concept ; skos:prefLabel "Nachrichten"@de , "news"@en ; skos:altLabel "stories" .
:sport a skos:Concept ; skos:broader :news . :news skos:narrower :weather .
"""


def test_skos_concepts_are_classes_when_there_is_nothing_else(load: Load) -> None:
    ontology = load(CONCEPTS)
    assert ontology.is_skos
    assert ontology.is_subclass(T + "sport", T + "news")
    assert ontology.children(T + "news") == {T + "sport", T + "weather"}
    assert ontology.labels(T + "news") == ("news", "Nachrichten", "stories")
    assert any("SKOS" in note for note in ontology.unsupported)


def test_skos_is_a_choice_where_there_are_classes(load: Load) -> None:
    mixed = CONCEPTS + ":A a owl:Class ."
    assert not load(mixed).is_subclass(T + "sport", T + "news")
    assert load(mixed, skos=True).is_subclass(T + "sport", T + "news")
    plain = load(CONCEPTS, skos=False)
    assert T + "sport" in plain.individuals
    assert T + "sport" not in plain.classes


def test_names_shorten_and_expand(load: Load) -> None:
    ontology = load(FARM)
    assert ontology.shorten(T + "Cow") == ":Cow"
    assert ontology.expand(":Cow") == T + "Cow"
    assert ontology.expand("http://a/b") == "http://a/b"
    assert ontology.shorten("urn:elsewhere") == "urn:elsewhere"
    for bad in ("Cow", "nope:Cow"):
        with pytest.raises(InvalidInputError):
            ontology.expand(bad)
    with pytest.raises(InvalidInputError):
        ontology.equivalents(T + "Cow", kind="thing")


def test_equivalence_cycles_fold_into_one_place_in_the_tree(load: Load) -> None:
    ontology = load(
        ":A rdfs:subClassOf :B . :B rdfs:subClassOf :C . :C rdfs:subClassOf :A ."
        ":A rdfs:subClassOf :Top . :Low rdfs:subClassOf :C , :Top ."
    )
    assert ontology.equivalents(T + "A") == {T + "A", T + "B", T + "C"}
    assert ontology.parents(T + "B") == {T + "Top"}
    assert ontology.parents(T + "Low") == {T + "A", T + "B", T + "C"}


def test_disjointness_is_inherited_on_both_sides(load: Load) -> None:
    ontology = load(
        "[] a owl:AllDisjointClasses ; owl:members ( :A :B :C ) ."
        ":A1 rdfs:subClassOf :A . :B1 rdfs:subClassOf :B . :Free a owl:Class ."
    )
    assert ontology.are_disjoint(T + "A1", T + "B1")
    assert ontology.are_disjoint(T + "B1", T + "C")
    assert not ontology.are_disjoint(T + "A1", T + "A")
    assert not ontology.are_disjoint(T + "A1", T + "Free")
    assert ontology.are_disjoint(NOTHING, T + "A")


def test_a_hierarchy_too_deep_to_close_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hierarchy, "CLOSURE_MAX", 100)
    with pytest.raises(LimitError):
        hierarchy.compile_hierarchy(50, [(n + 1, n) for n in range(49)])


def test_a_wide_and_deep_hierarchy_compiles_quickly() -> None:
    count = 45_000
    links = [(n, (n - 1) // 3) for n in range(1, count)] + [
        (n, (n - 7) // 5) for n in range(10, count, 4)
    ]
    tree = hierarchy.compile_hierarchy(count, links)
    assert tree.is_below(count - 1, 0)
    assert len(tree.below(0)) == count


def test_a_term_is_found_by_iri_or_prefixed_name_and_has_its_kind(load: Load) -> None:
    text = (
        ":Cow a owl:Class . :eats a owl:ObjectProperty . :daisy a :Cow . :Pun a owl:Class , :Cow ."
    )
    ontology = load(text)
    assert ontology.term(":Cow") == ontology.term(T + "Cow") == Class(T + "Cow")
    assert ontology.term(":eats") == Property(T + "eats")
    assert ontology.term(":daisy") == Individual(T + "daisy")
    assert ontology.term(":Pun") == Term(T + "Pun")
    with pytest.raises(UnknownTermError, match="did you mean"):
        ontology.term(":Cwo")


@pytest.mark.parametrize("paths", [None, 3, [None], []])
def test_what_is_no_path_is_refused(paths: object) -> None:
    with pytest.raises(InvalidInputError):
        Ontology.load(paths)  # type: ignore[arg-type]


PROPERTIES = """
:A a owl:Class . :B a owl:Class . :C a owl:Class . :Same owl:equivalentClass :A .
:own rdfs:domain :A ; a owl:ObjectProperty . :narrower rdfs:subPropertyOf :own .
:narrowed rdfs:subPropertyOf :own ; rdfs:domain :B .
:either a owl:ObjectProperty ; rdfs:domain [ a owl:Class ; owl:unionOf (:A :B) ] .
:both a owl:ObjectProperty ; rdfs:domain [ a owl:Class ; owl:intersectionOf (:B :C) ] .
:data a owl:DatatypeProperty ; rdfs:domain :C ; rdfs:range xsd:string .
:to a owl:ObjectProperty ; rdfs:range :B . :from owl:inverseOf :to .
"""


@pytest.mark.parametrize(
    ("name", "written", "entailed"),
    [
        ("own", "A", "A"),
        ("narrower", "", "A"),
        ("narrowed", "B", "B"),
        ("either", "AB", "AB"),
        ("both", "BC", "BC"),
        ("data", "C", "C"),
        ("to", "", ""),
        ("from", "", "B"),
        ("unknown", "", ""),
    ],
)
def test_the_domain_of_a_property_names_classes(
    load: Load, name: str, written: str, entailed: str
) -> None:
    assert load(PROPERTIES, "none").domains(T + name) == {T + one for one in written}
    assert load(PROPERTIES, "rdfs").domains(T + name) == {T + one for one in entailed}
