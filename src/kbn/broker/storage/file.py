"""The file of a store: opened for one broker, upgraded and checked first, written with a tally.

What is beside `broker.store`, as long as a broker has it: the write-ahead log and its index
(`-wal`, `-shm`, SQLite's), the lock (`.lock`) and the mark (`-commits`). Once it is closed, all is
in the file itself. `.v2` is the copy made before an upgrade from version 2.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Literal

from kbn.broker.storage.checking import StoreDamagedError, check, read_tally
from kbn.broker.storage.commit_mark import CommitMark
from kbn.broker.storage.copying import copy_store
from kbn.broker.storage.opening import (
    ERRORS,
    connect,
    copy_of,
    failed,
    identified,
    is_empty,
    locked,
)
from kbn.broker.storage.repairing import Repaired, rebuild
from kbn.broker.storage.tally import Tally
from kbn.broker.storage.versions import VERSIONS, StoreVersion, make, steps_from
from kbn.broker.storage.writable import check_place, check_writable
from kbn.broker.store import StoreError
from kbn.errors import KbnError

Sync = Literal["normal", "full"]
AfterDamage = Literal["refuse", "repair"]

# The write-ahead log is folded into the file when it has so many pages of 4 KiB. That waits for the
# disk, so not too often; and a page that changed several times is folded in once.
_PAGES_PER_CHECKPOINT = 4000


class StoreFile:
    """A store's file that this process has for itself; others may read it meanwhile.

    Everything SQLite may raise once it is open passes through.
    """

    def __init__(
        self,
        path: str,
        sync: Sync,
        after_damage: AfterDamage,
        versions: Sequence[StoreVersion] = VERSIONS,
    ) -> None:
        self.path = path
        self._mark = CommitMark(path)
        self._lock: sqlite3.Connection | None = None
        try:
            check_place(path)
            _check_owner(path, versions)
            check_writable(path)
            self._lock = locked(path)
            _made_ready(path, versions)
            self.repaired = _checked(path, after_damage, versions)
            self.connection = connect(path)
        except ERRORS as error:
            self._unlock()
            raise failed(error, path) from error
        except KbnError:
            self._unlock()
            raise
        try:
            self._begin_work(sync)
        except (*ERRORS, OSError) as error:
            self.connection.close()
            self._unlock()
            raise _unusable(error, path) from error

    def _begin_work(self, sync: Sync) -> None:
        execute = self.connection.execute
        execute("PRAGMA journal_mode = WAL")
        execute(f"PRAGMA synchronous = {sync}")
        execute(f"PRAGMA wal_autocheckpoint = {_PAGES_PER_CHECKPOINT}")
        self.reload()
        self.tally.is_open = True
        execute("BEGIN IMMEDIATE")
        self.commit()
        # The file itself must say that it is open: without its log it must not pass for whole.
        execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def reload(self) -> None:
        """Count on from what is in the file."""
        self.tally = read_tally(self.connection)

    def query(self, statement: str, arguments: Sequence[object] = ()) -> list[Any]:
        return self.connection.execute(statement, arguments).fetchall()

    @property
    def in_transaction(self) -> bool:
        return self.connection.in_transaction

    def begin(self) -> None:
        if not self.connection.in_transaction:
            self.connection.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Commit the transaction, with the tally; then leave the mark."""
        tally = self.tally
        tally.commits += 1
        self.connection.execute(
            "INSERT OR REPLACE INTO tally (one, value) VALUES (1, ?)", (tally.to_bytes(),)
        )
        self.connection.execute("COMMIT")
        self._mark.write(tally.commits)

    def rollback(self) -> None:
        self.connection.rollback()
        self.reload()

    def close(self) -> None:
        """Undo the transaction, and say in the file that it is whole by itself."""
        with suppress(*ERRORS, OSError):
            self.connection.rollback()
            self.reload()
            self.tally.is_open = False
            self.begin()
            self.commit()
            self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self.connection.close()
        self._mark.close()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def _check_owner(path: str, versions: Sequence[StoreVersion]) -> None:
    """Look whose file it is, before anything is written beside it."""
    if is_empty(path):
        if (commits := CommitMark(path).read()) is not None:
            raise StoreError(
                f"the store is gone: it had {commits} commits, as {CommitMark(path).path} says; "
                "bring it back (kbn store restore), or remove that file, too, to begin anew",
                path=path,
            )
        return
    connection = connect(path)
    try:
        identified(connection, path, versions)
    finally:
        connection.close()


def _made_ready(path: str, versions: Sequence[StoreVersion]) -> None:
    """Make the tables in an empty file; upgrade an older one, after a copy."""
    connection = connect(path)
    try:
        version = identified(connection, path, versions)
        if version is None:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("BEGIN EXCLUSIVE")
            make(connection, versions[-1])
            connection.execute("INSERT INTO tally VALUES (1, ?)", (Tally().to_bytes(),))
            connection.execute("COMMIT")
        elif version is not versions[-1]:
            _upgrade(connection, path, version, versions)
    finally:
        connection.close()


def _upgrade(
    connection: sqlite3.Connection,
    path: str,
    version: StoreVersion,
    versions: Sequence[StoreVersion],
) -> None:
    """Bring a store to the newest version, all steps or none; what is damaged is not upgraded."""
    checked = check(path, versions)
    if not checked.is_whole:
        raise StoreDamagedError(checked)
    copy_store(path, copy_of(path, version.number), versions, replaces=True)
    connection.execute("BEGIN EXCLUSIVE")
    try:
        for step in steps_from(version.number, versions) or ():
            assert step.upgrade is not None, "only the first version has nothing before it"
            step.upgrade(connection)
            connection.execute(f"PRAGMA user_version = {step.number}")
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise


def _checked(
    path: str, after_damage: AfterDamage, versions: Sequence[StoreVersion]
) -> Repaired | None:
    checked = check(path, versions)
    if checked.is_whole:
        return None
    if after_damage == "refuse":
        raise StoreDamagedError(checked)
    return rebuild(checked, versions)


def _unusable(error: sqlite3.Error | UnicodeDecodeError | OSError, path: str) -> StoreError:
    if not isinstance(error, OSError):
        return failed(error, path)
    return StoreError(f"{error.filename}: {error.strerror}", path=path)
