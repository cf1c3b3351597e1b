"""Clusters from the hierarchy: their rule, its edges, and what holds on every ontology."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from tests.ontology.ontology_oracle import PREFIXES, Entailed, Written
from tests.ontology.test_ontology_agrees_with_oracle import ontologies

from kbn.errors import InvalidInputError, UnknownTermError
from kbn.ontology import Ontology
from kbn.placement import clusters

T = "urn:t#"
Load = Callable[[str], Ontology]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def loaded(text: str) -> Ontology:
        place = tmp_path / "given.ttl"
        place.write_text(PREFIXES + text, encoding="utf-8")
        return Ontology.load(place, cache=False)

    return loaded


def shown(ontology: Ontology, order: list[str] | None = None) -> dict[str, str]:
    """Key -> members, as the letters they are named by."""
    found = clusters(ontology, order and [T + name for name in order])
    names = {key: sorted(iri.removeprefix(T) for iri in found.members(key)) for key in found}
    return {key.removeprefix(T): "".join(members) for key, members in names.items()}


def test_keys_come_breadth_first_and_siblings_in_iri_order(load: Load) -> None:
    text = """
    :Z a owl:Class . :A a owl:Class . :M rdfs:subClassOf :A . :B rdfs:subClassOf :A .
    :N rdfs:subClassOf :M . :C rdfs:subClassOf :B . :D rdfs:subClassOf :C .
    """
    found = clusters(load(text))
    assert [key.removeprefix(T) for key in found.keys()] == ["A", "Z", "B", "M", "C"]  # noqa: SIM118
    assert found.keys() == {T + name for name in "AZBMC"}
    assert len(found) == 5


def test_a_class_with_two_parents_goes_with_the_first_in_the_list(load: Load) -> None:
    # By IRI X comes before Y, but Y is nearer to the roots.
    text = """
    :R a owl:Class . :Y rdfs:subClassOf :R . :S rdfs:subClassOf :R . :X rdfs:subClassOf :S .
    :L rdfs:subClassOf :X , :Y .
    """
    assert shown(load(text)) == {"R": "R", "S": "S", "Y": "LY", "X": "X"}


def test_an_individual_goes_with_the_first_of_its_most_specific_classes(load: Load) -> None:
    text = """
    :B rdfs:subClassOf :A . :C rdfs:subClassOf :B . :D rdfs:subClassOf :A . :E rdfs:subClassOf :D .
    :i a :C , :A . :j a :E , :C . :k a owl:NamedIndividual .
    """
    ontology = load(text)
    assert shown(ontology) == {"A": "A", "B": "BCij", "D": "DE"}
    assert clusters(ontology).cluster_of(T + "k") is None
    assert shown(ontology, order=["E"]) == {"A": "ABD", "B": "Ci", "D": "Ej"}


def test_equivalent_classes_are_one_place(load: Load) -> None:
    text = """
    :B owl:equivalentClass :A . :C rdfs:subClassOf :B .
    :Y owl:equivalentClass :X . :Y rdfs:subClassOf :A . :L rdfs:subClassOf :Y .
    """
    assert shown(load(text)) == {"A": "ABC", "X": "LXY"}
    # Listed by its other name, A still comes first.
    assert shown(load(text), order=["B", "X"]) == {"A": "ABCXY", "X": "L"}


def test_with_an_order_the_key_listed_first_wins(load: Load) -> None:
    text = ":B rdfs:subClassOf :A . :C rdfs:subClassOf :B . :D rdfs:subClassOf :C . :i a :C ."
    ontology = load(text)
    assert shown(ontology) == {"A": "A", "B": "B", "C": "CDi"}
    assert shown(ontology, order=["C", "B", "A"]) == {"A": "A", "B": "B", "C": "CDi"}
    assert shown(ontology, order=["A", "B", "C"]) == {"A": "AB", "B": "Ci", "C": "D"}
    assert shown(ontology, order=["B"]) == {"A": "A", "B": "BCi", "C": "D"}


def test_an_unknown_term_in_the_order_and_an_unknown_key_are_errors(load: Load) -> None:
    ontology = load(":Beta rdfs:subClassOf :Alpha .")
    with pytest.raises(UnknownTermError, match="Alpha"):
        clusters(ontology, order=[T + "Alhpa"])
    with pytest.raises(InvalidInputError, match="list of IRIs"):
        clusters(ontology, order=T + "Alpha")
    with pytest.raises(InvalidInputError, match=r"Beta.*in the cluster <urn:t#Alpha>"):
        clusters(ontology).members(T + "Beta")


def test_an_ontology_without_terms_has_no_clusters() -> None:
    found = clusters(Ontology.empty())
    assert len(found) == 0
    assert found.cluster_of("urn:a") is None


@given(written=ontologies)
def test_on_any_ontology_each_class_is_in_the_cluster_the_rule_says(written: Written) -> None:
    if not Entailed(written, "rdfs").is_consistent():
        return
    with TemporaryDirectory() as folder:
        place = Path(folder) / "random.ttl"
        place.write_text(PREFIXES + written.to_turtle(), encoding="utf-8")
        ontology = Ontology.load(place, cache=False)
    found = clusters(ontology)
    held = [iri for key in found for iri in found.members(key)]
    assert len(held) == len(set(held)), "nothing is in two clusters"
    typed = {iri for iri in ontology.individuals if ontology.types(iri)}
    assert set(held) == {*ontology.classes, *typed}
    for iri in ontology.classes:
        alike = ontology.equivalents(iri)
        key = found.cluster_of(iri)
        if ontology.children(iri) or not ontology.parents(iri):
            assert key in alike and len(alike & found.keys()) == 1
        else:
            assert any(key in ontology.equivalents(parent) for parent in ontology.parents(iri))
            assert not alike & found.keys()
    for iri in typed:
        assert found.cluster_of(iri) in {
            found.cluster_of(kind) for kind in ontology.direct_types(iri)
        }
