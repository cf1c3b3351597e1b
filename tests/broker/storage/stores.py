"""Small stores for tests: with something in every table, in a file of few bytes."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from typing import Any

from kbn.broker.messages import Peer
from kbn.broker.sqlite_store import SqliteStore
from kbn.broker.storage.commit_mark import SUFFIX

ANN, HUB = Peer("client", "ann"), Peer("broker", "hub")
BESIDE = ("", "-wal", SUFFIX)

Contents = tuple[Any, ...]


def small_file(path: Path) -> None:
    """An empty database with the smallest pages there are."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA page_size = 512")
    connection.execute("VACUUM")
    connection.close()


def fill(store: SqliteStore, bodies: int = 6) -> None:
    """Several commits: what is kept, changed, acknowledged and forgotten."""
    store.mark("epoch", b"7")
    store.keep_client("ann", 10, "drop")
    store.keep_subscription("ann", 1, '{"price": 1}')
    store.keep_subscription("ann", 2, '{"price": 2}')
    store.commit()
    for n in range(1, bodies + 1):
        key = store.keep(b"notification %d " % n * 4)
        store.push(ANN, n, key, b"note")
        store.push(HUB, n, key)
        store.saw(b"id %d" % n, 100)
        store.mark("received/hub", b"%d" % n)
        store.commit()
    store.ack(ANN, 2)
    store.ack(HUB, 1)
    store.forget_subscription("ann", 2)
    store.commit()


def contents(store: SqliteStore, ids: int = 8) -> Contents:
    """All that a broker can find in a store."""
    return (
        store.clients(),
        store.unacked(ANN, 0, 1000),
        store.unacked(HUB, 0, 1000),
        store.unacked_count(ANN),
        store.unacked_count(HUB),
        store.marks(""),
        [store.has_seen(b"id %d" % n) for n in range(ids)],
    )


def copy_files(path: Path, to: Path) -> None:
    """Copy a store and what is beside it, as if its process had been killed."""
    to.parent.mkdir(exist_ok=True)
    for end in BESIDE:
        source, target = Path(f"{path}{end}"), Path(f"{to}{end}")
        target.unlink(missing_ok=True)
        if source.exists():
            shutil.copyfile(source, target)
    for end in ("-shm", "-journal"):
        Path(f"{to}{end}").unlink(missing_ok=True)


def rows_of(path: Path) -> dict[str, int]:
    """How many rows the tables of a file have."""
    connection = sqlite3.connect(path)
    tables = [
        name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")
    ]
    counts = {
        name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables
    }
    connection.close()
    return counts
