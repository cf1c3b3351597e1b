"""Marks for tests of what some releases of Spark lack; `kbn.spark.releases` tells users."""

from __future__ import annotations

import pytest

from kbn.spark.releases import RELEASE, STREAM_SOURCE

reads_streams = pytest.mark.skipif(
    RELEASE < STREAM_SOURCE, reason='this Spark does not read the format "kbn" as a stream'
)
