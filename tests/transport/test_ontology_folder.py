"""What a manager may have loaded: regular files of one folder, and not too much of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.transport.overlay import make_server, run, until

import kbn
from kbn.broker import ServerLimits, notes
from kbn.broker import node_effects as effects
from kbn.errors import InvalidInputError, KbnError, LimitError, OntologyError
from kbn.ontology import Ontology
from kbn.transport import OntologyFolder

OWL = "@prefix : <http://x/#> . @prefix owl: <http://www.w3.org/2002/07/owl#> . :Tea a owl:Class ."


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with an ontology, and with much that is none; and something beside it."""
    made = tmp_path / "ontologies"
    made.mkdir()
    (made / "tea.ttl").write_text(OWL)
    (made / "inner").mkdir()
    (made / "inner" / "tea.ttl").write_text(OWL)
    (tmp_path / "secret.ttl").write_text(OWL)
    (made / "out.ttl").symlink_to(tmp_path / "secret.ttl")
    (made / "zero.ttl").symlink_to("/dev/zero")
    (made / "round.ttl").symlink_to(made / "round.ttl")
    os.mkfifo(made / "pipe.ttl")
    return made


def test_files_of_the_folder_are_found_by_either_name(folder: Path) -> None:
    files = OntologyFolder(folder).files(["tea.ttl", str(folder / "tea.ttl"), "inner/tea.ttl"])
    assert files == (folder / "tea.ttl", folder / "tea.ttl", folder / "inner" / "tea.ttl")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("/dev/zero", "outside the folder"),
        ("/etc/passwd", "outside the folder"),
        ("../secret.ttl", "outside the folder"),
        ("out.ttl", "outside the folder"),
        ("zero.ttl", "outside the folder"),
        ("pipe.ttl", "not a regular file"),
        ("inner", "not a regular file"),
        (".", "not a regular file"),
        ("nowhere.ttl", "No such file"),
        ("round.ttl", "cannot be read|is no path"),
        ("a\0b", "is no path|cannot be read"),
        ("x" * 4096, "cannot be read"),
    ],
)
def test_whatever_else_is_asked_for_is_refused_at_once(
    folder: Path, name: str, reason: str
) -> None:
    with pytest.raises(InvalidInputError, match=reason):
        OntologyFolder(folder).check([name])


def test_without_a_folder_nothing_is_loaded_and_the_manager_is_told_why(folder: Path) -> None:
    async def story() -> None:
        async with make_server() as server, kbn.connect(server.url) as client:
            with pytest.raises(KbnError, match="start it with --ontology-folder"):
                await client.load_ontology([str(folder / "tea.ttl")])
            assert not server.node.ontology_problem

    run(story())


def test_a_manager_learns_at_once_what_it_may_not_have_loaded(folder: Path) -> None:
    async def story() -> None:
        async with make_server(folder=folder) as server, kbn.connect(server.url) as client:
            for name in ("/dev/zero", "pipe.ttl", "../secret.ttl"):
                with pytest.raises(KbnError, match=r"outside the folder|not a regular file"):
                    await client.load_ontology([name])
            await client.load_ontology(["tea.ttl"])
            await until(lambda: bool(client.ontology))

    run(story())


def test_one_ontology_is_loaded_at_a_time(folder: Path) -> None:
    async def story() -> None:
        async with make_server(folder=folder) as server:
            noted: list[notes.Note] = []
            server.observe(noted.append)
            for _ in range(100):  # all in one turn
                server._perform(effects.LoadOntology(("tea.ttl",), "rdfs"))
            await until(lambda: len(noted) == 100)
            refused = [each for each in noted if "one is being loaded" in str(each)]
            assert len(refused) == 99

    run(story())


def test_an_ontology_beyond_the_limit_is_not_loaded(folder: Path) -> None:
    (folder / "large.ttl").write_text(OWL + "#" * 10_000)

    async def story() -> None:
        limits = ServerLimits(ontology_bytes=1_000)
        async with (
            make_server(folder=folder, limits=limits) as server,
            kbn.connect(server.url) as client,
        ):
            await client.load_ontology(["large.ttl"])
            await until(lambda: "too large" in server.node.ontology_problem)
            assert not client.ontology
            await client.load_ontology(["tea.ttl"])
            await until(lambda: bool(client.ontology))

    run(story())


def test_all_files_of_a_load_together_have_a_limit(folder: Path) -> None:
    names = [folder / "tea.ttl", folder / "inner" / "tea.ttl"]
    size = 2 * len(OWL)
    assert Ontology.load(names, cache=False, bytes_max=size).digest
    with pytest.raises(LimitError, match="too large"):
        Ontology.load(names, cache=False, bytes_max=size - 1)
    (folder / "large.ttl").write_text(
        "@prefix owl: <http://www.w3.org/2002/07/owl#> . <http://x> a owl:Ontology ;"
        " owl:imports <http://x/tea.ttl> ."
    )
    importing = (folder / "large.ttl").stat().st_size
    assert "was not found" not in str(Ontology.load(folder / "large.ttl", cache=False).unsupported)
    with pytest.raises(LimitError, match="too large"):
        Ontology.load(folder / "large.ttl", cache=False, bytes_max=importing + len(OWL) - 1)


def test_a_device_is_no_ontology_whoever_asks() -> None:
    with pytest.raises(OntologyError, match="a device, not a file"):
        Ontology.load("/dev/zero", cache=False)
