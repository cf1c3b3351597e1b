"""JSON texts to outcomes: lines of files, values of a queue, arrays, and one object per file.

A text is one record, or an array of them. A file has one text a line (JSON Lines), unless its first
line is no JSON by itself: then the file is one text over many lines. Every element of an array is
judged by itself, so that one bad element leaves the others be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import msgspec

from kbn.errors import InvalidInputError
from kbn.spark.io.mapping import Mapping
from kbn.spark.io.outcomes import Outcome, Refused, Row, shown
from kbn.spark.io.partitions import partition_fields
from kbn.spark.io.records import cloudevent_fields, cloudevent_row, json_content, own_row

RECORD_BYTES_MAX = 64 * 2**20
"""A longer record is refused."""

_CE_ENVELOPE = ("ce.id", "ce.source", "ce.time")
_BOM = b"\xef\xbb\xbf"
_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode

Line = tuple[int | None, bytes]
"""A line and its number from 1, where that is known."""


@dataclass(frozen=True)
class JsonReader:
    """Reads JSON texts as CloudEvents, through a mapping, or in kbn's own form."""

    cloudevents: bool = False
    mapping: Mapping | None = None

    def read(self, text: bytes, source: str | None, position: int | None) -> Iterator[Outcome]:
        """The outcome of the record, or of each in the array, that the text holds."""
        if text.lstrip()[:1] == b"[" and len(text) <= RECORD_BYTES_MAX:
            return self._array(text, source, position)
        return iter((self._record(text, source, position),))

    def lines(self, lines: Iterable[Line], source: str | None) -> Iterator[Outcome]:
        """The outcomes of lines that are a text each; blank ones are no records."""
        for number, line in lines:
            if not line or line.isspace():
                continue
            if line[:1] in b"[ \t":
                yield from self.read(line, source, number)
            else:
                yield self._record(line, source, number)

    def file(self, lines: Iterator[Line], source: str | None) -> Iterator[Outcome]:
        """The outcomes of a file's lines from the first one on: a text each, or one together."""
        for number, line in lines:
            line = line.removeprefix(_BOM)
            if line and not line.isspace():
                whole = chain(((number, line),), lines)
                opens = line.lstrip()[:1] in (b"[", b"{") and not _is_json(line)
                return self._document(whole, source) if opens else self.lines(whole, source)
        return iter(())

    def _document(self, lines: Iterator[Line], source: str | None) -> Iterator[Outcome]:
        held = [next(lines)]
        is_array = held[0][1].lstrip()[:1] == b"["
        for line in lines:
            held.append(line)
            # An object on one line, where the first line was the broken beginning of another: JSON
            # Lines after all. In an array it could be the last element, so there it says nothing.
            if not is_array and line[1][:1] == b"{" and _is_json(line[1]):
                break
        else:
            text = b"\n".join(line for _, line in held)
            if _is_json(text):
                yield from self.read(text, source, held[0][0])
                return
        yield from self.lines(chain(held, lines), source)

    def _array(self, text: bytes, source: str | None, position: int | None) -> Iterator[Outcome]:
        try:
            elements = _elements(text)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            yield Refused(source, position, shown(text), f"not JSON: {error}")
            return
        for number, element in enumerate(elements, start=1):
            outcome = self._record(bytes(element), source, position)
            if type(outcome) is Refused:
                outcome = outcome._replace(reason=f"item {number}: {outcome.reason}")
            yield outcome

    def _record(self, text: bytes, source: str | None, position: int | None) -> Outcome:
        try:
            if len(text) > RECORD_BYTES_MAX:
                raise InvalidInputError(
                    f"a record of {len(text):,} bytes; the limit is {RECORD_BYTES_MAX:,}"
                )
            record, written = json_content(text)
            return self._row(record, written, source)
        except InvalidInputError as error:
            return Refused(source, position, shown(text.rstrip(b"\r\n")), str(error))

    def _row(self, record: Any, written: bytes, source: str | None) -> Row:
        mapping = self.mapping
        if mapping is None:
            return cloudevent_row(record) if self.cloudevents else own_row(record, written, source)
        if self.cloudevents:
            record = cloudevent_fields(record)
            mapping = mapping.with_envelope(*_CE_ENVELOPE)
        elif type(record) is not dict:
            raise InvalidInputError("a record is an object of fields, not a single value")
        in_path = partition_fields(source)
        return mapping.row({**in_path, **record} if in_path else record, source, written)


def _is_json(text: bytes) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False
    return True
