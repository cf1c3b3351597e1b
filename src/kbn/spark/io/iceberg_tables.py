"""The format "kbn-iceberg": tables of Apache Iceberg, by PyIceberg and without a jar.

    rows.writeStream.format("kbn-iceberg").option("table", "db.matches").option("catalog.uri", …)

A batch is one commit of the table: its rows, and the number of the batch as a property of the table
under the name of our outbox (`kbn.batch.…`), both or none. A batch whose number the table has is
not written again. Options that begin with `catalog.` are the catalog's.
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
from kbn.spark.io.connector_options import checked_options, with_secrets
from kbn.spark.io.destinations import Committed
from kbn.spark.io.table_files import TableFile, file_names, portions
from kbn.spark.releases import arrow_schema, require_stream_sink

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

NAME = "kbn-iceberg"
PREFIX = "catalog."
BATCH = "kbn.batch."
TRIES_MAX = 10


class IcebergSource(DataSource):
    """Tables of Apache Iceberg; docs/how-to/connect.md describes the options."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        table = Iceberg(iceberg_options(self.options)).there()
        return from_arrow_schema(table.schema().as_arrow())

    def reader(self, schema: StructType) -> DataSourceReader:
        return IcebergReader(iceberg_options(self.options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        raise InvalidInputError(
            "an Iceberg table is read as a whole: use spark.read, or a pipeline, which reads what "
            "is new in it"
        )

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from kbn.spark.io.connector_sink import ConnectorBatchWriter

        options = iceberg_options(self.options)
        mode: Literal["append", "overwrite"] = "overwrite" if overwrite else "append"
        return ConnectorBatchWriter(options, schema, lambda: Iceberg(options, mode))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        require_stream_sink(NAME)
        from kbn.spark.io.connector_stream import ConnectorStreamWriter

        options = iceberg_options(self.options)
        return ConnectorStreamWriter(options, schema, lambda: Iceberg(options))


def iceberg_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options, checked."""
    _library()
    known = ("table", "catalog", "snapshot", "outbox", "batch", "files", "tasks", "secrets")
    found = checked_options(NAME, options, known, needed=("table",), prefix=PREFIX)
    if "." not in found["table"]:
        raise InvalidInputError(
            f"the option table is a namespace and a name, such as db.matches, not "
            f"{found['table']!r}"
        )
    if not found.get("snapshot", "0").isdigit():
        raise InvalidInputError("the option snapshot is the number of a snapshot")
    return found


def _library() -> Any:
    try:
        import pyiceberg
    except ImportError as error:
        raise MissingDependencyError("to read or write Iceberg tables", extra="iceberg") from error
    return pyiceberg


@dataclass(frozen=True)
class Iceberg:
    """One table, as something to read and as a destination."""

    options: Mapping[str, str]
    mode: Literal["append", "overwrite"] = "append"

    @property
    def name(self) -> str:
        return self.options["table"]

    @property
    def identity(self) -> str:
        return f"{NAME} {self.name}"

    def catalog(self) -> Catalog:
        """The catalog that the options name; KbnError when it cannot be reached."""
        from pyiceberg.catalog import load_catalog

        given = with_secrets(self.options)
        about = {
            name.lower().removeprefix(PREFIX): value
            for name, value in given.items()
            if name.lower().startswith(PREFIX)
        }
        try:
            return load_catalog(self.options.get("catalog", "default"), **about)
        except Exception as error:  # each kind of catalog has its own; none may tell a secret
            raise KbnError(
                f"the catalog of the Iceberg table {self.name} cannot be opened "
                f"({type(error).__name__}): check the options that begin with {PREFIX}"
            ) from None

    def table(self) -> Table | None:
        """The table; None where there is none."""
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        try:
            return self.catalog().load_table(self.name)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None

    def there(self) -> Table:
        """The table, which must be there."""
        table = self.table()
        if table is None:
            raise InvalidInputError(f"{self.name}: the catalog has no such Iceberg table")
        return table

    def files(self) -> dict[str, TableFile]:
        """The files of the table now, by name."""
        return {
            each.file.file_path: TableFile(each.file.file_size_in_bytes, each.file.record_count)
            for each in self.there().scan().plan_files()
        }

    def standing(self) -> None:
        """Nothing: the table itself knows which batches it has."""

    def take(self, batch: Committed, since: Any, *, again: bool) -> None:
        from pyiceberg.exceptions import CommitFailedException

        mark = BATCH + batch.outbox
        for _ in range(TRIES_MAX):
            table = self.table() or self._made(batch.arrow_schema)
            last = table.properties.get(mark)
            if last is not None and int(last) >= batch.number:
                return
            try:
                self._commit(table, batch, {mark: str(batch.number)})
                return
            except CommitFailedException:
                continue  # another writer was faster: look again
            except ValueError as error:
                raise KbnError(
                    f"the Iceberg table {self.name} did not take the batch: {str(error)[:300]}"
                ) from None
        raise KbnError(f"{self.name}: others changed the table {TRIES_MAX} times meanwhile")

    def _commit(self, table: Table, batch: Committed, marks: dict[str, str]) -> None:
        rows = pa.RecordBatchReader.from_batches(batch.arrow_schema, batch.batches())
        with table.transaction() as commit:
            if self.mode == "overwrite":
                commit.overwrite(rows)
            else:
                commit.append(rows)
            commit.set_properties(marks)

    def _made(self, schema: pa.Schema) -> Table:
        catalog = self.catalog()
        catalog.create_namespace_if_not_exists(self.name.rpartition(".")[0])
        return catalog.create_table_if_not_exists(self.name, schema=schema)


class IcebergReader(DataSourceReader):
    """The rows of a table at one snapshot, or of some of its files."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._iceberg = Iceberg(options)
        self._schema = schema
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        table = self._iceberg.there()
        newest = table.current_snapshot()
        if newest is None:
            return []
        snapshot = int(self._options.get("snapshot", newest.snapshot_id))
        there = [each.file.file_path for each in table.scan(snapshot_id=snapshot).plan_files()]
        return portions(file_names(self._options, there), snapshot, self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is None:
            return
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.io.pyarrow import ArrowScan

        snapshot, names = partition.value
        table = self._iceberg.there()
        scan = table.scan(snapshot_id=snapshot)
        tasks = [each for each in scan.plan_files() if each.file.file_path in set(names)]
        schema = arrow_schema(self._schema)
        reading = ArrowScan(table.metadata, table.io, scan.projection(), AlwaysTrue())
        for batch in reading.to_record_batches(tasks):
            yield batch.select(schema.names).cast(schema)
