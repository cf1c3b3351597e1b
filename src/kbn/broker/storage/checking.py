"""Checking a store: is everything in it that was written, as it was written?

1. The file is a database: SQLite's own check of its pages, trees and indexes.
2. The tables are those of the version.
3. Every row is whole: its types, and its checksum.
4. No row is missing or too many: the tally, and the rows that belong together.
5. No commit is missing: the mark beside the store (`commit_mark.py`).

What this does not notice: the whole folder put back to an earlier state, mark and all; and with
`sync="normal"` a power failure that takes the newest commits and the newest mark alike.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from kbn.broker.storage.commit_mark import SUFFIX, CommitMark
from kbn.broker.storage.opening import ERRORS, check_is_file, connect_to_read, failed, identified
from kbn.broker.storage.rows import TABLES, Table
from kbn.broker.storage.tally import SUM_MAX, Tally, TallyError
from kbn.broker.storage.versions import OURS, VERSIONS, StoreVersion
from kbn.broker.store import StoreError
from kbn.wording import counted

DAMAGE_TOLD_MAX = 100
CHECKED_FROM = 3  # the first version with checksums

# What SQLite says of damage; its other errors are about the disk, rights or other processes.
_OF_DAMAGE = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_IOERR_SHORT_READ", "SQLITE_TOOBIG")
_ERROR = "SQLITE_ERROR"  # such as a column that is not there


# Rows that are no use without another: which, and what they lack.
ORPHANS = (
    ("unacked", "key NOT IN (SELECT key FROM body)", "its notification is lost"),
    ("body", "key NOT IN (SELECT key FROM unacked)", "who was to have it is lost"),
    ("subscription", "client NOT IN (SELECT name FROM client)", "its client is lost"),
)


class Damage(NamedTuple):
    """What is damaged: a table, or the `file`, the `tally` or the `commits`; and in which way."""

    place: str
    what: str


@dataclass(slots=True)
class Checked:
    """What a check has found. `rows` counts whole ones, `missing` those the tally knows of."""

    path: str
    version: int
    rows: dict[str, int] = field(default_factory=dict)
    missing: dict[str, int] = field(default_factory=dict)
    commits: int = 0
    commits_lost: int = 0
    damage: list[Damage] = field(default_factory=list)
    damage_count: int = 0

    @property
    def is_whole(self) -> bool:
        return not self.damage_count

    def found(self, place: str, what: str) -> None:
        self.damage_count += 1
        if len(self.damage) < DAMAGE_TOLD_MAX:
            self.damage.append(Damage(place, what))


class StoreDamagedError(StoreError):
    """The store is damaged; `checked` says how. Nothing was changed."""

    def __init__(self, checked: Checked) -> None:
        self.checked = checked
        first = checked.damage[0]
        more = f", and {checked.damage_count - 1} more" if checked.damage_count > 1 else ""
        super().__init__(
            f"damaged ({first.place}: {first.what}{more}); see all with kbn store check, then "
            "restore a copy (kbn store restore), or set aside what is damaged and go on without it "
            "(kbn store repair)",
            path=checked.path,
        )


def check(path: str | Path, versions: Sequence[StoreVersion] = VERSIONS) -> Checked:
    """Check a store, also while a broker uses it. StoreError if it is none or cannot be read."""
    path = str(path)
    check_is_file(path)
    mark = CommitMark(path)
    # The mark is read first: a broker that is at work may only go on from there.
    commits, has_mark = mark.read(), mark.is_there
    connection = connect_to_read(path)
    try:
        connection.execute("BEGIN")
        version = identified(connection, path, versions)
        if version is None:
            raise StoreError("an empty file, and not the store of a broker", path=path)
        checked = Checked(path, version.number)
        _check_file(connection, version, checked)
        if version.number >= CHECKED_FROM:
            sums = {table.name: _check_table(connection, table, checked) for table in TABLES}
            if checked.is_whole:
                _check_references(connection, checked)
            tally = _checked_tally(connection, checked, sums)
            if tally is not None:
                _check_commits(tally, commits, has_mark, checked)
    except ERRORS as error:
        if not is_damage(error):
            raise failed(error, path) from error
        checked = Checked(path, _header_version(connection))
        checked.found("file", str(error))
    finally:
        connection.close()
    return checked


def _header_version(connection: sqlite3.Connection) -> int:
    """The version that the file says it has, whatever else is damaged; 0 for another's file."""
    try:
        ((owner,),) = connection.execute("PRAGMA application_id")
        ((number,),) = connection.execute("PRAGMA user_version")
    except ERRORS:
        return 0
    return int(number) if owner == OURS else 0


