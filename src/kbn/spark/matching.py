"""Matching as a Spark job: notifications × subscriptions → who gets what.

    subscriptions ─ compile_subscriptions ─→ a store of compiled shards, on disk
                                                  ↓ mapped by every worker
    notifications ─ Arrow batches ────────────→ match ─→ (notification, subscription, subscriber)

The subscriptions are compiled by tasks, a shard each, and never pass the driver. A worker maps the
shards, so a machine holds one copy however many workers it has, and remembers them from task to
task. With `by_shard` each task looks at one shard only, for stores beyond a worker's memory; every
notification then goes once to each.

Where the version of the store comes from decides what a stream sees. Notifications that have an
integer column `version` (the source "kbn" puts it into its offsets) are matched at that version,
row by row; others at the version that is newest when `match` is called.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import (
    DataType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from kbn.errors import InvalidInputError, KbnError
from kbn.filters import Notification, match_reasons
from kbn.matching import (
    TERM_KIND_METADATA,
    TERM_KINDS,
    AttributeColumn,
    GroupCounts,
    ShardBuilder,
    ShardReport,
    StoreView,
    SubscriptionStore,
    table_from_json,
)
from kbn.ontology import Ontology
from kbn.spark.columns import COUNTS, INGESTED, SUBSCRIPTIONS, WHY
from kbn.spark.shared import ontology_path, shared_directory, visible
from kbn.spark.worker_view import WORKER_VIEW

VERSION = "version"
SHARD = "_shard"
Batches = Iterator[pa.RecordBatch]


def compile_subscriptions(
    subscriptions: DataFrame,
    ontology: Ontology | str | Path | None = None,
    directory: str | Path | None = None,
    *,
    shards: int = 1,
    strict: bool = False,
) -> SubscriptionStore:
    """Compile a table of subscriptions into a store that `match` reads; runs a job at once.

    The table has the columns subscription, subscriber and filter (`columns.SUBSCRIPTIONS`). What
    cannot be compiled is kept apart with the reason (`store.rejected()`), with a warning; with
    `strict` it is an error. A `directory` that is a store already gets a new version, which
    replaces all it held. Without one the store is made in a place of its own under KBN_SHARED_DIR,
    or in this machine's cache.

    ```python
    store = compile_subscriptions(subscriptions, "podcast.ttl", "store")
    matches = match(notifications, store)
    ```
    """
    if shards < 1:
        raise InvalidInputError(f"shards must be at least 1, not {shards}")
    rows = _as_subscriptions(subscriptions)
    store = _store_for(directory, ontology)
    rows = rows.repartition(shards, "subscription") if shards > 1 else rows.coalesce(1)
    with store.new_base() as base:
        build = partial(
            build_shards, str(base.directory.absolute()), str(store.directory.absolute())
        )
        made = rows.mapInArrow(build, _REPORT).collect()
        base.reports += [ShardReport(r.live, r.groups, r.rejected, r.example) for r in made]
        _tell_of_rejected(base.reports, strict)
    return store


def match(
    notifications: DataFrame,
    subscriptions: DataFrame | SubscriptionStore | str | Path,
    ontology: Ontology | str | Path | None = None,
    *,
    id: str = "id",
    terms: Mapping[str, str] | None = None,
    expand: bool = True,
    why: bool = False,
    by_shard: bool = False,
) -> DataFrame:
    """Pair each notification with every subscription it satisfies; batch or streaming alike.

    Notifications are `columns.NOTIFICATIONS` (attributes as JSON text), or have an `attributes`
    struct, or simply a column per attribute; `id` names the column that tells them apart. A column
    of IRIs holds terms when `terms` says so, {"category": "class"}, or the field's metadata does,
    {"kbn": "class"}.
    Subscriptions are a table (compiled now: `compile_subscriptions`) or a store compiled before.

    Gives notification, subscription and subscriber; with `why` also the reasons, one per
    constraint, which takes as long as asking the plain evaluator does. With `expand=False`, one row
    per notification, with the distinct filters it satisfies and how many subscriptions have each.

    ```python
    matches = match(notifications, subscriptions, "podcast.ttl", why=True)
    matches.where("subscriber = 'ann'").show(truncate=False)
    ```
    """
    if why and not expand:
        raise InvalidInputError("why goes with pairs: leave expand=True")
    store = _compiled(subscriptions, ontology)
    view = store.at()
    notifications, form = _form(notifications, id, terms or {})
    pinned = VERSION in notifications.columns and form.kind != "columns"
    if not pinned:
        notifications = _only_wanted(notifications, form, view.attributes)
    job = MatchJob(
        str(store.directory.absolute()),
        store.identity,
        None if pinned else view.version,
        form,
        expand,
        why,
    )
    if by_shard:
        notifications, job = _spread(notifications, job, len(store.shards(view.base)))
    return notifications.mapInArrow(job, _schema(notifications.schema[id].dataType, view, job))


# The worker's side: Arrow in, Arrow out.


@dataclass(frozen=True)
class Form:
    """How the attributes of a notification lie in its row."""

    kind: str
    """json: one column of JSON texts; struct: one of structs; columns: a column each."""
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
            return pa.table({"": pa.nulls(batch.num_rows)})
        fields = [
            pa.field(name, column.type, metadata=_kind(self.terms.get(name)))
            for name, column in kept.items()
        ]
        return pa.table(list(kept.values()), schema=pa.schema(fields))


@dataclass(frozen=True)
class MatchJob:
    """One worker's whole job; called with its Arrow batches."""

    directory: str
    identity: str
    version: int | None
    """None: each row says which, in its column `version`."""
    form: Form
    expand: bool = True
    why: bool = False
    by_shard: bool = False

    def __call__(self, batches: Batches) -> Batches:
        for batch in batches:
            for part, version, shard in self._parts(batch):
                view = WORKER_VIEW.of(self.directory, self.identity, version, shard)
                try:
                    yield from self._matched(view, part)
                except InvalidInputError as error:
                    raise KbnError(f"a batch cannot be matched: {error}") from error

    def _parts(self, batch: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, int, int | None]]:
        """The batch by version and shard: mostly all of it at once."""
        table = pa.Table.from_batches([batch])
        for version, of_version in _split(table, None if self.version is not None else VERSION):
            for shard, part in _split(of_version, SHARD if self.by_shard else None):
                at = self.version if self.version is not None else int(version)
                yield part.combine_chunks().to_batches()[0], at, shard

    def _matched(self, view: StoreView, batch: pa.RecordBatch) -> Batches:
        ids = batch.column(self.form.id)
        table = self.form.table(batch, view.attributes)
        if not self.expand:
            for counted in view.counts(table):
                yield _counts(ids, counted)
            return
        explain = _Explainer(view, table) if self.why else None
        for rows, subscription, subscriber in view.pairs(table):
            columns = [ids.take(pa.array(rows)), subscription, subscriber]
            names = ["notification", "subscription", "subscriber"]
            if explain is not None:
                columns.append(explain(rows, subscription))
                names.append(WHY.name)
            yield pa.record_batch(columns, names=names)


