from __future__ import annotations

from pathlib import Path

import pytest

from kbn.errors import OntologyError
from kbn.ontology import Ontology

PREFIXES = """@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
"""
BASE = PREFIXES + "<http://example.org/base> a owl:Ontology . <urn:b#A> rdfs:subClassOf <urn:b#B> ."
USER = (
    PREFIXES
    + "<http://example.org/user> a owl:Ontology ; owl:imports <http://example.org/base> .\n"
    + "<urn:u#U> rdfs:subClassOf <urn:b#A> ."
)
CATALOGUE = """<?xml version="1.0"?>
<catalog xmlns="urn:oasis:names:tc:entity:xmlns:xml:catalog">
  <uri name="http://example.org/base" uri="elsewhere/renamed.ttl"/>
</catalog>
"""


@pytest.fixture
def user(tmp_path: Path) -> Path:
    path = tmp_path / "user.ttl"
    path.write_text(USER)
    return path


def finds_base(ontology: Ontology) -> bool:
    return ontology.is_subclass("urn:u#U", "urn:b#B")


def test_a_file_beside_is_found_by_its_ontology_iri(user: Path, tmp_path: Path) -> None:
    (tmp_path / "whatever.ttl").write_text(BASE)
    ontology = Ontology.load(user)
    assert finds_base(ontology)
    assert ontology.sources == (str(user), str(tmp_path / "whatever.ttl"))


def test_a_file_beside_is_found_by_its_name(user: Path, tmp_path: Path) -> None:
    (tmp_path / "base.ttl").write_text(
        BASE.replace("<http://example.org/base> a owl:Ontology .", "")
    )
    assert finds_base(Ontology.load(user))


def test_a_mapping_a_directory_and_a_catalogue_file_lead_to_it(user: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "renamed.ttl").write_text(BASE)
    (tmp_path / "lists.xml").write_text(CATALOGUE)
    mapping = {"http://example.org/base": elsewhere / "renamed.ttl"}
    for catalogue in (mapping, elsewhere, tmp_path / "lists.xml"):
        assert finds_base(Ontology.load(user, catalogue=catalogue))
    assert not finds_base(Ontology.load(user))


def test_a_catalogue_beside_the_file_is_read(user: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "renamed.ttl").write_text(BASE)
    (tmp_path / "catalog-v001.xml").write_text(CATALOGUE)
    assert finds_base(Ontology.load(user))


def test_an_import_that_is_not_found_is_stated(user: Path) -> None:
    ontology = Ontology.load(user)
    assert any("http://example.org/base" in note for note in ontology.unsupported)
    assert ontology.is_subclass("urn:u#U", "urn:b#A")


def test_an_import_given_as_a_file_is_not_looked_for(user: Path, tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.mkdir()
    (given / "b.ttl").write_text(BASE)
    ontology = Ontology.load([user, given / "b.ttl"])
    assert finds_base(ontology)
    assert ontology.unsupported == ()


def test_circular_imports_end(tmp_path: Path) -> None:
    for one, other in (("a", "b"), ("b", "a")):
        (tmp_path / f"{one}.ttl").write_text(
            PREFIXES + f"<urn:x/{one}> a owl:Ontology ; owl:imports <urn:x/{other}> ."
            f"<urn:x#{one}> a owl:Class ."
        )
    assert Ontology.load(tmp_path / "a.ttl").classes == ("urn:x#a", "urn:x#b")


def test_a_malformed_catalogue_or_import_is_an_error(user: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.xml").write_text("<catalog>\n<uri")
    with pytest.raises(OntologyError, match="not a catalogue"):
        Ontology.load(user, catalogue=tmp_path / "bad.xml")
    with pytest.raises(OntologyError, match="neither a directory nor a file"):
        Ontology.load(user, catalogue=tmp_path / "absent")
    (tmp_path / "base.ttl").write_text("<urn:a> <urn:b> ")
    with pytest.raises(OntologyError) as caught:
        Ontology.load(user)
    assert caught.value.path == str(tmp_path / "base.ttl")


def test_only_http_is_ever_fetched(tmp_path: Path) -> None:
    (tmp_path / "user.ttl").write_text(USER.replace("http://example.org/base", "file:///etc/hosts"))
    with pytest.raises(OntologyError, match="only http"):
        Ontology.load(tmp_path / "user.ttl", network=True)
