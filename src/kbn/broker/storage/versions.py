"""The versions of a store's file: what each changed, and how the one before becomes it.

To change the form of a store, add a version at the end, with the statements that make an empty
one, and a function that turns the version before into it. The function runs in a transaction, on a
store of which a copy has been made. Never change a version that was released. Tests walk through
the table: every version is made, filled and upgraded to the newest.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kbn.broker.storage.rows import TABLES, Table, Text
from kbn.broker.storage.tally import Tally

OURS = 0x6B626E62  # "kbnb", SQLite's `application_id` of our files
ROWS_AT_ONCE = 1000


class StoreVersion(NamedTuple):
    """A form of the file. `upgrade` makes it of the version before it."""

    number: int
    changed: str
    statements: tuple[str, ...]
    upgrade: Callable[[sqlite3.Connection], None] | None


def make(connection: sqlite3.Connection, version: StoreVersion) -> None:
    """Make the tables of a version in an empty file, in the transaction that is open."""
    for statement in version.statements:
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {OURS}")
    connection.execute(f"PRAGMA user_version = {version.number}")


def steps_from(number: int, versions: Sequence[StoreVersion]) -> Sequence[StoreVersion] | None:
    """The versions to go through from one on, to the newest; None when it is not known."""
    numbers = [version.number for version in versions]
    return versions[numbers.index(number) + 1 :] if number in numbers else None


def _add_checksums(connection: sqlite3.Connection) -> None:
    """2 → 3: write every row anew, with its checksum; then the tally."""
    connection.execute("DROP INDEX unacked_by_key")
    for table in TABLES:
        connection.execute(f"ALTER TABLE {table.name} RENAME TO old_{table.name}")
    for statement in _WITH_CHECKSUMS:
        connection.execute(statement)
    tally = Tally()
    kept_as, connection.text_factory = connection.text_factory, Text
    try:
        for table in TABLES:
            _copy_rows(connection, table, tally)
    finally:
        connection.text_factory = kept_as
    connection.execute("INSERT INTO tally (one, value) VALUES (1, ?)", (tally.to_bytes(),))


def _copy_rows(connection: sqlite3.Connection, table: Table, tally: Tally) -> None:
    columns = ", ".join(table.columns)
    found = connection.execute(f"SELECT {columns} FROM old_{table.name}")
    while rows := found.fetchmany(ROWS_AT_ONCE):
        checksums = [table.checksum(*row) for row in rows]
        plain = [tuple(map(_plain, row)) for row in rows]
        checked = [(*row, sum) for row, sum in zip(plain, checksums, strict=True)]
        connection.executemany(table.insert, checked)
        tally.add(table.name, checksums)
    connection.execute(f"DROP TABLE old_{table.name}")


def _plain(value: object) -> object:
    return value.decode() if isinstance(value, Text) else value


_FIRST = (
    "CREATE TABLE client (name TEXT PRIMARY KEY, window INTEGER NOT NULL, when_slow TEXT NOT NULL)"
    " WITHOUT ROWID",
    "CREATE TABLE subscription (client TEXT NOT NULL, id INTEGER NOT NULL, json TEXT NOT NULL,"
    " PRIMARY KEY (client, id)) WITHOUT ROWID",
    "CREATE TABLE body (key INTEGER PRIMARY KEY, envelope BLOB NOT NULL)",
    "CREATE TABLE unacked (kind TEXT NOT NULL, name TEXT NOT NULL, sequence INTEGER NOT NULL,"
    " key INTEGER NOT NULL, note BLOB NOT NULL, PRIMARY KEY (kind, name, sequence)) WITHOUT ROWID",
    "CREATE INDEX unacked_by_key ON unacked (key)",
    "CREATE TABLE mark (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE seen (number INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE)",
)
_WITH_CHECKSUMS = (
    "CREATE TABLE client (name TEXT PRIMARY KEY, window INTEGER NOT NULL, when_slow TEXT NOT NULL,"
    " checksum INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE subscription (client TEXT NOT NULL, id INTEGER NOT NULL, json TEXT NOT NULL,"
    " checksum INTEGER NOT NULL, PRIMARY KEY (client, id)) WITHOUT ROWID",
    "CREATE TABLE body (key INTEGER PRIMARY KEY, envelope BLOB NOT NULL,"
    " checksum INTEGER NOT NULL)",
    "CREATE TABLE unacked (kind TEXT NOT NULL, name TEXT NOT NULL, sequence INTEGER NOT NULL,"
    " key INTEGER NOT NULL, note BLOB NOT NULL, checksum INTEGER NOT NULL,"
    " PRIMARY KEY (kind, name, sequence)) WITHOUT ROWID",
    "CREATE INDEX unacked_by_key ON unacked (key)",
    "CREATE TABLE mark (name TEXT PRIMARY KEY, value BLOB NOT NULL, checksum INTEGER NOT NULL)"
    " WITHOUT ROWID",
    "CREATE TABLE seen (number INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE,"
    " checksum INTEGER NOT NULL)",
    "CREATE TABLE tally (one INTEGER PRIMARY KEY, value BLOB NOT NULL)",
)

VERSIONS = (
    StoreVersion(2, "The first that was released.", _FIRST, None),
    StoreVersion(
        3,
        "Every row ends with its checksum; a tally counts rows and commits.",
        _WITH_CHECKSUMS,
        _add_checksums,
    ),
)
