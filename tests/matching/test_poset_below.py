"""What hangs below the roots of a poset: found cheaply, hung soundly, and back when a root goes."""

from __future__ import annotations

from random import Random

import pytest
from tests.matching.worlds import load

from kbn.filters import Bag, Constraint, Filter
from kbn.matching.poset import Poset
from kbn.ontology import Class, Ontology

WORDS = "abcdef"


@pytest.fixture(scope="module")
def classes() -> Ontology:
    """A tree of classes, three levels deep."""
    return load(
        ":A a owl:Class . :B a owl:Class ."
        ":A1 a owl:Class ; rdfs:subClassOf :A . :A2 a owl:Class ; rdfs:subClassOf :A ."
        ":B1 a owl:Class ; rdfs:subClassOf :B . :A11 a owl:Class ; rdfs:subClassOf :A1 ."
    )


def of(category: str, *words: str) -> Filter:
    constraints = [Constraint("c", "#>/@>", Bag(Class(f"urn:t#{category}")))]
    if words:
        constraints.append(Constraint("w", "#>", Bag(*words)))
    return Filter(constraints)


def drawn(random: Random) -> Filter:
    words = random.sample(WORDS, random.randrange(4))
    return of(random.choice(("A", "B", "A1", "A2", "B1", "A11")), *words)


def test_every_entry_hangs_below_one_that_covers_it(classes: Ontology, seed: int) -> None:
    random = Random(seed)
    poset = Poset(classes)
    live: list[int] = []
    for number in range(600):
        if live and random.random() < 0.45:
            poset.remove(live.pop(random.randrange(len(live))))
        else:
            poset.add(drawn(random), number)
            live.append(number)
        if number % 20 == 0:
            poset.check_invariants()
    poset.check_invariants()


def test_what_a_root_sheltered_is_told_again_when_the_root_goes(classes: Ontology) -> None:
    poset = Poset(classes)
    poset.add(of("A"), "wide")
    for number, word in enumerate(WORDS):
        assert not poset.add(of("A1", word), number)
    assert not poset.add(of("A1", "a", "b"), "narrow")
    change = poset.remove("wide")
    assert set(change.send) == {of("A1", word) for word in WORDS}
    assert change.withdraw == (of("A"),)
    poset.check_invariants()


def test_a_shelter_that_is_gone_shelters_nobody(classes: Ontology) -> None:
    poset = Poset(classes)
    poset.add(of("A"), "wide")
    assert not poset.add(of("A1", "a"), "sheltered")  # remembers that A shelters A1
    poset.remove("wide")
    assert poset.add(of("A1", "b"), "alone").send == (of("A1", "b"),)
    assert set(poset.roots) == {of("A1", "a"), of("A1", "b")}


def test_a_filter_that_was_a_root_can_cover_and_be_one_again(classes: Ontology) -> None:
    poset = Poset(classes)
    poset.add(of("A1"), "middle")
    assert poset.add(of("A"), "wide").withdraw == (of("A1"),)
    assert not poset.add(of("A11"), "narrow")
    change = poset.remove("wide")
    assert (change.send, change.withdraw) == ((of("A1"),), (of("A"),))
    assert poset.remove("middle").send == (of("A11"),)
    poset.check_invariants()


def test_filters_equivalent_below_a_root_leave_one_root_behind() -> None:
    ontology = load(
        ":A a owl:Class . :B a owl:Class ; rdfs:subClassOf :A ."
        ":C a owl:Class ; owl:equivalentClass :B ."
    )
    poset = Poset(ontology)
    for name in "ABC":
        poset.add(Filter([Constraint("x", "@>", Class(f"urn:t#{name}"))]), name)
    assert len(poset.remove("A").send) == 1
    assert len(poset.roots) == 1
    poset.check_invariants()


def test_the_same_history_gives_the_same_roots_in_the_same_order(
    classes: Ontology, seed: int
) -> None:
    def history() -> list[tuple[Filter, ...]]:
        random = Random(seed)
        poset, found = Poset(classes), []
        for number in range(200):
            poset.add(drawn(random), number)
            if number % 3 == 2:
                poset.remove(number - random.randrange(2))
            found.append(poset.roots)
        return found

    assert history() == history()
