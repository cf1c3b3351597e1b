"""What each reasoning level finds, and what it says it left out."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kbn.errors import InvalidInputError, MissingDependencyError, OntologyError
from kbn.ontology import Ontology, outside_dl
from kbn.ontology.bounded_process import run_bounded

Load = Callable[..., Ontology]
T = "urn:t#"

RULES = """
:hasParent a owl:ObjectProperty . :eats a owl:ObjectProperty .
:best a owl:ObjectProperty , owl:FunctionalProperty .
:mail a owl:ObjectProperty , owl:InverseFunctionalProperty .
:Parent owl:equivalentClass
    [ a owl:Restriction ; owl:onProperty :hasChild ; owl:someValuesFrom :Person ] .
:hasChild owl:inverseOf :hasParent .
:ann a :Person ; :hasParent :bob .
:Vegan rdfs:subClassOf [ a owl:Restriction ; owl:onProperty :eats ; owl:allValuesFrom :Plant ] .
:eve a :Vegan ; :eats :kale .
:GrassFan owl:equivalentClass [ a owl:Restriction ; owl:onProperty :eats ; owl:hasValue :grass ] .
:colleen a :GrassFan . :daisy :eats :grass .
:x :best :y , :z . :m1 :mail :m . :m2 :mail :m . :m1 a :Robot .
:Both owl:intersectionOf ( :Person :Robot ) . :cyborg a :Person , :Robot .
:Weekend owl:oneOf ( :saturday :sunday ) .
:Single rdfs:subClassOf [ a owl:Restriction ; owl:onProperty :lives ;
    owl:maxCardinality "1"^^xsd:nonNegativeInteger ] .
:sam a :Single ; :lives :here , :there .
:City owl:hasKey ( :code ) . :c1 a :City ; :code :k . :c2 a :City ; :code :k .
:grandparent owl:propertyChainAxiom ( :hasParent :hasParent ) . :bob :hasParent :cid .
"""


def test_rl_applies_the_rules_of_the_profile(load: Load) -> None:
    ontology = load(RULES, "rl")
    assert ontology.is_instance(T + "bob", T + "Parent")
    assert ontology.is_instance(T + "kale", T + "Plant")
    assert ontology.related(T + "colleen", T + "eats") == {T + "grass"}
    assert ontology.is_instance(T + "daisy", T + "GrassFan")
    assert ontology.same_as(T + "y") == {T + "y", T + "z"}
    assert ontology.is_instance(T + "m2", T + "Robot")
    assert ontology.is_instance(T + "cyborg", T + "Both")
    assert ontology.is_instance(T + "sunday", T + "Weekend")
    assert ontology.same_as(T + "here") == {T + "here", T + "there"}
    assert ontology.same_as(T + "c1") == {T + "c1", T + "c2"}
    assert ontology.related(T + "ann", T + "grandparent") == {T + "cid"}
    assert any(note.startswith("rl: used in part") for note in ontology.unsupported)


def test_rdfs_leaves_those_rules_out_and_says_so(load: Load) -> None:
    ontology = load(RULES)
    assert not ontology.is_instance(T + "bob", T + "Parent")
    assert ontology.related(T + "bob", T + "hasChild") == {T + "ann"}
    assert ontology.is_subclass(T + "Both", T + "Robot")
    (note,) = [note for note in ontology.unsupported if note.startswith("rdfs: not used")]
    for construct in ("someValuesFrom", "allValuesFrom", "hasValue", "functional properties"):
        assert construct in note


def test_none_takes_only_what_is_written(load: Load) -> None:
    ontology = load(RULES, "none")
    assert ontology.related(T + "bob", T + "hasChild") == frozenset()
    assert not ontology.is_subclass(T + "Both", T + "Robot")
    assert ontology.types(T + "cyborg") == {T + "Person", T + "Robot"}
    assert any("inverse properties" in note for note in ontology.unsupported)


def test_rl_agrees_with_another_implementation_where_that_has_the_rule(
    load: Load, tmp_path: object
) -> None:
    reasonable = pytest.importorskip("reasonable")
    ontology = load(RULES, "rl")
    reasoner = reasonable.PyReasoner()
    reasoner.load_file(f"{tmp_path}/given.ttl")
    named = set(ontology.individuals)
    for subject, predicate, node in reasoner.reason():
        if str(subject) in named and str(predicate).endswith("#type") and str(node).startswith(T):
            assert ontology.is_instance(str(subject), str(node)), (subject, node)
        if str(subject) in named and str(predicate).startswith(T):
            assert str(node) in ontology.related(str(subject), str(predicate))


EL = """
:partOf a owl:ObjectProperty , owl:TransitiveProperty . :properPartOf rdfs:subPropertyOf :partOf .
:Finger rdfs:subClassOf [ a owl:Restriction ; owl:onProperty :properPartOf ;
    owl:someValuesFrom :Hand ] .
