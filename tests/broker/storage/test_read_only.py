"""A store that cannot be written: told before anything is done, with what to do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kbn.broker import SqliteStore, StoreError
from kbn.broker.storage.commit_mark import SUFFIX


@pytest.fixture(autouse=True)
def nobody_in_particular(monkeypatch: pytest.MonkeyPatch) -> None:
    """Permissions are obeyed, as they are by everybody but root."""
    monkeypatch.setattr(os, "access", lambda path, mode: bool(os.stat(path).st_mode & 0o200))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "stores" / "broker.store"
    path.parent.mkdir()
    SqliteStore(path).close()
    return path


@pytest.mark.parametrize("suffix", ["", ".lock", SUFFIX])
def test_a_file_that_is_read_only_is_named(store: Path, suffix: str) -> None:
    file = Path(f"{store}{suffix}")
    file.chmod(0o444)
    with pytest.raises(StoreError, match="the store is read-only") as told:
        SqliteStore(store)
    assert str(file) in str(told.value) and "let the broker write there" in str(told.value)
    file.chmod(0o644)
    SqliteStore(store).close()


@pytest.mark.parametrize("name", ["broker.store", "another.store"])
def test_so_is_a_folder(store: Path, name: str) -> None:
    store.parent.chmod(0o555)
    with pytest.raises(StoreError, match=r"the store is read-only .its folder .*stores is"):
        SqliteStore(store.parent / name)
    store.parent.chmod(0o755)


def test_a_store_that_becomes_read_only_says_so_and_not_that_the_disk_fails(store: Path) -> None:
    broker = SqliteStore(store)
    broker.mark("a", b"1")
    broker._rows.query("PRAGMA query_only = 1")  # the disk refuses to write
    store.chmod(0o444)
    with pytest.raises(StoreError, match="the store is read-only"):
        broker.commit()
    store.chmod(0o644)
    broker.close()


def test_a_store_in_no_folder_or_in_place_of_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"there is no folder .*nowhere; make it"):
        SqliteStore(tmp_path / "nowhere" / "broker.store")
    with pytest.raises(StoreError, match="it is a folder; name a file in it"):
        SqliteStore(tmp_path)
    assert list(tmp_path.iterdir()) == []
