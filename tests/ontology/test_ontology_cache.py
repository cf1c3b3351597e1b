from __future__ import annotations

from pathlib import Path

import pytest

from kbn.ontology import Ontology

TEXT = """@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
<urn:x> a owl:Ontology ; owl:imports <urn:base> .
<urn:x#A> a owl:Class ; rdfs:subClassOf <urn:x#B> ; rdfs:label "the A" .
"""


@pytest.fixture
def given(tmp_path: Path) -> Path:
    (tmp_path / "files").mkdir()
    path = tmp_path / "files" / "given.ttl"
    path.write_text(TEXT)
    return path


def from_cache(path: Path, **options: object) -> bool:
    said: list[str] = []
    Ontology.load(path, progress=said.append, **options)  # type: ignore[arg-type]
    return said == ["found in the cache"]


def test_the_second_load_comes_from_the_cache(given: Path, own_cache: Path) -> None:
    assert not from_cache(given)
    assert from_cache(given)
    assert not from_cache(given, reasoning="none")
    assert not from_cache(given, skos=True)
    assert [path.suffix for path in (own_cache / "ontologies").iterdir()] == [".kbno"] * 3
    loaded = Ontology.load(given)
    assert loaded.label("urn:x#A") == "the A"
    assert loaded.digest == Ontology.load(given, cache=False).digest


def test_changed_content_and_changed_imports_are_read_anew(given: Path) -> None:
    assert not from_cache(given)
    base = given.parent / "base.ttl"
    base.write_text("<urn:base> a <http://www.w3.org/2002/07/owl#Ontology> .")
    assert not from_cache(given), "a file appeared that the import could mean"
    assert from_cache(given)
    base.write_text(base.read_text() + "<urn:x#C> a <http://www.w3.org/2002/07/owl#Class> .")
    assert not from_cache(given)
    assert "urn:x#C" in Ontology.load(given).classes
    given.write_text(TEXT + "<urn:x#D> a owl:Class .")
    assert not from_cache(given)


def test_a_copy_without_imports_is_found_by_its_content(tmp_path: Path) -> None:
    for name in ("one.ttl", "two.ttl"):
        (tmp_path / name).write_text(TEXT.replace("; owl:imports <urn:base>", ""))
    assert not from_cache(tmp_path / "one.ttl")
    assert from_cache(tmp_path / "two.ttl")
    assert Ontology.load(tmp_path / "two.ttl").sources == (str(tmp_path / "two.ttl"),)


@pytest.mark.parametrize("keep", [0, 10, 200, -1])
def test_a_damaged_entry_is_ignored_and_rewritten(given: Path, own_cache: Path, keep: int) -> None:
    Ontology.load(given)
    (entry,) = (own_cache / "ontologies").iterdir()
    entry.write_bytes(entry.read_bytes()[:keep])
    assert not from_cache(given)
    assert from_cache(given)


def test_a_flipped_bit_is_noticed(given: Path, own_cache: Path) -> None:
    Ontology.load(given)
    (entry,) = (own_cache / "ontologies").iterdir()
    content = bytearray(entry.read_bytes())
    content[-100] ^= 1
    entry.write_bytes(bytes(content))
    assert not from_cache(given)


def test_a_cache_that_cannot_be_written_is_no_error(
    given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a-file").write_text("")
    monkeypatch.setenv("KBN_CACHE_DIR", str(tmp_path / "a-file"))
    assert not from_cache(given)
    assert not from_cache(given)


def test_files_of_equal_content_with_relative_iris_are_not_mixed_up(tmp_path: Path) -> None:
    (tmp_path / "one.ttl").write_text(RELATIVE)
    (tmp_path / "two.ttl").write_text(RELATIVE)
    one, two = Ontology.load(tmp_path / "one.ttl"), Ontology.load(tmp_path / "two.ttl")
    assert one.classes == ("file:///one.ttl#Abc",) and two.classes == ("file:///two.ttl#Abc",)
    assert one.digest != two.digest


def test_a_file_without_relative_iris_has_the_digest_of_its_content(tmp_path: Path) -> None:
    (tmp_path / "one.ttl").write_text(RELATIVE.replace("<#", "<urn:"))
    (tmp_path / "two.ttl").write_text(RELATIVE.replace("<#", "<urn:"))
    assert Ontology.load(tmp_path / "one.ttl").digest == Ontology.load(tmp_path / "two.ttl").digest


RELATIVE = "<#Abc> a <http://www.w3.org/2002/07/owl#Class> .\n"
