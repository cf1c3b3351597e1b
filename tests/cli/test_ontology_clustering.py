"""`kbn ontology medoid` and `clusters`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kbn.cli import main
from kbn.data import namespace

ANIMALS = namespace("animals")


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main(["ontology", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    "terms",
    [
        ["--terms", "JackRussell,Gus"],
        ["--terms", ":JackRussell", "-t", f"{ANIMALS}Gus"],
        ["--filter", "breed = :JackRussell and name = :Gus"],
        ["--terms", "Gus", "--filter", "breed @> :JackRussell"],
    ],
    ids=" ".join,
)
def test_the_medoid_of_terms_however_they_are_named(
    terms: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    got = told(capsys, "medoid", "animals", *terms)
    assert got == {
        "medoid": ANIMALS + "JackRussell",
        "cost": 1,
        "spread": 0.5,
        "terms": 2,
        "reached": 2,
        "skipped": [],
        "complete": True,
        "cluster": ANIMALS + "Dogs",
        "named": {ANIMALS + "JackRussell": 1, ANIMALS + "Gus": 1},
    }


def test_a_term_that_is_named_twice_counts_twice(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, "medoid", "animals", "-t", "Cats,Dogs,Dogs")["medoid"] == ANIMALS + "Dogs"
    assert told(capsys, "medoid", "animals", "-t", "Cats, Dogs ,Cats")["medoid"] == ANIMALS + "Cats"


def test_people_get_the_medoid_and_what_it_does_not_reach(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["ontology", "medoid", "animals", "-t", "Cats,Dogs,Food,eats"]) == 0
    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    assert ["medoid", ":Animal"] in lines
    assert ["reaches", "3 of 4 terms"] in lines
    assert ["cluster", ":Animal"] in lines


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-t", "Jackrussel"], "JackRussell"),
        (["-t", "nope:Cats"], "no prefix nope:"),
        (["-f", "breed ="], "the text ends too early"),
        (["-f", "breed = :Catz"], "Cats"),
        (["-f", "price < 3"], "name no terms"),
        (["-t", ","], "name no terms"),
        ([], "add --terms or --filter"),
    ],
)
def test_what_has_no_medoid_is_refused_with_a_reason(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ontology", "medoid", "animals", *arguments]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("are_compiled", [False, True])
def test_compiling_is_told_on_stderr(
    are_compiled: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("kbn.placement.kernels.are_compiled", lambda: are_compiled)
    assert told_with_error(capsys) == ("" if are_compiled else "compiling the placement kernels")


def told_with_error(capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["ontology", "medoid", "animals", "-t", "Cats", "--json"]) == 0
    out, error = capsys.readouterr()
    assert json.loads(out)["medoid"] == ANIMALS + "Cats"
    return error.partition(",")[0].strip()


def test_kernels_that_were_used_are_known_to_be_compiled() -> None:
    from kbn.placement import kernels

    assert main(["ontology", "medoid", "animals", "-t", "Cats,Dogs", "--json"]) == 0
    assert kernels.are_compiled()


def test_clusters_come_from_the_most_general_on(capsys: pytest.CaptureFixture[str]) -> None:
    got = told(capsys, "clusters", "animals")
    assert [row["rank"] for row in got["clusters"]] == [1, 2, 3, 4, 5]
    members = {
        row["key"].removeprefix(ANIMALS): [iri.removeprefix(ANIMALS) for iri in row["members"]]
        for row in got["clusters"]
    }
    assert list(members) == ["Animal", "Food", "Cats", "Dogs", "Mammal"]
    assert members["Cats"] == ["Burmese", "Cats", "Dixie"]
    assert got["ontology"]


def test_people_get_a_table_of_clusters_that_is_cut_off(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kbn.cli.ontology_clustering.MEMBERS_SHOWN", 2)
    monkeypatch.setattr("kbn.cli.ontology_clustering.CLUSTERS_SHOWN", 3)
    assert main(["ontology", "clusters", "animals"]) == 0
    out = capsys.readouterr().out
    assert ":Burmese, :Cats and 1 more" in out
    assert ":Dogs" not in out and "and 2 more clusters" in out


def test_an_order_decides_between_clusters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = tmp_path / "listed.txt"
    listed.write_text("# first\nAnimal\n\n:Cats\n", encoding="utf-8")
    got = told(capsys, "clusters", "animals", "--order", str(listed))
    (animal,) = (row for row in got["clusters"] if row["key"] == ANIMALS + "Animal")
    assert ANIMALS + "Cats" in animal["members"]


def test_an_order_with_a_stranger_is_refused_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = tmp_path / "listed.txt"
    listed.write_text("Animal\nCatz\n", encoding="utf-8")
    assert main(["ontology", "clusters", "animals", "--order", str(listed)]) == 2
    error = capsys.readouterr().err
    assert f"{listed}:2: " in error and "Cats" in error
    listed.write_bytes(b"\xff\xfe")
    assert main(["ontology", "clusters", "animals", "--order", str(listed)]) == 2
    assert "not UTF-8" in capsys.readouterr().err


def test_weights_and_ties_of_the_map_can_be_set(capsys: pytest.CaptureFixture[str]) -> None:
    def medoid(*options: str) -> Any:
        return told(capsys, "medoid", "animals", "-t", "Cats,Dogs", *options)["cost"]

    assert medoid() == 200
    assert medoid("--weights", "to_superclass=30,to_subclass=20") == 40
    alone = ("medoid", "animals", "-t", "Food,Gus")
    assert told(capsys, *alone)["medoid"] == ANIMALS + "Gus"
    assert told(capsys, *alone, "--ties", "class-first")["medoid"] == ANIMALS + "Food"


@pytest.mark.parametrize(
    ("weights", "reason"),
    [
        ("to_superclass=0", "from 1 to 100, not 0"),
        ("to_superclas=30", "did you mean 'to_superclass'?"),
        ("to_related", "is written to_related=30"),
        ("to_related=1.5", "a whole number"),
        ("to_related=1,to_related=2", "twice"),
    ],
)
def test_a_wrong_weight_is_refused_with_a_reason(
    capsys: pytest.CaptureFixture[str], weights: str, reason: str
) -> None:
    arguments = ["ontology", "medoid", "animals", "-t", "Cats", "--weights", weights]
    assert main(arguments) == 2
    assert reason in capsys.readouterr().err
