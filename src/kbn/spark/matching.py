"""Matching as a Spark job: notifications × subscriptions → who gets what.

    subscriptions ─ compile_subscriptions ─→ a store of compiled shards, on disk    compiling.py
                                                  ↓ mapped by every worker
    notifications ─ Arrow batches ─→ match_job ─→ (notification, subscription, subscriber)

`match` runs on the driver: it finds out how the attributes lie in the rows, drops what nobody asks
about, and hands the rest to a `MatchJob`. With `by_shard` each task reads one shard only, for
stores that are larger than the memory of a worker; every notification then goes to each shard.

The version of the store decides what a stream sees. Notifications with an integer column `version`
(the source "kbn" puts it into its offsets) and their attributes as JSON or a struct are matched at
that version, row by row. Others are matched at the version that is newest when you call `match`;
where each attribute has a column of its own, `version` is an attribute like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import DataType, IntegralType, StringType, StructField, StructType

from kbn.errors import InvalidInputError
from kbn.matching import TERM_KINDS, StoreView, SubscriptionStore
from kbn.ontology import Ontology
from kbn.spark.columns import COUNTS, INGESTED, WHY
from kbn.spark.compiling import check_ontology, compile_subscriptions
from kbn.spark.match_job import SHARD, VERSION, MatchJob, RowLayout

__all__ = ["compile_subscriptions", "match"]


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
    struct, or a column per attribute; `id` names the column that tells them apart. A column of IRIs
    holds terms when `terms` says so, {"category": "class"}, or the metadata of the field does,
    {"kbn": "class"}. Subscriptions are a table, which is compiled now, or a compiled store.

    The result has the columns notification, subscription and subscriber. `why` adds the reasons,
    one per constraint; each distinct one is worked out once. With
    `expand=False` the result has one row per notification: the distinct filters it satisfies, and
    the number of subscriptions with each. With `by_shard`, a task reads one shard only.

    ```python
    matches = match(notifications, subscriptions, "podcast.ttl", why=True)
    matches.where("subscriber = 'ann'").show(truncate=False)
    ```
    """
    if why and not expand:
        raise InvalidInputError("why goes with pairs: leave expand=True")
    store = _compiled(subscriptions, ontology)
    view = store.at()
    notifications, layout = _with_layout(notifications, id, terms or {})
    pinned = _names_versions(notifications, layout)
    if not pinned:
        notifications = _only_wanted(notifications, layout, view.attributes)
    job = MatchJob(
        str(store.directory.absolute()),
        store.identity,
        None if pinned else view.version,
        layout,
        expand,
        why,
    )
    if by_shard:
        notifications, job = _for_each_shard(notifications, job, len(store.shards(view.base)))
    return notifications.mapInArrow(job, _schema(notifications.schema[id].dataType, view, job))


def _names_versions(notifications: DataFrame, layout: RowLayout) -> bool:
    """Whether each row says at which version of the store it is matched."""
    if VERSION not in notifications.columns or layout.kind == "columns":
        return False
    held = notifications.schema[VERSION].dataType
    if not isinstance(held, IntegralType):
        raise InvalidInputError(
            f"the column {VERSION!r} names versions of the store, which are whole numbers, not "
            f"{held.simpleString()}; rename or drop it"
        )
    return True


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
    check_ontology(store, ontology)
    return store


def _with_layout(
    given: DataFrame, id: str, terms: Mapping[str, str]
) -> tuple[DataFrame, RowLayout]:
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
        return given.select(*about, "attributes"), RowLayout("json", id)
    if isinstance(held, StructType):
        kinds = {**_kinds(held), **terms}
        return given.select(*about, "attributes"), RowLayout("struct", id, kinds)
    return given, RowLayout("columns", id, known)


def _kinds(schema: StructType) -> dict[str, str]:
    return {f.name: f.metadata["kbn"] for f in schema.fields if "kbn" in (f.metadata or {})}


def _only_wanted(given: DataFrame, layout: RowLayout, wanted: set[str]) -> DataFrame:
    """Drop the columns that no subscription asks about: each is copied from the JVM to Python."""
    if layout.kind == "json":
        return given.select(layout.id, "attributes")
    if layout.kind == "columns":
        kept = [name for name in given.columns if name in wanted and name != layout.id]
        return given.select(layout.id, *(_quoted(name) for name in kept))
    held = given.schema["attributes"].dataType
    assert isinstance(held, StructType)
    kept = [name for name in held.fieldNames() if name in wanted]
    inner = [F.col("attributes")[name].alias(name) for name in kept]
    return given.select(layout.id, F.struct(*inner, F.lit(None).alias("")).alias("attributes"))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _for_each_shard(given: DataFrame, job: MatchJob, shards: int) -> tuple[DataFrame, MatchJob]:
    """Copy every notification for each shard; one partition holds the copies for one shard."""
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
