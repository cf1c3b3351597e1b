"""A broker of a kbn that is not there yet, as a process: another form of messages and of the store.

In its version of the protocol a notification between brokers is not a `forward` but a `carry`, with
its fields the other way round; its stores say when a body was kept. It speaks the version before,
too. Prints its URL.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from msgspec import msgpack

from kbn.broker import (
    STORE_VERSIONS,
    WIRE,
    LinkTo,
    NodeSettings,
    SqliteStore,
    StoreVersion,
    WireVersion,
    wire,
)
from kbn.transport import BrokerServer, Listen, serve


def to_older(form: list[Any]) -> list[Any]:
    if form[0] == "frame" and form[5][0] == "carry":
        _, envelope, sequence = form[5]
        form[5] = ["forward", sequence, envelope]
    return form


def from_older(form: list[Any]) -> list[Any]:
    if form[0] == "frame" and form[5][0] == "forward":
        _, sequence, envelope = form[5]
        form[5] = ["carry", envelope, sequence]
    return form


def add_time(connection: Any) -> None:
    connection.execute("ALTER TABLE body ADD COLUMN at INTEGER NOT NULL DEFAULT 0")


def changed_versions() -> tuple[StoreVersion, ...]:
    last = STORE_VERSIONS[-1]
    statements = tuple(
        text[:-1] + ", at INTEGER NOT NULL DEFAULT 0)"
        if text.startswith("CREATE TABLE body")
        else text
        for text in last.statements
    )
    added = StoreVersion(last.number + 1, "Bodies say when they were kept.", statements, add_time)
    return (*STORE_VERSIONS, added)


class ChangedDecoder:
    """Reads the messages of the changed kbn."""

    def __init__(self, decoder: Any) -> None:
        self._decoder = decoder

    def decode(self, body: bytes) -> Any:
        return self._decoder.decode(msgpack.encode(to_older(msgpack.decode(body))))


def speak_the_changed_form() -> None:
    """Have this process write and read messages as the changed kbn does."""
    plain = wire._encode
    wire._encode = lambda message: msgpack.encode(  # type: ignore[assignment]
        from_older(msgpack.decode(plain(message)))
    )
    wire._BETWEEN_BROKERS = ChangedDecoder(wire._BETWEEN_BROKERS)  # type: ignore[assignment]


async def main(name: str, path: str, port: str, *links: str) -> None:
    speak_the_changed_form()
    changed = WIRE.with_next(
        WireVersion(WIRE.newest + 1, "Notifications are carried.", to_older, from_older)
    )
    settings = NodeSettings(
        name,
        store=SqliteStore(path, versions=changed_versions()),
        links=tuple(map(LinkTo, links)),
        wire=changed,
    )
    server = BrokerServer(settings, Listen(port=int(port)))
    await serve(server, lambda server: print(server.url, flush=True))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
