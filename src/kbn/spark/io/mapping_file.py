"""Mapping files and dictionaries, checked: whatever they say wrong is refused by key and file."""

from __future__ import annotations

import codecs
from datetime import date
from pathlib import Path
from typing import Any, NoReturn
from zoneinfo import ZoneInfo

from kbn.errors import InvalidInputError
from kbn.filters import MAX_NAME
from kbn.spark.io.conversions import KINDS, TIME_FORMATS, TimeFormat
from kbn.spark.io.mapping import Csv, Field, Mapping, suggestion
from kbn.spark.yaml_file import read_yaml

_KEYS = ("id", "publisher", "time", "attributes", "csv")
_FIELD_KEYS = ("field", "as", "split", "default", "required", "format", "zone")
_CSV_KEYS = ("delimiter", "quote", "escape", "comment", "encoding", "columns")


def read_mapping(path: Path) -> Mapping:
    """The mapping in a YAML file."""
    return _Reading(str(path)).mapping(read_yaml(path, "mapping"))


def checked_mapping(data: object, where: str) -> Mapping:
    """The mapping the data says; `where` is named in errors."""
    return _Reading(where).mapping(data)


class _Reading:
    """Reads one mapping; knows the name of its file, for the errors."""

    def __init__(self, where: str) -> None:
        self.where = where

    def mapping(self, data: object) -> Mapping:
        given = self._object("", data, _KEYS)
        publisher, constant = self._publisher(given.get("publisher"))
        time, moment = self._time(given.get("time"))
        return Mapping(
            id=None if given.get("id") is None else self._name("id", given["id"]),
            publisher=publisher,
            constant_publisher=constant,
            time=time,
            moment=moment,
            attributes=self._attributes(given.get("attributes")),
            csv=self._csv(given.get("csv")),
        )

    def _publisher(self, data: object) -> tuple[str | None, str | None]:
        if not isinstance(data, dict):
            return (None if data is None else self._name("publisher", data)), None
        given = self._object("publisher", data, ("field", "constant"))
        if not given:
            self._fail("publisher", "say a `field`, a `constant`, or both: then it stands in")
        name, constant = given.get("field"), given.get("constant")
        return (
            None if name is None else self._name("publisher.field", name),
            None if constant is None else self._name("publisher.constant", constant),
        )

    def _time(self, data: object) -> tuple[str | None, TimeFormat]:
        if not isinstance(data, dict):
            return (None if data is None else self._name("time", data)), TimeFormat()
        given = self._object("time", data, ("field", "format", "zone"))
        if "field" not in given:
            self._fail("time", "which `field` holds it?")
        return self._name("time.field", given["field"]), self._moment("time", given)

    def _attributes(self, data: object) -> dict[str, Field] | None:
        if data is None:
            return None
        if not isinstance(data, dict):
            self._fail("attributes", f"a name and a field each, not {data!r:.60}")
        return {
            self._name("attributes", name): self._field(f"attributes.{name}", name, item)
            for name, item in data.items()
        }

    def _field(self, key: str, name: str, data: object) -> Field:
        if data is None:
            return Field(name)
        if not isinstance(data, dict):
            return Field(self._name(key, data))
        given = self._object(key, data, _FIELD_KEYS)
        kind, split = given.get("as"), given.get("split")
        if kind is not None and kind not in KINDS:
            self._unknown(f"{key}.as", kind, KINDS)
        if split is not None:
            self._name(f"{key}.split", split)
        if given.keys() & {"format", "zone"} and kind != "time":
            self._fail(key, "`format` and `zone` go with `as: time`")
        required = given.get("required")
        if required is not None and not isinstance(required, bool):
            self._fail(f"{key}.required", f"true or false, not {required!r:.60}")
        made = Field(
            field=self._name(f"{key}.field", given.get("field", name)),
            kind=kind,
            split=split,
            required=required,
            moment=self._moment(key, given),
        )
        return made if given.get("default") is None else self._defaulted(key, made, given)

    def _defaulted(self, key: str, made: Field, given: dict[str, Any]) -> Field:
        try:
            default = made.converted(given["default"])
        except InvalidInputError as error:
            self._fail(f"{key}.default", str(error))
        return Field(made.field, made.kind, made.split, default, made.required, made.moment)

    def _moment(self, key: str, given: dict[str, Any]) -> TimeFormat:
        form, zone = given.get("format", "iso"), given.get("zone")
        if not isinstance(form, str) or (form not in TIME_FORMATS and "%" not in form):
            self._unknown(f"{key}.format", form, TIME_FORMATS, "or a pattern such as %d/%m/%Y")
        if zone is not None:
            try:
                ZoneInfo(zone)
            except (ValueError, OSError, KeyError, TypeError):
                self._fail(f"{key}.zone", f"no time zone is called {zone!r:.60}")
        return TimeFormat(form, zone)

    def _csv(self, data: object) -> Csv:
        if data is None:
            return Csv()
        given = self._object("csv", data, _CSV_KEYS)
        for name in ("delimiter", "quote", "escape"):
            text = given.get(name)
            if text is not None and (not isinstance(text, str) or len(text) != 1 or text in "\r\n"):
                self._fail(f"csv.{name}", f"one character, not {text!r:.60}")
        if given.get("comment") is not None:
            self._name("csv.comment", given["comment"])
        columns = given.get("columns")
        if columns is not None:
            columns = self._columns(columns)
        made = Csv(**{**given, "columns": columns})
        signs = [sign for sign in (made.delimiter, made.quote, made.escape) if sign is not None]
        if len(set(signs)) < len(signs):
            self._fail("csv", "delimiter, quote and escape are different characters")
        self._check_encoding(made.encoding)
        return made

    def _columns(self, data: object) -> tuple[str, ...]:
        if not isinstance(data, list) or not data:
            self._fail("csv.columns", f"a list of names, not {data!r:.60}")
        names = tuple(self._name("csv.columns", name) for name in data)
        if len(set(names)) < len(names):
            self._fail("csv.columns", "a name stands twice")
        return names

    def _check_encoding(self, name: object) -> None:
        try:
            codecs.lookup(name)  # type: ignore[arg-type]
            "".encode(name)  # type: ignore[arg-type]
        except (LookupError, TypeError, ValueError):
            self._fail("csv.encoding", f"no encoding is called {name!r:.60}")

    def _object(self, key: str, data: object, known: tuple[str, ...]) -> dict[str, Any]:
        if data is None and not key:
            return {}
        if not isinstance(data, dict):
            self._fail(key, f"expected {', '.join(known)}, not {data!r:.60}")
        for name in data:
            if name not in known:
                self._unknown(f"{key}.{name}" if key else str(name), name, known, what="key")
        return data

    def _name(self, key: str, data: object) -> str:
        if not isinstance(data, str) or not data:
            self._fail(key, f"expected a text, not {data!r:.60}{_quoting(data)}")
        if len(data) > MAX_NAME:
            self._fail(key, f"a name has {MAX_NAME} characters at most")
        return data

    def _unknown(
        self, key: str, given: object, known: tuple[str, ...], more: str = "", what: str = "value"
    ) -> NoReturn:
        guess = suggestion(str(given), known)
        there = f"; there are {', '.join(known)}"
        subject = "unknown key" if what == "key" else f"{given!r:.60} is unknown"
        self._fail(key, f"{subject}{guess}{there}{' ' if more else ''}{more}")

    def _fail(self, key: str, reason: str) -> NoReturn:
        raise InvalidInputError(
            f"{self.where}: {key}: {reason}" if key else f"{self.where}: {reason}"
        )


def _quoting(data: object) -> str:
    """YAML reads `no` as false and `12` as a number."""
    return "; put it in quotes" if isinstance(data, (bool, int, float, date)) else ""
