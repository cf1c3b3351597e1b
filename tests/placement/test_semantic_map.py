"""The semantic map of an ontology, and medoids on it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ontology.ontology_oracle import PREFIXES, Entailed, Written
from tests.placement import medoid_oracle as oracle

from kbn.data import namespace, path
from kbn.errors import InvalidInputError
from kbn.ontology import Class, Individual, Ontology
from kbn.placement import Medoid, SemanticMap, Ties, Weights, group_by_medoid

T = "urn:t#"
CLASSES = (*(f"C{n}" for n in range(9)), "Pun")
PROPERTIES = tuple(f"p{n}" for n in range(4))
INDIVIDUALS = (*(f"i{n}" for n in range(6)), "Pun")


@cache
def animals() -> SemanticMap:
    return SemanticMap(Ontology.load(path("animals"), cache=False))


def found(*names: str) -> Medoid:
    return animals().medoid([namespace("animals") + name for name in names])


def short(medoid: Medoid) -> str | None:
    return medoid.term and medoid.term.removeprefix(namespace("animals"))


@pytest.fixture
def load(tmp_path: Path) -> Callable[[str], Ontology]:
    def loaded(text: str) -> Ontology:
        place = tmp_path / "given.ttl"
        place.write_text(PREFIXES + text, encoding="utf-8")
        return Ontology.load(place, cache=False)

    return loaded


@pytest.mark.parametrize("name", ["Animal", "Burmese", "Gus", "Food"])
def test_the_medoid_of_one_term_is_that_term(name: str) -> None:
    medoid = found(name)
    assert (short(medoid), medoid.cost, medoid.spread, medoid.complete) == (name, 0, 0.0, True)


def test_terms_may_be_iris_or_terms_and_a_mapping_counts_them() -> None:
    cats, dogs = (namespace("animals") + name for name in ("Cats", "Dogs"))
    expected = found("Cats", "Dogs", "Dogs")
    assert short(expected) == "Dogs"
    assert animals().medoid([Class(cats), dogs, Individual(dogs)]) == expected
    assert animals().medoid(Counter({cats: 1, dogs: 2})) == expected


def test_a_property_stands_for_the_classes_of_its_domain() -> None:
    assert short(found("chases")) == "Dogs"
    assert found("chases", "Gus") == found("Dogs", "Gus")


def test_what_has_no_place_on_the_map_is_skipped_and_told() -> None:
    stranger = "urn:elsewhere#Stranger"
    dogs = namespace("animals") + "Dogs"
    medoid = animals().medoid([stranger, dogs, stranger])
    assert (medoid.term, medoid.skipped, medoid.terms) == (dogs, (stranger,), 1)
    assert not medoid.complete
    assert animals().medoid([stranger]) == Medoid(None, skipped=(stranger,))
    assert animals().medoid([]) == Medoid(None)


def test_a_property_without_a_domain_is_skipped(load: Callable[[str], Ontology]) -> None:
    text = ":A a owl:Class . :p a owl:ObjectProperty . :q a owl:ObjectProperty ; rdfs:range :A ."
    medoid = SemanticMap(load(text)).medoid([T + "p", T + "q", T + "A"])
    assert (medoid.term, medoid.skipped) == (T + "A", (T + "p", T + "q"))


def test_the_node_that_reaches_most_is_taken_when_none_reaches_all() -> None:
    medoid = found("Cats", "Dogs", "Food")
    assert (short(medoid), medoid.terms, medoid.reached) == ("Animal", 3, 2)
    assert (medoid.cost, medoid.spread, medoid.complete) == (200, 0.0, False)


def test_an_individual_reaches_no_class() -> None:
    assert short(found("Gus", "Ray")) == "Dogs"
    medoid = found("Gus", "JackRussell")
    assert (short(medoid), medoid.cost, medoid.spread) == ("JackRussell", 1, 0.5)


def test_ties_go_to_the_smaller_spread_then_to_a_member_then_to_the_first_iri(
    load: Callable[[str], Ontology],
) -> None:
    text = """
    :B rdfs:subClassOf :A . :C rdfs:subClassOf :B . :D rdfs:subClassOf :C .
    :X a owl:Class . :Y owl:equivalentClass :X .
    :P rdfs:subClassOf :M , :N . :Q rdfs:subClassOf :M , :N .
    """
    semantic_map = SemanticMap(load(text))

    def term(*names: str) -> str | None:
        return semantic_map.medoid([T + name for name in names]).term

    assert term("A", "C") == T + "B"  # 200 wherever one looks, and evenly so from the middle
    assert term("A", "B", "C", "D") == T + "B"  # as C, which has the same spread
    assert term("A", "D") == T + "B"
    assert term("Y", "X") == T + "X"
    assert term("M", "N") == T + "P"  # evenly from P and Q
    assert term("M", "N", "Q", "P") == T + "M"


def test_between_a_class_and_an_individual_the_ties_decide(load: Callable[[str], Ontology]) -> None:
    # The individuals a and b are 1 apart; Z and c have nothing to do with each other.
    text = ":a a :Z ; :knows :b . :b a :Z . :c a :Y . :knows a owl:ObjectProperty ."
    ontology = load(text)
    for ties, expected in ((Ties.INDIVIDUAL_FIRST, "c"), (Ties.CLASS_FIRST, "Z")):
        semantic_map = SemanticMap(ontology, ties=ties)
        assert semantic_map.medoid([T + "Z", T + "c"]).term == T + expected
        assert semantic_map.medoid([T + "a", T + "b"]).term == T + "a"
        assert semantic_map.medoid([T + "Z", T + "a"]).term == T + "Z"  # no tie: a reaches no class
    assert SemanticMap(ontology).ties is Ties.INDIVIDUAL_FIRST
    with pytest.raises(ValueError, match="nobody-first"):
        SemanticMap(ontology, ties="nobody-first")  # type: ignore[arg-type]


def test_what_is_the_same_is_one_node_with_the_least_of_its_names(
    load: Callable[[str], Ontology],
) -> None:
    text = """
    :Z owl:equivalentClass :B . :C rdfs:subClassOf :Z . :i a :C .
    :j owl:sameAs :i . :j :knows :k . :k a :D . :knows a owl:ObjectProperty .
    :p rdfs:domain :Z . :q owl:equivalentProperty :p . :p rdfs:domain :B .
    """
    semantic_map = SemanticMap(load(text))
    assert len(semantic_map) == 5  # B = Z, C, D, i = j, k

    def medoid(*names: str) -> Medoid:
        return semantic_map.medoid([T + name for name in names])

    assert medoid("Z") == medoid("B") == medoid("p") == medoid("q")
    assert medoid("Z").term == T + "B"
    assert medoid("j") == medoid("i")
    assert medoid("j").term == T + "i"
    assert (medoid("Z", "B", "B").cost, medoid("i", "j").cost) == (0, 0)
    assert semantic_map.distances([T + "Z", T + "i"], [T + "B", T + "k"]).tolist()[0][0] == 0
    assert semantic_map.distances([T + "i"], [T + "k", T + "j"]).tolist() == [[1, 0]]
    groups = group_by_medoid({T + "Z": 2, T + "B": 1, T + "k": 1}, semantic_map, 3)
    assert [(one.medoid, one.clients) for one in groups] == [(T + "B", 3), (T + "k", 1)]


def test_a_name_for_a_class_and_an_individual_joins_what_is_the_same_as_either(
    load: Callable[[str], Ontology],
) -> None:
    text = ":Pun a owl:Class , :A . :Z owl:equivalentClass :Pun . :i owl:sameAs :Pun ."
    semantic_map = SemanticMap(load(text))
    assert {semantic_map.node(T + name) for name in ("Pun", "Z", "i")} == {
        semantic_map.node(T + "i")
    }
    assert semantic_map.medoid([T + "i", T + "Z"]) == Medoid(T + "Pun", terms=2, reached=2)


def test_other_weights_give_other_medoids() -> None:
    cats, dogs, food = (namespace("animals") + name for name in ("Cats", "Dogs", "Food"))
    assert found("Cats", "Dogs").cost == 200
    ontology = animals().ontology
    assert SemanticMap(ontology, Weights(to_superclass=7)).medoid([cats, dogs]).cost == 107
    cheap = SemanticMap(ontology, Weights(1, 1, 100, 100))
    assert cheap.medoid([cats, dogs, food]).cost == 2


@pytest.mark.parametrize("weight", [0, 101, -1, 1.5, True, "7", None])
def test_a_weight_is_a_whole_number_from_one_to_a_hundred(weight: object) -> None:
    with pytest.raises(InvalidInputError, match=r"to_subclass.*1 to 100"):
        Weights(to_subclass=weight)  # type: ignore[arg-type]
    assert Weights(to_subclass=1) != Weights(to_subclass=100)


@pytest.mark.parametrize("terms", ["urn:one", [3], [None], {"urn:a": 0}])
def test_what_is_no_query_set_is_refused(terms: object) -> None:
    with pytest.raises(InvalidInputError):
        animals().medoid(terms)  # type: ignore[arg-type]


def test_an_ontology_without_terms_has_an_empty_map() -> None:
    semantic_map = SemanticMap(Ontology.empty())
    assert len(semantic_map) == 0
    assert semantic_map.medoids([["urn:a"], []]) == [Medoid(None, skipped=("urn:a",)), Medoid(None)]


@given(number=st.integers(0, 2**32))
def test_medoids_on_random_ontologies_are_those_of_the_oracle(number: int) -> None:
    rng = random.Random(number)
    written = a_written_ontology(rng)
    if not Entailed(written, "rdfs").is_consistent():
        return
    with TemporaryDirectory() as folder:
        place = Path(folder) / "random.ttl"
        place.write_text(PREFIXES + written.to_turtle(), encoding="utf-8")
        ontology = Ontology.load(place, rng.choice(["none", "rdfs"]), cache=False)
    weights = Weights(*(rng.choice([1, 2, 100]) for _ in range(4)))
    ties = rng.choice(list(Ties))
    between = oracle.all_distances(oracle.map_of(ontology, weights))
    names = [T + name for name in (*CLASSES, *INDIVIDUALS, *PROPERTIES, "Stranger")]
    sets = [rng.choices(names, k=rng.choice([0, 1, 2, 3, 6])) for _ in range(12)]
    medoids = SemanticMap(ontology, weights, ties).medoids(sets)
    for query, medoid in zip(sets, medoids, strict=True):
        assert_agrees(medoid, query, between, ontology, ties)


def a_written_ontology(rng: random.Random) -> Written:
    def pairs(
        one: tuple[str, ...], other: tuple[str, ...], most: int
    ) -> frozenset[tuple[str, str]]:
        return frozenset((rng.choice(one), rng.choice(other)) for _ in range(rng.randint(0, most)))

    facts = [(i, rng.choice(PROPERTIES), j) for i, j in pairs(INDIVIDUALS, INDIVIDUALS, 5)]
    return Written(
        CLASSES,
        PROPERTIES,
        INDIVIDUALS,
        subclass=pairs(CLASSES, CLASSES, 10),
        equivalent=pairs(CLASSES, CLASSES, 2),
        subproperty=pairs(PROPERTIES, PROPERTIES, 2),
        inverse=pairs(PROPERTIES, PROPERTIES, 1),
        domain=pairs(PROPERTIES, CLASSES, 4),
        range=pairs(PROPERTIES, CLASSES, 2),
        same=pairs(INDIVIDUALS, INDIVIDUALS, 1),
        types=pairs(INDIVIDUALS, CLASSES, 6),
        facts=frozenset(facts),
    )


def assert_agrees(
    medoid: Medoid,
    query: list[str],
    between: dict[str, dict[str, int]],
    ontology: Ontology,
    ties: Ties,
) -> None:
    placed, skipped = [], []
    for iri in query:
        places = [iri] if iri in between else _distinct(ontology.domains(iri), between)
        placed += places
        skipped += [] if places else [iri]
    expected = oracle.medoid(between, placed, ontology.classes, ties)
    got = (medoid.term, medoid.cost, medoid.terms, medoid.reached)
    assert got == (expected.term, expected.cost, expected.terms, expected.reached), query
    assert medoid.spread == pytest.approx(expected.spread, abs=1e-9)
    assert set(medoid.skipped) == set(skipped)


def _distinct(names: Iterable[str], between: dict[str, dict[str, int]]) -> list[str]:
    """One name for each node: what is 0 away is the same."""
    found: list[str] = []
    for name in sorted(names):
        if not any(between[name].get(other) == 0 for other in found):
            found.append(name)
    return found
