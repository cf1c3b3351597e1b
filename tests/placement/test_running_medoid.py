"""A medoid that follows a changing set of terms, against the one found from scratch."""

from __future__ import annotations

import random
from collections import Counter
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ontology.ontology_oracle import Entailed
from tests.placement.test_semantic_map import (
    CLASSES,
    INDIVIDUALS,
    PREFIXES,
    PROPERTIES,
    T,
    a_written_ontology,
)

from kbn.data import namespace, path
from kbn.errors import InvalidInputError, LimitError
from kbn.ontology import Class, Ontology
from kbn.placement import Medoid, RunningMedoid, SemanticMap, Ties, Weights
from kbn.placement.finding import MedoidFinder
from kbn.placement.running_medoid import PENDING_MAX


@cache
def a_map(name: str) -> SemanticMap:
    return SemanticMap(Ontology.load(path(name), cache=False))


def animals(*names: str) -> list[str]:
    return [namespace("animals") + name for name in names]


def test_the_medoid_of_nothing_is_none() -> None:
    running = RunningMedoid(a_map("animals"))
    assert running.medoid() == Medoid(None)
    running.add(animals("Gus"))
    assert running.medoid() != Medoid(None)
    running.remove(animals("Gus"))
    assert running.medoid() == Medoid(None)
    assert not running.terms


def test_repeats_count_and_terms_mappings_and_classes_may_be_given() -> None:
    running = RunningMedoid(a_map("animals"))
    cats, dogs = animals("Cats", "Dogs")
    running.add([Class(cats), dogs, dogs])
    running.add({cats: 4})
    assert running.terms == {cats: 5, dogs: 2}
    assert running.medoid().term == cats
    running.remove({cats: 4})
    assert running.medoid() == a_map("animals").medoid([cats, dogs, dogs])


def test_properties_stand_for_their_domains_and_strangers_are_told() -> None:
    running = RunningMedoid(a_map("animals"))
    running.add([*animals("chases", "Gus"), "urn:one", "urn:two", "urn:one"])
    assert running.medoid() == a_map("animals").medoid(
        [*animals("chases", "Gus"), "urn:one", "urn:two"]
    )
    assert running.medoid().skipped == ("urn:one", "urn:two")
    running.remove(["urn:one", *animals("Gus")])
    assert running.medoid().skipped == ("urn:one", "urn:two")
    running.remove(["urn:one", *animals("chases")])
    assert running.medoid() == Medoid(None, skipped=("urn:two",))


def test_what_is_not_there_so_often_cannot_be_taken_out_and_nothing_is() -> None:
    running = RunningMedoid(a_map("animals"))
    cats, dogs = animals("Cats", "Dogs")
    running.add([cats, dogs, dogs])
    for wrong in ([cats, cats], {dogs: 3}, [dogs, "urn:stranger"]):
        with pytest.raises(InvalidInputError, match="cannot be taken out"):
            running.remove(wrong)
    assert running.terms == {cats: 1, dogs: 2}
    assert running.medoid() == a_map("animals").medoid([cats, dogs, dogs])


def test_more_terms_than_sums_can_hold_are_refused_and_the_others_stay() -> None:
    running = RunningMedoid(a_map("animals"))
    (cats,) = animals("Cats")
    running.add([cats])
    with pytest.raises(LimitError):
        running.add({cats: 2**50})
    assert running.terms == {cats: 1}
    assert running.medoid().term == cats


def test_the_terms_can_be_looked_at_and_not_changed() -> None:
    running = RunningMedoid(a_map("animals"))
    with pytest.raises(TypeError):
        running.terms["urn:one"] = 1  # type: ignore[index]


def test_two_sets_on_one_map_do_not_disturb_each_other() -> None:
    one, other = RunningMedoid(a_map("animals")), RunningMedoid(a_map("animals"))
    one.add(animals("Gus", "Ray"))
    other.add(animals("Cats"))
    one.add(animals("Tillie"))
    assert one.medoid() == a_map("animals").medoid(animals("Gus", "Ray", "Tillie"))
    assert other.medoid() == a_map("animals").medoid(animals("Cats"))


