"""Versions of a store: every one becomes the newest, after a copy; a newer one is refused."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest
from tests.broker.storage.stores import ANN, HUB, contents, fill

from kbn.broker.sqlite_store import SqliteStore
from kbn.broker.storage import VERSIONS, StoreVersion, check, restore
from kbn.broker.storage.checking import statements
from kbn.broker.storage.versions import make
from kbn.broker.store import KeptClient, StoredUnacked, StoreError

NEXT = VERSIONS[-1].number + 1


def later(upgrade_fails: bool = False) -> tuple[StoreVersion, ...]:
    """The versions, and one that is not there yet: bodies say when they were kept."""

    def upgrade(connection: sqlite3.Connection) -> None:
        connection.execute("ALTER TABLE body ADD COLUMN at INTEGER NOT NULL DEFAULT 0")
        if upgrade_fails:
            raise sqlite3.OperationalError("the upgrade fails")

    made = tuple(
        text[:-1] + ", at INTEGER NOT NULL DEFAULT 0)"
        if text.startswith("CREATE TABLE body")
        else text
        for text in VERSIONS[-1].statements
    )
    return (*VERSIONS, StoreVersion(NEXT, "Bodies say when they were kept.", made, upgrade))


def make_first(path: Path) -> None:
    """A store as the first release made it, with something in every table."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    make(connection, VERSIONS[0])
    execute = connection.execute
    execute("INSERT INTO client VALUES ('ann', 10, 'drop')")
    execute("INSERT INTO subscription VALUES ('ann', 1, '{}')")
    execute("INSERT INTO body VALUES (4, x'746561'), (5, x'')")
    execute(
        "INSERT INTO unacked VALUES ('client', 'ann', 7, 4, x'01'), ('broker', 'hub', 8, 5, x'')"
    )
    execute("INSERT INTO mark VALUES ('epoch', x'37'), ('é', x'')")
    execute("INSERT INTO seen VALUES (3, x'696433')")
    connection.close()


def test_versions_go_up_and_each_is_made_of_the_one_before() -> None:
    numbers = [version.number for version in VERSIONS]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert VERSIONS[0].upgrade is None
    assert all(version.upgrade is not None and version.changed for version in VERSIONS[1:])


@pytest.mark.parametrize("number", range(1, len(VERSIONS)))
def test_an_upgraded_store_has_the_tables_of_a_new_one(number: int, tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "broker.store", isolation_level=None)
    make(connection, VERSIONS[number - 1])
    upgrade = VERSIONS[number].upgrade
    assert upgrade is not None
    upgrade(connection)
    assert [text.encode() for text in sorted(VERSIONS[number].statements)] == [
        sql.encode()
        for (sql,) in sorted(
            connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")
        )
    ]
    connection.close()


def test_a_store_of_the_first_release_is_upgraded_after_a_copy(tmp_path: Path) -> None:
    path = tmp_path / "broker.store"
    make_first(path)
    store = SqliteStore(path)
    assert store.clients() == [KeptClient("ann", 10, "drop", {1: "{}"})]
    assert store.unacked(ANN, 0, 9) == [StoredUnacked(7, 4, b"\x01", b"tea")]
    assert store.unacked(HUB, 0, 9) == [StoredUnacked(8, 5, b"", b"")]
    assert store.marks("") == {"epoch": b"7", "é": b""}
    assert store.has_seen(b"id3")
    store.close()
    assert check(path).version == VERSIONS[-1].number
    assert check(f"{path}.v2").version == 2


def test_a_store_is_upgraded_to_a_later_version_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "broker.store"
    store = SqliteStore(path)
    fill(store)
    before = contents(store)
    store.close()
    store = SqliteStore(path, versions=later())
    assert contents(store) == before
    store.push(ANN, 100, store.keep(b"more"))
    store.commit()
    store.close()
    assert check(path, later()).is_whole
    assert os.path.exists(f"{path}.v{NEXT - 1}")


def test_a_newer_store_is_refused_with_the_reason_and_the_way_back(tmp_path: Path) -> None:
    path = tmp_path / "broker.store"
    store = SqliteStore(path)
    fill(store)
    before = contents(store)
    store.close()
    SqliteStore(path, versions=later()).close()
    whole = path.read_bytes()
    with pytest.raises(StoreError, match=f"of version {NEXT}, and this kbn knows up to") as caught:
        SqliteStore(path)
    assert f"kbn store restore {path}.v{NEXT - 1} {path}" in str(caught.value)
    assert path.read_bytes() == whole
    restore(f"{path}.v{NEXT - 1}", path)
    store = SqliteStore(path)
    assert contents(store)[:5] == before[:5]
    store.close()


def test_an_upgrade_that_fails_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "broker.store"
    store = SqliteStore(path)
    fill(store)
    before = contents(store)
    store.close()
    with pytest.raises(StoreError, match="the upgrade fails"):
        SqliteStore(path, versions=later(upgrade_fails=True))
    store = SqliteStore(path)
    assert contents(store) == before
    store.close()


def test_a_damaged_store_is_not_upgraded(tmp_path: Path) -> None:
    path = tmp_path / "broker.store"
    store = SqliteStore(path)
    fill(store)
    store.close()
    data = bytearray(path.read_bytes())
    data[data.index(b"notification 5")] ^= 1
    path.write_bytes(data)
    with pytest.raises(StoreError, match="damaged"):
        SqliteStore(path, versions=later())
    assert path.read_bytes() == data


def test_the_statements_of_a_store_are_told_as_they_were_written(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "broker.store").close()
    connection = sqlite3.connect(tmp_path / "broker.store")
    connection.text_factory = bytes
    assert statements(connection) == sorted(VERSIONS[-1].statements)
    connection.close()
