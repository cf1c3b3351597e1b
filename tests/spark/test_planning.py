"""Clusters and plans as tables, and the plan as JSON."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kbn.data import namespace, path
from kbn.errors import InvalidInputError
from kbn.ontology import Ontology
from kbn.placement import Plan
from kbn.placement import clusters as clusters_of
from kbn.placement import plan as plan_of
from kbn.spark.columns import CLUSTERS, MEDOIDS, PLAN
from kbn.spark.planning import clusters, plan, plan_json

A = namespace("animals")
BROKERS = ["top", "left", "right"]


@cache
def animals() -> Ontology:
    return Ontology.load(path("animals"), cache=False)


def medoid(client: str, name: str | None) -> tuple[object, ...]:
    if name is None:
        return client, None, None, None, 0, 0, None
    return client, A + name, 0.0, 0.0, 1, 1, clusters_of(animals()).cluster_of(A + name)


def test_the_table_of_clusters_has_every_class_and_individual(spark: SparkSession) -> None:
    found = clusters(spark, animals())
    assert found.schema == CLUSTERS
    rows = {row.term: (row.kind, row.cluster) for row in found.collect()}
    parts = clusters_of(animals())
    expected = {iri: ("class", parts.cluster_of(iri)) for iri in animals().classes}
    expected |= {iri: ("individual", parts.cluster_of(iri)) for iri in animals().individuals}
    assert rows == expected


def test_a_plan_counts_the_clients_of_each_cluster(spark: SparkSession) -> None:
    given = [medoid("a", "Dixie"), medoid("b", "Burmese"), medoid("c", "Food"), medoid("d", None)]
    found = plan(spark.createDataFrame(given, MEDOIDS), animals(), BROKERS)
    assert [field.name for field in found.schema] == PLAN.names
    made = plan_of(animals(), BROKERS)
    clients = {A + "Cats": 2, A + "Food": 1}
    assert [tuple(row) for row in found.collect()] == [
        (each.key, each.rank, each.broker, len(each.members), clients.get(each.key, 0))
        for each in made.clusters
    ]


def test_the_json_of_a_plan_is_one_row_that_a_policy_server_reads(spark: SparkSession) -> None:
    medoids = spark.createDataFrame([medoid("a", "Dixie")], MEDOIDS)
    brokers = [*BROKERS, "b4", "b5", "idle"]
    (row,) = plan_json(plan(medoids, animals(), brokers), animals(), brokers).collect()
    read = Plan.from_json(row.value)
    made = plan_of(animals(), brokers)
    assert (read.brokers, read.ontology, read.planner) == (made.brokers, made.ontology, "taxonomic")
    assert [(c.key, c.rank, c.broker, c.members) for c in read.clusters] == [
        (c.key, c.rank, c.broker, c.members) for c in made.clusters
    ]
    assert {c.key: c.clients for c in read.clusters if c.clients} == {A + "Cats": 1}


def test_what_cannot_be_planned_is_told_at_once(spark: SparkSession, tmp_path: Path) -> None:
    medoids = spark.createDataFrame([medoid("a", "Dixie")], MEDOIDS)
    with pytest.raises(InvalidInputError, match="there is no planner 'by-name'"):
        plan(medoids, animals(), BROKERS, planner="by-name")
    with pytest.raises(InvalidInputError, match="at least one broker"):
        plan(medoids, animals(), [])
    stream = spark.readStream.schema(MEDOIDS).json(str(tmp_path))
    with pytest.raises(InvalidInputError, match="on a batch"):
        plan(stream, animals(), BROKERS)
