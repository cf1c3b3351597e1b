"""Random ontologies, compiled and asked, against the plain fixpoint of `ontology_oracle`."""

from __future__ import annotations

import pickle
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.ontology.ontology_oracle import PREFIXES, Entailed, Written

from kbn.errors import OntologyError
from kbn.ontology import Ontology

CLASSES = tuple(f"C{n}" for n in range(6))
PROPERTIES = tuple(f"p{n}" for n in range(4))
INDIVIDUALS = tuple(f"i{n}" for n in range(4))

a_class, a_property = st.sampled_from(CLASSES), st.sampled_from(PROPERTIES)
an_individual = st.sampled_from(INDIVIDUALS)


def some(strategy: st.SearchStrategy[object], most: int) -> st.SearchStrategy[frozenset[object]]:
    return st.frozensets(strategy, max_size=most)


def different(strategy: st.SearchStrategy[str]) -> st.SearchStrategy[tuple[str, str]]:
    return st.tuples(strategy, strategy).filter(lambda pair: pair[0] != pair[1])


ontologies = st.builds(
    Written,
    st.just(CLASSES),
    st.just(PROPERTIES),
    st.just(INDIVIDUALS),
    subclass=some(st.tuples(a_class, a_class), 7),
    equivalent=some(st.tuples(a_class, a_class), 2),
    disjoint=some(different(a_class), 1),
    subproperty=some(st.tuples(a_property, a_property), 3),
    equivalent_property=some(st.tuples(a_property, a_property), 1),
    inverse=some(st.tuples(a_property, a_property), 2),
    symmetric=some(a_property, 1),
    transitive=some(a_property, 2),
    chains=some(st.tuples(a_property, a_property, a_property), 1),
    domain=some(st.tuples(a_property, a_class), 2),
    range=some(st.tuples(a_property, a_class), 2),
    same=some(st.tuples(an_individual, an_individual), 2),
    types=some(st.tuples(an_individual, a_class), 4),
    facts=some(st.tuples(an_individual, a_property, an_individual), 5),
)


def iri(name: str) -> str:
    return "urn:t#" + name


def iris(names: object) -> frozenset[str]:
    return frozenset(iri(name) for name in names)  # type: ignore[attr-defined]


@pytest.mark.parametrize("level", ["none", "rdfs"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(written=ontologies)
def test_the_compiled_ontology_entails_what_the_oracle_does(level: str, written: Written) -> None:
    with TemporaryDirectory() as directory:
        path = Path(directory) / "random.ttl"
        path.write_text(PREFIXES + written.to_turtle())
        oracle = Entailed(written, level)
        if not oracle.is_consistent():
            with pytest.raises(OntologyError, match="inconsistent"):
                Ontology.load(path, level, cache=False)  # type: ignore[arg-type]
            return
        ontology = Ontology.load(path, level, cache=False)  # type: ignore[arg-type]
    assert_agree(ontology, oracle)
    assert_agree(pickle.loads(pickle.dumps(ontology)), oracle)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(written=ontologies)
def test_a_cached_ontology_entails_what_the_oracle_does(written: Written) -> None:
    oracle = Entailed(written, "rdfs")
    if not oracle.is_consistent():
        return
    with TemporaryDirectory() as directory:
        path = Path(directory) / "random.ttl"
        path.write_text(PREFIXES + written.to_turtle())
        said: list[str] = []
        Ontology.load(path)
        assert_agree(Ontology.load(path, progress=said.append), oracle)
        assert said == ["found in the cache"]


@pytest.mark.parametrize("level", ["rl", "el"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(written=ontologies)
def test_without_class_expressions_rl_and_el_entail_what_the_oracle_does(
    level: str, written: Written
) -> None:
    oracle = Entailed(written, level)
    with TemporaryDirectory() as directory:
        path = Path(directory) / "random.ttl"
        path.write_text(PREFIXES + written.to_turtle())
        if not oracle.is_consistent():
            with pytest.raises(OntologyError, match="inconsistent"):
                Ontology.load(path, level, cache=False)  # type: ignore[arg-type]
            return
        ontology = Ontology.load(path, level, cache=False)  # type: ignore[arg-type]
    assert_agree(ontology, oracle)


def assert_agree(ontology: Ontology, oracle: Entailed) -> None:
    assert ontology.classes == tuple(sorted(iris(oracle.written.classes)))
    for c in oracle.written.classes:
        assert_class_agrees(ontology, oracle, c)
    for p in oracle.written.properties:
        above = {q for one, q in oracle.below_property if one == p}
        below = {q for q, one in oracle.below_property if one == p}
        assert ontology.property_ancestors(iri(p)) == iris(above)
        assert ontology.property_descendants(iri(p)) == iris(below)
        assert ontology.equivalent_properties(iri(p)) == iris(above & below)
        for q in oracle.written.properties:
            assert ontology.is_subproperty(iri(p), iri(q)) == (q in above)
    for i in oracle.written.individuals:
        assert_individual_agrees(ontology, oracle, i)


def assert_class_agrees(ontology: Ontology, oracle: Entailed, c: str) -> None:
    above = {d for one, d in oracle.below if one == c}
    below = {d for d, one in oracle.below if one == c}
    assert ontology.ancestors(iri(c)) == iris(above)
    assert ontology.descendants(iri(c)) == iris(below)
    assert ontology.equivalents(iri(c)) == iris(above & below)
    assert ontology.instances(iri(c)) == iris({i for i, d in oracle.types if d == c})
    index = ontology.class_index(iri(c))
    assert index is not None
    ids = ontology.ancestor_ids(index)
    assert frozenset(ontology.classes[i] for i in ids) == iris(above)
    assert (iri(c) in ontology.unsatisfiable) == oracle.is_unsatisfiable(c)
    strictly = {d for d in above if (d, c) not in oracle.below}
    direct = {
        d
        for d in strictly
        if not any((e, d) in oracle.below and (d, e) not in oracle.below for e in strictly)
    }
    assert ontology.parents(iri(c)) == iris(direct)
    assert (iri(c) in ontology.roots) == (not strictly)
    for d in direct:
        assert iri(c) in ontology.children(iri(d))
    for d in oracle.written.classes:
        assert ontology.is_subclass(iri(c), iri(d)) == (d in above)
        assert ontology.are_disjoint(iri(c), iri(d)) == oracle.are_disjoint(c, d)


def assert_individual_agrees(ontology: Ontology, oracle: Entailed, i: str) -> None:
    held = {c for one, c in oracle.types if one == i}
    assert ontology.types(iri(i)) == iris(held)
    lowest = {
        c
        for c in held
        if not any((d, c) in oracle.below and (c, d) not in oracle.below for d in held)
    }
    assert ontology.direct_types(iri(i)) == iris(lowest)
    assert ontology.same_as(iri(i)) == iris({j for one, j in oracle.same if one == i})
    relations = {(p, o) for s, p, o in oracle.facts if s == i}
    assert ontology.relations(iri(i)) == {(iri(p), iri(o)) for p, o in relations}
    for p in oracle.written.properties:
        assert ontology.related(iri(i), iri(p)) == iris({o for q, o in relations if q == p})
    for c in oracle.written.classes:
        assert ontology.is_instance(iri(i), iri(c)) == (c in held)
