"""The data pipeline on Spark: functions from DataFrames to DataFrames, with your session.

Everything is imported here and now, not when first used: some functions have the name of the module
they live in, and whoever imports that module must not get it in the function's place.
"""

from __future__ import annotations

from kbn.errors import MissingDependencyError

try:
    import pyspark  # noqa: F401
except ImportError as error:
    raise MissingDependencyError("the data pipeline on Spark", extra="spark") from error

from kbn.matching import SubscriptionStore
from kbn.spark.annotate import annotate, unrecognised
from kbn.spark.hops import hop_histogram, hops
from kbn.spark.ingest import ingest, notifications, quarantine, read
from kbn.spark.matching import compile_subscriptions, match
from kbn.spark.medoids import interests, medoids
from kbn.spark.planning import clusters, plan, plan_json
from kbn.spark.runtime import session
from kbn.spark.sink import read_delivered
from kbn.spark.source import register
from kbn.spark.streaming import kafka_sink, kafka_source, match_stream

__all__ = [
    "SubscriptionStore",
    "annotate",
    "clusters",
    "compile_subscriptions",
    "hop_histogram",
    "hops",
    "ingest",
    "interests",
    "kafka_sink",
    "kafka_source",
    "match",
    "match_stream",
    "medoids",
    "notifications",
    "plan",
    "plan_json",
    "quarantine",
    "read",
    "read_delivered",
    "register",
    "session",
    "unrecognised",
]