:Hand rdfs:subClassOf [ a owl:Restriction ; owl:onProperty :partOf ; owl:someValuesFrom :Arm ] .
:ArmPart owl:equivalentClass [ owl:intersectionOf ( :Thingy
    [ a owl:Restriction ; owl:onProperty :partOf ; owl:someValuesFrom :Arm ] ) ] .
:Finger rdfs:subClassOf :Thingy . :Thumb rdfs:subClassOf :Finger .
:owns rdfs:domain :Owner ; rdfs:range :Asset .
:Rich owl:equivalentClass [ a owl:Restriction ; owl:onProperty :owns ;
    owl:someValuesFrom :Asset ] .
:Banker rdfs:subClassOf [ a owl:Restriction ; owl:onProperty :owns ; owl:someValuesFrom :Bank ] .
:Ghost rdfs:subClassOf [ a owl:Restriction ; owl:onProperty :owns ; owl:someValuesFrom :Void ] .
:Void rdfs:subClassOf :P , :Q . :P owl:disjointWith :Q .
:tom a :Thumb .
"""


def test_el_classifies_through_existentials_chains_domains_and_ranges(load: Load) -> None:
    ontology = load(EL, "el")
    assert ontology.is_subclass(T + "Thumb", T + "ArmPart")
    assert ontology.is_instance(T + "tom", T + "ArmPart")
    assert ontology.is_subclass(T + "Banker", T + "Owner")
    assert ontology.is_subclass(T + "Banker", T + "Rich")
    assert not ontology.is_subclass(T + "Hand", T + "ArmPart")
    assert ontology.unsatisfiable == (T + "Ghost", T + "Void")
    assert not ontology.is_subclass(T + "Void", T + "Banker"), "it keeps its written place"
    assert not load(EL, "rdfs").is_subclass(T + "Thumb", T + "ArmPart")


# Only case analysis shows that Dry and Table are the same: every wine has a colour, one of two.
DL = """
:Colour owl:oneOf ( :red :white ) . [] a owl:AllDifferent ; owl:distinctMembers ( :red :white ) .
:colour a owl:ObjectProperty , owl:FunctionalProperty ; rdfs:range :Colour .
:Wine a owl:Class ; rdfs:subClassOf
    [ a owl:Restriction ; owl:onProperty :colour ; owl:someValuesFrom :Colour ] .
:Table owl:equivalentClass [ owl:unionOf ( :RedWine :WhiteWine ) ] .
:RedWine owl:equivalentClass [ owl:intersectionOf ( :Wine
    [ a owl:Restriction ; owl:onProperty :colour ; owl:hasValue :red ] ) ] .
:WhiteWine owl:equivalentClass [ owl:intersectionOf ( :Wine
    [ a owl:Restriction ; owl:onProperty :colour ; owl:hasValue :white ] ) ] .
