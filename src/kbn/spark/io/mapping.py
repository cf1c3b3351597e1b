"""Mappings: how the fields of a record become a notification, from a YAML file or a dictionary.

    id: guid                                    # a field; without it: a hash of source and record
    publisher: feed                             # a field, or {constant: "the shop"}
    time: {field: published, zone: Europe/Dublin}
    attributes:
      title: headline                           # an attribute's name: a field
      category: {field: tags, as: term, split: ";"}
      price: {as: number, default: 0}           # the field of the same name
    csv: {delimiter: ";"}

A field is a name, or a way into nested objects (`author.name`; through a list it collects). Without
`attributes` every field that is not the id, publisher or time is an attribute under its own name.
`as` says what a value is turned into: string, integer, number, boolean, time, or a term, class,
individual or property. Terms stay the text they are until `annotate` looks them up, which
`Mapping.terms` tells it to. Whatever the file says wrong is refused when it is read, naming the
file and the key.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from collections.abc import Mapping as MappingABC
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

from kbn.config import did_you_mean
from kbn.errors import InvalidInputError
from kbn.filters import MAX_BAG_DEPTH, print_time
from kbn.spark.io.conversions import CONVERSIONS, ISO, TERM_KINDS, TimeFormat, as_text
from kbn.spark.io.outcomes import Row, stable_id
from kbn.spark.io.records import attributes_text, json_value, written

__all__ = ["Csv", "Field", "Mapping"]

_ABSENT: Any = object()
_TEXTS = frozenset({None, "string", *TERM_KINDS})


@dataclass(frozen=True)
class Field:
    """How one attribute comes out of a record."""

    field: str
    kind: str | None = None
    split: str | None = None
    default: Any = None
    required: bool | None = None
    time_format: TimeFormat = ISO

    def read(self, record: MappingABC[str, Any], columnar: bool) -> Any:
        """The attribute's value in JSON form, None when absent; InvalidInputError if it is wrong.

        `columnar` records have every column there is, so a field that is none of them is a column
        that has gone missing, and no absent value.
        """
        value = field_of(record, self.field)
        if type(value) is str and self.split is None and self.kind in _TEXTS and value.strip():
            return value if self.kind in (None, "string") else value.strip()  # the usual case
        if value is _ABSENT:
            if columnar and self.required is None and self.default is None:
                raise _no_column(self.field, record)
            value = None
        made = None if value is None else self.converted(value)
        if made is None:
            made = self.default
        if made is None and self.required:
            raise InvalidInputError(f"{self.field}: the mapping requires it, and there is none")
        return made

    def converted(self, value: Any) -> Any:
        """The value as the mapping says, in JSON form; None when nothing is left of it."""
        try:
            if self.split is not None and isinstance(value, str):
                value = [part.strip() for part in value.split(self.split)]
                value = [part for part in value if part] or None
            if isinstance(value, (list, tuple)) and self.kind is not None:
                made = [self._one(item) for item in value if item is not None]
                return [item for item in made if item is not None]
            return self._one(value)
        except InvalidInputError as error:
            raise InvalidInputError(_within(self.field, error)) from None

    def _one(self, value: Any) -> Any:
        if self.kind is None or value is None:
            return json_value(value)
        if self.kind != "string" and isinstance(value, str) and not value.strip():
            return None
        if self.kind == "time":
            return {"time": print_time(self.time_format.read(self.field, value))}
        return CONVERSIONS[self.kind](value)


@dataclass(frozen=True)
class Csv:
    """How a CSV file is written; `columns` names them where the file has no header.

    A line that begins with `comment` is none of the table's; `quote` is None where there are none.
    """

    delimiter: str = ","
    quote: str | None = '"'
    escape: str | None = None
    comment: str | None = None
    encoding: str = "utf-8"
    columns: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Mapping:
    """How a record becomes a notification; made by `load` from a file or `of` from a dictionary.

    >>> mapping = Mapping.of({"id": "no", "attributes": {"price": {"as": "number"}}})
    >>> mapping.row({"no": 7, "price": "2.50"})
    Row(id='7', publisher=None, time=None, attributes='{"price":2.5}')
    """

    id: str | None = None
    publisher: str | None = None
    constant_publisher: str | None = None
    time: str | None = None
    time_format: TimeFormat = ISO
    attributes: MappingABC[str, Field] | None = None
    csv: Csv = field(default_factory=Csv)

    @classmethod
    def load(cls, path: str | Path) -> Mapping:
        """The mapping a YAML file says."""
        from kbn.spark.io.mapping_file import read_mapping

        return read_mapping(Path(path))

    @classmethod
    def of(cls, data: object, where: str = "the mapping") -> Mapping:
        """The mapping the data says; `where` is named in errors."""
        from kbn.spark.io.mapping_file import checked_mapping

        return checked_mapping(data, where)

    def with_envelope(self, id: str, publisher: str, time: str) -> Mapping:
        """The same, with these fields for the id, publisher and time it says nothing about."""
        own = self.publisher or (publisher if self.constant_publisher is None else None)
        return replace(self, id=self.id or id, publisher=own, time=self.time or time)

    @property
    def terms(self) -> dict[str, str]:
        """The attributes whose texts name terms, and the kind of each: what to annotate."""
        given = self.attributes or {}
        return {name: one.kind for name, one in given.items() if one.kind in TERM_KINDS}

    @property
    def fields(self) -> tuple[str, ...]:
        """Every field the mapping reads and must find, in order."""
        given = (self.attributes or {}).values()
        needed = [one.field for one in given if one.required is None and one.default is None]
        named = [one for one in (self.id, self.publisher, self.time) if one is not None]
        return tuple(dict.fromkeys([*named, *needed]))

    def row(
        self,
        record: MappingABC[str, Any],
        source: str | None = None,
        content: bytes | None = None,
        *,
        columnar: bool = False,
    ) -> Row:
        """The notification's row, or InvalidInputError with the reason it is none.

        `content` is what a record without an id is known by; by default the record's own text.
        """
        return Row(
            self._id(record, source, content, columnar),
            self._publisher(record, columnar),
            self._time(record, columnar),
            self._attributes(record, columnar),
        )

    def _id(
        self,
        record: MappingABC[str, Any],
        source: str | None,
        content: bytes | None,
        columnar: bool,
    ) -> str:
        if self.id is None:
            return stable_id(source, record_text(record).encode() if content is None else content)
        value = _present(record, self.id, columnar)
        if value is None:
            raise InvalidInputError(f"{self.id}: the id is missing")
        return value if type(value) is str else as_text(self.id, value)

    def _publisher(self, record: MappingABC[str, Any], columnar: bool) -> str | None:
        if self.publisher is None:
            return self.constant_publisher
        value = _present(record, self.publisher, columnar)
        return self.constant_publisher if value is None else as_text(self.publisher, value)

    def _time(self, record: MappingABC[str, Any], columnar: bool) -> datetime | None:
        if self.time is None:
            return None
        value = _present(record, self.time, columnar)
        return None if value is None else self.time_format.read(self.time, value)

    def _attributes(self, record: MappingABC[str, Any], columnar: bool) -> str:
        if self.attributes is None:
            used = (self.id, self.publisher, self.time)
            return attributes_text(flattened(record, used))
        made = {}
        for name, one in self.attributes.items():
            value = one.read(record, columnar)
            if value is not None:
                made[name] = value
        return written(made)


# Fields of records.


def field_of(record: MappingABC[str, Any], name: str) -> Any:
    """The field's value; by a dotted way into nested objects when no field has the whole name."""
    value = record.get(name, _ABSENT)
    if value is not _ABSENT or "." not in name:
        return value
    first, _, rest = name.partition(".")
    inner = record.get(first, _ABSENT)
    if isinstance(inner, dict):
        return field_of(inner, rest)
    if isinstance(inner, list):
        found = [field_of(item, rest) for item in inner if isinstance(item, dict)]
        return [item for item in found if item is not _ABSENT and item is not None]
    return None if inner is None else _ABSENT


