"""`kbn explain`, `kbn match --why`, and what is told of unknown terms."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kbn.cli import main

WANTED = "x @> animals:Mammal and age < 3"


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(list(arguments))
    out, err = capsys.readouterr()
    return code, out, err


def test_a_miss_is_explained_constraint_by_constraint(capsys: pytest.CaptureFixture[str]) -> None:
    given = '{"x": {"class": "animals:Human"}, "age": 7}'
    code, out, err = told(capsys, "explain", WANTED, given, "-o", "animals")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "does not match",
        "  no   age: 7 is not less than 3",
        "  yes  x: Human is a kind of Mammal",
        "         :Human is a kind of :Mammal    [animals.ttl, line 55]",
    ]


def test_json_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    given = '{"x": {"class": "animals:Human"}, "age": 2}'
    code, out, _ = told(capsys, "explain", WANTED, given, "-o", "animals", "--json")
    said = json.loads(out)
    assert code == 0 and said["matches"]
    assert [verdict["accepted"] for verdict in said["filters"][0]] == [True, True]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("animals:Humn", "did you mean <https://kbn.example/ontology/animals#Human>"),
        ("animal:Human", "the prefix animal: is not declared; did you mean animals:?"),
        ("animals:John", "as individual, not as class"),
    ],
)
def test_a_term_that_is_not_known_is_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, hint: str
) -> None:
    given = json.dumps({"x": {"class": name}})
    _, _, err = told(capsys, "explain", WANTED, given, "-o", "animals")
    assert hint in err
    wants, posts = tmp_path / "wants.txt", tmp_path / "posts.jsonl"
    wants.write_text("ann: " + WANTED)
    posts.write_text(given)
    match = ["match", "-s", str(wants), "-n", str(posts), "-o", "animals"]
    code, out, err = told(capsys, *match)
    assert code == 0 and "nobody" in out
    assert hint in err
    assert "1 notification with terms that the ontology does not know" in err
    code, _, err = told(capsys, *match, "--refuse-unknown")
    assert code != 0 and hint in err
    assert "error: notification 1: " in err


def test_match_says_why(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    wants, posts = tmp_path / "wants.txt", tmp_path / "posts.jsonl"
    wants.write_text("ann: age < 3")
    posts.write_text('{"age": 2}')
    match = ["match", "-s", str(wants), "-n", str(posts), "--why"]
    _, out, _ = told(capsys, *match)
    assert out.splitlines()[1:] == ["1             ann", "              ann: age: 2 is less than 3"]
    _, out, _ = told(capsys, *match, "--json")
    assert json.loads(out)["why"] == {"ann": ["age: 2 is less than 3"]}


def test_a_term_is_found_by_its_label_and_shown_with_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "codes.ttl"
    file.write_text(
        "@prefix c: <http://example.org/c/> . @prefix owl: <http://www.w3.org/2002/07/owl#> .\n"
        "@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
        'c:01 a owl:Class ; rdfs:label "Sport" . c:02 rdfs:subClassOf c:01 ; rdfs:label "Rugby" .\n'
        "c:03 rdfs:subClassOf c:02 . c:plays rdfs:domain c:01 ; rdfs:range c:02 ."
    )
    _, out, _ = told(capsys, "ontology", "show", str(file), "--term", "rugby")
    assert "c:01 (Sport)" in out
    _, out, _ = told(capsys, "ontology", "show", str(file), "--term", "plays")
    assert "c:01 (Sport)" in out and "c:02 (Rugby)" in out
    _, out, _ = told(capsys, "ontology", "show", str(file), "--depth", "2")
    assert "c:02 (Rugby)" in out and "c:03" not in out


def test_two_terms_are_explained_link_by_link(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = told(capsys, "ontology", "explain", "John", "Animal", "-o", "animals")
    assert (code, err) == (0, "")
    lines = [line for line in out.splitlines() if not line.startswith(" ")]
    assert [line.partition("    [")[0] for line in lines] == [
        ":John is one of the :Human",
        ":Human is a kind of :Mammal",
        ":Mammal is a kind of :Animal",
    ]
    assert all("[animals.ttl, line " in line for line in lines[1:])
    assert "3. :John is one of the :Human    [equivalence of 1, 2]" in out


DEFINED = """
@prefix : <urn:t#> . @prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:Parent owl:equivalentClass [ a owl:Class ; owl:intersectionOf ( :Person
  [ a owl:Restriction ; owl:onProperty :hasChild ; owl:someValuesFrom :Person ] ) ] .
:Mother rdfs:subClassOf :Person ;
  rdfs:subClassOf [ a owl:Restriction ; owl:onProperty :hasChild ; owl:someValuesFrom :Girl ] .
:Girl rdfs:subClassOf :Person ; rdfs:label "young lady" .
:hasChild a owl:ObjectProperty .
"""


def test_what_is_inferred_names_its_rules(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "family.ttl"
    file.write_text(DEFINED, encoding="utf-8")
    ask = ["ontology", "explain", ":Mother", ":Parent", "-o", str(file), "-r", "el"]
    _, out, _ = told(capsys, *ask)
    assert ":Girl (young lady)" in out
    assert "[wider value of " in out and "[all parts of an intersection of " in out
    _, out, _ = told(capsys, *ask, "--json")
    (link,) = json.loads(out)["links"]
    asserted = [step for step in link["steps"] if step["rule"] == "asserted"]
    assert len(asserted) == 4
    assert all(step["line"] and step["file"] == str(file) for step in asserted)
    _, out, _ = told(capsys, *ask[:-2])
    assert out == "at level rdfs nothing leads from :Mother to :Parent\n"


def test_the_way_back_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = told(capsys, "ontology", "explain", "Mammal", "Human", "-o", "animals")
    assert out.rstrip().endswith("the other way round there is a way")


def test_without_lines_the_axiom_is_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "zoo.ofn"
    file.write_text(
        "Prefix(:=<urn:t#>)\nOntology(<urn:t>\nSubClassOf(:A :B)\n)\n", encoding="utf-8"
    )
    _, out, _ = told(capsys, "ontology", "explain", ":A", ":B", "-o", str(file))
    assert out == ":A is a kind of :B    [zoo.ofn, line unknown]\n"


ONLY_DL = """
@prefix : <urn:t#> . @prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:A rdfs:subClassOf [ a owl:Class ; owl:unionOf ( :B :C ) ] , [ a owl:Class ; owl:complementOf :C ] .
:B a owl:Class . :C a owl:Class .
"""


@pytest.mark.slow
@pytest.mark.java
def test_at_dl_what_no_rule_finds_is_the_reasoners(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "zoo.ttl"
    file.write_text(ONLY_DL, encoding="utf-8")
    _, out, _ = told(capsys, "ontology", "explain", ":A", ":B", "-o", str(file), "-r", "dl")
    assert out == ":A is a kind of :B    inferred by the reasoner\n"
