"""A compiled ontology saved to a file answers as the one that was saved."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbn import InvalidInputError, Ontology, data


@pytest.mark.parametrize("name", ["podcast", "animals", "conference"])
def test_an_opened_ontology_answers_as_the_saved_one(name: str, tmp_path: Path) -> None:
    ontology = Ontology.load(data.path(name))
    ontology.save(tmp_path / "saved.kbno")
    opened = Ontology.open(tmp_path / "saved.kbno")
    assert opened.digest == ontology.digest
    assert dict(opened.prefixes) == dict(ontology.prefixes)
    assert opened.classes == ontology.classes
    for iri in ontology.classes:
        assert opened.ancestors(iri) == ontology.ancestors(iri)
        assert opened.labels(iri) == ontology.labels(iri)
    for iri in ontology.individuals:
        assert opened.types(iri) == ontology.types(iri)


def test_what_is_no_saved_ontology_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"missing.kbno: there is no such file"):
        Ontology.open(tmp_path / "missing.kbno")
    (tmp_path / "other.kbno").write_bytes(b"kbn-ontology\n" + b"\xff" * 100)
    with pytest.raises(InvalidInputError, match=r"other.kbno is not a compiled ontology"):
        Ontology.open(tmp_path / "other.kbno")


def test_a_cut_or_changed_file_is_noticed(tmp_path: Path) -> None:
    Ontology.load(data.path("animals")).save(tmp_path / "whole.kbno")
    content = (tmp_path / "whole.kbno").read_bytes()
    for place, damaged in enumerate([content[:-10], content[:-1] + b"\x07", content[:20], b""]):
        path = tmp_path / f"damaged{place}.kbno"
        path.write_bytes(damaged)
        with pytest.raises(InvalidInputError, match="is not a compiled ontology"):
            Ontology.open(path)
