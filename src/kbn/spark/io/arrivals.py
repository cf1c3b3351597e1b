"""What queues and tables have for a pipeline: what is there, and the rows of some of it.

Of a queue there are places, from an offset to an offset; of a table there are files, which are
never changed. Either way a pipeline knows by two numbers what it has read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame, SparkSession

from kbn.spark.io.delta_tables import Delta, delta_options
from kbn.spark.io.iceberg_tables import Iceberg, iceberg_options
from kbn.spark.io.kafka_topics import KafkaQueue, kafka_options
from kbn.spark.io.nats_streams import NatsQueue, nats_options
from kbn.spark.io.queues import Queue

QUEUES = ("kafka", "nats")
TABLES = ("delta", "iceberg")

Arrived = dict[str, tuple[int, int]]
"""Places of a queue, each from an offset up to another; or files, each with its size and age."""

_CHECKED: Mapping[str, Callable[[Mapping[str, str]], dict[str, str]]] = {
    "kafka": kafka_options,
    "nats": nats_options,
    "delta": delta_options,
    "iceberg": iceberg_options,
}


def checked_connector(kind: str, options: Mapping[str, str]) -> dict[str, str]:
    """The options of a queue or table, checked; InvalidInputError says what is wrong.

    ```python
    options = checked_connector("nats", {"servers": "nats://localhost", "stream": "POSTS"})
    ```
    """
    return _CHECKED[kind](options)


def arrived(kind: str, options: Mapping[str, str]) -> Arrived:
    """What a queue or a table has now.

    ```python
    now = arrived("delta", {"path": "posts"})
    ```
    """
    if kind in TABLES:
        table = Delta(options) if kind == "delta" else Iceberg(options)
        return {name: (file.size, file.made) for name, file in table.files().items()}
    queue: Queue = KafkaQueue(options) if kind == "kafka" else NatsQueue(options)
    try:
        return {place: (held.first, held.end) for place, held in queue.bounds().items()}
    finally:
        queue.close()


def rows_arrived(
    spark: SparkSession, kind: str, options: Mapping[str, str], wanted: Arrived
) -> DataFrame:
    """The messages of a queue as they are, or the rows of a table, of what is named.

    ```python
    rows = rows_arrived(spark, "delta", {"path": "posts"}, arrived("delta", {"path": "posts"}))
    ```
    """
    reader = spark.read.format(f"kbn-{kind}").options(**options)
    if kind in TABLES:
        return reader.option("files", json.dumps(sorted(wanted))).load()
    ends = {place: end for place, (_, end) in wanted.items()}
    starts = {place: start for place, (start, _) in wanted.items()}
    reader = reader.option("startingOffsets", json.dumps(starts))
    return reader.option("endingOffsets", json.dumps(ends)).option("form", "messages").load()
