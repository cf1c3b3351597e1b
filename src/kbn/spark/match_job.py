"""The jobs of a matching worker: Arrow batches in, Arrow batches out.

`MatchJob` gives who gets what, `ProblemsJob` what is wrong with the rows it leaves out or doubts. A
worker maps the shards of the store, so a machine holds one copy however many workers it has, and
keeps them open from task to task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kbn.errors import InvalidInputError, KbnError
from kbn.matching import (
    TERM_KIND_METADATA,
    GroupCounts,
    StoreView,
    table_from_json,
)
from kbn.spark.columns import COUNTS, PROBLEMS, WHY
from kbn.spark.explainer import Explainer
from kbn.spark.row_problems import (
    BadRowsChoice,
    Problem,
    RowCheck,
    Sound,
    Told,
    UnknownTermsChoice,
)
from kbn.spark.shipping import Place
from kbn.spark.worker_view import WORKER_VIEW

SHARD = "_shard"
VERSION = "version"
PAIR = ("notification", "subscription", "subscriber")
PROBLEMS_MAX = 8_192
"""Problems in one Arrow batch, at most."""

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class RowLayout:
    """How the attributes of a notification lie in its row."""

    kind: Literal["json", "struct", "columns"]
    """json: one column of JSON texts; struct: one column of structs; columns: a column each."""
    id: str
    terms: Mapping[str, str] = field(default_factory=dict)

    def table(self, batch: pa.RecordBatch, wanted: set[str]) -> pa.Table:
        """A column per attribute, as `Matcher.match_batch` takes them."""
        if self.kind == "json":
            return table_from_json(batch.column("attributes"), wanted)
        if self.kind == "struct":
            structs = batch.column("attributes")
            names = [f.name for f in structs.type]
            columns = dict(zip(names, structs.flatten(), strict=True))
        else:
            names = [name for name in batch.schema.names if name not in (self.id, SHARD)]
            columns = {name: batch.column(name) for name in names}
        kept = {name: _without_nan(column) for name, column in columns.items() if name in wanted}
        if not kept:
            return pa.table({"": pa.nulls(batch.num_rows)})  # without a column there are no rows
        fields = [
            pa.field(name, column.type, metadata=_term_metadata(self.terms.get(name)))
            for name, column in kept.items()
        ]
        return pa.table(list(kept.values()), schema=pa.schema(fields))


@dataclass(frozen=True)
class MatchJob:
    """One worker's whole job; called with its Arrow batches."""

    directory: Place
    """Of the store."""
    identity: str
    """Of the store: another one in the same place is noticed."""
    version: int | None
    """None when each row names its own, in its column `version`."""
    layout: RowLayout
    expand: bool = True
    """Give pairs; else a row per notification, with counts."""
    why: bool = False
    """Add the reasons to each pair."""
    by_shard: bool = False
    """Match each row against one shard only, which its column `_shard` names."""
    unknown_terms: UnknownTermsChoice = "tell"
    bad_rows: BadRowsChoice = "leave_out"

    def __call__(self, batches: Batches) -> Batches:
        told = Told(self.bad_rows, self.unknown_terms)
        for view, shard, found in self._looked_at(batches):
            if not shard:  # every shard has the same rows
                told.tell(found.problems)
            try:
                yield from self._matched(view, found.rows, found.table)
            except InvalidInputError as error:
                raise KbnError(f"a batch cannot be matched: {error}") from error
        told.end()

    def _looked_at(self, batches: Batches) -> Iterator[tuple[StoreView, int | None, Sound]]:
        """The parts of batches that can be matched together, and what is wrong with their rows."""
        check: RowCheck | None = None
        for batch in batches:
            for part, version, shard in self._parts(batch):
                view = WORKER_VIEW.of(self.directory, self.identity, version, shard)
                if check is None or not check.is_of(view):
                    check = RowCheck(
                        view, self.layout, self.unknown_terms, of_all_shards=not self.by_shard
                    )
                try:
                    found = check.sound(part, view.attributes)
                except InvalidInputError as error:
                    raise KbnError(f"a batch cannot be matched: {error}") from error
                yield view, shard, found

    def _parts(self, batch: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, int, int | None]]:
        """The parts of a batch that share a version and a shard; mostly there is one."""
        table = pa.Table.from_batches([batch])
        for version, of_version in _split(table, None if self.version is not None else VERSION):
            for shard, part in _split(of_version, SHARD if self.by_shard else None):
                at = self.version if self.version is not None else int(version)
                yield part.combine_chunks().to_batches()[0], at, shard

    def _matched(self, view: StoreView, batch: pa.RecordBatch, table: pa.Table) -> Batches:
        if not batch.num_rows:
            return
        ids = batch.column(self.layout.id)
        if not self.expand:
            for counted in view.counts(table):
                yield _counts(ids, counted)
            return
        if self.why:
            yield from _explained(view, ids, table)
            return
        for rows, subscription, subscriber in view.pairs(table):
            columns = [ids.take(pa.array(rows)), subscription, subscriber]
            yield pa.record_batch(columns, names=PAIR)


