"""Reading and writing the rows of an open store: checksums are checked, the tally is kept.

SQLite's errors leave here as `StoreError`. Each undoes the whole transaction, because half a change
is worse than none, and `on_undo` lets the owner forget what it knew of that transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from kbn.broker.storage import rows
from kbn.broker.storage.file import StoreFile
from kbn.broker.storage.opening import failed
from kbn.broker.storage.writable import read_only
from kbn.broker.store import StoreError
from kbn.errors import InvalidInputError

INSERT = {table.name: table.insert for table in rows.TABLES}
INSERT["mark"] = INSERT["mark"].replace("INSERT", "INSERT OR REPLACE")


class CheckedRows:
    """The rows of one store. A change opens a transaction, which is open until `commit`."""

    def __init__(self, file: StoreFile, on_undo: Callable[[], None]) -> None:
        self._file = file
        self._connection = file.connection
        self._on_undo = on_undo
        # Raised since the last commit; `commit` raises it again, even if a caller caught it.
        self.failure: StoreError | None = None

    @property
    def in_transaction(self) -> bool:
        try:
            return self._connection.in_transaction
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def query(self, statement: str, *arguments: object) -> list[Any]:
        """All rows of an answer; they are not checked."""
        try:
            return self._connection.execute(statement, arguments).fetchall()
        except sqlite3.Error as error:
            raise self._failed(error) from error
        except UnicodeEncodeError as error:
            raise InvalidInputError(f"{error.object!r} is not valid Unicode text") from None

    def each(self, statement: str, *arguments: object) -> Iterator[Any]:
        """The rows of an answer, read as they are asked for; they are not checked."""
        try:
            yield from self._connection.execute(statement, arguments)
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def check(self, table: str, *row: Any) -> None:
        """Stop at damage that has come since the store was opened; the next start tells all."""
        if not rows.BY_NAME[table].is_whole(
            [rows.Text(value.encode()) if type(value) is str else value for value in row]
        ):
            raise self.damaged()

    def damaged(self) -> StoreError:
        return StoreError(
            "a row is damaged, and it was whole when the store was opened; check the disk, "
            "then run kbn store check",
            path=self._file.path,
        )

    def insert(self, table: str, checked: Sequence[tuple[Any, ...]]) -> None:
        """Add rows, the last column of each being its checksum."""
        if not checked:
            return
        self._change_many(INSERT[table], checked)
        self._file.tally.add(table, [row[-1] for row in checked])

    def remove(self, table: str, which: str, *arguments: object, also: str = "") -> list[Any]:
        """Remove rows; the checksum of each, and what else is asked for."""
        returning = f"checksum, {also}" if also else "checksum"
        self._begin()
        removed = self.query(f"DELETE FROM {table} WHERE {which} RETURNING {returning}", *arguments)
        if removed:
            self._file.tally.remove(table, [row[0] for row in removed])
        return removed

    def replace_marks(self, marks: dict[str, bytes | None]) -> None:
        """Write marks; those without a value are removed."""
        changed = []
        for name, value in marks.items():
            old = self.query("SELECT checksum FROM mark WHERE name = ?", name)
            self._file.tally.remove("mark", [checksum for (checksum,) in old])
            if value is not None:
                changed.append((name, value, rows.of_mark(name.encode(), value)))
            elif old:
                self._begin()
                self.query("DELETE FROM mark WHERE name = ?", name)
        self.insert("mark", changed)

    def remove_unused_bodies(self, spans: Sequence[tuple[int, int]]) -> None:
        """Remove the publications in these spans of keys that no peer waits for any more."""
        removed = self._change_many(
            "DELETE FROM body WHERE key BETWEEN ? AND ?"
            " AND NOT EXISTS (SELECT 1 FROM unacked WHERE unacked.key = body.key)",
            spans,
        )
        self._file.tally.rows["body"] -= removed

    def commit(self) -> None:
        if not self.in_transaction:
            return
        try:
            self._file.commit()
        except sqlite3.Error as error:
            raise self._failed(error) from error
        except OSError as error:
            raise self._mark_failed(error) from error

    def rollback(self) -> None:
        self.failure = None
        try:
            self._undo()
        except sqlite3.Error as error:
            raise failed(error, self._file.path) from error

    def _begin(self) -> None:
        if not self.in_transaction:
            self.query("BEGIN IMMEDIATE")

    def _change_many(self, statement: str, rows: Sequence[tuple[object, ...]]) -> int:
        """Do it for every row; how many rows of the table were changed."""
        if not rows:
            return 0
        self._begin()
        try:
            return self._connection.executemany(statement, rows).rowcount
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def _undo(self) -> None:
        self._file.rollback()
        self._on_undo()

    def _failed(self, error: sqlite3.Error) -> StoreError:
        """Roll back to the last commit and return the error to raise."""
        with suppress(sqlite3.Error):
            self._undo()
        self.failure = failed(error, self._file.path)
        return self.failure

    def _mark_failed(self, error: OSError) -> StoreError:
        self._on_undo()
        reason = error.strerror or str(error)
        told = read_only(self._file.path) or f"the mark beside it cannot be written: {reason}"
        return StoreError(told, path=self._file.path)
