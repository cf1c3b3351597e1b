"""The tally of a store: how many rows each table has, and the sum of their checksums.

A checksum tells that a row is as it was written, not that it is still there. The tally is written
with every commit, so a row that is gone, or one that is back, does not go unnoticed. It also counts
the commits, and says whether the file was closed: one that was not needs its write-ahead log.

Bodies are counted only, for to sum them up they would have to be read before they are removed. Each
has its rows in `unacked`, and those are summed up: `checking.py` compares the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

from msgspec import MsgspecError, msgpack

from kbn.broker.storage.rows import TABLES

SUM_MAX = 2**63 - 1
_FORM = tuple[int, bool, dict[str, tuple[int, int]]]


class TallyError(ValueError):
    """The tally is not what was written."""


class Tally:
    """Counts what is written to a store."""

    __slots__ = ("commits", "is_open", "rows", "sums")

    def __init__(self) -> None:
        self.commits = 0
        self.is_open = False
        self.rows = dict.fromkeys((table.name for table in TABLES), 0)
        self.sums = dict(self.rows)

    def add(self, table: str, checksums: Sequence[int]) -> None:
        self.rows[table] += len(checksums)
        if table != "body":
            self.sums[table] = (self.sums[table] + sum(checksums)) & SUM_MAX

    def remove(self, table: str, checksums: Sequence[int]) -> None:
        self.rows[table] -= len(checksums)
        if table != "body":
            self.sums[table] = (self.sums[table] - sum(checksums)) & SUM_MAX

    def to_bytes(self) -> bytes:
        tables = {name: (rows, self.sums[name]) for name, rows in self.rows.items()}
        body = msgpack.encode((self.commits, self.is_open, tables))
        return crc32(body).to_bytes(4, "big") + body

    @classmethod
    def of(cls, kept: object) -> Tally:
        """The tally that was written so; TallyError when it was not."""
        if type(kept) is not bytes or crc32(kept[4:]).to_bytes(4, "big") != kept[:4]:
            raise TallyError("the tally is damaged")
        tally = cls()
        try:
            tally.commits, tally.is_open, tables = msgpack.decode(kept[4:], type=_FORM)
        except MsgspecError as error:
            raise TallyError(f"the tally cannot be read: {error}") from None
        for name, (rows, total) in tables.items():
            tally.rows[name], tally.sums[name] = rows, total
        return tally
