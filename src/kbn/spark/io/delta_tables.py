"""The format "kbn-delta": tables of Delta Lake, by delta-rs and without a jar.

    rows.writeStream.format("kbn-delta").option("checkpointLocation", "ckpt").start("lake/rows")

A batch is one commit of the table, and carries the protocol's own mark for that: the transaction
(`txn`) of our outbox, with the number of the batch. A batch whose number the table has is not
written again. Options that begin with `storage.` go to delta-rs (keys of a bucket, for one).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from kbn.errors import InvalidInputError, KbnError, MissingDependencyError
from kbn.spark.io.connector_options import checked_options, whole_number, with_secrets
from kbn.spark.io.destinations import Committed
from kbn.spark.io.table_files import TableFile, file_names, portions
from kbn.spark.releases import arrow_schema, require_stream_sink

if TYPE_CHECKING:
    from deltalake import DeltaTable

NAME = "kbn-delta"
PREFIX = "storage."


class DeltaSource(DataSource):
    """Tables of Delta Lake; docs/how-to/connect.md describes the options."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        options = delta_options(self.options)
        return from_arrow_schema(Delta(options).dataset(version_of(options)).schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        return DeltaReader(delta_options(self.options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        raise InvalidInputError(
            "a Delta table is read as a whole: use spark.read, or a pipeline, which reads what is "
            "new in it"
        )

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from kbn.spark.io.connector_sink import ConnectorBatchWriter

        options = delta_options(self.options)
        mode: Literal["append", "overwrite"] = "overwrite" if overwrite else "append"
        return ConnectorBatchWriter(options, schema, lambda: Delta(options, mode))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        require_stream_sink(NAME)
        from kbn.spark.io.connector_stream import ConnectorStreamWriter

        options = delta_options(self.options)
        return ConnectorStreamWriter(options, schema, lambda: Delta(options))


def delta_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options, checked."""
    _library()
    known = ("path", "version", "partitionBy", "outbox", "batch", "files", "tasks", "secrets")
    found = checked_options(NAME, options, known, prefix=PREFIX)
    if not found.get("path"):
        raise InvalidInputError(
            'say which table: .load("table"), .save("table") or .start("table")'
        )
    return found


def version_of(options: Mapping[str, str]) -> int | None:
    """The version that is asked for, if one is."""
    if options.get("version") == "0":
        return 0
    return whole_number(options, "version", 1) if "version" in options else None


def _library() -> Any:
    try:
        import deltalake
    except ImportError as error:
        raise MissingDependencyError("to read or write Delta tables", extra="delta") from error
    return deltalake


@dataclass(frozen=True)
class Delta:
    """One table, as something to read and as a destination."""

    options: Mapping[str, str]
    mode: Literal["append", "overwrite"] = "append"

    @property
    def path(self) -> str:
        return self.options["path"]

    @property
    def identity(self) -> str:
        return f"{NAME} {self.path}"

    def table(self, version: int | None = None) -> DeltaTable | None:
        """The table; None where there is none."""
        delta = _library()
        try:
            found: DeltaTable = delta.DeltaTable(
                self.path, version=version, storage_options=self._storage()
            )
        except delta.exceptions.TableNotFoundError:
            return None
        except delta.exceptions.DeltaError as error:
            raise KbnError(f"the Delta table {self.path}: {_first_line(error)}") from None
        return found

    def dataset(self, version: int | None = None) -> Any:
        """The rows of the table; KbnError for one that delta-rs cannot read right."""
        table = self.table(version)
        if table is None:
            raise InvalidInputError(f"{self.path}: there is no Delta table")
        try:
            return table.to_pyarrow_dataset()
        except _library().exceptions.DeltaError as error:
            raise KbnError(f"the Delta table {self.path}: {_first_line(error)}") from None

    def newest(self) -> int:
        table = self.table()
        if table is None:
            raise InvalidInputError(f"{self.path}: there is no Delta table")
        return table.version()

    def files(self) -> dict[str, TableFile]:
        """The files of the table now, by name."""
        table = self.table()
        if table is None:
            raise InvalidInputError(f"{self.path}: there is no Delta table")
        actions = pa.table(table.get_add_actions(flatten=True))
        named = actions.select(["path", "size_bytes", "modification_time"]).to_pylist()
        return {
            each["path"]: TableFile(each["size_bytes"], _number(each["modification_time"]))
            for each in named
        }

    def standing(self) -> None:
        """Nothing: the table itself knows which batches it has."""

    def take(self, batch: Committed, since: Any, *, again: bool) -> None:
        delta = _library()
        table = self.table()
        last = None if table is None else table.transaction_version(batch.outbox)
        if last is not None and last >= batch.number:
            return
        mark = delta.Transaction(batch.outbox, batch.number)
        rows = pa.RecordBatchReader.from_batches(batch.arrow_schema, batch.batches())
        columns = [name.strip() for name in self.options.get("partitionBy", "").split(",")]
        try:
            delta.write_deltalake(
                self.path,
                rows,
                mode=self.mode,
                partition_by=[name for name in columns if name] or None,
                storage_options=self._storage(),
                commit_properties=delta.CommitProperties(app_transactions=[mark]),
            )
        except (delta.exceptions.DeltaError, ValueError) as error:
            raise KbnError(
                f"the Delta table {self.path} did not take the batch: {_first_line(error)}"
            ) from None

    def _storage(self) -> dict[str, str] | None:
        given = with_secrets(self.options)
        found = {
            name.lower().removeprefix(PREFIX): value
            for name, value in given.items()
            if name.lower().startswith(PREFIX)
        }
        return found or None


class DeltaReader(DataSourceReader):
    """The rows of a table at one version, or of some of its files."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._delta = Delta(options)
        self._version = version_of(options)
        self._schema = schema
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        version = self._delta.newest() if self._version is None else self._version
        there = [fragment.path for fragment in self._delta.dataset(version).get_fragments()]
        return portions(file_names(self._options, there), version, self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is None:
            return
        import pyarrow.dataset as ds

        version, names = partition.value
        whole = self._delta.dataset(version)
        wanted = [each for each in whole.get_fragments() if each.path in set(names)]
        schema = arrow_schema(self._schema)
        some = ds.FileSystemDataset(wanted, whole.schema, whole.format, whole.filesystem)
        for batch in some.to_batches(columns=schema.names):
            yield batch.cast(schema)


def _number(moment: Any) -> int:
    return int(moment.timestamp() * 1000) if hasattr(moment, "timestamp") else int(moment)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]
