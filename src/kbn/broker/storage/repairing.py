"""Repairing a store: a new file with every row that is whole, and the damaged ones set aside.

1. The damaged files stay as they are, beside the store, as `….damaged-1`.
2. Each table is read from its first row on and, where reading ends too early, from its last row
   back. Rows that are whole go into the new file.
3. Damaged rows, and rows that are no use without one that is lost, are set aside: as marks of the
   new file, where the broker finds and counts them. Rows that cannot be read at all are counted,
   as far as the tally is known.
4. The new file takes the place of the old. The broker begins an epoch that it has never had.

What this can mean to clients is in docs/how-to/look-after-a-store.md.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec import msgpack

from kbn.broker.storage.checking import (
    CHECKED_FROM,
    ORPHANS,
    Checked,
    StoreDamagedError,
    check,
    is_damage,
    statements,
)
from kbn.broker.storage.commit_mark import CommitMark
from kbn.broker.storage.copying import begin_again, move_aside, remove, write_tally
from kbn.broker.storage.opening import ERRORS, connect, connect_to_read, failed, locked
from kbn.broker.storage.rows import BY_NAME, TABLES, Table, Text, of_mark
from kbn.broker.storage.tally import Tally
from kbn.broker.storage.versions import VERSIONS, StoreVersion, make
from kbn.broker.store import StoreError
from kbn.wording import counted

ASIDE = "aside/"  # the marks under which what is set aside is kept
ASIDE_BYTES_MAX = 16 << 20  # the damaged store is still there, if somebody needs more

# When nobody knows how many commits are lost: more than a broker has ever started in a row, faster
# than the seconds from which it takes its epochs.
EPOCHS_UNKNOWN = 3600


@dataclass(slots=True)
class Repaired:
    """What a repair has done. `lost` counts rows that could not even be set aside.

    `damaged` is where the damaged store is now.
    """

    path: str
    damaged: str
    kept: dict[str, int] = field(default_factory=dict)
    set_aside: dict[str, int] = field(default_factory=dict)
    lost: dict[str, int] = field(default_factory=dict)
    commits_lost: int = 0

    @property
    def summary(self) -> str:
        """What happened, in a line."""
        aside, lost = sum(self.set_aside.values()), sum(self.lost.values())
        return (
            f"repaired: {counted(sum(self.kept.values()), 'row')} kept, {aside} set aside, "
            f"{lost} lost, {counted(self.commits_lost, 'commit')} lost; "
            f"the damaged store is {self.damaged}"
        )


def repair(path: str | Path, versions: Sequence[StoreVersion] = VERSIONS) -> Repaired | None:
    """Repair a store that no broker uses; None when there is nothing to repair."""
    path = str(path)
    checked = check(path, versions)
    if checked.is_whole:
        return None
    try:
        lock = locked(path)
    except ERRORS as error:
        raise failed(error, path) from error
    try:
        return rebuild(checked, versions)
    finally:
        lock.close()


def rebuild(checked: Checked, versions: Sequence[StoreVersion]) -> Repaired:
    """Repair a store that was found damaged, and is locked."""
    path = checked.path
    if not CHECKED_FROM <= checked.version == versions[-1].number:
        raise StoreError(
            "too damaged to be repaired; restore a copy (kbn store restore)", path=path
        )
    work, fresh = f"{path}.reading", f"{path}.repaired"
    repaired = Repaired(path, "", commits_lost=checked.commits_lost)
    try:
        _remove_all(work, fresh)
        _copy_files(path, work)
        _mend_schema(work, versions[-1])
        with closing(connect_to_read(work)) as source, closing(connect(fresh)) as target:
            _Rebuilding(source, target, repaired, checked).run(versions[-1])
        commits = max(checked.commits, CommitMark(path).read() or 0)
        repaired.damaged = move_aside(path, ".damaged")
        os.replace(fresh, path)
        begin_again(path, commits + 1, (checked.commits_lost or EPOCHS_UNKNOWN) + 1)
    except ERRORS as error:
        if is_damage(error):
            raise StoreDamagedError(checked) from error
        raise failed(error, path) from error
    finally:
        _remove_all(work, fresh)
    return repaired


class _Rebuilding:
    """Writes the new file."""

    def __init__(
        self,
        source: sqlite3.Connection,
        target: sqlite3.Connection,
        repaired: Repaired,
        checked: Checked,
    ) -> None:
        self._source = source
        self._target = target
        self._repaired = repaired
        self._checked = checked
        self._tally = Tally()
        self._aside_bytes = 0

    def run(self, version: StoreVersion) -> None:
        self._target.execute("PRAGMA journal_mode = WAL")
        self._target.execute("BEGIN EXCLUSIVE")
        make(self._target, version)
        for table in TABLES:
            self._copy(table)
        for name, condition, reason in ORPHANS:
            self._set_orphans_aside(BY_NAME[name], condition, reason)
        write_tally(self._target, self._tally)
        self._target.execute("COMMIT")
        self._repaired.kept = {name: rows for name, rows in self._tally.rows.items() if rows}

    def _copy(self, table: Table) -> None:
        """Copy the rows that are whole, and set aside the others."""
        damaged: set[bytes] = set()
        statement = table.insert.replace("INSERT", "INSERT OR IGNORE", 1)
        for row in _readable(self._source, table):
            if not table.is_whole(row):
                damaged.add(msgpack.encode(_plain(row)))
                continue
            values = [value.decode() if type(value) is Text else value for value in row]
            if self._target.execute(statement, values).rowcount:
                self._tally.add(table.name, [row[-1]])
        for form in sorted(damaged):
            self._set_aside(table, form, "damaged")
        missing = self._checked.missing.get(table.name, 0) - len(damaged)
        if missing > 0:
            self._repaired.lost[table.name] = missing

    def _set_orphans_aside(self, table: Table, condition: str, reason: str) -> None:
        gone = self._target.execute(f"{table.select} WHERE {condition}").fetchall()
        self._target.execute(f"DELETE FROM {table.name} WHERE {condition}")
        self._tally.remove(table.name, [row[-1] for row in gone])
        for row in gone:
            self._set_aside(table, msgpack.encode(row), reason)

    def _set_aside(self, table: Table, row: bytes, reason: str) -> None:
        """Keep a row apart, for a person to look at, as brokers do with what they cannot read."""
        counts = self._repaired.set_aside
        counts[table.name] = counts.get(table.name, 0) + 1
        self._aside_bytes += len(row)
        if self._aside_bytes > ASIDE_BYTES_MAX:
            return
        name, value = f"{ASIDE}{table.name}/{counts[table.name]} {reason}", row
        checksum = of_mark(name.encode(), value)
        statement = BY_NAME["mark"].insert.replace("INSERT", "INSERT OR IGNORE", 1)
        if self._target.execute(statement, (name, value, checksum)).rowcount:
            self._tally.add("mark", [checksum])


def _readable(connection: sqlite3.Connection, table: Table) -> Iterator[tuple[Any, ...]]:
    """The rows that can be read, from both ends; some of them twice."""
    try:
        yield from connection.execute(f"{table.select} ORDER BY {table.order}")
        return
    except ERRORS as error:
        _check_is_damage(error)
    backwards = table.order.replace(",", " DESC,") + " DESC"
    try:
        yield from connection.execute(f"{table.select} ORDER BY {backwards}")
    except ERRORS as error:
        _check_is_damage(error)


def _check_is_damage(error: sqlite3.Error | UnicodeDecodeError) -> None:
    if not is_damage(error):
        raise error


def _plain(row: Sequence[Any]) -> list[Any]:
    return [bytes(value) if type(value) is Text else value for value in row]


def _copy_files(path: str, to: str) -> None:
    for end in ("", "-wal"):
        with suppress(FileNotFoundError):
            shutil.copyfile(path + end, to + end)


def _mend_schema(path: str, version: StoreVersion) -> None:
    """Where the statements that made the tables are damaged, write them again: we know them."""
    with closing(connect(path)) as connection:
        connection.text_factory = Text
        connection.execute("PRAGMA writable_schema = ON")
        if statements(connection) == sorted(version.statements):
            return
        for statement in version.statements:
            kind, name = statement.split()[1:3]
            connection.execute(
                "UPDATE sqlite_master SET sql = ?, type = ?, name = ?, tbl_name = ? WHERE name = ?",
                (statement, kind.lower(), name, _table_of(statement), name),
            )


def _table_of(statement: str) -> str:
    words = statement.split()
    return words[4] if words[1] == "INDEX" else words[2]


def _remove_all(*paths: str) -> None:
    for path in paths:
        remove(path)
