"""Sources: where the lines of a stream come from, and how far they have been read.

A source is an append-only sequence of lines with offsets in it. The format "kbn" asks it for the
latest offset, which Spark writes down, and for the slices between two offsets, possibly again after
a restart; the same two offsets always give the same lines. Files in a folder are such a sequence
(here); what a socket sends (`spool.py`) or a broker delivers (`brokers.py`) is written to files and
so becomes one.

Files are read in the order of their names. A file appears as a whole (renamed into the folder) or
grows by whole lines while its name is the last; a later file ends it. An offset is the name of one
file and a number of bytes, however many files there are. It also holds the count, the bytes, a
checksum of the names and the newest change time of the files before it, which show when one of
those has changed:

- files that were read and then removed do no harm;
- late files, under a name that sorts before the offset, are named in the next offset and read whole
  with it, once;
- a file that changed after it was read, or anything that cannot be told apart from that, is refused
  with an error. Nothing is skipped silently and nothing is read twice.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Protocol
from zlib import crc32

from kbn.errors import InvalidInputError, KbnError
from kbn.spark.io.slices import BLOCK, Slice, opened


@dataclass(frozen=True, slots=True)
class Offset:
    """How far a source has been read.

    All files before `file` in the order of names, `at` bytes of that file, and in this step the
    files in `late`; `bytes` is the total since the beginning. `files`, `size`, `names` and
    `changed` describe the files before `file` as they were: how many, their bytes, a checksum of
    their names and their newest change time in ns.
    """

    file: str = ""
    at: int = 0
    bytes: int = 0
    files: int = 0
    size: int = 0
    names: int = 0
    changed: int = 0
    late: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Offset:
        try:
            return cls(**{name: data[name] for name in cls.__slots__})
        except KeyError as error:
            raise KbnError(
                f"this checkpoint is of another source or another kbn: its offset has no {error}"
            ) from None


@dataclass(frozen=True, slots=True)
class File:
    """A file as it was when the folder was listed."""

    name: str
    size: int
    changed: int


class Source(Protocol):
    """A sequence of lines a stream can be read from.

    `open` is called once, in the one long-lived process of a query, before `latest`; `slices` may
    be called without it. `done` says that everything up to an offset was delivered and will not be
    asked for again.
    """

    def open(self) -> None: ...
    def latest(self, start: Offset, rows_max: int | None) -> Offset: ...
    def hold(self) -> None:
        """Take what is there now as the end: from here on `latest` goes no further."""

    def slices(self, start: Offset, end: Offset) -> list[Slice]: ...
    def done(self, end: Offset) -> None: ...
    def close(self) -> None: ...


def local_path(given: str) -> str:
    """The absolute path that a path or a file: address names: tasks run in folders of their own.

    >>> local_path("/data/inbox"), local_path("file:///data/inbox")
    ('/data/inbox', '/data/inbox')
    """
    scheme, colon, rest = given.partition(":")
    if not colon or "/" in scheme:
        return os.path.abspath(given)
    if scheme == "file":
        return os.path.abspath("/" + rest.lstrip("/"))
    raise InvalidInputError(f"{given}: the format kbn uses folders that are mounted, not {scheme}:")


class FilesSource:
    """The lines of the files in a folder."""

    def __init__(self, directory: str | Path, pattern: str = "*") -> None:
        self.directory = Path(directory)
        self.pattern = pattern
        self._held: list[File] | None = None
        # The last offset this process returned, and the files there were then: what an offset
        # says about the files before it, but exactly.
        self._last: tuple[Offset, dict[str, int]] = (Offset(), {})

    @classmethod
    def at(cls, path: str | Path, pattern: str = "*") -> FilesSource:
        """The source for a folder, or for the one file of that name."""
        place = Path(path)
        if place.is_file():
            return cls(place.parent, _literally(place.name))
        return cls(place, pattern)

    def open(self) -> None:
        self.listing()

    def hold(self) -> None:
        self._held = self.listing()

    def latest(self, start: Offset, rows_max: int | None) -> Offset:
        listing = self.listing() if self._held is None else self._held
        known = self._last[1] if start == self._last[0] else None
        found = latest(listing, start, rows_max, self.directory, known)
        self._last = (found, {file.name: file.size for file in listing})
        return found

    def slices(self, start: Offset, end: Offset) -> list[Slice]:
        listing = self.listing()
        if end == self._last[0]:
            listing = [file for file in listing if file.name in self._last[1]]
        return slices(listing, start, end, self.directory)

    def everything(self) -> list[Slice]:
        """All that is there now, an unfinished last line included: for reading once."""
        return [Slice(str(self.directory / f.name), 0, f.size) for f in self.listing()]

    def done(self, end: Offset) -> None:
        pass

    def close(self) -> None:
        pass

    def listing(self) -> list[File]:
        """The files in the order of their names; hidden ones and those after `_` do not count."""
        found = []
        try:
            with os.scandir(self.directory) as entries:
                for entry in entries:
                    if entry.name[0] in "._" or not fnmatchcase(entry.name, self.pattern):
                        continue
                    if entry.is_file():
                        about = entry.stat()
                        found.append(File(entry.name, about.st_size, about.st_ctime_ns))
        except OSError as error:
            raise InvalidInputError(
                f"{self.directory}: {error.strerror}; give the folder notifications arrive in"
            ) from error
        return sorted(found, key=lambda file: file.name)


def latest(
    listing: Sequence[File],
    start: Offset,
    rows_max: int | None,
    directory: Path,
    known: Mapping[str, int] | None = None,
) -> Offset:
    """The offset after all whole lines that are there, or after `rows_max` of them.

    `start` itself when there is nothing new. Late files are taken whole, whatever `rows_max`.
    `known` are the files there were at `start` and their sizes, when this process has seen them.
    """
    late = late_files(listing, start, known)
    file, at = start.file, start.at
    taken = sum(late.values())
    left = rows_max
    last = listing[-1].name if listing else ""
    for candidate in listing:
        if candidate.name < start.file:
            continue
        begin = start.at if candidate.name == start.file else 0
        _check_not_shorter(candidate, begin)
        path = directory / candidate.name
        end = candidate.size if candidate.name < last else _last_line_end(path, begin, candidate)
        if left is not None:
            end, rows = _after_rows(path, begin, end, left)
            left -= rows
        if end > begin or candidate.name < last:
            file, at = candidate.name, end
            taken += end - begin
        if left == 0:
            break
    if not taken:
        return start
    return _described(listing, Offset(file, at, start.bytes + taken, late=late))


def _described(listing: Sequence[File], reached: Offset) -> Offset:
    before = [file for file in listing if file.name < reached.file]
    return Offset(
        reached.file,
        reached.at,
        reached.bytes,
        files=len(before),
        size=sum(file.size for file in before),
        names=_checksum(before),
        changed=max((file.changed for file in before), default=0),
        late=reached.late,
    )


def late_files(
    listing: Sequence[File], start: Offset, known: Mapping[str, int] | None = None
) -> dict[str, int]:
    """The files that came under a name before the offset, after it was made.

    Where it is not `known` which files there were, late ones are told by their change time (a file
    that is renamed into a folder has a new one), and believed only when they explain all that is
    new there.
    """
    before = [file for file in listing if file.name < start.file]
    count, size = len(before), sum(file.size for file in before)
    if known is not None:
        changed = {f.name: f.size for f in before if f.size != known.get(f.name, f.size)}
        if changed:
            raise _changed(start, changed)
        return {file.name: file.size for file in before if file.name not in known}
    if (count, size, _checksum(before)) == (start.files, start.size, start.names):
        return {}
    late = {file.name: file.size for file in before if file.changed > start.changed}
    is_explained = (count, size) == (start.files + len(late), start.size + sum(late.values()))
    only_removals = not late and count <= start.files and size <= start.size
    if is_explained or only_removals:
        return late
    raise _changed(start, late)


def _checksum(files: Sequence[File]) -> int:
    return crc32("/".join(file.name for file in files).encode(errors="surrogateescape"))


def _changed(start: Offset, names: Mapping[str, int]) -> KbnError:
    return KbnError(
        f"files that sort before {start.file!r}, which is being read, have changed since they "
        f"were read: {_named(names) or 'which ones cannot be told'}. A file that was read may be "
        "removed but not changed. Move what is new in them into the folder under a name that "
        "sorts last."
    )


def slices(listing: Sequence[File], start: Offset, end: Offset, directory: Path) -> list[Slice]:
    """What lies between two offsets, exactly as it was when the second was made."""
    expected = end.bytes - start.bytes
    if not expected:
        return []
    between = [
        file for file in listing if start.file <= file.name <= end.file or file.name in end.late
    ]
    found = _cut(between, start, end)
    if sum(size for _, _, size in found) != expected:
        # A file may have come in since, between the two: it is late, and not of this step.
        known = [f for f in between if f.changed <= end.changed or f.name == end.file]
        found = _cut(known, start, end)
    if sum(size for _, _, size in found) != expected:
        raise KbnError(
            f"{directory}: the files from {start.file!r} to {end.file!r} are not as they were when "
            f"this batch was planned: it has {expected} bytes, and they have "
            f"{sum(size for _, _, size in found)}. Put back what was removed or changed there."
        )
    return [
        Slice(str(directory / name), begin, begin + size) for name, begin, size in found if size
    ]


def _cut(files: Sequence[File], start: Offset, end: Offset) -> list[tuple[str, int, int]]:
    """Of each file its name, where the step begins in it, and the number of its bytes."""
    found = []
    for file in files:
        if file.name in end.late:
            begin, stop = 0, end.late[file.name]
        else:
            begin = start.at if file.name == start.file else 0
            stop = end.at if file.name == end.file else file.size
        found.append((file.name, begin, max(0, min(stop, file.size) - begin)))
    return found


def _check_not_shorter(file: File, begin: int) -> None:
    if file.size < begin:
        raise KbnError(
            f"{file.name} has {file.size} bytes, and {begin} were read of it: a file may grow, "
            "not shrink. Put it back as it was, or move what is new into a file of another name."
        )


def _last_line_end(path: Path, begin: int, file: File) -> int:
    """Where the last whole line ends, of those from `begin` on."""
    end = file.size
    if begin == end:
        return end
    with opened(path) as stream:
        while end > begin:
            first = max(begin, end - BLOCK)
            stream.seek(first)
            found = stream.read(end - first).rfind(b"\n")
            if found >= 0:
                return first + found + 1
            end = first
    return begin


def _after_rows(path: Path, begin: int, end: int, rows_max: int) -> tuple[int, int]:
    """Where `rows_max` lines from `begin` on end, no further than `end`; and how many they are."""
    rows, at = 0, begin
    if begin == end:  # it may be gone by now
        return end, rows
    with opened(path) as stream:
        stream.seek(begin)
        while at < end and (block := stream.read(min(BLOCK, end - at))):
            found = block.count(b"\n")
            if rows + found >= rows_max:
                return at + _nth_line_end(block, rows_max - rows), rows_max
            rows += found
            at += len(block)
    return end, rows


def _nth_line_end(block: bytes, count: int) -> int:
    at = 0
    for _ in range(count):
        at = block.index(b"\n", at) + 1
    return at


def _named(late: Mapping[str, int], shown_max: int = 5) -> str:
    names = sorted(late)
    more = f" and {len(names) - shown_max} more" if len(names) > shown_max else ""
    return ", ".join(repr(name) for name in names[:shown_max]) + more


def _literally(name: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)
