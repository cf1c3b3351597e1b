"""Rows as notifications: what a table's rows are when they are published.

A table with the columns `id` and `attributes` holds notifications, and its rows are what their
attributes say; a row without any is a line that could not be read, and none. Of any other table
each column is an attribute: arrays are bags, times are times, and what is null is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    FractionalType,
    IntegralType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from kbn.broker import content
from kbn.errors import InvalidInputError, KbnError
from kbn.filters import Notification
from kbn.spark.io.records import json_value

_VALUES = (
    BooleanType, IntegralType, FractionalType, DecimalType, StringType, BinaryType, TimestampType,
)  # fmt: skip


def holds_notifications(schema: StructType) -> bool:
    """Whether rows are notifications already, rather than made into some."""
    types = {field.name: field.dataType for field in schema.fields}
    return "id" in types and isinstance(types.get("attributes"), StringType)


def check_publishable(schema: StructType) -> None:
    """InvalidInputError, when there is a column that no notification can have."""
    if holds_notifications(schema):
        return
    for field in schema.fields:
        inner: DataType = field.dataType
        while isinstance(inner, ArrayType):
            inner = inner.elementType
        if not isinstance(inner, _VALUES):
            raise InvalidInputError(
                f"the column {field.name} of type {field.dataType.simpleString()} cannot be an "
                f"attribute of a notification: {_advice(inner)}"
            )


def _advice(type_: DataType) -> str:
    if isinstance(type_, (DateType, TimestampNTZType)):
        return "it has no time zone; cast it to a timestamp, or to a string"
    return "select the parts of it as columns of their own, or leave it out"


def notifications(batches: Iterable[pa.RecordBatch], schema: StructType) -> Iterator[Notification]:
    """The notifications that rows are; InvalidInputError for a row that can be none."""
    whole = holds_notifications(schema)
    for batch in batches:
        columns = batch.select(["attributes"]) if whole else batch
        for row in columns.to_pylist():
            if whole and row["attributes"] is None:
                continue
            yield _of_text(row["attributes"]) if whole else _of_columns(row)


def checked(batches: Iterable[pa.RecordBatch], schema: StructType) -> Iterator[pa.RecordBatch]:
    """The same batches; raises at the first row that could not be published."""
    for batch in batches:
        for _ in notifications([batch], schema):
            pass
        yield batch


def _of_text(attributes: str) -> Notification:
    try:
        return _publishable(Notification.from_json('{"attributes":' + attributes + "}"))
    except KbnError as error:
        raise InvalidInputError(f"{attributes:.200} cannot be published: {error}") from None


def _of_columns(row: dict[str, object]) -> Notification:
    try:
        ready = {name: json_value(value) for name, value in row.items() if value is not None}
        return _publishable(Notification.from_json({"attributes": ready}))
    except KbnError as error:
        raise InvalidInputError(f"{row!s:.200} cannot be published: {error}") from None


def _publishable(notification: Notification) -> Notification:
    content.encode(notification)
    return notification
