"""`kbn demo --quick` delivers what the ontology says it should, and says why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kbn.cli import main

EXPECTED = {
    "Release radar": ["ann"],
    "Proteins by night": ["ann", "bob"],
    "Ten minutes of Irish": ["dee"],
    "A history of the pixel": ["ann", "cyd", "dee", "eve"],
    "Kitchen sink physics": ["cyd", "dee"],
    "An hour of silence": [],
}


def test_the_right_subscribers_get_each_notification(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--quick", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["deliveries"]
    assert {each["notification"]: list(each["delivered_to"]) for each in told} == EXPECTED


def test_the_demo_says_why_each_one_got_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--quick", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["deliveries"]
    reasons = {each["notification"]: each["delivered_to"] for each in told}
    assert reasons["Release radar"]["ann"] == ["category: Podcasting is a kind of Technology"]
    assert reasons["Proteins by night"]["bob"] == [
        "category: Medicine is a kind of Science & Medicine",
        'keywords: has "python"',
    ]
    assert all(because for each in told for because in each["delivered_to"].values())


def test_the_demo_is_a_table_for_people(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["demo", "--quick"]) == 0
    told = capsys.readouterr().out
    assert "67 podcast categories" in told
    assert "Podcasting is a kind of Technology" in told
    assert "nobody" in told


def test_the_demo_writes_into_no_folder_of_yours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis.tex").write_text("years of work", encoding="utf-8")
    assert main(["demo", "--out", str(tmp_path)]) == 2
    assert "--out" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
