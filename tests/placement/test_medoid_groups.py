"""A broker's clients' medoids, brought down to a few representative ones."""

from __future__ import annotations

import random
from collections import Counter
from functools import cache

import pytest

from kbn.data import namespace, path
from kbn.errors import InvalidInputError
from kbn.ontology import Ontology
from kbn.placement import SemanticMap
from kbn.placement import medoid_groups as module
from kbn.placement.medoid_groups import MedoidGroup, group_by_medoid


@cache
def a_map(name: str) -> SemanticMap:
    return SemanticMap(Ontology.load(path(name), cache=False))


def animals(**times: int) -> dict[str, int]:
    return {namespace("animals") + name: count for name, count in times.items()}


def short(found: tuple[MedoidGroup, ...]) -> list[tuple[str, int]]:
    return [(one.medoid.rpartition("#")[2], one.clients) for one in found]


def test_few_medoids_are_left_as_they_are_the_most_frequent_first() -> None:
    found = group_by_medoid(animals(Gus=1, Cats=3, Animal=3), a_map("animals"), 3)
    assert short(found) == [("Animal", 3), ("Cats", 3), ("Gus", 1)]
    assert [one.spread for one in found] == [0.0, 0.0, 0.0]
    assert group_by_medoid({}, a_map("animals"), 3) == ()


def test_the_nearest_are_merged_and_get_the_medoid_of_their_members() -> None:
    given = animals(Gus=3, JackRussell=1, Burmese=2, Dixie=1)
    found = group_by_medoid(given, a_map("animals"), 2)
    assert short(found) == [("JackRussell", 4), ("Burmese", 3)]
    assert found[0].members == animals(Gus=3, JackRussell=1)
    expected = a_map("animals").medoid(found[0].members)
    assert (found[0].medoid, found[0].spread) == (expected.term, expected.spread)
    (all_of_them,) = group_by_medoid(given, a_map("animals"), 1)
    assert all_of_them.members == given
    assert all_of_them.medoid == a_map("animals").medoid(given).term


def test_a_few_clients_join_many_rather_than_many_the_many() -> None:
    # All three are as far from each other; the one client gives way.
    found = group_by_medoid(animals(GermanShepherd=9, JackRussell=8, Tillie=1), a_map("animals"), 2)
    assert sorted(one.clients for one in found) == [8, 10]


def test_what_has_no_way_between_is_merged_last() -> None:
    found = group_by_medoid(animals(Food=1, Burmese=5, Gus=5), a_map("animals"), 2)
    assert [one.members for one in found] == [animals(Burmese=5, Gus=5), animals(Food=1)]
    (last,) = group_by_medoid(animals(Food=1, Cats=5), a_map("animals"), 1)
    assert (last.medoid, last.clients) == (namespace("animals") + "Cats", 6)


def test_the_answer_is_a_partition_and_does_not_depend_on_the_order(seed: int) -> None:
    rng = random.Random(seed)
    ontology = a_map("conference").ontology
    terms = [*ontology.classes, *ontology.individuals]
    for _ in range(10):
        given = {iri: rng.randint(1, 9) for iri in rng.sample(terms, 25)}
        count = rng.randint(1, 6)
        found = group_by_medoid(given, a_map("conference"), count)
        assert len(found) == count
        named: Counter[str] = Counter()
        for iri, times in given.items():  # by the names of their nodes: some are the same
            named[a_map("conference").name(a_map("conference").node(iri))] += times
        assert sum((Counter(one.members) for one in found), Counter()) == named
        shuffled = dict(rng.sample(sorted(given.items()), len(given)))
        assert group_by_medoid(shuffled, a_map("conference"), count) == found
        for one in found:
            medoid = a_map("conference").medoid(one.members)
            assert (one.medoid, one.spread) == (medoid.term, medoid.spread)


def test_rare_medoids_beyond_the_bound_join_the_nearest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "DISTINCT_MAX", 2)
    given = animals(Dogs=5, Cats=4, Gus=1, Dixie=1, JackRussell=1)
    found = group_by_medoid(given, a_map("animals"), 2)
    assert [one.members for one in found] == [
        animals(Dogs=5, Gus=1, JackRussell=1),
        animals(Cats=4, Dixie=1),
    ]


@pytest.mark.parametrize(
    ("given", "count", "said"),
    [
        (animals(Cats=1), 0, "whole number from 1"),
        (animals(Cats=1), True, "whole number from 1"),
        (animals(Cats=0), 1, "medoid of 0 clients"),
        (animals(Unicorn=1), 1, "Unicorn> is no class or individual"),
        (animals(chases=1), 1, "chases> is no class or individual"),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, int], count: int, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        group_by_medoid(given, a_map("animals"), count)
