"""`kbn ontology compile` and `show`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kbn.cli import main

TURTLE = """
@prefix ex: <http://example.org/zoo#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
ex:Animal a owl:Class .
ex:Cow a owl:Class ; rdfs:subClassOf ex:Animal ; rdfs:label "cow"@en .
ex:eats a owl:ObjectProperty .
ex:grass a owl:NamedIndividual .
ex:Daisy a ex:Cow ; ex:eats ex:grass .
"""
ZOO = "http://example.org/zoo#"


@pytest.fixture
def zoo(tmp_path: Path) -> str:
    (tmp_path / "zoo.ttl").write_text(TURTLE, encoding="utf-8")
    return str(tmp_path / "zoo.ttl")


def test_compile_counts_what_is_there(zoo: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ontology", "compile", zoo, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["classes"], facts["properties"], facts["individuals"]) == (2, 1, 2)
    assert facts["reasoning"] == "rdfs" and facts["digest"]


def test_compile_for_people(zoo: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ontology", "compile", zoo, "--reasoning", "none"]) == 0
    assert "reasoning    none" in capsys.readouterr().out


def test_show_draws_the_tree(zoo: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ontology", "show", zoo]) == 0
    assert "ex:Animal\n└── ex:Cow\n" in capsys.readouterr().out


def test_show_as_json_has_every_class_with_its_children(
    zoo: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["ontology", "show", zoo, "--json"])
    assert json.loads(capsys.readouterr().out)["children"] == {
        ZOO + "Animal": [ZOO + "Cow"],
        ZOO + "Cow": [],
    }


def test_a_large_tree_is_cut_off_and_says_so(
    zoo: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("kbn.cli.ontology.MAX_SHOWN", 1)
    main(["ontology", "show", zoo])
    assert "and 1 more classes" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["Daisy", "ex:Daisy", ZOO + "Daisy", f"<{ZOO}Daisy>"])
def test_a_term_is_found_by_any_of_its_names(
    name: str, zoo: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ontology", "show", zoo, "--term", name, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["iri"] == ZOO + "Daisy"
    assert facts["types"] == [ZOO + "Animal", ZOO + "Cow"]
    assert facts["relations"] == [[ZOO + "eats", ZOO + "grass"]]


def test_a_term_for_people_is_shown_in_short_names(
    zoo: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["ontology", "show", zoo, "--term", "Cow"])
    told = capsys.readouterr().out
    assert "cow" in told and "ex:Animal" in told and "ex:Daisy" in told


def test_an_unknown_term_is_invalid_and_suggests(
    zoo: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ontology", "show", zoo, "--term", "ex:Cwo"]) == 2
    assert "did you mean" in capsys.readouterr().err


def test_a_malformed_file_is_an_error_with_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken.ttl"
    broken.write_text("this is not turtle", encoding="utf-8")
    assert main(["ontology", "compile", str(broken)]) == 1
    told = capsys.readouterr()
    assert "broken.ttl" in told.err and "Traceback" not in told.err


def test_a_level_there_is_not_is_invalid(zoo: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ontology", "compile", zoo, "--reasoning", "magic"]) == 2
    assert "rdfs" in capsys.readouterr().err
