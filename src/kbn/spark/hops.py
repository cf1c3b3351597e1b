"""How far notifications travel: delivery logs into histograms, means, and who is misplaced.

A subscriber whose notifications pass many brokers on their way sits far from those who publish what
it wants; a policy moves it. It is judged at each broker it was at, so that what it had to bear at
the old one is not held against the new.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kbn.errors import InvalidInputError
from kbn.spark.columns import DELIVERIES, HOPS

__all__ = ["hop_histogram", "hops"]

THRESHOLD = 1.5
"""More hops than this in the mean, and a subscriber is misplaced (the thesis' policy)."""


def hops(deliveries: DataFrame, threshold: float = THRESHOLD) -> DataFrame:
    """For each subscriber and broker it was at, the hops of its notifications: HOPS.

    `deviation` is that of the population. A subscriber is misplaced when the mean is above
    `threshold`. Rows that lack a subscriber or the hops are left out. On a stream this is an
    aggregation, for update and complete mode, and its state holds every delivery.

    ```python
    hops(deliveries).where("misplaced").show()
    ```
    """
    if not threshold >= 0:
        raise InvalidInputError(f"the threshold is a number of hops, 0 or more, not {threshold!r}")
    known = _known(deliveries)
    if known.isStreaming:
        counted = known.withColumn("times", F.lit(1).cast("long"))
    else:
        counted = known.groupBy("subscriber", "broker", "hops").agg(_count("times"))
    times, far = F.col("times"), F.col("hops")
    total, mean = F.sum(times), F.sum(far * times) / F.sum(times)
    # The sums are whole numbers, but their quotients are not: rounding must not go below zero.
    variance = F.sum(far * far * times) / F.sum(times) - mean * mean
    gathered = counted.groupBy("subscriber", "broker").agg(
        total.alias("notifications"),
        mean.alias("mean"),
        F.sqrt(F.greatest(variance, F.lit(0.0))).alias("deviation"),
        F.collect_list(F.struct("hops", "times")).alias("log"),
        (mean > threshold).alias("misplaced"),
    )
    return gathered.withColumn("histogram", _histogram(F.col("log"))).select(*HOPS.names)


def hop_histogram(deliveries: DataFrame) -> DataFrame:
    """How many of all deliveries, and what share of them, took how many hops.

    ```python
    hop_histogram(deliveries).orderBy("hops").show()
    ```
    """
    if deliveries.isStreaming:
        raise InvalidInputError(
            "shares are of the deliveries there are: call hop_histogram on a batch "
            "(in foreachBatch, say)"
        )
    counted = _known(deliveries).groupBy("hops").agg(_count("deliveries"))
    log = F.collect_list(F.struct("hops", "deliveries"))
    whole = counted.agg(log.alias("log"), F.sum("deliveries").alias("total"))
    rows = whole.select("total", F.inline(F.array_sort("log")))
    return rows.select("hops", "deliveries", (F.col("deliveries") / F.col("total")).alias("share"))


def _known(deliveries: DataFrame) -> DataFrame:
    missing = set(DELIVERIES.names[1:]) - set(deliveries.columns)
    if missing:
        raise InvalidInputError(
            f"a delivery log has the columns {', '.join(DELIVERIES.names)}; "
            f"this one lacks {', '.join(sorted(missing))}"
        )
    complete = F.col("subscriber").isNotNull() & F.col("hops").isNotNull()
    return deliveries.where(complete).select("subscriber", "broker", "hops")


def _count(name: str) -> Column:
    return F.count(F.lit(1)).alias(name)


def _histogram(log: Column) -> Column:
    """Hops → deliveries, of a list of (hops, times) in which the same hops may come again."""
    distinct = F.array_sort(F.array_distinct(log["hops"]))

    def of(far: Column) -> Column:
        alike = F.filter(log, lambda entry: entry["hops"] == far)
        total = F.aggregate(alike, F.lit(0).cast("long"), lambda sum_, entry: sum_ + entry["times"])
        return F.struct(far, total)

    return F.map_from_entries(F.transform(distinct, of))
