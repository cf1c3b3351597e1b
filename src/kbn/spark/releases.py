"""What the releases of Spark that kbn runs on differ in, in one place.

    from 4.0   everything but streams through formats of ours ("kbn", "kbn-kafka", …)
    from 4.1   their sinks take streams
    from 4.2   their sources are read as streams: they need to be told where a batch starts

A release that lacks something says so by name where it is asked for, and not when it is imported.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyspark
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from kbn.errors import KbnError

Release = tuple[int, int]


def release_of(version: str) -> Release:
    """The release that a version belongs to.

    >>> release_of("4.0.1")
    (4, 0)
    """
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


RELEASE = release_of(pyspark.__version__)
STREAM_SINK: Release = (4, 1)
STREAM_SOURCE: Release = (4, 2)


def require_stream_source(format: str) -> None:
    """Raise KbnError when this Spark cannot read a format of ours as a stream."""
    instead = "read it as a batch, or use a source of Spark's own and `match_stream`"
    _require(f'reading the format "{format}" as a stream', STREAM_SOURCE, instead)


def require_stream_sink(format: str) -> None:
    """Raise KbnError when this Spark cannot write a stream to a format of ours."""
    instead = "use `match_stream`, which writes batch by batch"
    _require(f'writing a stream to the format "{format}"', STREAM_SINK, instead)


def _require(what: str, since: Release, instead: str) -> None:
    if since > RELEASE:
        wanted = ".".join(map(str, since))
        raise KbnError(
            f"{what} needs Spark {wanted} or newer, and this is {pyspark.__version__}: {instead}"
        )


def arrow_schema(schema: StructType) -> pa.Schema:
    """A schema as Arrow has it, times in UTC."""
    # Before 4.2 that is the default, and has no name.
    told: dict[str, Any] = {"timezone": "UTC"} if RELEASE >= (4, 2) else {}
    return to_arrow_schema(schema, **told)
