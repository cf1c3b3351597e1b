"""Mapping files and dictionaries, checked: whatever they say wrong is refused by key and file."""

from __future__ import annotations

import codecs
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Meta

from kbn.config import Document, Form, Place, Text, or_one_of
from kbn.errors import InvalidInputError
from kbn.filters import MAX_NAME
from kbn.spark.io.conversions import KINDS, TIME_FORMATS, TimeFormat
from kbn.spark.io.mapping import Csv, Field, Mapping

Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME, description="a text")]
Names = Annotated[tuple[Name, ...], Meta(min_length=1, description="a list of names")]
Sign = Annotated[str, Meta(pattern=r"^[^\r\n]\Z", description="one character")]
if TYPE_CHECKING:
    Kind = str
else:
    Kind = Literal[KINDS]


class PublisherForm(Form, frozen=True):
    """Who published a record: a field, a constant, or a field for which the constant stands in."""

    field: Name | None = None
    constant: Name | None = None


class TimeForm(Form, frozen=True):
    """When a record was published."""

    field: Name
    format: Text | None = None
    zone: Text | None = None


class FieldForm(Form, frozen=True):
    """How one attribute comes out of a record."""

    field: Name | None = None
    kind: Kind | None = msgspec.field(name="as", default=None)
    split: Name | None = None
    default: Any = None
    required: bool | None = None
    format: Text | None = None
    zone: Text | None = None


class CsvForm(Form, frozen=True):
    """How a CSV file is written."""

    delimiter: Sign = ","
    quote: Sign | None = '"'
    escape: Sign | None = None
    comment: Name | None = None
    encoding: Text = "utf-8"
    columns: Names | None = None


Attributes = Annotated[
    dict[Name, Name | FieldForm | None], Meta(description="attributes, each with its field")
]


class MappingForm(Form, frozen=True):
    """A mapping as it stands in a file."""

    id: Name | None = None
    publisher: Name | PublisherForm | None = None
    time: Name | TimeForm | None = None
    attributes: Attributes | None = None
    csv: CsvForm | None = None


def read_mapping(path: Path) -> Mapping:
    """The mapping in a YAML file."""
    root = Document.read(path, "the mapping").root
    return mapping_of(root.convert(MappingForm), root)


def checked_mapping(data: object, where: str) -> Mapping:
    """The mapping the data says; `where` is named in errors."""
    root = Document.of(data, where).root
    return mapping_of(root.convert(MappingForm), root)


def mapping_of(form: MappingForm, place: Place) -> Mapping:
    """The mapping a form declares; `place` is where it stands.

    >>> form = MappingForm(id="guid")
    >>> mapping_of(form, Document.of({}, "a mapping").root).id
    'guid'
    """
    publisher, constant = _publisher(form.publisher, place.at("publisher"))
    time, time_format = _time(form.time, place.at("time"))
    attributes = place.at("attributes")
    return Mapping(
        id=form.id,
        publisher=publisher,
        constant_publisher=constant,
        time=time,
        time_format=time_format,
        attributes=None
        if form.attributes is None
        else {
            name: _field(name, each, attributes.at(name)) for name, each in form.attributes.items()
        },
        csv=_csv(form.csv or CsvForm(), place.at("csv")),
    )


def _publisher(form: str | PublisherForm | None, place: Place) -> tuple[str | None, str | None]:
    if not isinstance(form, PublisherForm):
        return form, None
    if form.field is None and form.constant is None:
        raise place.error("say a `field`, a `constant`, or both: then the constant stands in")
    return form.field, form.constant


def _time(form: str | TimeForm | None, place: Place) -> tuple[str | None, TimeFormat]:
    if not isinstance(form, TimeForm):
        return form, TimeFormat()
    return form.field, _time_format(form.format, form.zone, place)


def _field(name: str, form: str | FieldForm | None, place: Place) -> Field:
    if not isinstance(form, FieldForm):
        return Field(form or name)
    if form.kind != "time" and (form.format, form.zone) != (None, None):
        raise place.error("`format` and `zone` go with `as: time`")
    time_format = _time_format(form.format, form.zone, place)
    made = Field(form.field or name, form.kind, form.split, None, form.required, time_format)
    if form.default is None:
        return made
    try:
        default = made.converted(form.default)
    except InvalidInputError as error:
        raise place.at("default").error(str(error)) from None
    return Field(made.field, made.kind, made.split, default, made.required, made.time_format)


def _time_format(form: str | None, zone: str | None, place: Place) -> TimeFormat:
    if form is not None and form not in TIME_FORMATS and "%" not in form:
        hint = or_one_of(form, (*TIME_FORMATS, "a pattern such as %d/%m/%Y"))
        raise place.at("format").error(f"{form!r:.60} is unknown{hint}")
    if zone is not None:
        try:
            ZoneInfo(zone)
        except (ValueError, OSError, KeyError):
            reason = f"no time zone is called {zone!r:.60}; write one such as Europe/Dublin"
            raise place.at("zone").error(reason) from None
    return TimeFormat(form or "iso", zone)


def _csv(form: CsvForm, place: Place) -> Csv:
    signs = [sign for sign in (form.delimiter, form.quote, form.escape) if sign is not None]
    if len(set(signs)) < len(signs):
        raise place.error("delimiter, quote and escape must be different characters")
    if form.columns is not None and len(set(form.columns)) < len(form.columns):
        raise place.at("columns").error("a name occurs twice; remove one")
    try:
        codecs.lookup(form.encoding)
        "".encode(form.encoding)
    except (LookupError, ValueError):
        reason = f"no encoding is called {form.encoding!r:.60}; write one such as utf-8"
        raise place.at("encoding").error(reason) from None
    return Csv(**msgspec.structs.asdict(form))
