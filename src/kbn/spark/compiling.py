"""Compiling subscriptions on Spark: a table of subscriptions becomes a version of a store.

Tasks compile the subscriptions, a shard each; no subscription passes the driver, unless executors
do not see its folders (`shipping.py`).
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from kbn.errors import InvalidInputError
from kbn.matching import ShardBuilder, ShardReport, SubscriptionStore
from kbn.ontology import Ontology
from kbn.spark.columns import SUBSCRIPTIONS
from kbn.spark.releases import arrow_schema
from kbn.spark.shared import ontology_path, shared_directory, visible
from kbn.spark.shipping import FOLDER, way_of

Batches = Iterator[pa.RecordBatch]

_REPORT = StructType(
    [
        StructField("live", LongType()),
        StructField("groups", LongType()),
        StructField("rejected", LongType()),
        StructField("example", StringType()),
    ]
)
_SHARD = "_shard"
_BATCH = 1 << 15
_REPORT_ARROW = arrow_schema(_REPORT)


def compile_subscriptions(
    subscriptions: DataFrame,
    ontology: Ontology | str | Path | None = None,
    directory: str | Path | None = None,
    *,
    shards: int = 1,
    strict: bool = False,
) -> SubscriptionStore:
    """Compile a table of subscriptions into a store that `match` reads; runs a job at once.

    The table has the columns subscription, subscriber and filter (`columns.SUBSCRIPTIONS`). A
    subscription that cannot be compiled causes a warning and is kept apart with the reason, see
    `store.rejected()`; with `strict` it is an error. A `directory` that is a store already gets a
    new version, which replaces all it held. Without a `directory` the store gets a folder of its
    own under KBN_SHARED_DIR, or in the cache of this machine.

    ```python
    store = compile_subscriptions(subscriptions, "podcast.ttl", "store")
    matches = match(notifications, store)
    ```
    """
    if shards < 1:
        raise InvalidInputError(f"shards must be at least 1, not {shards}")
    rows = _as_subscriptions(subscriptions)
    store = _store_for(directory, ontology)
    with store.new_base() as base:
        if way_of(rows.sparkSession) == FOLDER:
            base.reports += _built_by_tasks(rows, base.directory, store, shards)
        else:
            base.reports += _built_here(rows, base.directory, store, shards)
        _report_rejected(base.reports, strict)
    return store


def _built_by_tasks(
    rows: DataFrame, base: Path, store: SubscriptionStore, shards: int
) -> list[ShardReport]:
    rows = rows.repartition(shards, "subscription") if shards > 1 else rows.coalesce(1)
    build = partial(build_shard, str(base.absolute()), str(store.directory.absolute()))
    made = rows.mapInArrow(build, _REPORT).collect()
    return [ShardReport(r.live, r.groups, r.rejected, r.example) for r in made]


def _built_here(
    rows: DataFrame, base: Path, store: SubscriptionStore, shards: int
) -> list[ShardReport]:
    """Compile on the driver: the executors do not see its folders, so they cannot write there."""
    numbered = rows.withColumn(_SHARD, F.pmod(F.hash("subscription"), F.lit(shards)))
    table = numbered.toArrow()
    reports = []
    for number in range(shards):
        builder = ShardBuilder(store.ontology)
        for batch in table.filter(pc.equal(table[_SHARD], number)).to_batches(_BATCH):
            builder.add(batch)
        reports.append(builder.save(base / f"shard={number}"))
    return reports


def build_shard(directory: str, store: str, batches: Batches) -> Batches:
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


def _as_subscriptions(given: DataFrame) -> DataFrame:
    """The columns of `columns.SUBSCRIPTIONS`; a subscription without one is its own subscriber."""
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
    """The store in `directory`, or a new one."""
    if directory is not None and (Path(directory) / "store.json").exists():
        store = SubscriptionStore.open(directory)
        check_ontology(store, ontology)
        return store
    if directory is None:
        place = shared_directory() / "stores"
        place.mkdir(parents=True, exist_ok=True)
        directory = Path(tempfile.mkdtemp(prefix="store-", dir=place))
        directory.chmod(0o755)
    return SubscriptionStore.create(directory, _loaded(ontology))


def _report_rejected(reports: list[ShardReport], strict: bool) -> None:
    """Warn of subscriptions that cannot be compiled; with `strict`, raise InvalidInputError."""
    count = sum(report.rejected for report in reports)
    if not count:
        return
    example = next(report.example for report in reports if report.rejected)
    told = f"{count} of the subscriptions cannot be compiled, the first because: {example}"
    if strict:
        raise InvalidInputError(told)
    where = "compile_subscriptions(…).rejected() has all of them, with reasons"
    warnings.warn(f"{told}\n({where})", stacklevel=4)


def _loaded(ontology: Ontology | str | Path | None) -> Ontology | None:
    if ontology is None or isinstance(ontology, Ontology):
        return ontology
    return Ontology.open(ontology_path(ontology))


def check_ontology(store: SubscriptionStore, ontology: Ontology | str | Path | None) -> None:
    """Raise InvalidInputError when a store was compiled with another ontology than this one."""
    given, held = _loaded(ontology), store.ontology
    if given is not None and (held is None or held.digest != given.digest):
        raise InvalidInputError(
            f"{store.directory} was compiled with another ontology: compile the subscriptions anew"
        )
