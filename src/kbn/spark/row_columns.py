"""How the attributes of notifications lie in the columns of a DataFrame: found out on the driver.

The schema is known before any row is, so whatever it says wrong is refused here: a column that is
not there, and one of a type that no value has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from kbn.config import did_you_mean
from kbn.errors import InvalidInputError
from kbn.matching import TERM_KINDS
from kbn.spark.columns import INGESTED
from kbn.spark.match_job import VERSION, RowLayout

_TEXTS = (StringType, CharType, VarcharType)
_VALUES = (
    BooleanType, IntegralType, FloatType, DoubleType, BinaryType, TimestampType, NullType, *_TEXTS,
)  # fmt: skip


def with_layout(given: DataFrame, id: str, terms: Mapping[str, str]) -> tuple[DataFrame, RowLayout]:
    """The columns of a DataFrame that matching needs, and how attributes lie in its rows."""
    names = given.columns
    if id not in names:
        raise InvalidInputError(
            f"no column {id!r} tells notifications apart; there are {', '.join(names)}. "
            "Name one with id="
        )
    known = {**_kinds(given.schema), **terms}
    wrong = {kind for kind in known.values() if kind not in (*TERM_KINDS, "json")}
    if wrong:
        raise InvalidInputError(
            f"terms are {', '.join(TERM_KINDS)}, not {', '.join(sorted(wrong))}"
        )
    about = [name for name in (id, VERSION) if name in names]
    if set(INGESTED.names) <= set(names):
        given = given.where(F.col("reason").isNull())  # what ingest refused is no notification
    held = given.schema["attributes"].dataType if "attributes" in names else None
    if isinstance(held, StringType) and "attributes" not in known:
        if terms:
            raise InvalidInputError(
                f"terms={{{next(iter(terms))!r}: …}} is for columns, and the attributes are JSON "
                'here, where a term is written {"class": "…"}; kbn.spark.annotate makes terms of '
                "names"
            )
        return given.select(*about, "attributes"), RowLayout("json", id)
    if isinstance(held, StructType):
        _check_names(terms, held.fieldNames(), "field of attributes")
        kinds = {**_kinds(held), **terms}
        return given.select(*about, "attributes"), RowLayout("struct", id, kinds)
    _check_names(terms, names, "column")
    return given, RowLayout("columns", id, known)


def _check_names(terms: Iterable[str], names: Collection[str], what: str) -> None:
    for name in terms:
        if name not in names:
            raise InvalidInputError(
                f"terms names {name!r}, and there is no {what} of that name"
                f"{did_you_mean(name, names)}; there are {', '.join(sorted(names))}"
            )


def _kinds(schema: StructType) -> dict[str, str]:
    return {f.name: f.metadata["kbn"] for f in schema.fields if "kbn" in (f.metadata or {})}


def check_types(given: DataFrame, layout: RowLayout, wanted: Collection[str]) -> None:
    """InvalidInputError, when a column that some subscription asks about holds no values."""
    if layout.kind == "json":
        return
    inner = given.schema["attributes"].dataType if layout.kind == "struct" else given.schema
    assert isinstance(inner, StructType)
    for field in inner.fields:
        if field.name in wanted and (layout.kind == "struct" or field.name != layout.id):
            _check_type(field, layout.terms.get(field.name))


def _check_type(field: StructField, kind: str | None) -> None:
    inner: DataType = field.dataType
    while isinstance(inner, ArrayType):
        inner = inner.elementType
    what = f"the column {field.name!r} of type {field.dataType.simpleString()}"
    if kind is not None and not isinstance(inner, (*_TEXTS, NullType)):
        raise InvalidInputError(f"{what} is said to hold {_named(kind)}, which are strings")
    if not isinstance(inner, _VALUES):
        raise InvalidInputError(
            f"{what} cannot be matched, and subscriptions ask about it: {_advice(inner)}"
        )


def _named(kind: str) -> str:
    return "texts in JSON" if kind == "json" else f"IRIs ({kind})"


def _advice(type_: DataType) -> str:
    if isinstance(type_, DecimalType):
        return 'cast it: .cast("double"), or .cast("long") for whole numbers'
    if isinstance(type_, (DateType, TimestampNTZType)):
        return (
            'it has no time zone; .cast("timestamp") takes it to be in that of the session '
            "(spark.sql.session.timeZone)"
        )
    return "select the parts of it as columns of their own, or drop it"


def only_wanted(given: DataFrame, layout: RowLayout, wanted: Collection[str]) -> DataFrame:
    """Drop the columns that no subscription asks about: each is copied from the JVM to Python."""
    if layout.kind == "json":
        return given.select(quoted(layout.id), "attributes")
    if layout.kind == "columns":
        kept = [name for name in given.columns if name in wanted and name != layout.id]
        return given.select(quoted(layout.id), *(quoted(name) for name in kept))
    held = given.schema["attributes"].dataType
    assert isinstance(held, StructType)
    kept = [name for name in held.fieldNames() if name in wanted]
    inner = [F.col("attributes")[name].alias(name) for name in kept]
    fields = F.struct(*inner, F.lit(None).alias(""))
    # A struct of nulls is not a null: that there are no attributes at all stays known.
    attributes = F.when(F.col("attributes").isNotNull(), fields).alias("attributes")
    return given.select(quoted(layout.id), attributes)


def quoted(name: str) -> str:
    """The name as Spark reads it, whatever signs are in it."""
    return "`" + name.replace("`", "``") + "`"
