"""Whether a store can be written, looked at before it is, and when it fails.

SQLite opens a file that it may not write to, and even lets several lock it at once. What it says
later, "disk I/O error" on a disk that has become read-only, helps nobody. So we look ourselves.
"""

from __future__ import annotations

import os
from pathlib import Path

from kbn.broker.storage.commit_mark import SUFFIX
from kbn.broker.store import StoreError

BESIDE = ("", "-wal", "-shm", ".lock", SUFFIX)
WHAT_TO_DO = "let the broker write there (see its permissions and how the disk is mounted)"


def check_place(path: str) -> None:
    """Raise `StoreError` where no file can be."""
    folder = Path(path).absolute().parent
    if not folder.is_dir():
        raise StoreError(f"there is no folder {folder}; make it, or name another file", path=path)
    if Path(path).is_dir():
        raise StoreError("it is a folder; name a file in it", path=path)


def check_writable(path: str) -> None:
    """Raise `StoreError` where a store cannot be kept, for it is read-only."""
    if (reason := read_only(path)) is not None:
        raise StoreError(reason, path=path)


def read_only(path: str) -> str | None:
    """Why the store cannot be written, and what to do; None when it seems that it can be."""
    for suffix in BESIDE:
        file = path + suffix
        if os.path.exists(file) and not os.access(file, os.W_OK):
            where = "" if not suffix else f" ({file} is)"
            return f"the store is read-only{where}: {WHAT_TO_DO}, or name another file"
    folder = Path(path).absolute().parent
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"the store is read-only (its folder {folder} is): {WHAT_TO_DO}, or name another"
    return None
