"""The data pipeline on Spark: functions from DataFrames to DataFrames, with your session."""

from __future__ import annotations

from kbn.errors import MissingDependencyError

try:
    import pyspark  # noqa: F401
except ImportError as error:
    raise MissingDependencyError("the data pipeline on Spark", extra="spark") from error