def is_damage(error: sqlite3.Error | UnicodeDecodeError) -> bool:
    """Whether an error is about what is in the file."""
    if isinstance(error, UnicodeDecodeError):
        return True
    name = getattr(error, "sqlite_errorname", "")
    return name == _ERROR or name.startswith(_OF_DAMAGE)


def _check_file(connection: sqlite3.Connection, version: StoreVersion, checked: Checked) -> None:
    try:
        for (line,) in connection.execute(f"PRAGMA integrity_check({DAMAGE_TOLD_MAX})"):
            if line != b"ok":
                checked.found("file", line.decode("utf-8", "replace"))
        if statements(connection) != sorted(version.statements):
            checked.found("file", f"its tables are not those of version {version.number}")
    except ERRORS as error:
        if not is_damage(error):
            raise
        checked.found("file", str(error))


def statements(connection: sqlite3.Connection) -> list[str]:
    """The statements that made the tables and indexes."""
    found = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")
    return sorted(bytes(sql).decode("utf-8", "replace") for (sql,) in found)


def _check_table(connection: sqlite3.Connection, table: Table, checked: Checked) -> int:
    """Read every row; the sum of the checksums of those that are whole."""
    whole = total = 0
    try:
        for row in connection.execute(table.select):
            if table.is_whole(row):
                whole += 1
                total += row[-1]
            else:
                checked.found(table.name, f"the row {_key_of(table, row)} is damaged")
    except ERRORS as error:
        if not is_damage(error):
            raise
        checked.found(table.name, str(error))
    checked.rows[table.name] = whole
    return total


def _check_references(connection: sqlite3.Connection, checked: Checked) -> None:
    """Look for rows that need another one, which is not there."""
    for name, condition, lacks in ORPHANS:
        ((count,),) = connection.execute(f"SELECT count(*) FROM {name} WHERE {condition}")
        if count:
            checked.found(name, f"{lacks} ({counted(count, 'row')})")


def _key_of(table: Table, row: Sequence[object]) -> str:
    parts = row[: table.key_columns]
    return "/".join(
        part.decode("utf-8", "backslashreplace") if isinstance(part, bytes) else str(part)
        for part in parts
    )


def _checked_tally(
    connection: sqlite3.Connection, checked: Checked, sums: dict[str, int]
) -> Tally | None:
    """Compare what is in the tables with what was counted."""
    try:
        tally = read_tally(connection)
    except (*ERRORS, TallyError) as error:
        if not isinstance(error, TallyError) and not is_damage(error):
            raise
        checked.found("tally", str(error))
        return None
    checked.commits = tally.commits
    for name, total in sums.items():
        there, written = checked.rows[name], tally.rows[name]
        if missing := written - there:
            checked.missing[name] = missing
        is_known = any(damage.place == name for damage in checked.damage)
        is_other = name != "body" and total & SUM_MAX != tally.sums[name]
        if not is_known and (missing or is_other):
            found = counted(there, "row")
            told = f"{found}, and {written} were written" if missing else "not the rows written"
            checked.found(name, told)
    return tally


def _check_commits(tally: Tally, mark: int | None, has_mark: bool, checked: Checked) -> None:
    if mark is not None and mark > tally.commits:
        checked.commits_lost = mark - tally.commits
        checked.found("commits", f"the newest {checked.commits_lost} of {mark} are lost")
    elif mark is None and tally.is_open:
        kind = "cannot be read" if has_mark else "is not there"
        checked.found(
            "commits",
            f"it was not closed, and its mark ({checked.path}{SUFFIX}) {kind}: the newest commits "
            "may be lost",
        )


def read_tally(connection: sqlite3.Connection) -> Tally:
    found = connection.execute("SELECT value FROM tally WHERE one = 1").fetchall()
    return Tally.of(bytes(found[0][0]) if found and type(found[0][0]) is bytes else None)
