"""The mark beside a store: how many commits the store must have.

SQLite keeps the newest commits in a write-ahead log beside the file. Without the log, or with one
that is cut short or damaged, it goes back to an older state and says nothing. So a store counts its
commits, and after each the count is written here. A store that has fewer has lost some.

It is written after the commit, so it may be one behind, and it is not synced: after a power failure
it may be further behind, and then tells less.
"""

from __future__ import annotations

from io import FileIO
from pathlib import Path
from zlib import crc32

SUFFIX = "-commits"
_BYTES = 30  # always as long, so that one count is written over another


class CommitMark:
    """The count in its file, `path` being that of the store."""

    def __init__(self, path: str) -> None:
        self.path = path + SUFFIX
        self._file: FileIO | None = None

    def read(self) -> int | None:
        """How many commits there were; None when there is no mark, or none that can be read."""
        try:
            line = Path(self.path).read_bytes()
        except OSError:
            return None
        number, _, checksum = line[:_BYTES].rstrip(b"\n").rpartition(b" ")
        is_whole = number.isdigit() and checksum == b"%08x" % crc32(number)
        return int(number) if is_whole else None

    @property
    def is_there(self) -> bool:
        return Path(self.path).exists()

    def write(self, commits: int) -> None:
        """Say that there were so many."""
        if self._file is None:
            Path(self.path).touch()
            self._file = FileIO(self.path, "r+")
        number = b"%020d" % commits
        self._file.seek(0)
        self._file.write(b"%b %08x\n" % (number, crc32(number)))

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
