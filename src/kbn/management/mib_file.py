"""The MIB's file: an SQLite database with one table for each kind of object.

The columns are the fields of the schema, so that any SQLite tool can read them. The file is in WAL
mode: others may read while one process writes. That there is only one is seen to by a lock beside
the file, held until it is closed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import numpy as np

from kbn.broker import NotAStoreError, StoreError, advice
from kbn.management.schema import FIELDS, KINDS, FieldType, Kind
from kbn.management.table import Table

_OURS = 0x6B626E6D  # "kbnm"
_VERSION = 3
_UPGRADED = (2,)
"""Versions that only lack columns, which are added."""
_EMPTY = {FieldType.COUNT: "0", FieldType.NUMBER: "0.0", FieldType.TEXT: "''"}
_EMPTY |= {FieldType.LIST: "'[]'", FieldType.MAP: "'{}'", FieldType.MARKS: "'[]'"}
_TYPES = {FieldType.COUNT: "INTEGER", FieldType.NUMBER: "REAL"}  # and TEXT for all others
_ROWS_AT_ONCE = 20_000
_WAIT_S = 5.0  # for a reader's lock, which is short


class MibFile:
    """An open file; raises StoreError, with advice, whenever it cannot be used.

    Not for several threads at once.
    """

    def __init__(self, path: str | Path, *, read_only: bool = False) -> None:
        self._path = str(path)
        self._read_only = read_only
        self._lock: sqlite3.Connection | None = None
        if read_only and not Path(path).is_file():
            raise NotAStoreError("there is no such file", path=self._path)
        try:
            self._connection = _opened(self._path, read_only)
        except sqlite3.Error as error:
            raise StoreError(_advice(error), path=self._path) from error
        try:
            self._check_owner()
            if not read_only:
                self._lock = _locked(self._path)
                self._prepare()
        except sqlite3.Error as error:
            self.close()
            raise StoreError(_advice(error), path=self._path) from error
        except StoreError:
            self.close()
            raise

    def counts(self) -> dict[Kind, int]:
        """How many objects of each kind there are; nothing is loaded."""
        try:
            return {
                kind: self._connection.execute(f"SELECT count(*) FROM {kind}").fetchone()[0]
                for kind in KINDS
            }
        except sqlite3.Error as error:
            raise StoreError(_advice(error), path=self._path) from error

    def load(self, tables: Mapping[Kind, Table]) -> None:
        """Put all that is in the file into empty tables."""
        try:
            # One transaction: what somebody else commits meanwhile is not seen in part.
            self._connection.execute("BEGIN")
            for kind in KINDS:
                self._load(tables[kind])
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise StoreError(_advice(error), path=self._path) from error
        except (TypeError, ValueError, OverflowError) as error:
            reason = f"damaged; restore it from a copy, or name another file ({error})"
            raise StoreError(reason, path=self._path) from error

    def texts(self) -> dict[str, str]:
        """What was kept beside the objects."""
        try:
            return dict(self._connection.execute("SELECT name, text FROM note"))
        except sqlite3.Error as error:
            raise StoreError(_advice(error), path=self._path) from error

    def write(
        self,
        tables: Mapping[Kind, Table],
        changed: Mapping[Kind, set[str]],
        texts: Mapping[str, str],
    ) -> None:
        """Write the named objects as they are in the tables, or remove those that are not there;
        and texts.
        """
        execute = self._connection.execute
        try:
            execute("BEGIN IMMEDIATE")
            self._connection.executemany(
                "INSERT OR REPLACE INTO note (name, text) VALUES (?, ?)", list(texts.items())
            )
            for kind, names in changed.items():
                rows = tables[kind].rows
                gone = [(name,) for name in names if name not in rows]
                self._connection.executemany(f"DELETE FROM {kind} WHERE name = ?", gone)
                there = sorted(name for name in names if name in rows)
                self._connection.executemany(_insert(kind), _records(tables[kind], there))
            execute("COMMIT")
        except sqlite3.Error as error:
            with suppress(sqlite3.Error):
                self._connection.rollback()
            raise StoreError(_advice(error), path=self._path) from error

    def close(self) -> None:
        self._connection.close()
        self._unlock()

    def _load(self, table: Table) -> None:
        fields = list(table.fields)
        columns = ", ".join(f'"{field}"' for field in fields)
        found = self._connection.execute(f"SELECT name, {columns} FROM {table.kind}")
        while rows := found.fetchmany(_ROWS_AT_ONCE):
            names, *values = zip(*rows, strict=True)
            if set(map(type, names)) != {str} or "" in names:
                raise ValueError(f"a {table.kind} without a name")
            table.extend(list(names), dict(zip(fields, values, strict=True)))

    def _check_owner(self) -> bool:
        """See whose file it is before anything is changed; whether it is a new one."""
        ((owner,),) = self._connection.execute("PRAGMA application_id")
        ((version,),) = self._connection.execute("PRAGMA user_version")
        ((tables,),) = self._connection.execute("SELECT count(*) FROM sqlite_master")
        if not (owner or version or tables or self._read_only):
            return True
        if owner != _OURS:
            reason = "a database, but not the MIB of a policy server; name another file"
            raise StoreError(reason, path=self._path)
        if version in _UPGRADED and not self._read_only:
            return False
        if version != _VERSION:
            raise StoreError(
                f"a MIB of version {version}, and this is version {_VERSION}; use the kbn that "
                "made it, or name another file",
                path=self._path,
            )
        return False

    def _prepare(self) -> None:
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = NORMAL")
        # Asked again: it is locked now, and may have been made since.
        if self._check_owner():
            self._make_tables()
        else:
            self._add_columns()

    def _add_columns(self) -> None:
        """Add what a file of an earlier version lacks; nothing is known there yet."""
        execute = self._connection.execute
        execute("BEGIN EXCLUSIVE")
        for kind in KINDS:
            known = {name for _, name, *_ in execute(f"PRAGMA table_info({kind})")}
            for name, type in FIELDS[kind].items():
                if name not in known:
                    column = f"{_column(name, type)} DEFAULT {_EMPTY[type]}"
                    execute(f"ALTER TABLE {kind} ADD COLUMN {column}")
        execute(f"PRAGMA user_version = {_VERSION}")
        execute("COMMIT")

    def _make_tables(self) -> None:
        execute = self._connection.execute
        execute("BEGIN EXCLUSIVE")
        execute("CREATE TABLE note (name TEXT PRIMARY KEY, text TEXT NOT NULL)")
        for kind in KINDS:
            execute(_create(kind))
        execute(f"PRAGMA application_id = {_OURS}")
        execute(f"PRAGMA user_version = {_VERSION}")
        execute("COMMIT")

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def _connected(path: str, *, uri: bool = False, wait_s: float = _WAIT_S) -> sqlite3.Connection:
    return sqlite3.connect(
        path, uri=uri, timeout=wait_s, isolation_level=None, check_same_thread=False
    )


def _opened(path: str, read_only: bool) -> sqlite3.Connection:
    if read_only:
        uri = f"file:{quote(path)}?mode=ro"
        return _connected(uri, uri=True)
    return _connected(path)


def _locked(path: str) -> sqlite3.Connection:
    """A lock that the system lets go of when the process ends, whichever way it does."""
    lock = _connected(f"{path}.lock", wait_s=0.0)
    try:
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.Error:
        lock.close()
        raise
    return lock


def _column(name: str, type: FieldType) -> str:
    return f'"{name}" {_TYPES.get(type, "TEXT")} NOT NULL'


def _create(kind: Kind) -> str:
    columns = (_column(name, type) for name, type in FIELDS[kind].items())
    return f"CREATE TABLE {kind} (name TEXT PRIMARY KEY, {', '.join(columns)}) WITHOUT ROWID"


def _insert(kind: Kind) -> str:
    # By name: columns that were added later stand last.
    columns = ", ".join(f'"{name}"' for name in ("name", *FIELDS[kind]))
    places = ", ".join("?" * (1 + len(FIELDS[kind])))
    return f"INSERT OR REPLACE INTO {kind} ({columns}) VALUES ({places})"


def _records(table: Table, names: list[str]) -> Iterator[tuple[object, ...]]:
    """Rows of the file for the named objects, some at a time: a million would be a lot at once."""
    for start in range(0, len(names), _ROWS_AT_ONCE):
        part = names[start : start + _ROWS_AT_ONCE]
        rows = np.fromiter((table.rows[name] for name in part), dtype=np.intp, count=len(part))
        columns = [table.taken(field, rows) for field in table.fields]
        yield from zip(part, *columns, strict=True)


def _advice(error: sqlite3.Error) -> str:
    return advice(error, file="MIB", owner="policy server")
