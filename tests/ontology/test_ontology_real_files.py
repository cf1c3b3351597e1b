"""Ontologies this project was not built with, where they are at hand.

They are not part of the project: the directory is named by KBN_REAL_ONTOLOGIES, or lies beside the
checkout. Without it these tests are skipped; the rest of the room needs none of them.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kbn.ontology import Ontology
from kbn.ontology.summary import summarise

BESIDE = Path(__file__).parents[3] / "shared" / "data" / "ontologies"
REAL = Path(os.environ.get("KBN_REAL_ONTOLOGIES", BESIDE))
WINE = "http://www.w3.org/TR/2003/PR-owl-guide-20031209/wine#"
FOOD = "http://www.w3.org/TR/2003/PR-owl-guide-20031209/food#"
PIZZA = "http://www.co-ode.org/ontologies/pizza/pizza.owl#"
UNIVERSITY = "http://swat.cse.lehigh.edu/onto/univ-bench.owl#"

pytestmark = pytest.mark.skipif(not REAL.is_dir(), reason="no real ontologies at hand")


def real(name: str) -> Path:
    path = REAL / name
    if not path.is_file():
        pytest.skip(f"{name} is not at hand")
    return path


@pytest.mark.parametrize("level", ["rdfs", "rl"])
def test_wine_finds_food_beside_it_and_needs_more_than_rules(level: str) -> None:
    ontology = Ontology.load(real("wine.rdf"), level)  # type: ignore[arg-type]
    assert [Path(source).name for source in ontology.sources] == ["wine.rdf", "food_PR20031209.ttl"]
    assert ontology.is_subclass(WINE + "Wine", FOOD + "PotableLiquid")
    assert ontology.equivalents(WINE + "DryWine") == {WINE + "DryWine"}


def test_el_sees_that_dry_wine_and_table_wine_are_defined_alike() -> None:
    ontology = Ontology.load(real("wine.rdf"), "el")
    assert ontology.equivalents(WINE + "DryWine") == {WINE + "DryWine", WINE + "TableWine"}


@pytest.mark.slow
@pytest.mark.java
@pytest.mark.parametrize("name", ["wine.rdf", "pizza.owl", "confOf.owl"])
def test_rl_and_el_find_nothing_that_dl_does_not(name: str) -> None:
    dl = Ontology.load(real(name), "dl")
    for level in ("rl", "el"):
        other = Ontology.load(real(name), level)  # type: ignore[arg-type]
        assert set(other.unsatisfiable) <= set(dl.unsatisfiable)
        for iri in other.classes:
            assert other.ancestors(iri) <= dl.ancestors(iri)
        for iri in other.individuals:
            assert other.types(iri) <= dl.types(iri)
            assert other.relations(iri) <= dl.relations(iri)
            assert other.same_as(iri) <= dl.same_as(iri)


@pytest.mark.slow
@pytest.mark.java
def test_dl_finds_that_dry_wine_is_table_wine() -> None:
    ontology = Ontology.load(real("wine.rdf"), "dl")
    assert ontology.equivalents(WINE + "DryWine") == {WINE + "DryWine", WINE + "TableWine"}
    assert ontology.is_subclass(WINE + "RedBurgundy", WINE + "Burgundy")
    assert ontology.is_subclass(WINE + "CotesDOr", WINE + "RedBurgundy")


def test_el_finds_the_two_pizza_classes_that_cannot_be() -> None:
    ontology = Ontology.load(real("pizza.owl"), "el")
    dead = {PIZZA + "CheeseyVegetableTopping", PIZZA + "IceCream"}
    assert set(ontology.unsatisfiable) == dead
    assert ontology.is_subclass(PIZZA + "Margherita", PIZZA + "CheeseyPizza")


def test_university_classes_and_inverse_properties() -> None:
    ontology = Ontology.load(real("univ-bench.owl"))
    assert len(ontology.classes) == 43
    assert ontology.is_subclass(UNIVERSITY + "FullProfessor", UNIVERSITY + "Employee")
    assert ontology.is_subproperty(UNIVERSITY + "headOf", UNIVERSITY + "memberOf")


def test_media_topics_are_skos_and_read_as_classes() -> None:
    ontology = Ontology.load(real("iptc_cptall-en-GB.ttl"))
    assert ontology.is_skos
    assert len(ontology.roots) == 17
    summary = summarise(ontology)
    assert summary["classes"] == 1372
    assert 4 <= summary["depth"] <= 8


@pytest.mark.parametrize("name", ["Service.owl", "confOf.owl", "foaf.rdf", "schemaorg-30.0.owl"])
@pytest.mark.parametrize("level", ["none", "rdfs", "rl", "el"])
def test_every_other_file_loads_at_every_quick_level(name: str, level: str) -> None:
    ontology = Ontology.load(real(name), level)  # type: ignore[arg-type]
    assert ontology.classes
    assert ontology.unsatisfiable == ()
