"""What the page shows, worked out by Spark: small tables, whatever the size of what they sum up."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kbn.filters import short_filter
from kbn.ontology import Ontology
from kbn.spark.pipeline.stages import Job
from kbn.spark.pipeline.state import State

TOP = 15
"""How many of the most frequent are shown."""
HOURS_MAX = 24 * 7
"""Beyond a week, notifications are counted by day."""

_IRI = r'"(?:class|individual|property|term)":\s*"([^"]+)"'


def gather(job: Job, state: State) -> dict[str, pa.Table]:
    """The tables of the page; those there is nothing to say in are left out."""
    made = {"when": _when(job.table("notifications")), "terms": _terms(job)}
    made["reasons"] = _top(job.table("quarantine"), "reason", "records")
    made["unrecognised"] = _most(job.table("unrecognised"), "notifications")
    made["rejected"] = _rejected(job.table("rejected"))
    made["problems"] = _top(job.table("problems"), "reason", "notifications")
    expanded = job.config.options.expand
    made["matched"] = _matched(job.table("matches" if expanded else "counts"), expanded, state)
    if not expanded:
        made["filters"] = _filters(job.table("wanted"), job.ontology)
    made["subscribers"] = _most(job.table("totals"), "matches")
    if job.tables.rows("medoids"):
        found = _top(job.table("medoids"), "cluster", "clients")
        made["clusters"] = _named(found, "cluster", job.ontology)
    if "plan" in state.stages:
        made["brokers"] = _brokers(job.table("plan"))
    if "hops" in state.stages:
        made["hops"] = _hops(job.table("hops"))
    return {name: table for name, table in made.items() if table.num_rows}


def _when(notifications: DataFrame) -> pa.Table:
    timed = notifications.where(F.col("time").isNotNull())
    hours = _by(timed, F.date_trunc("hour", "time")).limit(HOURS_MAX + 1).toArrow()
    if hours.num_rows <= HOURS_MAX:
        return hours
    return _by(timed, F.date_trunc("day", "time")).limit(HOURS_MAX).toArrow()


def _by(notifications: DataFrame, time: Column) -> DataFrame:
    counted = notifications.groupBy(time.alias("time")).agg(F.count("*").alias("notifications"))
    return counted.orderBy("time")


def _terms(job: Job) -> pa.Table:
    """The terms most notifications carry, in the attributes that were annotated."""
    each = [_terms_in(job.table("annotated"), name) for name in job.config.annotate]
    if not each:
        return pa.table({"attribute": [], "term": [], "notifications": []})
    found = each[0]
    for other in each[1:]:
        found = found.unionByName(other)
    counted = found.groupBy("attribute", "term").agg(F.count("*").alias("notifications"))
    return _named(_most(counted, "notifications"), "term", job.ontology)


def _terms_in(annotated: DataFrame, name: str) -> DataFrame:
    quoted = name.replace("'", "\\'")
    held = F.get_json_object("attributes", f"$['{quoted}']")
    iris = F.array_distinct(F.regexp_extract_all(held, F.lit(_IRI), F.lit(1)))
    return annotated.select(F.lit(name).alias("attribute"), F.explode(iris).alias("term"))


def _matched(found: DataFrame, expanded: bool, state: State) -> pa.Table:
    """How many notifications have so many matches, by powers of two."""
    each = found.groupBy("notification")
    summed = each.agg((F.count("*") if expanded else F.sum("subscriptions")).alias("matches"))
    bucket = F.when(F.col("matches") == 0, -1).otherwise(F.floor(F.log2("matches")))
    counted = summed.groupBy(bucket.cast("int").alias("bucket")).agg(
        F.count("*").alias("notifications"), F.sum("matches").alias("matches")
    )
    rows = counted.orderBy("bucket").toArrow().to_pylist()
    if expanded:
        nobody = state.stages["annotate"].rows["annotated"] - sum(r["notifications"] for r in rows)
        rows = [{"bucket": -1, "notifications": nobody, "matches": 0}, *rows] if nobody else rows
    return pa.table(
        {
            "matches": [_range(row["bucket"]) for row in rows],
            "notifications": [row["notifications"] for row in rows],
            "in all": [row["matches"] for row in rows],
        }
    )


def _range(bucket: int) -> str:
    """The numbers from 2^bucket on to the next power.

    >>> _range(-1), _range(0), _range(3)
    ('none', '1', '8–15')
    """
    if bucket < 1:
        return "none" if bucket < 0 else "1"
    return f"{2**bucket:,}–{2 ** (bucket + 1) - 1:,}"


def _filters(wanted: DataFrame, ontology: Ontology) -> pa.Table:
    """The filters by the matches they have in all."""
    matches = (F.col("subscriptions") * F.col("notifications")).alias("matches")
    found = _most(wanted.select("filter", "subscriptions", "notifications", matches), "matches")
    return _rewritten(found, "filter", partial(short_filter, ontology=ontology))


def _rejected(rejected: DataFrame) -> pa.Table:
    """Some subscriptions that could not be compiled; the reason without the place it points at."""
    return _rewritten(rejected.limit(TOP).toArrow(), "reason", lambda text: text.split("\n")[0])


def _brokers(plan: DataFrame) -> pa.Table:
    counted = plan.groupBy("broker").agg(
        F.count("*").alias("clusters"),
        F.sum("terms").alias("terms"),
        F.sum("clients").alias("clients"),
        F.min("rank").alias("rank"),
    )
    return counted.orderBy("rank").drop("rank").limit(200).toArrow()


def _hops(hops: DataFrame) -> pa.Table:
    """How many deliveries passed so many brokers."""
    each = hops.select(F.explode("histogram").alias("hops", "deliveries"))
    counted = each.groupBy("hops").agg(F.sum("deliveries").alias("deliveries"))
    return counted.orderBy("hops").limit(200).toArrow()


def _top(table: DataFrame, column: str, what: str) -> pa.Table:
    """The most frequent values of a column; `what` names the column of counts."""
    counted = table.where(F.col(column).isNotNull()).groupBy(column)
    return _most(counted.agg(F.count("*").alias(what)), what)


def _most(table: DataFrame, by: str) -> pa.Table:
    others = [name for name in table.columns if name != by]
    return table.orderBy(F.col(by).desc(), *others).limit(TOP).toArrow()


def _named(table: pa.Table, column: str, ontology: Ontology) -> pa.Table:
    """The same, with labels for IRIs; a CURIE for a term without a label."""
    return _rewritten(table, column, lambda iri: ontology.label(iri) or ontology.shorten(iri))


def _rewritten(table: pa.Table, column: str, write: Callable[[str], str]) -> pa.Table:
    texts = [None if text is None else write(text) for text in table[column].to_pylist()]
    place = table.column_names.index(column)
    return table.set_column(place, column, pa.array(texts, pa.string()))
