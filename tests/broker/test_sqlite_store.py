"""The store's file: what survives, and whose files and disks are refused; see tests/contracts."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kbn.broker import sqlite_store as module
from kbn.broker.messages import Peer
from kbn.broker.sqlite_store import SqliteStore
from kbn.broker.store import StoreError
from kbn.errors import InvalidInputError, KbnError

ANN, BOB = Peer("client", "ann"), Peer("client", "bob")


def test_what_is_collected_in_memory_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_COLLECTED_BYTES_MAX", 10_000)
    store = SqliteStore(tmp_path / "broker.store")
    for sequence in range(500):
        store.push(ANN, sequence, store.keep(bytes(100)))
        assert sum(map(len, store._bodies.values())) <= 10_000
    assert store.unacked_count(ANN) == 500
    store.rollback()
    assert store.unacked_count(ANN) == 0
    store.close()


# The file.

CRASHING = """
import os, sys
from kbn.broker.messages import Peer
from kbn.broker.sqlite_store import SqliteStore
store = SqliteStore(sys.argv[1], sync="full")
print("open", flush=True)
ann = Peer("client", "ann")
store.push(ann, 1, store.keep(b"safe"))
store.commit()
store.push(ann, 2, store.keep(b"lost"))
store.unacked(ann, 0, 9)
if len(sys.argv) > 2:
    sys.stdin.read()
os._exit(1)
"""


def crashing(path: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CRASHING, str(path), *more]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_what_was_committed_survives_the_end_of_the_process_and_nothing_else(
    tmp_path: Path,
) -> None:
    path = tmp_path / "broker.store"
    crashing(path).communicate(timeout=60)
    store = SqliteStore(path)
    assert [each.envelope for each in store.unacked(ANN, 0, 9)] == [b"safe"]
    store.close()


def test_a_store_in_use_by_another_process_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "broker.store"
    with crashing(path, "wait") as other:
        assert other.stdout is not None and other.stdout.readline() == "open\n"
        with pytest.raises(StoreError, match="another broker uses it") as caught:
            SqliteStore(path)
        assert caught.value.path == str(path)
        other.communicate("", timeout=60)
    SqliteStore(path).close()


def test_a_store_in_use_in_this_process_is_refused(tmp_path: Path) -> None:
    first = SqliteStore(tmp_path / "broker.store")
    with pytest.raises(StoreError, match="another broker uses it"):
        SqliteStore(tmp_path / "broker.store")
    first.close()
    SqliteStore(tmp_path / "broker.store").close()


def test_a_file_that_is_not_ours_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database " * 100)
    with pytest.raises(StoreError, match="not the store of a broker"):
        SqliteStore(path)
    assert path.read_text() == "not a database " * 100


def test_a_database_that_is_not_ours_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE t (x)")
    other.commit()
    other.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="not the store of a broker"):
        SqliteStore(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["other.db"]


def test_a_store_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "broker.store"
    SqliteStore(path).close()
    later = sqlite3.connect(path)
    later.execute("PRAGMA user_version = 99")
    later.close()
    with pytest.raises(StoreError, match="version 99"):
        SqliteStore(path)


def test_a_damaged_store_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "broker.store"
    SqliteStore(path).close()
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + bytes(len(whole) - 100))
    with pytest.raises(StoreError):
        SqliteStore(path)


def test_an_unknown_way_to_sync_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="sync"):
        SqliteStore(tmp_path / "broker.store", "sometimes")  # type: ignore[arg-type]


def one_unacked(path: Path) -> SqliteStore:
    store = SqliteStore(path)
    store.push(ANN, 1, store.keep(b"tea"))
    store.commit()
    return store


def test_on_a_full_disk_a_commit_fails_whole_and_earlier_ones_stay(tmp_path: Path) -> None:
    store = one_unacked(tmp_path / "broker.store")
    ((pages,),) = store._rows.query("PRAGMA page_count")
    store._rows.query(f"PRAGMA max_page_count = {pages}")
    store.keep_client("bob", 1, "drop")
    store.ack(ANN, 1)
    store.push(BOB, 1, store.keep(bytes(1_000_000)))
    with pytest.raises(StoreError, match="disk is full"):
        store.commit()
    assert not store.is_dirty
    assert store.unacked_count(BOB) == 0 and store.clients() == []
    assert [each.envelope for each in store.unacked(ANN, 0, 9)] == [b"tea"]
    store.mark("small", b"1")
    store.commit()
    store.close()


def test_on_a_read_only_disk_a_commit_fails_whole(tmp_path: Path) -> None:
    store = one_unacked(tmp_path / "broker.store")
    store._rows.query("PRAGMA query_only = 1")
    store.mark("a", b"1")
    with pytest.raises(StoreError, match="cannot be written"):
        store.commit()
    assert store.marked("a") is None and store.unacked_count(ANN) == 1
    store.close()


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = one_unacked(tmp_path / "broker.store")
    store.close()
    store.close()
    attempts: list[Callable[[], Any]] = [
        store.clients,
        store.rollback,
        store.commit,
        lambda: store.keep_client("ann", 1, "drop"),
        lambda: store.marks(""),
        lambda: store.has_seen(b"1"),
    ]
    for attempt in attempts:
        with pytest.raises(KbnError, match="closed"):
            attempt()


def test_what_failed_between_two_commits_fails_the_commit_though_nobody_minded_it(
    tmp_path: Path,
) -> None:
    store = SqliteStore(tmp_path / "store.db")
    store.mark("before", b"1")
    store.commit()
    store.mark("acknowledged", b"2")
    store._file.connection.execute("PRAGMA query_only = 1")  # as a disk that fails for a moment
    with pytest.raises(StoreError):
        store.keep_client("ann", 10, "drop")
    store._file.connection.execute("PRAGMA query_only = 0")
    store.mark("after", b"3")
    assert store.is_dirty
    with pytest.raises(StoreError):
        store.commit()
    assert store.marks("") == {"before": b"1"}, "nothing of it is kept, so nobody is told"
    store.mark("later", b"4")
    store.commit()
    assert set(store.marks("")) == {"before", "later"}
    store.close()