def _present(record: MappingABC[str, Any], name: str, columnar: bool) -> Any:
    """The field's value, None when there is none or it is blank."""
    value = field_of(record, name)
    if type(value) is str:
        return value if value and not value.isspace() else None
    if value is _ABSENT and columnar:
        raise _no_column(name, record)
    return None if value is _ABSENT else value


def flattened(
    record: MappingABC[str, Any], without: Iterable[str | None], depth: int = 0
) -> dict[str, Any]:
    """Every field but those; the fields of an object inside are named `outer.inner`."""
    if depth > MAX_BAG_DEPTH:
        raise InvalidInputError(f"objects are nested more than {MAX_BAG_DEPTH} deep")
    left_out = set(without)
    made: dict[str, Any] = {}
    for name, value in record.items():
        if name in left_out:
            continue
        if type(value) is dict and not _is_value(value):
            inner = flattened(value, (), depth + 1)
            made.update(
                (f"{name}.{key}", item)
                for key, item in inner.items()
                if f"{name}.{key}" not in left_out
            )
        else:
            made[name] = value
    return made


def record_text(record: MappingABC[str, Any]) -> str:
    """The record as JSON text, whatever it holds: for the quarantine and for hashing.

    >>> record_text({"day": date(2026, 11, 18)})
    '{"day":"2026-11-18"}'
    """
    text = json.dumps(record, default=_shown, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace").decode()


def _shown(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else str(value)


def _is_value(data: dict[Any, Any]) -> bool:
    """Whether an object stands for one value in kbn's JSON form, such as {"class": iri}."""
    tags = {"class", "individual", "property", "term", "time", "bytes", "float"}
    return len(data) == 1 and next(iter(data)) in tags


def _no_column(name: str, record: MappingABC[str, Any]) -> InvalidInputError:
    shown = ", ".join(list(record)[:20])
    return InvalidInputError(
        f"there is no column {name!r}{did_you_mean(name, record)}; there are: {shown}"
    )


def _within(name: str, error: InvalidInputError) -> str:
    text = str(error).removeprefix("$: ")
    return text if text.startswith(f"{name}: ") else f"{name}: {text}"