:Bottle a owl:Class ; rdfs:subClassOf :Wine .
:made a owl:DatatypeProperty ; rdfs:range xsd:gYear .
:b1 a :Bottle ; :colour :red ; :made "1999"^^xsd:gYear .
"""


@pytest.mark.java
def test_only_dl_finds_an_equivalence_that_needs_case_analysis(load: Load) -> None:
    dl = load(DL, "dl")
    assert dl.equivalents(T + "Table") == {T + "Table", T + "Wine"}
    assert dl.is_subclass(T + "Bottle", T + "Table")
    assert dl.is_instance(T + "b1", T + "RedWine")
    assert any("xsd:gYear" in note for note in dl.unsupported)
    for level in ("rdfs", "rl", "el"):
        assert not load(DL, level).is_subclass(T + "Wine", T + "Table")


@pytest.mark.java
def test_an_ontology_without_a_model_is_an_error_at_dl(load: Load) -> None:
    text = DL + ":b2 a :Wine , [ owl:complementOf :Table ] ."
    with pytest.raises(OntologyError, match="the ontology is inconsistent") as caught:
        load(text, "dl")
    told = str(caught.value)
    # Only dl knows that wine is table wine; what it knows of classes, the rules are told.
    assert f"<{T}b2> is in <{T}Table> and in its complement" in told
    assert "Exception" not in told and "org." not in told


@pytest.mark.java
def test_what_the_reasoner_does_not_tell_is_said_not_to_be_known(load: Load) -> None:
    text = (
        ":D a owl:Class ; owl:equivalentClass [ a owl:Class ; owl:oneOf ( :a :b ) ] . "
        ":a owl:differentFrom :b . :c owl:differentFrom :a , :b ; a :D . "
        ":A a owl:Class ; owl:disjointWith :D . :E rdfs:subClassOf :A , :D ."
    )
    with pytest.raises(OntologyError, match="the ontology is inconsistent") as caught:
        load(text, "dl")
    assert any("does not tell" in line for line in caught.value.explanation)
    assert f"unsatisfiable class <{T}E>" in caught.value.explanation


LEVELS = ["none", "rdfs", "rl", "el", pytest.param("dl", marks=pytest.mark.java)]


@pytest.mark.parametrize("level", LEVELS)
def test_an_individual_in_disjoint_classes_is_an_error_that_names_them(
    load: Load, level: str
) -> None:
    text = ":A owl:disjointWith :B . :C rdfs:subClassOf :A , :B . :x a :A , :B ."
    with pytest.raises(OntologyError, match="inconsistent") as caught:
        load(text, level)
    told = str(caught.value)
    assert told.startswith(f"{caught.value.path}: the ontology is inconsistent\n")
    assert caught.value.path is not None and caught.value.path.endswith("given.ttl")
    assert f"<{T}x>" in caught.value.explanation[0] and told.count(f"<{T}x>") == 1
    assert caught.value.explanation[1:] == (f"unsatisfiable class <{T}C>",)


@pytest.mark.parametrize(
    "text",
    [
        ":a owl:sameAs :b ; owl:differentFrom :b .",
        ":a a owl:Nothing .",
        ":A rdfs:subClassOf owl:Nothing . :a a :A .",
        "[] a owl:AllDisjointClasses ; owl:members ( :A :B :C ) . :a a :B , :C .",
        ":A owl:disjointUnionOf ( :B :C ) . :a a :B , :C .",
        ":A owl:complementOf :B . :a a :A , :B .",
    ],
)
def test_other_contradictions_are_errors_too(load: Load, text: str) -> None:
    with pytest.raises(OntologyError, match="inconsistent"):
        load(text)


def test_a_class_that_can_have_no_member_is_listed_and_does_not_stop_loading(load: Load) -> None:
    ontology = load(":A owl:disjointWith :B . :C rdfs:subClassOf :A , :B . :D rdfs:subClassOf :C .")
    assert ontology.unsatisfiable == (T + "C", T + "D")
    assert any("unsatisfiable" in note for note in ontology.unsupported)
    assert ontology.are_disjoint(T + "C", T + "C")


def test_a_reasoner_past_its_time_is_killed_with_its_children() -> None:
    # It ends by itself, but late: a reasoner that is not killed fails this test and does not hang.
    late_s, sleep = 120, f"sleep 120.{os.getpid()}"
    code = f"import subprocess, time; subprocess.Popen({sleep.split()}); time.sleep({late_s})"
    start = time.monotonic()
    with pytest.raises(OntologyError, match=r"did not finish within 0\.5 s"):
        run_bounded([sys.executable, "-c", code], 0.5, "The reasoner")
    assert time.monotonic() - start < late_s - 20
    assert sleep not in running_programs().splitlines()


STARTS_A_REASONER = """
import sys
from pathlib import Path
from kbn.ontology.bounded_process import run_bounded
code = "import sys, time; print('up', flush=True, file=open(sys.argv[1], 'w')); time.sleep(600)"
run_bounded([sys.executable, "-c", code, sys.argv[1]], 600, "R", Path(sys.argv[2]))
"""


def test_a_reasoner_ends_with_the_process_that_started_it_however_that_ends(
    tmp_path: Path,
) -> None:
    up, folder = tmp_path / "up", tmp_path / "folder"
    folder.mkdir()
    parent = subprocess.Popen([sys.executable, "-c", STARTS_A_REASONER, str(up), str(folder)])
    try:
        wait_until(lambda: up.exists() and up.read_text() == "up\n")
    finally:
        parent.kill()
        parent.wait()
    wait_until(lambda: str(up) not in running_programs())
    wait_until(lambda: not folder.exists())


def running_programs() -> str:
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    return listed.stdout


def wait_until(condition: Callable[[], bool], at_most_s: float = 60) -> None:
    end = time.monotonic() + at_most_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_dl_without_java_or_without_its_library_says_what_to_install(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(outside_dl, "find_spec", lambda name: None)
        with pytest.raises(MissingDependencyError, match=r"kbn\[dl\]"):
            load(DL, "dl")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(OntologyError, match="install Java 17"):
        load(DL, "dl")


def test_an_unknown_level_is_refused(load: Load) -> None:
    with pytest.raises(InvalidInputError, match="one of none, rdfs, rl, el, dl"):
        load("", "full")