def _counts(ids: pa.Array, counted: GroupCounts) -> pa.RecordBatch:
    rows = counted.starts.shape[0] - 1
    before = np.concatenate((np.zeros(1, np.int64), np.cumsum(counted.counts)))
    totals = before[counted.starts[1:]] - before[counted.starts[:-1]]
    names = ["group", "subscriptions"]
    structs = pa.StructArray.from_arrays([counted.groups, counted.counts], names)
    lists = pa.ListArray.from_arrays(counted.starts.astype(np.int32), structs)
    columns = [ids.slice(counted.first, rows), totals, lists]
    return pa.record_batch(columns, names=COUNTS.fieldNames())


class _Explainer:
    """Says why rows of a table match subscriptions; asks the plain evaluator, pair by pair."""

    def __init__(self, view: StoreView, table: pa.Table) -> None:
        self._view = view
        self._columns = {
            name: AttributeColumn(table.field(name), table[name])
            for name in table.column_names
            if name
        }

    def __call__(self, rows: Any, subscriptions: pa.Array) -> pa.Array:
        pairs = zip(rows.tolist(), subscriptions.to_pylist(), strict=True)
        return pa.array([self._why(row, name) for row, name in pairs], pa.list_(pa.string()))

    def _why(self, row: int, name: Any) -> list[str]:
        values = {name: column.value(row) for name, column in self._columns.items()}
        notification = Notification({k: v for k, v in values.items() if v is not None})
        return match_reasons(
            self._view.subscription(name), notification, self._view.ontology or Ontology.empty()
        )


