"""Steps between terms: against going from term to term by what the ontology says of each."""

from __future__ import annotations

from random import Random

import pytest
from tests.matching.worlds import CLASSES, INDIVIDUALS, PROPERTIES, STRANGER, iri, random_ontology

from kbn.ontology import Ontology

NAMES = {"class": CLASSES, "property": PROPERTIES, "individual": INDIVIDUALS}


def one_step(ontology: Ontology, kind: str, name: str) -> set[str]:
    """The terms one step away, asked of the ontology's own answers."""
    if kind == "class":
        return {*ontology.parents(name), *ontology.children(name)}
    if kind == "individual":
        return {
            other
            for other in ontology.individuals
            if any(node == name for _, node in ontology.relations(other))
            or any(node == other for _, node in ontology.relations(name))
        }
    found = set()
    for other in ontology.properties:
        for low, high in ((name, other), (other, name)):
            strictly = ontology.property_ancestors(low) - ontology.equivalent_properties(low)
            between = {
                each
                for each in strictly - ontology.equivalent_properties(high)
                if high in ontology.property_ancestors(each)
            }
            if high in strictly and not between:
                found.add(other)
    return found


def alike(ontology: Ontology, kind: str, name: str) -> frozenset[str]:
    ask = {
        "class": ontology.equivalents,
        "property": ontology.equivalent_properties,
        "individual": ontology.same_as,
    }
    return ask[kind](name)


@pytest.mark.parametrize("number", range(12))
def test_steps_are_those_of_a_walk_from_term_to_term(number: int, seed: int) -> None:
    ontology = random_ontology(Random(f"{seed} {number}").randrange(1 << 30))
    for kind, names in NAMES.items():
        terms = [iri(name) for name in (*names, STRANGER)]
        for start in terms:
            found = dict.fromkeys(alike(ontology, kind, start), 0)
            for step in (1, 2, 3):
                reached = {b for a in found for b in one_step(ontology, kind, a)}
                for name in reached - found.keys():
                    found[name] = step
            for most in range(4):
                wanted = [d if (d := found.get(end, 9)) <= most else None for end in terms]
                assert ontology.steps_to(kind, start, terms, most) == wanted, (kind, start, most)


def test_a_term_nobody_knows_is_near_itself_alone() -> None:
    assert Ontology.empty().steps_to("class", "urn:a", ["urn:a", "urn:b"], 5) == [0, None]
