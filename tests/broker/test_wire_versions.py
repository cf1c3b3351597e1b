"""Versions of the protocol: which is spoken with whom, and the forms of the one before."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import msgpack

from kbn.broker import messages
from kbn.broker.wire_versions import WIRE, WireVersion, WireVersions
from kbn.errors import InvalidInputError, RemotePeerError


def table(newest: int) -> WireVersions:
    return WireVersions(*(WireVersion(number, "…") for number in range(1, newest + 1)))


@pytest.mark.parametrize(
    ("ours", "theirs", "spoken"), [(1, 1, 1), (2, 1, 1), (2, 2, 2), (3, 2, 2), (2, 3, 2)]
)
def test_two_speak_the_newest_version_that_both_know(ours: int, theirs: int, spoken: int) -> None:
    other = table(theirs)
    assert table(ours).agreed(other.oldest, other.newest) == spoken
    assert other.agreed(table(ours).oldest, table(ours).newest) == spoken


def test_one_that_is_two_versions_older_is_told_to_upgrade() -> None:
    with pytest.raises(RemotePeerError, match=r"version 1 .* here it is 2 or 3: you are too old"):
        table(3).agreed(1)


def test_one_that_is_two_versions_newer_is_told_who_is_too_old() -> None:
    with pytest.raises(RemotePeerError, match="this broker is too old"):
        table(1).agreed(2, 3)


def test_a_message_is_put_into_its_older_form_and_back() -> None:
    def swapped(form: list[Any]) -> list[Any]:
        return [form[0], *form[:0:-1]]

    versions = WIRE.with_next(WireVersion(WIRE.newest + 1, "…", swapped, swapped))
    older = versions.older(msgpack.encode(["ack", 1, 2]))
    assert older == msgpack.encode(["ack", 2, 1])
    assert versions.newer(older) == msgpack.encode(["ack", 1, 2])
    with pytest.raises(InvalidInputError, match="another version"):
        versions.newer(b"\xc1")


def test_the_versions_go_up_and_say_what_changed() -> None:
    numbers = [version.number for version in WIRE.table]
    assert numbers == list(range(1, len(numbers) + 1)) and WIRE.newest == messages.VERSION
    assert all(version.changed for version in WIRE.table)


# The fields of messages that are said before a version is agreed, as version 1 had them. More may
# follow, with defaults; these stay.
OPENINGS = {
    "Who": ["broker", "version"],
    "Connect": ["client", "epoch", "version", "token", "durable", "window", "when_slow",
                "published", "with_path"],
    "Greet": ["broker", "epoch", "heard", "role", "ontology", "view", "states", "version", "token"],
    "Bye": ["broker", "epoch", "reason", "cause", "token"],
    "Refused": ["what", "reference", "kind", "reason", "durable"],
}  # fmt: skip


@pytest.mark.parametrize("name", OPENINGS)
def test_what_is_said_before_a_version_is_agreed_only_grows(name: str) -> None:
    kind = getattr(messages, name)
    known = OPENINGS[name]
    assert list(kind.__struct_fields__[: len(known)]) == known
    added = len(kind.__struct_fields__) - len(known)
    assert added <= len(kind.__struct_defaults__)
