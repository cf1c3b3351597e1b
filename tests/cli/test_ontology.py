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


def test_what_could_not_be_used_is_a_remark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "imports.ttl"
    path.write_text(f"{TURTLE}<urn:o> a owl:Ontology ; owl:imports <urn:gone> .", encoding="utf-8")
    assert main(["ontology", "compile", str(path)]) == 0
    assert "remarks      import <urn:gone>" in capsys.readouterr().out


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
    assert "and 1 more class (" in capsys.readouterr().out


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
    assert main(["ontology", "compile", str(broken)]) == 2
    told = capsys.readouterr()
    assert "broken.ttl" in told.err and "Traceback" not in told.err


def test_an_inconsistent_ontology_is_invalid_and_every_fact_is_told_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torn = tmp_path / "torn.ttl"
    more = "ex:Animal owl:disjointWith ex:Rock . ex:Fossil rdfs:subClassOf ex:Animal, ex:Rock ."
    torn.write_text(f"{TURTLE}{more} ex:Daisy a ex:Rock .", encoding="utf-8")
    assert main(["ontology", "compile", str(torn)]) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"error: {torn}: the ontology is inconsistent",
        f"  <{ZOO}Daisy> is in the disjoint classes <{ZOO}Animal> and <{ZOO}Rock>",
        f"  unsatisfiable class <{ZOO}Fossil>",
    ]


def test_a_shipped_ontology_is_known_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["ontology", "show", "animals", "--term", "Cats", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["iri"].endswith("animals#Cats")
    (tmp_path / "animals").write_text(TURTLE, encoding="utf-8")
    assert main(["ontology", "show", "animals", "--json"]) == 0
    assert ZOO + "Cow" in json.loads(capsys.readouterr().out)["children"]


def test_a_name_nothing_has_is_told_with_those_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["ontology", "show", "animal"]) == 2
    assert "animals" in capsys.readouterr().err
    assert main(["ontology", "show", str(tmp_path)]) == 2
    assert "is a folder" in capsys.readouterr().err


@pytest.mark.parametrize("command", [[], ["ontology", "show"], ["ontology", "compile"]])
def test_the_examples_in_the_help_work_in_any_folder(
    command: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    main([*command, "--help"])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    examples = [words[1:] for words in lines if words[:2] == ["kbn", "ontology"]]
    assert examples
    for example in examples:
        assert main(example) == 0


def test_a_level_there_is_not_is_invalid(zoo: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ontology", "compile", zoo, "--reasoning", "magic"]) == 2
    assert "rdfs" in capsys.readouterr().err


CODES = """
@prefix : <http://example.org/codes/> .
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
:20000002 a skos:Concept ; skos:prefLabel "arts" .
:20000018 a skos:Concept ; skos:prefLabel "music" ; skos:broader :20000002 .
:20000025 a skos:Concept ; skos:prefLabel "jazz music" ; skos:altLabel "swing" ;
    skos:broader :20000018 .
"""


@pytest.fixture
def codes(tmp_path: Path) -> str:
    (tmp_path / "codes.ttl").write_text(CODES, encoding="utf-8")
    return str(tmp_path / "codes.ttl")


@pytest.mark.parametrize(
    "words",
    [
        ["ontology", "show"],
        ["ontology", "show", "--term", "arts"],
        ["ontology", "show", "--search", "jazz"],
        ["ontology", "clusters"],
        ["ontology", "medoid", "--terms", "music,jazz music"],
        ["plan", "--brokers", "a,b"],
    ],
)
def test_a_code_has_its_label_beside_it(
    codes: str,
    words: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    place = 1 if words[0] == "plan" else 2
    assert main([*words[:place], codes, *words[place:]]) == 0
    assert ":20000018 (music)" in capsys.readouterr().out


def test_terms_are_found_by_words_of_their_labels(
    codes: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def search(text: str) -> list[str]:
        assert main(["ontology", "show", codes, "--search", text, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)["terms"]
        return [f"{each['iri'].rpartition('/')[2]} {each['name']}" for each in found]

    assert search("MUSIC") == ["20000018 music", "20000025 jazz music"]
    assert search("music jaz") == ["20000025 jazz music"]
    assert search("swing") == ["20000025 swing"]
    assert search("2000002") == ["20000025 20000025"]
    assert search("cheese") == []
    assert main(["ontology", "show", codes, "--search", "cheese"]) == 0
    assert "no term has 'cheese'" in capsys.readouterr().out
    assert main(["ontology", "show", codes, "--search", " "]) == 2
    assert main(["ontology", "show", codes, "--search", "x", "--term", "x"]) == 2


def test_a_property_is_shown_with_its_domain_and_range(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ontology", "show", "animals"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [":chases", ":Dogs", ":Cats"] in lines
    assert main(["ontology", "show", "animals", "--json"]) == 0
    ends = json.loads(capsys.readouterr().out)["property_ends"]
    (chases,) = (each for iri, each in ends.items() if iri.endswith("#chases"))
    assert [iri.rpartition("#")[2] for iri in chases["ranges"]] == ["Cats"]


def test_an_address_is_fetched_kept_and_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.ontology.test_fetching import running, turtle

    monkeypatch.setenv("KBN_CACHE_DIR", str(tmp_path))
    with running("127.0.0.1") as server:
        server["/farm"] = turtle
        url = server.url("/farm")
        assert main(["ontology", "explain", "Cow", "Animal", "-o", url]) == 0
        assert "[farm, line 2]" in capsys.readouterr().out
    assert main(["ontology", "show", url]) == 0  # the server is gone
    assert "the kept copy is used" in capsys.readouterr().err
    assert main(["ontology", "show", url, "--offline"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["ontology", "show", url + "2", "--offline"]) == 2
    assert "was never fetched" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["show", "file:///etc/hostname"], "give a file of this machine by its path"),
        (["show", "ftp://example.org/x"], "only http and https"),
        (["show", "https://"], "names no host"),
        (["show", "animals", "--term", "Xyzzy"], "--search finds terms"),
        (["show", "animals", "--term", "Cat"], "did you mean"),
    ],
)
def test_what_is_not_found_is_told_with_what_to_do(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ontology", *words]) == 2
    assert says in capsys.readouterr().err


def test_a_term_is_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ontology", "explain", "John", "animals:John", "-o", "animals"]) == 0
    assert capsys.readouterr().out == "both are :John\n"


def test_other_commands_say_that_they_take_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "a = 1", "{}", "-o", "https://example.org/x.ttl"]) == 2
    assert "give a file here" in capsys.readouterr().err
