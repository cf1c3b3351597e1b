"""A mistake in a notification's terms is told, wherever the notification is given."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.transport.overlay import make_server, run

import kbn
import kbn.sync
from kbn import Class, Individual, Matcher, Notification, Ontology, data
from kbn.cli import main
from kbn.errors import UnknownTermError

ASKED = "kind @= animals:Mammal"
"""What the only subscription asks for."""

MISTAKES = {
    "a misspelt term": (Class("animals:Humn"), "animals#Human"),
    "an unknown prefix": (Class("animls:Human"), r"animls: .*animals:\?"),
    "a class as an individual": (Individual("animals:Cow"), "as class, not as individual"),
    "a class where individuals are wanted": (Class("animals:Cow"), "ask for an individual"),
}


@pytest.fixture(scope="module")
def animals() -> Ontology:
    return Ontology.load(data.path("animals"))


def by_library(notification: Notification, animals: Ontology, tmp_path: Path) -> str:
    matcher = Matcher(animals)
    matcher.add(ASKED, "ann")
    return "\n".join(str(each.error(animals)) for each in matcher.unknown_terms(notification))


def by_kbn_match(notification: Notification, animals: Ontology, tmp_path: Path, capsys: Any) -> str:
    (tmp_path / "wanted.txt").write_text(f"ann: {ASKED}\n")
    (tmp_path / "given.jsonl").write_text(json.dumps(notification.to_json()) + "\n")
    wanted, given = str(tmp_path / "wanted.txt"), str(tmp_path / "given.jsonl")
    assert main(["match", "-s", wanted, "-n", given, "-o", "animals"]) == 0
    return str(capsys.readouterr().err)


def by_client(notification: Notification, animals: Ontology, tmp_path: Path) -> str:
    heard: list[str] = []

    async def story() -> list[str]:
        async with (
            make_server(ontology=animals) as server,
            kbn.connect(server.url, name="ann") as ann,
            kbn.connect(server.url, on_unknown_term=lambda n: heard.append(n.reason)) as bob,
        ):
            await ann.subscribe(ASKED)
            await bob.publish(notification)
            await bob.barrier()
            assert bob.unknown_count == 1
            return [note.reason for note in bob.take_unknown_terms()]

    told: list[str] = run(story())
    assert told == heard
    return "\n".join(told)


def by_durable_client(notification: Notification, animals: Ontology, tmp_path: Path) -> str:
    async def story() -> list[str]:
        async with (
            make_server(ontology=animals, path=tmp_path / "b.db") as server,
            kbn.connect(server.url, name="ann") as ann,
            kbn.connect(server.url, on_unknown_term=lambda note: None) as bob,
        ):
            await ann.subscribe(ASKED)
            await bob.publish(notification, durable=True)
            return [note.reason for note in bob.take_unknown_terms()]

    return "\n".join(run(story()))


def by_sync_client(notification: Notification, animals: Ontology, tmp_path: Path) -> str:
    def publish(url: str) -> list[str]:
        with (
            kbn.sync.connect(url, name="ann") as ann,
            kbn.sync.connect(url, on_unknown_term=lambda note: None) as bob,
        ):
            ann.subscribe(ASKED)
            bob.publish(notification)
            bob.barrier()
            assert bob.unknown_count == 1
            return [note.reason for note in bob.take_unknown_terms()]

    async def story() -> list[str]:
        async with make_server(ontology=animals) as server:
            return await asyncio.to_thread(publish, server.url)

    return "\n".join(run(story()))


def by_kbn_publish(
    notification: Notification, animals: Ontology, tmp_path: Path, capsys: Any
) -> str:
    async def story() -> None:
        async with (
            make_server(ontology=animals) as server,
            kbn.connect(server.url, name="ann") as ann,
        ):
            await ann.subscribe(ASKED)
            text = json.dumps(notification.to_json())
            assert await asyncio.to_thread(main, ["publish", "-u", server.url, "--json", text]) == 0

    run(story())
    told = capsys.readouterr()
    assert json.loads(told.out)["unknown_terms"] == 1
    assert "1 notification with terms that the broker does not know" in told.err
    return str(told.err)


TELLERS: dict[str, Callable[..., str]] = {
    "library": by_library,
    "kbn match": by_kbn_match,
    "client": by_client,
    "durable client": by_durable_client,
    "sync client": by_sync_client,
    "kbn publish": by_kbn_publish,
}


@pytest.mark.parametrize("teller", TELLERS)
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told(
    mistake: str, teller: str, animals: Ontology, tmp_path: Path, capsys: Any
) -> None:
    value, expected = MISTAKES[mistake]
    tell = TELLERS[teller]
    extra = (capsys,) if teller.startswith("kbn") else ()
    told = tell(Notification({"kind": value, "age": 3}), animals, tmp_path, *extra)
    assert re.search(expected, told), told
    assert "kind" in told


@pytest.mark.parametrize("teller", ["library", "durable client"])
def test_what_is_right_is_not_remarked_on(teller: str, animals: Ontology, tmp_path: Path) -> None:
    notification = Notification({"kind": Individual("animals:Colleen"), "age": 3})
    tell = TELLERS[teller]
    assert tell(notification, animals, tmp_path) == ""


def test_a_broker_that_refuses_unknown_terms_says_so_to_the_publisher(
    animals: Ontology, tmp_path: Path
) -> None:
    async def story() -> None:
        server = make_server(ontology=animals, unknown_terms="refuse", path=tmp_path / "b.db")
        async with server, kbn.connect(server.url) as bob:
            with pytest.raises(UnknownTermError, match="Human"):
                await bob.publish({"kind": Class("animals:Humn")}, durable=True)
            await bob.publish({"kind": Class("animals:Human")}, durable=True)

    run(story())
