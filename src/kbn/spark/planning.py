"""Clusters and plans as tables: which term is in which cluster, which cluster on which broker.

The clusters follow from the ontology and the plan from the clusters; both are made in one process
(`kbn.placement`), for they are small. What comes from the data, how many clients each cluster has,
is counted by Spark.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from functools import partial
from operator import itemgetter
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from kbn.errors import InvalidInputError
from kbn.ontology import Ontology
from kbn.placement import Plan, PlannedCluster, Planner
from kbn.placement import clusters as clusters_of
from kbn.placement import plan as plan_of
from kbn.spark.columns import CLUSTERS, PLAN
from kbn.spark.shared import ontology_for, ontology_path, opened_ontology
from kbn.spark.shipping import Place

__all__ = ["clusters", "plan", "plan_json"]

DOCUMENT = StructType([StructField("value", StringType())])
"""One row: a JSON text, as `DataFrame.write.text` takes it."""


def clusters(spark: SparkSession, ontology: Ontology | str | os.PathLike[str]) -> DataFrame:
    """The cluster of every class and individual of an ontology: CLUSTERS; null for one without.

    ```python
    clusters(spark, "podcast.ttl").where("cluster is not null").show()
    ```
    """
    work = partial(list_clusters, path=ontology_for(spark, ontology))
    return spark.range(1, numPartitions=1).mapInArrow(work, CLUSTERS)


def plan(
    medoids: DataFrame,
    ontology: Ontology | str | os.PathLike[str],
    brokers: Iterable[str],
    planner: str | Planner = "taxonomic",
    **options: Any,
) -> DataFrame:
    """Which cluster lives on which broker, and how many clients have their medoid in it: PLAN.

    `medoids` are MEDOIDS, of this ontology. Brokers are named from the top of their hierarchy down.

    ```python
    planned = plan(medoids(subscriptions, "podcast.ttl"), "podcast.ttl", ["dublin", "cork"])
    ```
    """
    if medoids.isStreaming:
        raise InvalidInputError(
            "a plan is made of the medoids there are: call plan on a batch (in foreachBatch, say)"
        )
    made = plan_of(opened_ontology(ontology_path(ontology)), brokers, planner, **options)
    rows = [(each.key, each.rank, each.broker, len(each.members)) for each in made.clusters]
    planned = medoids.sparkSession.createDataFrame(rows, StructType(PLAN.fields[:4]))
    counted = medoids.groupBy("cluster").agg(F.count(F.lit(1)).alias("clients"))
    clients = F.coalesce("clients", F.lit(0)).alias("clients")
    return planned.join(counted, "cluster", "left").select(*PLAN.names[:4], clients).orderBy("rank")


def plan_json(
    planned: DataFrame,
    ontology: Ontology | str | os.PathLike[str],
    brokers: Iterable[str],
    planner: str = "taxonomic",
) -> DataFrame:
    """A PLAN as the JSON text that a policy server reads (`kbn.Plan.from_json`), in one row.

    `brokers` are those it was made for, and `planner` is the name of who made it.

    ```python
    (row,) = plan_json(planned, "podcast.ttl", ["dublin", "cork"]).collect()
    Path("plan.json").write_text(row.value)
    ```
    """
    work = partial(
        write_plan,
        path=ontology_for(planned.sparkSession, ontology),
        brokers=tuple(brokers),
        planner=planner,
    )
    return planned.select(*PLAN.names).repartition(1).mapInArrow(work, DOCUMENT)


# In the workers: Arrow in, Arrow out, no Spark.


def list_clusters(given: Iterable[pa.RecordBatch], path: Place) -> Iterator[pa.RecordBatch]:
    """Whatever comes in, the CLUSTERS of the ontology."""
    for _ in given:
        pass
    ontology = opened_ontology(path)
    placed = clusters_of(ontology).placed
    kinds = [("class", iri) for iri in ontology.classes]
    known = set(ontology.classes)
    kinds += [("individual", iri) for iri in ontology.individuals if iri not in known]
    columns = (
        [iri for _, iri in kinds],
        [kind for kind, _ in kinds],
        [placed.get(iri) for _, iri in kinds],
    )
    arrays = [pa.array(column, pa.string()) for column in columns]
    yield pa.RecordBatch.from_arrays(arrays, names=CLUSTERS.names)


def write_plan(
    given: Iterable[pa.RecordBatch], path: Place, brokers: tuple[str, ...], planner: str
) -> Iterator[pa.RecordBatch]:
    """All batches of PLAN into one row of JSON text."""
    ontology = opened_ontology(path)
    parts = clusters_of(ontology)
    rows = sorted((row for batch in given for row in batch.to_pylist()), key=itemgetter("rank"))
    planned = tuple(
        PlannedCluster(
            row["cluster"],
            row["rank"],
            row["broker"],
            parts.members(row["cluster"]),
            row["clients"],
        )
        for row in rows
    )
    text = json.dumps(Plan(ontology.digest, planner, brokers, planned).to_json())
    yield pa.RecordBatch.from_arrays([pa.array([text], pa.string())], names=DOCUMENT.names)
