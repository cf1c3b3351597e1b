"""What a pipeline reads: which files there are, what stamps they bear, tables of subscriptions."""

from __future__ import annotations

import csv
import glob
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from kbn.config import did_you_mean, or_one_of
from kbn.errors import InvalidInputError
from kbn.filters import JSON_SUFFIXES, subscription_texts
from kbn.ontology import Ontology
from kbn.spark.columns import DELIVERIES, SUBSCRIPTIONS

TABLES = {"subscriptions": SUBSCRIPTIONS, "deliveries": DELIVERIES}
OPTIONAL = {"subscriptions": {"subscriber"}, "deliveries": {"broker"}}
TABLE_FORMATS = {
    "subscriptions": ("parquet", "csv", "text"),
    "deliveries": ("parquet", "csv", "json"),
}

Stamp = tuple[int, int]
"""A file's size and when it was last written, in nanoseconds."""


def found_files(directory: Path, pattern: str) -> tuple[Path, ...]:
    """The files a path means: the file, all below a folder, or what fits the pattern; sorted."""
    given = str(directory / pattern)
    places = [given] if os.path.exists(given) else glob.glob(given, recursive=True)
    found = {file for place in places for file in _files_at(Path(place))}
    return tuple(sorted(found))


def _files_at(place: Path) -> Iterator[Path]:
    if not place.is_dir():
        yield place
        return
    for folder, inner, names in os.walk(place):
        # As Spark does: what begins so is no data (_SUCCESS, .crc, what is being written).
        inner[:] = [name for name in inner if not name.startswith((".", "_"))]
        yield from (Path(folder, name) for name in names if not name.startswith((".", "_")))


def stamps(directory: Path, files: Iterable[Path]) -> dict[str, Stamp]:
    """Each file, as seen from `directory`, with its size and the time it was written."""
    found = {}
    for file in files:
        facts = file.stat()
        found[os.path.relpath(file, directory)] = (facts.st_size, facts.st_mtime_ns)
    return found


def spark_path(file: Path) -> str:
    """The path as Spark's readers want it: signs of a pattern are to mean themselves."""
    return "".join("\\" + sign if sign in "\\{}[]*?" else sign for sign in str(file.absolute()))


@dataclass(frozen=True)
class TableInput:
    """Files of one table."""

    key: str
    pattern: str
    format: str

    def check_columns(self, files: Iterable[Path]) -> None:
        """Refuse files that lack a column; those written as text have none."""
        schema = TABLES[self.key]
        for file in files:
            names = _columns(file, self.format)
            if names is None:
                continue
            missing = set(schema.fieldNames()) - set(names) - OPTIONAL[self.key]
            if missing:
                one = sorted(missing)[0]
                raise InvalidInputError(
                    f"{file} has no column {one!r}{did_you_mean(one, names)}; "
                    f"it has {', '.join(names)}"
                )

    def read(self, spark: SparkSession, files: Iterable[Path], ontology: Ontology) -> DataFrame:
        """The table, with all its columns, in their types."""
        schema = TABLES[self.key]
        paths = [spark_path(file) for file in files]
        if self.format == "text":
            rows = [row for file in files for row in subscription_rows(file, ontology)]
            return spark.createDataFrame(rows, schema)
        if self.format == "csv":
            reader = spark.read.option("header", True).option("escape", '"')
            return _as(reader.option("multiLine", True).csv(paths), schema)
        if self.format == "json":
            return spark.read.schema(schema).json(paths)
        return _as(spark.read.parquet(*paths), schema)


def table_format(key: str, file: Path, given: object) -> str:
    """The format as stated, or what the name of the file says."""
    known = TABLE_FORMATS[key]
    if given is not None:
        if given not in known:
            raise InvalidInputError(f"format {given!r} is unknown{or_one_of(str(given), known)}")
        return str(given)
    if file.suffix in (".parquet", ".csv"):
        return file.suffix[1:]
    if key == "deliveries":
        return "json" if file.suffix in JSON_SUFFIXES else "parquet"
    return "text" if file.suffix in (*JSON_SUFFIXES, ".txt") else "parquet"


def subscription_rows(path: Path, ontology: Ontology) -> Iterator[tuple[str, str, str]]:
    """The subscriptions of a file of texts: (subscription, subscriber, filter).

    What cannot be understood comes as it is: compiling will say why, and keep it apart.
    """
    for _, key, text in subscription_texts(path, ontology):
        yield key, key, text


def _as(table: DataFrame, schema: StructType) -> DataFrame:
    """The columns of the schema; those a table may lack are null, or the id for a subscriber."""
    columns = []
    for each in schema.fields:
        if each.name in table.columns:
            column = F.col(each.name)
        elif each.name == "subscriber" and "subscription" in table.columns:
            column = F.col("subscription")
        else:
            column = F.lit(None)
        columns.append(column.cast(each.dataType).alias(each.name))
    return table.select(*columns)


def _columns(file: Path, format: str) -> list[str] | None:
    """The names of a file's columns; None for a file that has none."""
    if format == "parquet":
        import pyarrow.parquet as pq

        try:
            return list(pq.read_schema(file).names)
        except (OSError, ValueError) as error:
            raise InvalidInputError(f"{file} is no Parquet file: {error}") from None
    if format == "csv":
        try:
            with file.open(encoding="utf-8-sig", newline="") as stream:
                return next(csv.reader(stream), [])
        except UnicodeDecodeError:
            raise InvalidInputError(f"{file}: not UTF-8 text") from None
    return None


def files_digest_parts(found: dict[str, Stamp]) -> list[Any]:
    """The stamps in an order that does not depend on how they were found."""
    return [[name, *stamp] for name, stamp in sorted(found.items())]
