"""Opening a store's file: whose it is, of which version, and that one broker at a time has it."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from kbn.broker.sqlite_advice import advice
from kbn.broker.storage.rows import Text
from kbn.broker.storage.versions import OURS, StoreVersion
from kbn.broker.storage.writable import read_only
from kbn.broker.store import NotAStoreError, StoreError

# What `sqlite3` raises; the second when it wants to tell of damage, and the text is damaged, too.
ERRORS = (sqlite3.Error, UnicodeDecodeError)

WAIT_S = 5.0  # for those who only read, and are soon done


def connect(path: str, *, wait_s: float = WAIT_S) -> sqlite3.Connection:
    """A connection that begins no transactions by itself."""
    return sqlite3.connect(path, timeout=wait_s, isolation_level=None, check_same_thread=False)


def connect_to_read(path: str) -> sqlite3.Connection:
    """A connection that changes nothing, and takes texts as they lie in the file."""
    uri = f"file:{quote(path)}?mode=ro"
    connection = sqlite3.connect(uri, uri=True, timeout=WAIT_S, isolation_level=None)
    connection.text_factory = Text
    return connection


def locked(path: str) -> sqlite3.Connection:
    """Keep other brokers out; the system lets go of it when the process ends, however it does.

    Others may read the store all the same.
    """
    lock = connect(f"{path}.lock", wait_s=0.0)
    try:
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.Error:
        lock.close()
        raise
    return lock


BEGINNING = b"SQLite format 3\0"


def identified(
    connection: sqlite3.Connection, path: str, versions: Sequence[StoreVersion]
) -> StoreVersion | None:
    """The version of the store; None for an empty file. StoreError for another's file."""
    ((owner,),) = connection.execute("PRAGMA application_id")
    ((number,),) = connection.execute("PRAGMA user_version")
    ((tables,),) = connection.execute("SELECT count(*) FROM sqlite_master")
    if not (owner or number or tables):
        return None
    if owner != OURS:
        raise StoreError("a database, but not the store of a broker; name another file", path=path)
    for version in versions:
        if version.number == number:
            return version
    oldest, newest = versions[0].number, versions[-1].number
    if number < oldest:
        known = f"this kbn reads {oldest} to {newest}; upgrade it with an earlier kbn first"
    else:
        known = (
            f"this kbn knows up to version {newest}; use the kbn that made it, or go back to the "
            f"copy from before the upgrade: kbn store restore {copy_of(path, newest)} {path}"
        )
    raise StoreError(f"a store of version {number}, and {known}", path=path)


def copy_of(path: str, version: int) -> str:
    """Where the copy is kept that is made of a store before it is upgraded."""
    return f"{path}.v{version}"


def check_is_file(path: str) -> None:
    """Raise NotAStoreError for what cannot be a store: nothing, a folder, a text."""
    place = Path(path)
    if place.is_dir():
        stores = sorted(each.name for each in place.iterdir() if _begins(each) == BEGINNING)
        named = f" ({', '.join(stores[:3])}{', …' if stores[3:] else ''})" if stores else ""
        raise NotAStoreError(f"a folder; name the file of a store in it{named}", path=path)
    if not place.is_file():
        raise NotAStoreError("there is no such file", path=path)
    begins = _begins(place)
    if begins and begins.isascii() and b"\0" not in begins:
        raise NotAStoreError("a text, and not the store of a broker; name another file", path=path)


def _begins(place: Path) -> bytes:
    """The first bytes of a file; none of what cannot be read."""
    try:
        with place.open("rb") as file:
            return file.read(len(BEGINNING))
    except OSError:
        return b""


def is_empty(path: str) -> bool:
    """Whether there is no such file, or nothing in it."""
    place = Path(path)
    return not place.exists() or place.stat().st_size == 0


def failed(error: sqlite3.Error | UnicodeDecodeError, path: str) -> StoreError:
    """An error of SQLite, with advice."""
    if isinstance(error, UnicodeDecodeError):
        return StoreError("damaged; see kbn store check", path=path)
    return StoreError(read_only(path) or advice(error, file="store", owner="broker"), path=path)
