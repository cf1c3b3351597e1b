"""appendix-b: the thesis' placements, with the ontology that ships and with files of a folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kbn import data
from kbn.errors import InvalidInputError
from kbn.lab.experiment import Scale, conduct, find
from kbn.lab.experiments.appendix_b import TABLE_10, their_lists


def test_the_lists_are_whole() -> None:
    lists = their_lists()
    assert {name: len(rows) for name, rows in lists.items()} == {
        "confOf": 63, "ekaw": 73, "iswc": 83, "swrc": 54, "security": 476,
    }  # fmt: skip
    assert set(lists) == set(TABLE_10)
    for rows in lists.values():
        assert [row.number for row in rows] == list(range(1, len(rows) + 1))


def test_as_listed_every_placement_of_the_shipped_ontology_is_the_thesis_own() -> None:
    placements, differences = conduct(find("appendix-b"), Scale.SMALL).tables
    [row] = placements.data.to_pylist()
    assert (row["terms here"], row["alike as listed"], row["alike by the text"]) == (63, 63, 61)
    assert differences.data.num_rows == 0


def test_what_a_file_lacks_is_listed_with_the_reason(tmp_path: Path) -> None:
    text = data.path("conference").read_text(encoding="utf-8")
    assert "Volunteer" in text
    (tmp_path / "confOf.ttl").write_text(text.replace("Volunteer", "Helper"), encoding="utf-8")
    result = conduct(find("appendix-b"), Scale.SMALL, ontologies=tmp_path)
    rows = result.tables[1].data.to_pylist()
    assert [(row["term"], row["thesis"]) for row in rows] == [("Volunteer", "Organization")]
    assert "no such term" in rows[0]["why"]
    assert result.parameters["ontologies"] == ["confOf.ttl"]


def test_a_folder_without_any_of_the_five_says_which_they_are(tmp_path: Path) -> None:
    shutil.copy(data.path("animals"), tmp_path / "animals.ttl")
    with pytest.raises(InvalidInputError, match=r"confOf\.owl"):
        conduct(find("appendix-b"), Scale.SMALL, ontologies=tmp_path)
