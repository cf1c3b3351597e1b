"""`kbn ontology diff`: what a level adds, with why, and what a version changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kbn.cli import main
from kbn.ontology import Ontology, new_links

HEAD = """
@prefix : <urn:t#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
"""
TEXT = (
    HEAD
    + """
:B001 a owl:Class ; rdfs:label "burgundy" ; rdfs:subClassOf
    [ a owl:Restriction ; owl:onProperty :sugar ; owl:someValuesFrom :Little ] .
:D001 a owl:Class ; rdfs:label "dry" ; owl:equivalentClass
    [ a owl:Restriction ; owl:onProperty :sugar ; owl:someValuesFrom :Little ] .
:D001 rdfs:subClassOf :Wine . :sugar a owl:ObjectProperty .
"""
)
Output = pytest.CaptureFixture[str]


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "wine.ttl").write_text(TEXT, encoding="utf-8")
    return str(tmp_path / "wine.ttl")


def told(capsys: Output, *words: str) -> tuple[int, str, str]:
    code = main(["ontology", "diff", *words])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_people_are_told_the_direct_links_and_why(file: str, capsys: Output) -> None:
    code, out, _ = told(capsys, file, "--levels", "rdfs,el")
    lines = out.splitlines()
    assert code == 0
    assert lines[0] == "1 direct link found at el and not at rdfs:"
    assert lines[1] == "  :B001 (burgundy) is a kind of :D001 (dry)"
    assert "1. :B001 (burgundy) is a kind of :sugar some :Little    [wine.ttl, line" in lines[2]
    assert "[equivalence of 1, 2]" in lines[-1]


def test_programs_get_every_link_with_its_steps(file: str, capsys: Output) -> None:
    _, out, _ = told(capsys, file, "--levels", "rdfs,el", "--json")
    found: dict[str, Any] = json.loads(out)
    (link,) = found["added"]["links"]
    assert (link["first"], link["second"]) == ("urn:t#B001", "urn:t#D001")
    assert [step["rule"] for step in link["steps"]][-1] == "equivalence"
    assert found["removed"] == {"terms": [], "links": []}
    assert (found["before"]["reasoning"], found["after"]["reasoning"]) == ("rdfs", "el")


def test_a_level_that_adds_nothing_says_so(capsys: Output) -> None:
    assert told(capsys, "podcast", "--levels", "rdfs,el")[1] == (
        "0 direct links found at el and not at rdfs\n"
    )


def test_two_versions_are_compared_both_ways(file: str, tmp_path: Path, capsys: Output) -> None:
    new = tmp_path / "new.ttl"
    changed = TEXT.replace(":D001 rdfs:subClassOf :Wine .", ":D001 rdfs:subClassOf :Drink .")
    new.write_text(changed, encoding="utf-8")
    _, out, _ = told(capsys, str(new), "--against", file)
    assert "1 term new: :Drink" in out and "1 term gone: :Wine" in out
    assert ":D001 (dry) is a kind of :Drink    [new.ttl, line" in out
    assert ":D001 (dry) is a kind of :Wine    [wine.ttl, line" in out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "--levels or --against"),
        (["--levels", "rdfs"], "two different ones of none, rdfs, rl, el, dl"),
        (["--levels", "rdfs,rdfs"], "two different ones"),
        (["--levels", "rdfs,owl"], "two different ones"),
        (["--levels", "rdfs,el", "--against", "animals"], "--levels or --against"),
        (["--against", "nowhere.ttl"], "there is no such file"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    file: str, words: list[str], says: str, capsys: Output
) -> None:
    code, out, err = told(capsys, file, *words)
    assert (code, out) == (2, "")
    assert says in err


@pytest.mark.parametrize("levels", [("none", "rdfs"), ("rdfs", "rl"), ("rdfs", "el")])
@pytest.mark.parametrize("name", ["animals", "conference", "drinks", "services"])
def test_what_is_new_follows_from_the_direct_links(name: str, levels: tuple[str, str]) -> None:
    """Put into the lower level's result, the listed links give all of the higher level's."""
    from kbn import data

    before, after = (Ontology.load(data.path(name), each) for each in levels)  # type: ignore[arg-type]
    above = {c: set(before.ancestors(c)) for c in after.classes}
    types = {i: set(before.types(i)) for i in after.individuals}
    for link in new_links(before, after):
        if link.relation == "is one of the":
            types[link.first].add(link.second)
        elif link.first in above:
            above[link.first].add(link.second)
    while True:
        size = sum(map(len, (*above.values(), *types.values())))
        for each in (*above.values(), *types.values()):
            each |= {wide for c in list(each) for wide in above.get(c, ())}
        if sum(map(len, (*above.values(), *types.values()))) == size:
            break
    live = [c for c in after.classes if c not in after.unsatisfiable]
    assert all(above[c] >= after.ancestors(c) for c in live)
    assert all(types[i] >= after.types(i) for i in after.individuals)
