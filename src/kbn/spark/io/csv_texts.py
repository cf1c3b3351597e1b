"""CSV to outcomes: one record a row, by the names of the header.

A row that cannot be read is refused with its line. The worst that can be wrong with one is a quote
that is never closed: it swallows the rows below it. So when a record over several lines turns out
wrong, only its first line is refused, and reading goes on at the second.
"""

from __future__ import annotations

import csv
import io
from codecs import lookup
from collections import deque
from collections.abc import Iterator
from typing import IO, NamedTuple

from kbn.errors import InvalidInputError
from kbn.spark.io.mapping import Csv, Mapping
from kbn.spark.io.outcomes import Outcome, Refused
from kbn.spark.io.partitions import partition_fields

LINES_MAX = 10_000
"""Lines of one record: a quote that is open for longer was never closed."""

LINE_CHARACTERS_MAX = 64 * 2**20
"""A longer line is taken for several, and refused piece by piece."""


def csv_outcomes(stream: IO[bytes], source: str | None, mapping: Mapping) -> Iterator[Outcome]:
    """Each row of a CSV file as a notification; the header, or the mapping, names the fields."""
    # The limit of the csv module is the process's own; we only ever raise it.
    csv.field_size_limit(max(csv.field_size_limit(), LINE_CHARACTERS_MAX))
    rows = _Rows(stream, mapping.csv)
    names = mapping.csv.columns
    if names is None:
        header = next(rows, None)
        if header is None:
            return
        try:
            names = _header(header)
        except InvalidInputError as error:
            yield Refused(source, None, header.text, str(error))
            return
    rows.width = len(names)
    in_path = partition_fields(source)
    for row in rows:
        try:
            if row.reason is not None:
                raise InvalidInputError(row.reason)
            filled = (cell or None for cell in row.cells)
            record = {**in_path, **dict(zip(names, filled, strict=True))}
            yield mapping.row(record, source, columnar=True)
        except InvalidInputError as error:
            yield Refused(source, row.line, row.text, str(error))


def csv_names(stream: IO[bytes], mapping: Mapping) -> tuple[str, ...]:
    """The names of a CSV file's fields; InvalidInputError when it has none.

    >>> csv_names(io.BytesIO(b"id,topic\\nn1,tea\\n"), Mapping())
    ('id', 'topic')
    """
    if mapping.csv.columns is not None:
        return mapping.csv.columns
    rows = _Rows(stream, mapping.csv)
    header = next(rows, None)
    rows.detach()
    if header is None:
        raise InvalidInputError("the file is empty")
    return _header(header)


class _Row(NamedTuple):
    line: int
    text: str
    cells: list[str]
    reason: str | None


class _Rows:
    """The rows of a file, each with the line it begins at, its text, and what is wrong with it."""

    def __init__(self, stream: IO[bytes], form: Csv) -> None:
        self._lines = _Lines(stream, form.encoding, form.comment)
        self._form = form
        self._reader = self._started()
        self.width: int | None = None

    def __iter__(self) -> Iterator[_Row]:
        return self

    def __next__(self) -> _Row:
        cells: list[str] = []
        reason: str | None = None
        while not cells and reason is None:  # a blank line is no row
            self._lines.begin()
            try:
                cells = next(self._reader)
                reason = self._trouble(cells)
            except csv.Error as error:
                reason = f"not CSV: {error}"
        if reason is not None:
            self._lines.keep_first()
            self._reader = self._started()
        return _Row(self._lines.start, _shown("".join(self._lines.taken)), cells, reason)

    def detach(self) -> None:
        """Leave the file to whoever opened it."""
        self._lines.detach()

    def _started(self) -> Iterator[list[str]]:
        form = self._form
        return csv.reader(
            self._lines,
            delimiter=form.delimiter,
            quotechar=form.quote,
            escapechar=form.escape,
            strict=True,
        )

    def _trouble(self, cells: list[str]) -> str | None:
        if not all(map(_is_text, self._lines.taken)):
            return f"not {self._form.encoding} text"
        if cells and self.width is not None and len(cells) != self.width:
            return f"{len(cells)} fields where the header has {self.width}"
        return None


class _Lines:
    """The lines of a file; remembers those of the current row, and takes them back."""

    def __init__(self, stream: IO[bytes], encoding: str, comment: str | None) -> None:
        name = "utf-8-sig" if lookup(encoding).name == "utf-8" else encoding
        # What is not text in this encoding goes through as lone surrogates, to be refused by row.
        self._text = io.TextIOWrapper(stream, name, "surrogateescape", newline="")
        self._pending: deque[str] = deque()
        self._comment = comment
        self.taken: list[str] = []
        self.start = 1

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        if len(self.taken) >= LINES_MAX:
            raise csv.Error(f"a quote is not closed within {LINES_MAX} lines")
        line = self._next()
        if not line:
            raise StopIteration
        self.taken.append(line)
        return line

    def detach(self) -> None:
        self._text.detach()

    def begin(self) -> None:
        """A new row begins here, or below the comments that stand here."""
        self.start += len(self.taken)
        self.taken = []
        if self._comment is None:
            return
        # Only here: within a quoted field a line that looks like a comment is part of the text.
        while (line := self._next()).startswith(self._comment):
            self.start += 1
        if line:
            self._pending.appendleft(line)

    def keep_first(self) -> None:
        """Only the first line belonged to the row: the others are to be read again."""
        self._pending.extendleft(reversed(self.taken[1:]))
        del self.taken[1:]

    def _next(self) -> str:
        return self._pending.popleft() if self._pending else self._read()

    def _read(self) -> str:
        return self._text.readline(LINE_CHARACTERS_MAX)


def _header(row: _Row) -> tuple[str, ...]:
    if row.reason is not None:
        raise InvalidInputError(f"the header is {row.reason}")
    names = tuple(cell.strip() or f"column_{n}" for n, cell in enumerate(row.cells, start=1))
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidInputError(f"the header has the column {twice!r:.60} twice")
    return names


def _is_text(line: str) -> bool:
    if line.isascii():
        return True
    try:
        line.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(text: str) -> str:
    """The text as a record is shown: without its line's end, and as text whatever it holds."""
    text = text.rstrip("\r\n")
    if _is_text(text):
        return text
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
