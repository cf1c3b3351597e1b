"""The same match as a relational plan: what Spark SQL does when it is given tables and no index.

Two plans, both over the distinct filters, with the hierarchy closed beforehand into a table:

* `counting`: filters and notifications as rows of tokens, joined on the token; a filter is
  satisfied when as many tokens met as it has.
* `predicate`: joined on the category alone, and the keywords compared in the rows that meet.

They are the baseline of a benchmark, and check its answers.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kbn.ontology import Ontology


def counting(notifications: DataFrame, filters: DataFrame, ontology: Ontology) -> DataFrame:
    """(id, subscriptions): how many want each notification, by counting tokens."""
    wanted = filters.select(
        "number",
        "subscriptions",
        (F.size("words") + 1).alias("needed"),
        F.explode(F.concat(F.array("category"), "words")).alias("token"),
    )
    words = notifications.select("id", F.explode("keywords").alias("token"))
    has = _categories(notifications, ontology).union(words)
    met = has.join(wanted, "token").groupBy("id", "number", "needed", "subscriptions").count()
    return _totals(met.where(F.col("count") == F.col("needed")))


def predicate(notifications: DataFrame, filters: DataFrame, ontology: Ontology) -> DataFrame:
    """(id, subscriptions): how many want each notification, by category first."""
    categories = _categories(notifications, ontology).withColumnRenamed("token", "category")
    has = categories.join(notifications.select("id", "keywords"), "id")
    met = has.join(filters, "category")
    return _totals(met.where(F.size(F.array_except("words", "keywords")) == 0))


def _categories(notifications: DataFrame, ontology: Ontology) -> DataFrame:
    """Each notification's categories and all above them, once."""
    above = _closure(notifications.sparkSession, ontology)
    said = notifications.select("id", F.explode("category").alias("class"))
    return said.join(above, "class").select("id", F.col("above").alias("token")).distinct()


def _closure(spark: SparkSession, ontology: Ontology) -> DataFrame:
    rows = [(iri, wider) for iri in ontology.classes for wider in ontology.ancestors(iri)]
    return spark.createDataFrame(rows, ["class", "above"])


def _totals(met: DataFrame) -> DataFrame:
    return met.groupBy("id").agg(F.sum("subscriptions").alias("subscriptions"))
