"""Copies of a store: taken while it is in use, whole, and put back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.broker.storage.stores import ANN, contents, fill

from kbn.broker.sqlite_store import SqliteStore
from kbn.broker.storage import backup, check, restore
from kbn.broker.store import StoreError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "broker.store"


def test_a_copy_of_a_store_in_use_is_a_store_as_of_the_last_commit(path: Path) -> None:
    store = SqliteStore(path)
    fill(store)
    before = contents(store)
    store.push(ANN, 100, store.keep(b"not yet"))
    store.unacked(ANN, 0, 9)
    assert backup(path, f"{path}.copy").is_whole
    store.commit()
    store.close()
    copied = SqliteStore(f"{path}.copy")
    assert contents(copied) == before
    copied.close()


def test_a_store_in_use_can_be_checked(path: Path) -> None:
    store = SqliteStore(path)
    fill(store)
    checked = check(path)
    assert checked.is_whole and checked.rows["body"] == 5
    store.push(ANN, 100, store.keep(b"tea"))
    store.commit()
    assert check(path).rows["body"] == 6
    store.close()


def test_a_copy_takes_no_other_files_place(path: Path) -> None:
    SqliteStore(path).close()
    path.with_suffix(".copy").write_text("mine")
    with pytest.raises(StoreError, match="there is such a file already"):
        backup(path, path.with_suffix(".copy"))
    assert path.with_suffix(".copy").read_text() == "mine"


def test_of_a_damaged_store_there_is_no_copy(path: Path) -> None:
    store = SqliteStore(path)
    fill(store)
    store.close()
    data = bytearray(path.read_bytes())
    data[data.index(b"notification 5")] ^= 1
    path.write_bytes(data)
    with pytest.raises(StoreError, match=f"{path}: damaged"):
        backup(path, f"{path}.copy")
    assert not [name for name in os.listdir(path.parent) if "copy" in name]


def test_what_is_restored_goes_on_and_never_repeats_an_epoch(path: Path) -> None:
    store = SqliteStore(path)
    fill(store)
    before = contents(store)
    backup(path, f"{path}.copy")
    for n in range(10):
        store.mark("epoch", b"%d" % (8 + n))
        store.commit()
    store.close()
    done = restore(f"{path}.copy", path)
    assert done.commits_lost == 11 and done.aside is not None
    assert check(done.aside).is_whole
    store = SqliteStore(path)
    assert contents(store)[:5] == before[:5]
    assert int(store.marked("epoch") or 0) >= 17
    store.close()


def test_nothing_is_restored_over_a_store_in_use(path: Path) -> None:
    store = SqliteStore(path)
    fill(store)
    backup(path, f"{path}.copy")
    with pytest.raises(StoreError, match="another broker uses it"):
        restore(f"{path}.copy", path)
    store.ack(ANN, 3)
    store.commit()
    store.close()


def test_a_file_that_is_no_store_is_not_restored(path: Path) -> None:
    SqliteStore(path).close()
    before = path.read_bytes()
    other = path.with_name("notes.txt")
    other.write_text("not a store " * 100)
    with pytest.raises(StoreError):
        restore(other, path)
    assert path.read_bytes() == before