_REPORT = StructType(
    [
        StructField("live", LongType()),
        StructField("groups", LongType()),
        StructField("rejected", LongType()),
        StructField("example", StringType()),
    ]
)


def build_shards(directory: str, store: str, batches: Batches) -> Batches:
    """Compile one partition of subscriptions into a shard of the base in `directory`."""
    from pyspark import TaskContext

    context = TaskContext.get()
    number = 0 if context is None else context.partitionId()
    builder = ShardBuilder(SubscriptionStore.open(visible(store)).ontology)
    for batch in batches:
        builder.add(batch)
    made = builder.save(Path(directory) / f"shard={number}")
    row = {"live": made.live, "groups": made.groups, "rejected": made.rejected}
    yield pa.RecordBatch.from_pylist([{**row, "example": made.example}], _REPORT_ARROW)


_REPORT_ARROW = pa.schema(
    [
        ("live", pa.int64()),
        ("groups", pa.int64()),
        ("rejected", pa.int64()),
        ("example", pa.string()),
    ]
)


def _split(table: pa.Table, column: str | None) -> Iterator[tuple[Any, pa.Table]]:
    if table.num_rows == 0:
        return
    if column is None:
        yield None, table
        return
    for value in pc.unique(table[column]).to_pylist():
        yield value, table.filter(pc.equal(table[column], value))


def _without_nan(column: pa.Array) -> pa.Array:
    """Spark's data has NaN where a value is missing; for us that is an absent attribute."""
    if not pa.types.is_floating(column.type):
        return column
    return pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)


def _kind(kind: str | None) -> dict[bytes, bytes] | None:
    return None if kind is None else {TERM_KIND_METADATA: kind.encode()}


# The driver's side.


def _as_subscriptions(given: DataFrame) -> DataFrame:
    names = given.columns
    missing = {"subscription", "filter"} - set(names)
    if missing:
        raise InvalidInputError(
            f"subscriptions need the columns {', '.join(SUBSCRIPTIONS.fieldNames())}: "
            f"{', '.join(sorted(missing))} missing among {', '.join(names)}"
        )
    if given.isStreaming:
        raise InvalidInputError(
            "subscriptions are a table, not a stream: change a store while streams run on it "
            "(SubscriptionStore.change)"
        )
    if "subscriber" not in names:
        given = given.withColumn("subscriber", F.col("subscription"))
    return given.select(*SUBSCRIPTIONS.fieldNames())


def _store_for(directory: str | Path | None, ontology: Any) -> SubscriptionStore:
    if directory is not None and (Path(directory) / "store.json").exists():
        store = SubscriptionStore.open(directory)
        _check_ontology(store, ontology)
        return store
    if directory is None:
        place = shared_directory() / "stores"
        place.mkdir(parents=True, exist_ok=True)
        directory = Path(tempfile.mkdtemp(prefix="store-", dir=place))
        directory.chmod(0o755)
    return SubscriptionStore.create(directory, _loaded(ontology))


