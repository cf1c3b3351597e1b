"""The data pipeline on Spark: functions from DataFrames to DataFrames, with your session.

    >>> import kbn.spark
    >>> hasattr(kbn.spark, "match")
    True

Names are loaded when first used, so that a worker which only matches does not read the rest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from kbn.errors import MissingDependencyError

try:
    import pyspark  # noqa: F401
except ImportError as error:
    raise MissingDependencyError("the data pipeline on Spark", extra="spark") from error

if TYPE_CHECKING:
    from kbn.matching.store import SubscriptionStore
    from kbn.spark.annotate import annotate, unrecognised
    from kbn.spark.hops import hop_histogram, hops
    from kbn.spark.ingest import ingest, notifications, quarantine, read
    from kbn.spark.matching import compile_subscriptions, match
    from kbn.spark.medoids import interests, medoids
    from kbn.spark.planning import clusters, plan
    from kbn.spark.runtime import session
    from kbn.spark.source import register
    from kbn.spark.streaming import match_stream

__all__ = [
    "SubscriptionStore",
    "annotate",
    "clusters",
    "compile_subscriptions",
    "hop_histogram",
    "hops",
    "ingest",
    "interests",
    "match",
    "match_stream",
    "medoids",
    "notifications",
    "plan",
    "quarantine",
    "read",
    "register",
    "session",
    "unrecognised",
]

_HOMES = {
    "SubscriptionStore": "kbn.matching.store",
    "annotate": "kbn.spark.annotate",
    "clusters": "kbn.spark.planning",
    "compile_subscriptions": "kbn.spark.matching",
    "hop_histogram": "kbn.spark.hops",
    "hops": "kbn.spark.hops",
    "ingest": "kbn.spark.ingest",
    "interests": "kbn.spark.medoids",
    "match": "kbn.spark.matching",
    "match_stream": "kbn.spark.streaming",
    "medoids": "kbn.spark.medoids",
    "notifications": "kbn.spark.ingest",
    "plan": "kbn.spark.planning",
    "quarantine": "kbn.spark.ingest",
    "read": "kbn.spark.ingest",
    "register": "kbn.spark.source",
    "session": "kbn.spark.runtime",
    "unrecognised": "kbn.spark.annotate",
}


def __getattr__(name: str) -> object:
    """Load the module a name lives in, the first time somebody asks for it."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'kbn.spark' has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    # A name such as `annotate` is a function and the module it lives in; the function is meant.
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
