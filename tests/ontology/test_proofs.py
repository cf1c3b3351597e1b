"""Proofs: every link of an ontology is proved from its files, as an independent check agrees."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from tests.ontology.ontology_oracle import PREFIXES
from tests.ontology.proof_checker import Graph, follows, judge
from tests.ontology.test_ontology_agrees_with_oracle import ontologies

from kbn import data
from kbn.errors import OntologyError
from kbn.ontology import Link, Ontology, Proofs, Step, chain, chain_of_individual, links_between

BESIDE = Path(__file__).parents[3] / "shared" / "data" / "ontologies"
REAL = Path(os.environ.get("KBN_REAL_ONTOLOGIES", BESIDE))
Load = Callable[..., Ontology]


def chains_of(ontology: Ontology) -> Iterator[tuple[str, str, tuple[Link, ...]]]:
    """Every pair that holds: two classes, two properties, an individual and its class, two
    individuals that are the same or related.
    """
    for narrow in ontology.classes:
        for wide in ontology.ancestors(narrow) - {narrow}:
            yield narrow, wide, chain(ontology, narrow, wide)
    for narrow in ontology.properties:
        for wide in ontology.property_ancestors(narrow) - {narrow}:
            yield narrow, wide, chain(ontology, narrow, wide, "property")
    for individual in ontology.individuals:
        for kind in ontology.types(individual):
            yield individual, kind, chain_of_individual(ontology, individual, kind)
        for other in ontology.same_as(individual) - {individual}:
            yield individual, other, links_between(ontology, individual, other)
        for name, other in sorted(ontology.relations(individual)):
            yield individual, other, (Link(individual, name, other),)


def wanted(ontology: Ontology, link: Link) -> set[tuple[object, ...]]:
    """What a proof of a link must claim."""
    first, relation, second, _ = link
    if relation == "is one of the":
        return {("below", ("one", first), second)}
    if ontology.kinds(relation):
        return {("below", ("one", first), ("some", relation, ("one", second)))}
    if ontology.kinds(first) == {"individual"}:
        return {("below", ("one", first), ("one", second))}
    word = "below" if "class" in ontology.kinds(first) & ontology.kinds(second) else "subproperty"
    there, back = (word, first, second), (word, second, first)
    return {there} if relation == "is a kind of" else {there, back}


def check_all(ontology: Ontology) -> int:
    """How many pairs were proved, each of which the checker accepts."""
    proofs, graph, seen, count = Proofs(ontology), Graph(ontology.sources), set(), 0
    for first, last, links in chains_of(ontology):
        count += 1
        assert links, f"no chain from {first} to {last}"
        assert [link.first for link in links] == [first, *(link.second for link in links[:-1])]
        assert links[-1].second == last
        for link in links:
            if link in seen:
                continue
            seen.add(link)
            steps = proofs.of(link)
            assert steps, f"no proof of {link}"
            judge(steps, graph)
            proved = {step.claim for step in steps}
            assert wanted(ontology, link) <= proved
    return count


# Each file and each level runs every time; all of them together, with the slow tests.
IN_SECONDS = {("wine.rdf", "el"), ("pizza.owl", "rl")} | {
    ("univ-bench.owl", level) for level in ("rdfs", "rl", "el")
}


@pytest.mark.parametrize(
    ("name", "pairs", "level"),
    [
        pytest.param(
            name, pairs, level, marks=[] if (name, level) in IN_SECONDS else [pytest.mark.slow]
        )
        for name, pairs in [("wine.rdf", 1900), ("pizza.owl", 360), ("univ-bench.owl", 79)]
        for level in ("rdfs", "rl", "el")
    ],
)
def test_every_pair_of_a_real_ontology_is_proved(name: str, pairs: int, level: str) -> None:
    path = REAL / name
    if not path.is_file():
        pytest.skip(f"{name} is not at hand")
    assert check_all(Ontology.load(path, level)) >= pairs  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.java
@pytest.mark.parametrize(
    ("name", "pairs", "unproved"),
    [("wine.rdf", 2900, 10), ("pizza.owl", 520, 26), ("univ-bench.owl", 82, 0)],
)
def test_at_dl_a_link_is_proved_or_only_the_reasoner_knows_it(
    name: str, pairs: int, unproved: int
) -> None:
    """What has no proof is what no lower level finds: of it `kbn ontology explain` says that the
    reasoner inferred it.
    """
    path = REAL / name
    if not path.is_file():
        pytest.skip(f"{name} is not at hand")
    ontology, lower = Ontology.load(path, "dl"), Ontology.load(path, "el")
    proofs, graph = Proofs(ontology), Graph(ontology.sources)
    links: dict[Link, tuple[Step, ...]] = {}
    count = 0
    for first, last, chained in chains_of(ontology):
        count += 1
        assert chained, f"no chain from {first} to {last}"
        links.update({link: proofs.of(link) for link in chained if link not in links})
    known = {link for _, _, chained in chains_of(lower) for link in chained}
    for link, steps in links.items():
        judge(steps, graph)
        if steps:
            assert wanted(ontology, link) <= {step.claim for step in steps}
        else:
            assert link not in known
    assert count >= pairs
    assert sum(not steps for steps in links.values()) == unproved


@pytest.mark.parametrize("level", ["none", "rdfs", "rl", "el"])
@pytest.mark.parametrize("name", ["animals", "conference", "services", "podcast", "drinks"])
def test_every_pair_of_a_shipped_ontology_is_proved(name: str, level: str) -> None:
    assert check_all(Ontology.load(data.path(name), level)) > 0  # type: ignore[arg-type]


@pytest.mark.parametrize("level", ["rdfs", "rl", "el"])
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(written=ontologies)
def test_every_pair_of_a_random_ontology_is_proved(
    level: str, tmp_path: Path, written: object
) -> None:
    path = tmp_path / "random.ttl"
    path.write_text(PREFIXES + written.to_turtle(), encoding="utf-8")  # type: ignore[attr-defined]
    try:
        ontology = Ontology.load(path, level, cache=False)  # type: ignore[arg-type]
    except OntologyError:
        return  # inconsistent
    check_all(ontology)


EXPRESSIONS = """
:Parent owl:equivalentClass [ a owl:Class ; owl:intersectionOf (
    :Person [ a owl:Restriction ; owl:onProperty :hasChild ; owl:someValuesFrom :Person ] ) ] .
