"""The data pipeline on Spark: functions from DataFrames to DataFrames, with your session.

`kbn.spark.io` reads from and writes to the world, `kbn.spark.pipeline` runs a declared pipeline.

The functions are imported at once, not on first use: some have the name of the module they live in,
and an import of that module must not put it in the function's place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbn.errors import MissingDependencyError

try:
    import pyspark  # noqa: F401
except ImportError as error:
    raise MissingDependencyError("the data pipeline on Spark", extra="spark") from error

from kbn.matching import SubscriptionStore
from kbn.spark.annotate import annotate, unrecognised
from kbn.spark.compiling import compile_subscriptions
from kbn.spark.hops import hop_histogram, hops
from kbn.spark.ingest import ingest, notifications, quarantine, read
from kbn.spark.io import read_delivered, register
from kbn.spark.matching import match, problems
from kbn.spark.medoids import interests, medoids
from kbn.spark.planning import clusters, plan, plan_json
from kbn.spark.runtime import session
from kbn.spark.streaming import kafka_sink, kafka_source, match_stream

if TYPE_CHECKING:
    from kbn.spark import io, pipeline

__all__ = [
    "SubscriptionStore",
    "annotate",
    "clusters",
    "compile_subscriptions",
    "hop_histogram",
    "hops",
    "ingest",
    "interests",
    "io",
    "kafka_sink",
    "kafka_source",
    "match",
    "match_stream",
    "medoids",
    "notifications",
    "pipeline",
    "plan",
    "plan_json",
    "problems",
    "quarantine",
    "read",
    "read_delivered",
    "register",
    "session",
    "unrecognised",
]
