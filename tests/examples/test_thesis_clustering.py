"""The thesis on clustering: the examples of section 4.3, and the placements of Appendix B."""

from __future__ import annotations

import pytest
from tests.examples.worlds import world

from kbn.clustering import Plan, SemanticMap, clusters, plan

# Appendix B, confOf: each class and individual in the order listed there, and its cluster.
APPENDIX_B = """
Camera_Ready_event:Administrative_event Social_event:Social_event South_America:Country
Assistant:Person Company:Organization Science_Worker:Person Scholar:Person Administrator:Person
Event:Event Topic:Topic Asia:Country Tutorial:Working_event Trip:Social_event
Submission_event:Administrative_event Organization:Organization Participant:Participant
Student:Participant Member:Participant North_America:Country Short_paper:Contribution
Author:Person Workshop:Working_event Volunteer:Organization Africa:Country
Reviewing_event:Administrative_event Working_event:Event Contribution:Contribution
Administrative_event:Event Paper:Contribution Conference:Working_event Person:Person
Registration_of_participants_event:Administrative_event Country:Country Banquet:Social_event
City:City University:Organization Reviewing_results_event:Administrative_event Australisa:Country
Regular:Participant Reception:Social_event Poster:Contribution Chair_PC:Organization
Europe:Country Member_PC:Organization Autonomic_Actions:Topic Carlow:City Ireland:Country
Middleware:Topic Academic_Andrew:Person Keeney_John:Person Dublin:City Dynaism:Topic
Fomal_Methods:Topic Galway:City Short_paper_19:Contribution Jones_Dominic:Person
Poster_1:Contribution Policy-based_Network_Managment:Topic Rome:City
Trintiy_College_Dublin:Organization Paper_17:Contribution Fortaleza:City Lewis_Dave:Person
"""


def animal(name: str) -> str:
    return world("animals").iri(f"animals:{name}")


def test_figure_8_the_medoid_of_jack_russell_and_gus_is_jack_russell() -> None:
    """Section 4.3.4.1: at no cost from itself, and at a cost of one from Gus."""
    medoid = SemanticMap(world("animals").ontology).medoid([animal("JackRussell"), animal("Gus")])
    assert (medoid.term, medoid.cost) == (animal("JackRussell"), 1)
    assert clusters(world("animals").ontology).cluster_of(animal("JackRussell")) == animal("Dogs")


def test_figure_5_the_animals_have_the_clusters_animal_cats_and_dogs() -> None:
    """Section 4.3.2; the people and the food of the shipped ontology make two more."""
    found = clusters(world("animals").ontology)
    members = {
        key.rpartition("#")[2]: {iri.rpartition("#")[2] for iri in found.members(key)}
        for key in found
    }
    assert members["Animal"] == {"Animal"}
    assert members["Cats"] == {"Cats", "Burmese", "Dixie"}
    assert members["Dogs"] == {"Dogs", "GermanShepherd", "JackRussell", "Tillie", "Ray", "Gus"}
    assert members.keys() - {"Animal", "Cats", "Dogs"} == {"Food", "Mammal"}


@pytest.mark.parametrize(
    ("medoid", "cluster"),
    [
        ("Animal", "Animal"),
        ("Cats", "Cats"),
        ("Burmese", "Cats"),
        ("Dogs", "Dogs"),
        ("GermanShepherd", "Dogs"),
        ("JackRussell", "Dogs"),
        ("Gus", "Dogs"),
        ("Tillie", "Dogs"),
        ("Ray", "Dogs"),
        ("Dixie", "Cats"),
        ("chases", "Dogs"),
    ],
)
def test_a_client_is_placed_in_the_cluster_of_its_medoid(medoid: str, cluster: str) -> None:
    """Section 4.3.5, with the property by the class of its domain."""
    assert clusters(world("animals").ontology).cluster_of(animal(medoid)) == animal(cluster)


def appendix_b() -> dict[str, str]:
    rows = (row.partition(":") for row in APPENDIX_B.split())
    here = world("conference")
    return {
        here.iri(f"conference:{name}"): here.iri(f"conference:{cluster}")
        for name, _, cluster in rows
    }


def test_appendix_b_follows_the_order_in_which_it_lists_classes() -> None:
    """63 placements: the key listed first of a class' own and its parents'."""
    expected = appendix_b()
    assert len(expected) == 63
    found = clusters(world("conference").ontology, order=list(expected))
    assert {iri: found.cluster_of(iri) for iri in expected} == expected


def test_the_rule_of_the_text_has_a_class_in_the_cluster_it_keys() -> None:
    """Section 4.3.2 against Appendix B: they differ for two classes that key a cluster."""
    expected = appendix_b()
    found = clusters(world("conference").ontology)
    differing = {iri for iri in expected if found.cluster_of(iri) != expected[iri]}
    assert differing == {
        world("conference").iri(f"conference:{name}")
        for name in ("Administrative_event", "Working_event")
    }
    assert {found.cluster_of(iri) for iri in differing} == differing


def test_what_remains_of_the_clusters_goes_to_the_top_brokers() -> None:
    """Section 5.6.4.2: eleven clusters on four brokers are two each, and three more at the top."""
    made: Plan = plan(world("conference").ontology, ["top", "left", "right", "bottom"])
    brokers = [cluster.broker for cluster in made.clusters]
    each = ["top", "top", "left", "left", "right", "right", "bottom", "bottom"]
    assert brokers == [*each, "top", "left", "right"]


def test_more_brokers_than_clusters_leave_the_lower_brokers_without() -> None:
    """Section 4.3.2: then the clusters are on the top-level brokers only."""
    made = plan(world("animals").ontology, [f"b{n}" for n in range(9)])
    assert [cluster.broker for cluster in made.clusters] == ["b0", "b1", "b2", "b3", "b4"]
