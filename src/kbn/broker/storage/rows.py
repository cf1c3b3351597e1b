"""The rows of a store's file: the tables, and the checksum that every row ends with.

A checksum is a CRC-32 over the whole row and the name of its table, so that neither a flipped bit
nor a row in another's place goes unnoticed. It guards against disks, not against people.

Texts are checked as the bytes that lie in the file: damaged ones need not be Unicode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any
from zlib import crc32

_TWO_NUMBERS = Struct(">qq").pack
_NUMBER = Struct(">q").pack

_CLIENT = crc32(b"client")
_SUBSCRIPTION = crc32(b"subscription")
_BODY = crc32(b"body")
_UNACKED = crc32(b"unacked")
_MARK = crc32(b"mark")
_SEEN = crc32(b"seen")


class Text(bytes):
    """A text as it lies in a file; a type of its own, so that it is not taken for a blob."""


def of_client(name: bytes, window: int, when_slow: bytes) -> int:
    return crc32(when_slow, crc32(_NUMBER(window), crc32(name, _CLIENT)))


def of_subscription(client: bytes, id: int, json: bytes) -> int:
    return crc32(json, crc32(_NUMBER(id), crc32(client, _SUBSCRIPTION)))


def of_body(key: int, envelope: bytes) -> int:
    return crc32(envelope, crc32(_NUMBER(key), _BODY))


def of_peer(kind: bytes, name: bytes) -> int:
    """What the checksums of all rows in the queue of one peer begin with."""
    return crc32(name, crc32(kind, _UNACKED))


def of_queued(peer: int, sequence: int, key: int, note: bytes) -> int:
    """The checksum of a row of `unacked`; `peer` comes from `of_peer`."""
    return crc32(note, crc32(_TWO_NUMBERS(sequence, key), peer))


def of_unacked(kind: bytes, name: bytes, sequence: int, key: int, note: bytes) -> int:
    return of_queued(of_peer(kind, name), sequence, key, note)


def of_mark(name: bytes, value: bytes) -> int:
    return crc32(value, crc32(_NUMBER(len(name)), crc32(name, _MARK)))


def of_seen(number: int, id: bytes) -> int:
    return crc32(id, crc32(_NUMBER(number), _SEEN))


@dataclass(frozen=True, slots=True)
class Table:
    """A table of checked rows: its columns but for the last, which is the checksum.

    The first `key_columns` columns are its primary key.
    """

    name: str
    columns: tuple[str, ...]
    types: tuple[type, ...]
    key_columns: int
    checksum: Callable[..., int]

    @property
    def order(self) -> str:
        return ", ".join(self.columns[: self.key_columns])

    @property
    def insert(self) -> str:
        """The statement that adds a row with its checksum."""
        columns = ", ".join((*self.columns, "checksum"))
        return f"INSERT INTO {self.name} ({columns}) VALUES ({', '.join('?' * self.width)})"

    @property
    def select(self) -> str:
        return f"SELECT {', '.join((*self.columns, 'checksum'))} FROM {self.name}"

    @property
    def width(self) -> int:
        return len(self.columns) + 1

    def is_whole(self, row: Sequence[Any]) -> bool:
        """Whether a row is what was written: its types, then its checksum."""
        *values, checksum = row
        return tuple(map(type, values)) == self.types and checksum == self.checksum(*values)


TABLES = (
    Table("client", ("name", "window", "when_slow"), (Text, int, Text), 1, of_client),
    Table("subscription", ("client", "id", "json"), (Text, int, Text), 2, of_subscription),
    Table("body", ("key", "envelope"), (int, bytes), 1, of_body),
    Table(
        "unacked",
        ("kind", "name", "sequence", "key", "note"),
        (Text, Text, int, int, bytes),
        3,
        of_unacked,
    ),
    Table("mark", ("name", "value"), (Text, bytes), 1, of_mark),
    Table("seen", ("number", "id"), (int, bytes), 1, of_seen),
)
BY_NAME = {table.name: table for table in TABLES}
