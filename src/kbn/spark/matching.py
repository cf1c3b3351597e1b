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

One bad row stops no job: it is left out, and told in the log of the worker. `problems` has all that
is wrong with notifications, as a table (`row_problems.py` says what that is).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, get_args

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import DataType, IntegralType, StructField, StructType

from kbn.config import or_one_of
from kbn.errors import InvalidInputError
from kbn.matching import StoreView, SubscriptionStore
from kbn.ontology import Ontology
from kbn.spark.columns import COUNTS, PROBLEMS, WHY
from kbn.spark.compiling import check_ontology, compile_subscriptions
from kbn.spark.match_job import SHARD, VERSION, MatchJob, ProblemsJob, RowLayout
from kbn.spark.row_columns import check_types, only_wanted, quoted, with_layout
from kbn.spark.row_problems import BadRowsChoice, UnknownTermsChoice
from kbn.spark.shipping import ship_store

__all__ = ["compile_subscriptions", "match", "problems"]


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
    unknown_terms: UnknownTermsChoice = "tell",
    bad_rows: BadRowsChoice = "leave_out",
    version: int | None = None,
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

    A row that cannot be matched is left out, or, with `bad_rows="refuse"`, stops the job with its
    id and the reason. A notification with a term the ontology does not know is matched and told;
    `unknown_terms` may be "leave_out", "refuse" or "ignore" instead. Both are told in the log of
    the workers; `problems(…)` gives them as a table.

    Rows without a column `version` are matched at one version of the store, `version` or else the
    newest of now: a stream does not see later changes, and you are warned unless you name it.

    ```python
    matches = match(notifications, subscriptions, "podcast.ttl", why=True)
    matches.where("subscriber = 'ann'").show(truncate=False)
    ```
    """
    if why and not expand:
        raise InvalidInputError("why goes with pairs: leave expand=True")
    _check_choice("unknown_terms", unknown_terms, get_args(UnknownTermsChoice))
    _check_choice("bad_rows", bad_rows, get_args(BadRowsChoice))
    plan = _planned(notifications, subscriptions, ontology, id, terms, version)
    if version is None and plan.job.version is not None:
        _warn_of_frozen(notifications, subscriptions, plan.job.version)
    job = replace(plan.job, expand=expand, why=why, unknown_terms=unknown_terms, bad_rows=bad_rows)
    rows = plan.rows
    if by_shard:
        rows, job = _for_each_shard(rows, job, plan.shards)
    return rows.mapInArrow(job, _schema(rows.schema[id].dataType, plan.view, job))


def problems(
    notifications: DataFrame,
    subscriptions: DataFrame | SubscriptionStore | str | Path,
    ontology: Ontology | str | Path | None = None,
    *,
    id: str = "id",
    terms: Mapping[str, str] | None = None,
    unknown_terms: UnknownTermsChoice = "tell",
    duplicates: bool = False,
    version: int | None = None,
) -> DataFrame:
    """What is wrong with notifications that are matched with these arguments (`PROBLEMS`).

    One row per problem: a row that cannot be matched (`left_out` is true), a term that the ontology
    does not know, a class where subscriptions ask for individuals. Only attributes that some
    subscription asks about are looked at. With `duplicates` also the ids that several rows have,
    which costs a shuffle; in a stream they are found with a watermark only, so it is refused.

    ```python
    wrong = problems(notifications, "store")
    wrong.groupBy("reason").count().orderBy("count", ascending=False).show(truncate=False)
    ```
    """
    _check_choice("unknown_terms", unknown_terms, get_args(UnknownTermsChoice))
    if duplicates and notifications.isStreaming:
        raise InvalidInputError(
            "duplicates are told of tables: in a stream, notifications(…, distinct=True) after a "
            "watermark keeps one of each"
        )
    plan = _planned(notifications, subscriptions, ontology, id, terms, version)
    job = ProblemsJob(replace(plan.job, unknown_terms=unknown_terms))
    type_ = plan.rows.schema[id].dataType
    schema = StructType([StructField("notification", type_), *PROBLEMS.fields[1:]])
    found = plan.rows.mapInArrow(job, schema)
    return found.unionByName(_duplicates(plan.rows, id)) if duplicates else found


def _duplicates(rows: DataFrame, id: str) -> DataFrame:
    """A problem for each id that several rows have."""
    named = F.col(quoted(id))
    counted = rows.where(named.isNotNull()).groupBy(named.alias("notification"))
    several = counted.agg(F.count("*").alias("rows")).where("rows > 1")
    reason = F.concat(F.col("rows").cast("string"), F.lit(" rows have this id; each is matched"))
    none = F.lit(None).cast("string")
    return several.select(
        "notification", none.alias("attribute"), reason.alias("reason"), none.alias("record"),
        F.lit(False).alias("left_out"),
    )  # fmt: skip


class _Plan(NamedTuple):
    """What is to be matched with what."""

    rows: DataFrame
    view: StoreView
    job: MatchJob
    shards: int


def _planned(
    notifications: DataFrame,
    subscriptions: DataFrame | SubscriptionStore | str | Path,
    ontology: Any,
    id: str,
    terms: Mapping[str, str] | None,
    version: int | None,
) -> _Plan:
    rows, layout = with_layout(notifications, id, terms or {})
    store = _compiled(subscriptions, ontology)
    view = store.at(version)
    pinned = version is None and _names_versions(rows, layout)
    check_types(rows, layout, view.attributes)
    if not pinned:
        rows = only_wanted(rows, layout, view.attributes)
    at = None if pinned else view.version
    place = ship_store(notifications.sparkSession, store, at)
    job = MatchJob(place, store.identity, at, layout)
    return _Plan(rows, view, job, len(store.shards(view.base)))


def _check_choice(name: str, given: str, known: tuple[str, ...]) -> None:
    if given not in known:
        raise InvalidInputError(f"{name}: {given!r:.60} is unknown{or_one_of(str(given), known)}")


def _warn_of_frozen(notifications: DataFrame, subscriptions: object, version: int) -> None:
    """A table of subscriptions is what it is; of a store, one expects that it may change."""
    if notifications.isStreaming and not hasattr(subscriptions, "mapInArrow"):
        warnings.warn(
            f"this stream is matched with version {version} of the store for as long as it runs, "
            "whatever changes: use match_stream, or the source 'kbn' with the option "
            f"'subscriptions', to follow changes; version={version} says that this is meant",
            stacklevel=3,
        )


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