:Mother rdfs:subClassOf :Person , [ a owl:Restriction ; owl:onProperty :hasChild ;
    owl:qualifiedCardinality 1 ; owl:onClass :Girl ] .
:Girl rdfs:subClassOf :Person .
:hasChild a owl:ObjectProperty , owl:FunctionalProperty ; rdfs:range :Young .
:Childish owl:unionOf ( :Girl :Boy ) .
:Boy rdfs:subClassOf :Person .
:onlyBoys a owl:Class ; owl:equivalentClass
    [ a owl:Restriction ; owl:onProperty :hasChild ; owl:allValuesFrom :Boy ] .
:ann a :Mother , :onlyBoys ; :hasChild :bea , :bert .
:hasChild owl:inverseOf :childOf .
:Young rdfs:subClassOf :Lively .
:HasLively owl:equivalentClass
    [ a owl:Restriction ; owl:onProperty :hasChild ; owl:someValuesFrom :Lively ] .
"""


@pytest.mark.parametrize("level", ["rdfs", "rl", "el"])
def test_what_expressions_say_is_proved(load: Load, level: str) -> None:
    assert check_all(load(EXPRESSIONS, level)) > 10


def test_a_step_tells_its_file_its_line_and_its_rule(load: Load) -> None:
    ontology = load("\n:A rdfs:subClassOf :B .\n:B rdfs:subClassOf :C .\n:a a :A .\n")
    proofs = Proofs(ontology)
    (step,) = proofs.of(chain(ontology, "urn:t#A", "urn:t#B")[0])
    assert (step.is_asserted, Path(step.file or "").name) == (True, "given.ttl")
    text = Path(step.file or "").read_text(encoding="utf-8").splitlines()
    assert step.line is not None and ":A rdfs:subClassOf :B" in text[step.line - 1]
    steps = proofs.of(Link("urn:t#a", "is one of the", "urn:t#C"))
    assert [step.rule for step in steps if not step.is_asserted] == ["subclass", "subclass"]


def test_what_only_a_reasoner_finds_has_no_proof(load: Load) -> None:
    ontology = load(":A rdfs:subClassOf :B .")
    assert Proofs(ontology).of(Link("urn:t#B", "is a kind of", "urn:t#A")) == ()


def test_a_file_that_has_changed_is_refused(load: Load) -> None:
    ontology = load(":A rdfs:subClassOf :B .")
    path = Path(ontology.sources[0])
    path.write_text(path.read_text(encoding="utf-8") + ":B a owl:Class .", encoding="utf-8")
    with pytest.raises(OntologyError, match="have changed since"):
        Proofs(ontology).of(Link("urn:t#A", "is a kind of", "urn:t#B"))


WRONG = [
    ([], ("below", "A", "B")),
    ([("below", "A", "B")], ("below", "B", "A")),
    ([("below", "A", ("or", "B", "C"))], ("below", "A", "B")),
    ([("below", "A", ("some", "p", "B"))], ("below", "B", ("some", "p", "A"))),
    ([("below", "A", ("some", "p", "B")), ("below", "A", ("some", "p", "C"))],
     ("below", "A", ("some", "p", ("and", "B", "C")))),
    ([("below", "A", ("only", "p", "B"))], ("below", "A", ("some", "p", "B"))),
    ([("below", "A", ("some", "p", "B")), ("range", "p", "C")], ("below", "B", "C")),
    ([("below", ("one", "a"), ("some", "p", ("one", "b")))],
     ("below", ("one", "b"), ("some", "p", ("one", "a")))),
    ([("below", ("one", "a"), ("some", "p", ("one", "b"))),
      ("below", ("one", "b"), ("some", "p", ("one", "c")))],
     ("below", ("one", "a"), ("some", "p", ("one", "c")))),
    ([("below", "A", ("max", 1, "p", "B"))], ("below", "A", ("some", "p", "B"))),
    ([("subproperty", "p", "q"), ("domain", "p", "C")], ("domain", "q", "C")),
]  # fmt: skip


UNION = ("or", "A", "B", "C")


def test_the_checker_names_unions_and_is_no_less_strict() -> None:
    premises = [("below", "D", UNION), ("below", UNION, "E")]
    assert follows(premises, ("below", "D", "E"))
    assert not follows(premises, ("below", "E", UNION))
    assert not follows(premises[:1], ("below", "D", "A"))
    # Only the members tell: a name for the union would not do.
    assert follows([("below", "D", "A"), ("below", UNION, UNION)], ("below", "D", UNION))


@pytest.mark.parametrize(("premises", "conclusion"), WRONG)
def test_the_checker_refuses_what_does_not_follow(
    premises: list[tuple[object, ...]], conclusion: tuple[object, ...]
) -> None:
    assert not follows(premises, conclusion)


def test_the_checker_refuses_what_no_file_says(load: Load) -> None:
    graph = Graph(load(":A rdfs:subClassOf :B .").sources)
    with pytest.raises(AssertionError, match="no file says"):
        judge([Step(("below", "urn:t#B", "urn:t#A"), "asserted")], graph)


def test_hardly_a_step_can_do_without_its_premises(load: Load) -> None:
    """A checker that accepts everything would accept these as well."""
    ontology = load(EXPRESSIONS, "el")
    proofs, inferred, idle = Proofs(ontology), 0, 0
    for _, _, links in chains_of(ontology):
        for step in (step for link in links for step in proofs.of(link)):
            if step.premises:
                inferred += 1
                idle += follows([], step.claim)
    assert inferred > 20
    assert idle == 0


def spoilt(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    """A proof with one thing wrong: a premise is missing, or a claim is turned round."""
    for place, step in enumerate(steps):
        # A step can do without what is true of everything.
        for missing in (each for each in step.premises if not follows([], steps[each].claim)):
            rest = tuple(each for each in step.premises if each != missing)
            yield (*steps[:place], replace(step, premises=rest), *steps[place + 1 :])
        word, *terms = step.claim
        is_sameness = all(isinstance(term, tuple) and term[0] == "one" for term in terms)
        if word in ("below", "subproperty", "domain", "range") and not is_sameness:
            turned = (word, *reversed(terms))
            if turned not in {each.claim for each in steps}:
                yield (*steps[:place], replace(step, claim=turned), *steps[place + 1 :])


@pytest.mark.parametrize("level", ["rdfs", "rl", "el"])
def test_a_proof_with_one_thing_wrong_is_refused(load: Load, level: str) -> None:
    ontology = load(EXPRESSIONS, level)
    proofs, graph = Proofs(ontology), Graph(ontology.sources)
    links = {link for _, _, links in chains_of(ontology) for link in links}
    tried = 0
    for link in sorted(links):
        for wrong in spoilt(proofs.of(link)):
            tried += 1
            with pytest.raises(AssertionError):
                judge(wrong, graph)
    assert tried > 20