def _loaded(ontology: Ontology | str | Path | None) -> Ontology | None:
    if ontology is None or isinstance(ontology, Ontology):
        return ontology
    return Ontology.open(ontology_path(ontology))


def _check_ontology(store: SubscriptionStore, ontology: Ontology | str | Path | None) -> None:
    given, held = _loaded(ontology), store.ontology
    if given is not None and (held is None or held.digest != given.digest):
        raise InvalidInputError(
            f"{store.directory} was compiled with another ontology: compile the subscriptions anew"
        )


def _tell_of_rejected(reports: list[ShardReport], strict: bool) -> None:
    count = sum(report.rejected for report in reports)
    if not count:
        return
    example = next(report.example for report in reports if report.rejected)
    told = f"{count} of the subscriptions cannot be compiled, the first because: {example}"
    if strict:
        raise InvalidInputError(told)
    where = "compile_subscriptions(…).rejected() has all of them, with reasons"
    warnings.warn(f"{told}\n({where})", stacklevel=4)


def _compiled(
    subscriptions: DataFrame | SubscriptionStore | str | Path, ontology: Any
) -> SubscriptionStore:
    if isinstance(subscriptions, SubscriptionStore):
        store = subscriptions
    elif isinstance(subscriptions, (str, Path)):
        store = SubscriptionStore.open(subscriptions)
    elif hasattr(subscriptions, "mapInArrow"):
        return compile_subscriptions(subscriptions, ontology)
    else:
        raise InvalidInputError(
            f"give subscriptions as a DataFrame or a store, not {type(subscriptions).__name__}"
        )
    _check_ontology(store, ontology)
    return store


def _form(given: DataFrame, id: str, terms: Mapping[str, str]) -> tuple[DataFrame, Form]:
    """How the attributes lie in a DataFrame, and the columns of it that are needed."""
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
        return given.select(*about, "attributes"), Form("json", id)
    if isinstance(held, StructType):
        kinds = {**_kinds(held), **terms}
        return given.select(*about, "attributes"), Form("struct", id, kinds)
    return given, Form("columns", id, known)


def _kinds(schema: StructType) -> dict[str, str]:
    return {f.name: f.metadata["kbn"] for f in schema.fields if "kbn" in (f.metadata or {})}


def _only_wanted(given: DataFrame, form: Form, wanted: set[str]) -> DataFrame:
    """Leave behind the columns nobody asks for: each costs the way from the JVM to Python."""
    if form.kind == "json":
        return given.select(form.id, "attributes")
    if form.kind == "columns":
        kept = [name for name in given.columns if name in wanted and name != form.id]
        return given.select(form.id, *(_quoted(name) for name in kept))
    held = given.schema["attributes"].dataType
    assert isinstance(held, StructType)
    kept = [name for name in held.fieldNames() if name in wanted]
    inner = [F.col("attributes")[name].alias(name) for name in kept]
    return given.select(form.id, F.struct(*inner, F.lit(None).alias("")).alias("attributes"))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _spread(given: DataFrame, job: MatchJob, shards: int) -> tuple[DataFrame, MatchJob]:
    """Every notification once for each shard, and each shard's to one partition."""
    numbers = F.array(*(F.lit(number) for number in range(max(1, shards))))
    spread = given.withColumn(SHARD, F.explode(numbers)).repartition(max(1, shards), SHARD)
    if not given.isStreaming:
        spread = spread.sortWithinPartitions(SHARD)
    return spread, replace(job, by_shard=shards > 0)


def _schema(id: DataType, view: StoreView, job: MatchJob) -> StructType:
    if not job.expand:
        return StructType([StructField("notification", id), *COUNTS.fields[1:]])
    subscription, subscriber = (from_arrow_type(type_) for type_ in view.types)
    columns = [
        StructField("notification", id),
        StructField("subscription", subscription),
        StructField("subscriber", subscriber),
    ]
    return StructType([*columns, WHY] if job.why else columns)
