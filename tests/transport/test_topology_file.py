"""The file of an overlay: what it means, and what is said about mistakes in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbn.errors import InvalidInputError
from kbn.transport.topology_file import load_topology


def written(folder: Path, text: str) -> Path:
    path = folder / "overlay.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_hierarchy_is_read_parents_first(tmp_path: Path) -> None:
    (tmp_path / "wine.ttl").touch()
    path = written(
        tmp_path,
        "routing: hierarchical\nontology: wine.ttl\nreasoning: rl\nstore: kept\n"
        "brokers:\n  leaf: {parent: middle}\n  middle: {parent: root}\n  root: {port: 7000}\n",
    )
    plan = load_topology(path)
    assert [(each.name, each.port, each.links) for each in plan.brokers] == [
        ("root", 7000, ()),
        ("middle", 0, ("root",)),
        ("leaf", 0, ("middle",)),
    ]
    assert (plan.routing, plan.reasoning) == ("hierarchical", "rl")
    assert plan.ontology == (tmp_path / "wine.ttl",) and plan.store == tmp_path / "kept"


def test_of_two_equals_the_later_connects_whoever_names_the_other(tmp_path: Path) -> None:
    path = written(tmp_path, "brokers:\n  a: {peers: [b]}\n  b: {peers: a}\n  c: {peers: [b]}\n")
    plan = load_topology(path)
    assert plan.routing == "acyclic"
    assert {each.name: each.links for each in plan.brokers} == {"a": (), "b": ("a",), "c": ("b",)}


def test_general_brokers_may_form_a_ring(tmp_path: Path) -> None:
    text = "routing: general\nbrokers: {a: {peers: [b, c]}, b: {peers: [c]}, c: }\n"
    plan = load_topology(written(tmp_path, text))
    assert {each.name: each.links for each in plan.brokers} == {
        "a": (),
        "b": ("a",),
        "c": ("a", "b"),
    }


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("", 1, "brokers: is missing; expected names of brokers"),
        ("brokers: [", 1, "not YAML"),
        ("- a\n", 1, "expected brokers, routing"),
        ("routing: general\n", 1, "brokers: is missing"),
        ("brokers: {}\n", 1, "brokers: expected names of brokers"),
        ("brokers: a\n", 1, "expected names"),
        ("brokers:\n  a:\nbroker: 3\n", 3, "did you mean 'brokers'"),
        ("brokers:\n  a: {prot: 1}\n", 2, "did you mean 'port'"),
        ("brokers:\n  a:\n  a:\n", 3, "occurs twice"),
        ("brokers:\n  a: {port: 99999}\n", 2, "brokers.a.port: expected a port"),
        ("brokers:\n  a: {port: x}\n", 2, "brokers.a.port: expected a port"),
        (
            "brokers:\n  a: {port: 7000}\n  b: {port: 7000, peers: a}\n",
            3,
            "brokers.b.port: port 7000 is the port of a already",
        ),
        ("routing: ring\nbrokers: {a: }\n", 1, "'ring' is unknown"),
        ("brokers:\n  dublin:\n  cork:\n    peers: [dubiln]\n", 4, "did you mean 'dublin'"),
        ("brokers:\n  a:\n  b: {parent: a}\n", 3, "with acyclic routing a broker has peers"),
        ("routing: hierarchical\nbrokers:\n  a:\n  b: {peers: [a]}\n", 4, "a broker has parent"),
        ("routing: hierarchical\nbrokers:\n  a: {parent: b}\n  b: {parent: a}\n", 4, "cycle"),
        ("brokers:\n  a: {peers: b}\n  b: {peers: c}\n  c: {peers: a}\n", 4, "general routing"),
        ("brokers:\n  a: {peers: [a]}\n", 2, "makes no sense"),
        ("brokers:\n  a:\n  b:\n", 2, "nothing connects b with a"),
        ("ontology: gone.ttl\nbrokers: {a: }\n", 1, "there is no file"),
        ("unknown_terms: forget\nbrokers: {a: }\n", 1, "tell"),
        ("advertisements: perhaps\nbrokers: {a: }\n", 1, "true or false"),
        ("store: overlay.yaml\nbrokers: {a: }\n", 1, "should be a folder"),
    ],
)
def test_a_mistake_is_told_with_its_line(text: str, line: int, told: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InvalidInputError) as caught:
        load_topology(path)
    assert told in str(caught.value)
    assert str(caught.value).startswith(f"{path}:{line}: ")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"gone\.yaml: cannot read the overlay"):
        load_topology(tmp_path / "gone.yaml")