@dataclass(frozen=True)
class ProblemsJob:
    """What `match` leaves out or doubts; called with its Arrow batches."""

    matched: MatchJob

    def __call__(self, batches: Batches) -> Batches:
        for _, _, found in self.matched._looked_at(batches):
            for first in range(0, len(found.problems), PROBLEMS_MAX):
                yield self._rows(found.problems[first : first + PROBLEMS_MAX], found.rows)

    def _rows(self, problems: list[Problem], like: pa.RecordBatch) -> pa.RecordBatch:
        """Problems as rows of `columns.PROBLEMS`; ids are of the type they came in."""
        ids, *others = zip(*problems, strict=True)
        types = (pa.string(), pa.string(), pa.string(), pa.bool_())
        columns = [pa.array(ids, like.schema.field(self.matched.layout.id).type)]
        columns += [pa.array(column, type_) for column, type_ in zip(others, types, strict=True)]
        return pa.record_batch(columns, names=PROBLEMS.fieldNames())


def _explained(view: StoreView, ids: pa.Array, table: pa.Table) -> Batches:
    """Pairs with the reasons of each."""
    explainer = Explainer(view, table)
    for held, found, subscription, subscriber in view.found_pairs(table):
        rows = found.rows
        for start, stop, why in explainer.reasons(held, found):
            columns = [ids.take(pa.array(rows[start:stop]))]
            columns += [each.slice(start, stop - start) for each in (subscription, subscriber)]
            yield pa.record_batch([*columns, why], names=[*PAIR, WHY.name])


def _counts(ids: pa.Array, counted: GroupCounts) -> pa.RecordBatch:
    """One row per notification (`columns.COUNTS`)."""
    rows = counted.starts.shape[0] - 1
    before = np.concatenate((np.zeros(1, np.int64), np.cumsum(counted.counts)))
    totals = before[counted.starts[1:]] - before[counted.starts[:-1]]
    names = ["group", "subscriptions"]
    structs = pa.StructArray.from_arrays([counted.groups, counted.counts], names)
    lists = pa.ListArray.from_arrays(counted.starts.astype(np.int32), structs)
    columns = [ids.slice(counted.first, rows), totals, lists]
    return pa.record_batch(columns, names=COUNTS.fieldNames())


def _split(table: pa.Table, column: str | None) -> Iterator[tuple[Any, pa.Table]]:
    """The rows with each value of a column; all rows when there is no column to split by."""
    if table.num_rows == 0:
        return
    if column is None:
        yield None, table
        return
    if table[column].null_count:
        raise KbnError(
            f"{table[column].null_count} of {table.num_rows} rows have no value in the column "
            f"{column!r}, so nobody knows what to match them with; fill it, or leave them out"
        )
    for value in pc.unique(table[column]).to_pylist():
        yield value, table.filter(pc.equal(table[column], value))


def _without_nan(column: pa.Array) -> pa.Array:
    """The column with nulls for NaN: Spark has NaN where a value is missing, in lists too."""
    if pa.types.is_list(column.type):
        column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        inner = column.flatten()
        while pa.types.is_list(inner.type):
            inner = inner.flatten()
        if not pa.types.is_floating(inner.type) or not pc.any(pc.is_nan(inner)).as_py():
            return column
        return pa.array(_nan_left_out(column.to_pylist()), column.type)
    if not pa.types.is_floating(column.type):
        return column
    return pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)


def _nan_left_out(value: Any) -> Any:
    if isinstance(value, list):
        return [_nan_left_out(each) for each in value]
    return None if value.__class__ is float and value != value else value


def _term_metadata(kind: str | None) -> dict[bytes, bytes] | None:
    return None if kind is None else {TERM_KIND_METADATA: kind.encode()}