def test_an_individual_that_reaches_no_other_is_a_candidate() -> None:
    running = RunningMedoid(a_map("animals"))
    running.add(animals("Dixie", "Dixie"))
    assert running.medoid() == Medoid(animals("Dixie")[0], terms=2, reached=2)
    running.add(animals("Food"))
    running.add(animals("Food", "Food"))
    assert running.medoid() == Medoid(animals("Food")[0], terms=5, reached=3)


def test_between_equal_ones_a_member_wins_although_another_is_first_by_name(
    tmp_path: Path,
) -> None:
    place = tmp_path / "tie.ttl"
    place.write_text(PREFIXES + ":A rdfs:subClassOf :B . :y a :A . :z a :A .", encoding="utf-8")
    # From A it is 4, 1 and 1, from B 0, 3 and 3: as long, and as even.
    weights = Weights(to_superclass=4, to_subclass=2, to_instance=1)
    running = RunningMedoid(SemanticMap(Ontology.load(place, cache=False), weights))
    running.add([T + "B", T + "y", T + "z"])
    assert (running.medoid().term, running.medoid().cost) == (T + "B", 6)


@pytest.mark.parametrize("room_bytes", [0, 400, 2**20])
def test_a_conference_that_changes_all_the_time_always_knows_its_medoid(
    room_bytes: int, seed: int
) -> None:
    rng = random.Random(f"{seed} {room_bytes}")
    semantic_map = SemanticMap(a_map("conference").ontology, Weights(100, 30, 1, 7))
    # With little room the map forgets rows, with none it searches for them each time.
    semantic_map.finder = MedoidFinder(semantic_map.finder.graph, room_bytes)
    ontology = semantic_map.ontology
    names = [*ontology.classes, *ontology.individuals, *ontology.properties, "urn:stranger"]
    follow(RunningMedoid(semantic_map), a_map_like(semantic_map), names, rng, changes=60)


@given(number=st.integers(0, 2**32))
def test_on_random_ontologies_it_is_what_is_found_from_scratch(number: int) -> None:
    rng = random.Random(number)
    written = a_written_ontology(rng)
    if not Entailed(written, "rdfs").is_consistent():
        return
    with TemporaryDirectory() as folder:
        place = Path(folder) / "random.ttl"
        place.write_text(PREFIXES + written.to_turtle(), encoding="utf-8")
        ontology = Ontology.load(place, rng.choice(["none", "rdfs"]), cache=False)
    weights = Weights(*(rng.choice([1, 2, 100]) for _ in range(4)))
    semantic_map = SemanticMap(ontology, weights, rng.choice(list(Ties)))
    names = [T + name for name in (*CLASSES, *INDIVIDUALS, *PROPERTIES, "Stranger", "Other")]
    follow(RunningMedoid(semantic_map), semantic_map, names, rng, changes=40)


def a_map_like(semantic_map: SemanticMap) -> SemanticMap:
    return SemanticMap(semantic_map.ontology, semantic_map.weights, semantic_map.ties)


def follow(
    running: RunningMedoid,
    semantic_map: SemanticMap,
    names: list[str],
    rng: random.Random,
    changes: int,
) -> None:
    """Change it at random, and compare it now and then."""
    there: Counter[str] = Counter()
    for _ in range(changes):
        if rng.random() < 0.5:
            coming = rng.choices(names, k=rng.choice([0, 1, 2, 5, PENDING_MAX + 3]))
            there.update(coming)
            running.add(coming)
        else:
            going = Counter(rng.sample(list(there.elements()), rng.randint(0, there.total())))
            there -= going
            running.remove(going)
        if rng.random() < 0.6:
            assert running.medoid() == semantic_map.medoid(there)
    assert running.terms == there
    assert running.medoid() == semantic_map.medoid(there)
