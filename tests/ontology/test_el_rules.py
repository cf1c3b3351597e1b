"""Level el: the rules beyond plain existentials, and what it lists as not used."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kbn.ontology import Ontology

Load = Callable[..., Ontology]
T = "urn:t#"


def test_a_union_is_below_what_all_its_members_are_below(load: Load) -> None:
    ontology = load(
        """
        :A rdfs:subClassOf :D . :B rdfs:subClassOf :E . :E rdfs:subClassOf :D .
        :U owl:equivalentClass [ owl:unionOf ( :A :B ) ] .
        :Under rdfs:subClassOf [ owl:unionOf ( :A :B ) ] .
        """,
        "el",
    )
    assert ontology.is_subclass(T + "U", T + "D")
    assert ontology.is_subclass(T + "Under", T + "D")
    assert not ontology.is_subclass(T + "U", T + "E")


def test_a_union_of_unions_is_closed_too(load: Load) -> None:
    ontology = load(
        """
        :A rdfs:subClassOf :D . :B rdfs:subClassOf :D . :C rdfs:subClassOf :D .
        :Inner owl:equivalentClass [ owl:unionOf ( :A :B ) ] .
        :Outer owl:equivalentClass [ owl:unionOf ( :Inner :C ) ] .
        :Has rdfs:subClassOf [ owl:onProperty :p ; owl:someValuesFrom :Outer ] .
        :Wants owl:equivalentClass [ owl:onProperty :p ; owl:someValuesFrom :D ] .
        """,
        "el",
    )
    assert ontology.is_subclass(T + "Outer", T + "D")
    assert ontology.is_subclass(T + "Has", T + "Wants")


def test_an_enumeration_is_below_what_all_its_members_are_in(load: Load) -> None:
    ontology = load(
        """
        :a a :Colour . :b a :Red . :Red rdfs:subClassOf :Colour .
        :Two owl:equivalentClass [ owl:oneOf ( :a :b ) ] .
        """,
        "el",
    )
    assert ontology.is_subclass(T + "Two", T + "Colour")
    assert not ontology.is_subclass(T + "Two", T + "Red")


def test_the_range_of_an_inverse_is_a_domain_and_the_other_way_round(load: Load) -> None:
    ontology = load(
        """
        :has owl:inverseOf :of ; rdfs:range :Part ; rdfs:domain :Whole .
        :of a owl:ObjectProperty .
        :Wheel rdfs:subClassOf [ owl:onProperty :of ; owl:someValuesFrom :Car ] .
        :InWhole owl:equivalentClass [ owl:onProperty :of ; owl:someValuesFrom :Whole ] .
        :near a owl:SymmetricProperty ; rdfs:range :Place .
        :Town rdfs:subClassOf [ owl:onProperty :near ; owl:someValuesFrom :Sea ] .
        """,
        "el",
    )
    assert ontology.is_subclass(T + "Wheel", T + "Part")
    assert ontology.is_subclass(T + "Wheel", T + "InWhole")
    assert ontology.is_subclass(T + "Town", T + "Place")


def test_inverses_of_subproperties_and_of_transitive_properties_are_so_too(load: Load) -> None:
    ontology = load(
        """
        :p rdfs:subPropertyOf :q . :p owl:inverseOf :pi . :q owl:inverseOf :qi .
        :q a owl:TransitiveProperty .
        :A rdfs:subClassOf [ owl:onProperty :pi ; owl:someValuesFrom :B ] .
        :B rdfs:subClassOf [ owl:onProperty :qi ; owl:someValuesFrom :C ] .
        :W owl:equivalentClass [ owl:onProperty :qi ; owl:someValuesFrom :C ] .
        """,
        "el",
    )
    assert ontology.is_subclass(T + "A", T + "W")


@pytest.mark.parametrize("level", ["rl", "el"])
def test_inverses_of_subproperties_are_subproperties(load: Load, level: str) -> None:
    ontology = load(
        """
        :p rdfs:subPropertyOf :q . :q rdfs:subPropertyOf :r . :p owl:inverseOf :pi .
        :r owl:inverseOf :ri . :s owl:inverseOf :ri . :s rdfs:subPropertyOf :t .
        :t a owl:SymmetricProperty . :q a owl:ObjectProperty .
        """,
        level,
    )
    assert ontology.is_subproperty(T + "pi", T + "ri")  # by way of q, which has no inverse
    assert ontology.equivalent_properties(T + "r") == {T + "r", T + "s"}
    assert ontology.is_subproperty(T + "pi", T + "t")  # symmetric: its own inverse
    assert not ontology.is_subproperty(T + "pi", T + "q")
    assert not ontology.is_subproperty(T + "ri", T + "pi")


def test_a_statement_read_backwards_meets_a_restriction(load: Load) -> None:
    ontology = load(
        """
        :owns owl:inverseOf :ownedBy . :ann a :Person ; :owns :rex . :rex a :Dog .
        :Pet owl:equivalentClass [ owl:intersectionOf
            ( :Dog [ owl:onProperty :ownedBy ; owl:someValuesFrom :Person ] ) ] .
        """,
        "el",
    )
    assert ontology.is_instance(T + "rex", T + "Pet")


def test_at_least_one_is_an_existential(load: Load) -> None:
    one = '"1"^^xsd:nonNegativeInteger'
    ontology = load(
        f"""
        :A rdfs:subClassOf [ owl:onProperty :p ; owl:minCardinality {one} ] .
        :B rdfs:subClassOf [ owl:onProperty :p ; owl:someValuesFrom :C ] .
        :E rdfs:subClassOf [ owl:onProperty :p ; owl:cardinality {one} ] .
        :Any owl:equivalentClass [ owl:onProperty :p ; owl:someValuesFrom owl:Thing ] .
        :AtLeast owl:equivalentClass [ owl:onProperty :p ; owl:minCardinality {one} ] .
        :Exactly owl:equivalentClass [ owl:onProperty :p ; owl:cardinality {one} ] .
        """,
        "el",
    )
    for name in ("A", "B", "E"):
        assert ontology.is_subclass(T + name, T + "Any")
        assert ontology.is_subclass(T + name, T + "AtLeast")
    assert not ontology.is_subclass(T + "B", T + "Exactly")


def test_self_restrictions_and_reflexive_properties(load: Load) -> None:
    ontology = load(
        """
        :Narcissist owl:equivalentClass [ owl:onProperty :loves ; owl:hasSelf true ] .
        :Lover owl:equivalentClass [ owl:onProperty :loves ; owl:someValuesFrom :Narcissist ] .
        :likes a owl:ObjectProperty . :loves rdfs:subPropertyOf :likes .
        :Liker owl:equivalentClass [ owl:onProperty :likes ; owl:hasSelf true ] .
        :knows a owl:ReflexiveProperty .
        :Knower owl:equivalentClass [ owl:onProperty :knows ; owl:someValuesFrom :Narcissist ] .
        :Other rdfs:subClassOf [ owl:onProperty :loves ; owl:someValuesFrom :Other ] .
        :ann :loves :ann .
        """,
        "el",
    )
    assert ontology.is_subclass(T + "Narcissist", T + "Lover")
    assert ontology.is_subclass(T + "Narcissist", T + "Liker")
    assert ontology.is_subclass(T + "Narcissist", T + "Knower")
    assert ontology.is_instance(T + "ann", T + "Narcissist")
    assert not ontology.is_subclass(T + "Other", T + "Narcissist")


def test_two_ranges_met_one_after_the_other_both_count(load: Load) -> None:
    ontology = load(
        """
        :p rdfs:range :P . :q rdfs:range :Q . :t rdfs:range :T .
        :t owl:propertyChainAxiom ( :p :q ) .
        :A rdfs:subClassOf [ owl:onProperty :p ; owl:someValuesFrom
            [ owl:onProperty :q ; owl:someValuesFrom :B ] ] .
        :W owl:equivalentClass [ owl:onProperty :t ; owl:someValuesFrom
            [ owl:intersectionOf ( :Q :T :B ) ] ] .
        """,
        "el",
    )
    assert ontology.is_subclass(T + "A", T + "W")


def test_what_only_an_empty_class_could_be_linked_to_is_in_no_range(load: Load) -> None:
    ontology = load(
        """
        :p rdfs:range :R . :a a :Thing . :b a :Thing ; :p :c .
        :Perhaps rdfs:subClassOf [ owl:onProperty :p ; owl:hasValue :a ] .
        :W owl:equivalentClass [ owl:onProperty :p ; owl:someValuesFrom :R ] .
        """,
        "el",
    )
    assert not ontology.is_instance(T + "a", T + "R")
    assert ontology.is_instance(T + "c", T + "R")
    assert ontology.is_subclass(T + "Perhaps", T + "W")


def test_a_construct_is_counted_once_an_axiom(load: Load) -> None:
    ontology = load(
        """
        :A rdfs:subClassOf [ owl:intersectionOf (
            [ owl:onProperty :p ; owl:someValuesFrom :B ]
            [ owl:onProperty :p ; owl:someValuesFrom
                [ owl:onProperty :q ; owl:someValuesFrom :C ] ] ) ] .
        :A rdfs:subClassOf [ owl:onProperty :q ; owl:someValuesFrom :C ] .
        :U owl:unionOf ( :A [ owl:complementOf :B ] ) .
        :p a owl:FunctionalProperty .
        """,
        "rdfs",
    )
    (unused, partly) = ontology.unsupported
    assert unused == "rdfs: not used: functional properties (1), someValuesFrom (2)"
    assert partly == "rdfs: used in part: complementOf (1), unionOf (1)"


def test_what_is_ignored_without_a_rule_is_listed(load: Load) -> None:
    ontology = load(
        """
        :A rdfs:subClassOf [ owl:onProperty [ owl:inverseOf :p ] ; owl:someValuesFrom :B ] .
        :B rdfs:subClassOf [ owl:onProperty :d ; owl:hasValue 3 ] .
        :p owl:inverseOf :q . :q owl:inverseOf :p .
        """,
        "el",
    )
    assert ontology.unsupported == (
        "el: not used: hasValue of literals (1), restrictions on inverses (1)",
        "el: used in part: inverse properties (1)",
    )
