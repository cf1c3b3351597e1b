"""Who wants how much, from matches that were counted by group and never expanded.

A group is one distinct filter; the store knows its text and its members. So a thousand popular
filters are looked up once each, and not once for every notification that satisfied them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from kbn.matching import GROUP_BITS, Shard, StoreView, SubscriptionStore
from kbn.spark.shared import visible

Batches = Iterator[pa.RecordBatch]

WANTED = StructType(
    [
        StructField("group", LongType()),
        StructField("filter", StringType()),
        StructField("subscriptions", LongType()),
        StructField("notifications", LongType()),
    ]
)
"""Each distinct filter that some notification satisfied: how many subscriptions have it, and how
many notifications satisfied it."""

TOTALS = StructType([StructField("subscriber", StringType()), StructField("matches", LongType())])
"""How many matches each subscriber has; a subscription with alternatives (`or`) counts once for
each that holds, where matches were counted by group."""


def wanted(counts: DataFrame, store: SubscriptionStore) -> DataFrame:
    """The groups of COUNTS, with their filters as text: WANTED."""
    each = counts.select(F.explode("groups").alias("each")).groupBy(
        F.col("each.group").alias("group")
    )
    hits = each.agg(
        F.max("each.subscriptions").alias("subscriptions"), F.count("*").alias("notifications")
    )
    return hits.mapInArrow(partial(described, str(store.directory.absolute())), WANTED)


def totals_of_wanted(wanted: DataFrame, store: SubscriptionStore) -> DataFrame:
    """TOTALS: the members of each group get what the group got."""
    hits = wanted.select("group", "notifications")
    each = hits.mapInArrow(partial(members, str(store.directory.absolute())), TOTALS)
    return each.groupBy("subscriber").agg(F.sum("matches").alias("matches"))


def totals_of_matches(matches: DataFrame) -> DataFrame:
    """TOTALS of matches that were expanded."""
    counted = matches.groupBy(F.col("subscriber").cast(StringType()).alias("subscriber"))
    return counted.agg(F.count("*").alias("matches"))


# In the workers: Arrow in, Arrow out.


def described(directory: str, batches: Batches) -> Batches:
    """Batches of (group, subscriptions, notifications), with the text of each group's filter."""
    view = _opened(directory)
    for batch in batches:
        group, subscriptions, notifications = batch.columns
        texts = [str(_shard(view, g).filter_of(_number(g))) for g in group.to_pylist()]
        columns = [group, pa.array(texts, pa.string()), subscriptions, notifications]
        yield pa.RecordBatch.from_arrays(columns, names=WANTED.names)


def members(directory: str, batches: Batches) -> Batches:
    """Batches of (group, notifications), a row for each subscription of the group."""
    view = _opened(directory)
    for batch in batches:
        subscribers, hits = [], []
        for group, count in zip(*(c.to_pylist() for c in batch.columns), strict=True):
            shard = _shard(view, group)
            numbers = shard.members(_number(group))
            subscribers.append(shard.subscribers.take(pa.array(numbers, pa.int64())))
            hits += [count] * len(numbers)
        who = pa.concat_arrays(subscribers) if subscribers else pa.array([], pa.string())
        columns = [who.cast(pa.string()), pa.array(hits, pa.int64())]
        yield pa.RecordBatch.from_arrays(columns, names=TOTALS.names)


def _opened(directory: str) -> StoreView:
    return SubscriptionStore.open(visible(directory)).at()


def _shard(view: StoreView, group: int) -> Shard:
    return view.shards[group >> GROUP_BITS]


def _number(group: int) -> int:
    return group & ((1 << GROUP_BITS) - 1)
