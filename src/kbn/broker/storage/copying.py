"""Copies of a store: whole, and taken while a broker uses it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from kbn.broker.storage.checking import CHECKED_FROM, Checked, StoreDamagedError, check, read_tally
from kbn.broker.storage.commit_mark import SUFFIX, CommitMark
from kbn.broker.storage.opening import (
    ERRORS,
    check_is_file,
    connect,
    connect_to_read,
    failed,
    identified,
    locked,
)
from kbn.broker.storage.rows import of_mark
from kbn.broker.storage.tally import Tally, TallyError
from kbn.broker.storage.versions import VERSIONS, StoreVersion
from kbn.broker.store import StoreError

BESIDE = ("-wal", "-shm", "-journal")
_PAGES_AT_ONCE = 1024
EPOCH = "epoch"  # the mark in which a broker counts its starts


class Restored(NamedTuple):
    """A copy that is in place: what it holds, and how many commits it is older than what was there.

    `aside` is where that is now; None when nothing was there.
    """

    checked: Checked
    commits_lost: int
    aside: str | None


def backup(
    path: str | Path,
    to: str | Path,
    versions: Sequence[StoreVersion] = VERSIONS,
    *,
    replaces: bool = False,
) -> Checked:
    """Copy a store, also while a broker uses it; what the copy was found to be.

    The copy is checked before it takes its place. It is a whole store in one file, as of one
    commit. StoreDamagedError when the store is damaged: there is no copy then.
    """
    path, to = str(path), str(to)
    copy_store(path, to, versions, replaces=replaces)
    return check(to, versions)


def restore(
    copy: str | Path, path: str | Path, versions: Sequence[StoreVersion] = VERSIONS
) -> Restored:
    """Put a copy in the place of a store that no broker uses.

    What was there stays beside it, as `….replaced-1`. What was written after the copy is lost.
    """
    copy, path = str(copy), str(path)
    try:
        lock = locked(path)
    except ERRORS as error:
        raise failed(error, path) from error
    try:
        fresh = f"{path}.restoring"
        copy_store(copy, fresh, versions, replaces=True)
        checked = check(fresh, versions)
        commits = max(checked.commits, CommitMark(path).read() or 0)
        aside = move_aside(path, ".replaced") if Path(path).exists() else None
        os.replace(fresh, path)
        if checked.version >= CHECKED_FROM:
            begin_again(path, commits + 1, commits - checked.commits + 1)
        return Restored(checked, commits - checked.commits, aside)
    finally:
        lock.close()


def copy_store(
    path: str, to: str, versions: Sequence[StoreVersion] = VERSIONS, *, replaces: bool = False
) -> None:
    """Copy one state of a store into a file of its own, checked, whole or not at all."""
    check_is_file(path)
    if not replaces and Path(to).exists():
        raise StoreError("there is such a file already; name another", path=to)
    part = f"{to}.part"
    remove(part)
    try:
        _copy_pages(path, part, versions)
        checked = check(part, versions)
        if not checked.is_whole:
            raise StoreDamagedError(replace(checked, path=path))
        _sync(part)
        os.replace(part, to)
    except ERRORS as error:
        raise failed(error, to) from error
    except OSError as error:
        raise StoreError(error.strerror or str(error), path=to) from error
    finally:
        remove(part)


def _copy_pages(path: str, to: str, versions: Sequence[StoreVersion]) -> None:
    source = connect_to_read(path)
    target = connect(to)
    try:
        source.execute("BEGIN")
        version = identified(source, path, versions)  # and from here on it is one state
        source.backup(target, pages=_PAGES_AT_ONCE, sleep=0.0)
        if version is not None and version.number >= CHECKED_FROM:
            with suppress(TallyError):  # it is damaged, and the check says so
                write_tally(target, replace_closed(read_tally(target)))
    finally:
        source.close()
        target.close()


def begin_again(path: str, commits: int, commits_lost: int) -> None:
    """Have a store that was put in the place of another go on where that one was.

    It counts commits from `commits` on, and begins no epoch again that a lost commit has begun.
    """
    connection = connect(path)
    mark = CommitMark(path)
    try:
        tally = replace_closed(read_tally(connection))
        tally.commits = commits
        connection.execute("BEGIN IMMEDIATE")
        _skip_epochs(connection, tally, commits_lost)
        write_tally(connection, tally)
        connection.execute("COMMIT")
        mark.write(commits)
    finally:
        mark.close()
        connection.close()


def _skip_epochs(connection: sqlite3.Connection, tally: Tally, count: int) -> None:
    """A broker commits when it begins an epoch: with n commits lost, n epochs may be."""
    found = connection.execute(
        "SELECT value, checksum FROM mark WHERE name = ?", (EPOCH,)
    ).fetchall()
    if not found:
        return
    ((value, checksum),) = found
    later = str(int(value) + count).encode()
    new = of_mark(EPOCH.encode(), later)
    connection.execute(
        "UPDATE mark SET value = ?, checksum = ? WHERE name = ?", (later, new, EPOCH)
    )
    tally.remove("mark", [checksum])
    tally.add("mark", [new])


def replace_closed(tally: Tally) -> Tally:
    tally.is_open = False
    return tally


def write_tally(connection: sqlite3.Connection, tally: Tally) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO tally (one, value) VALUES (1, ?)", (tally.to_bytes(),)
    )


def move_aside(path: str, suffix: str) -> str:
    """Rename a store and what is beside it; the name that was free for it."""
    number = 1
    while Path(aside := f"{path}{suffix}-{number}").exists():
        number += 1
    for end in ("", *BESIDE, SUFFIX):
        with suppress(FileNotFoundError):
            os.replace(path + end, aside + end)
    return aside


def remove(path: str) -> None:
    """Remove a file that SQLite has written, and what it left beside it."""
    for end in ("", *BESIDE):
        with suppress(FileNotFoundError):
            os.remove(path + end)


def _sync(path: str) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())
