"""Streams from and to other systems: any streaming DataFrame matched, exactly once; Kafka.

The source "kbn" has the version of the subscriptions in its offsets. Other sources have not, so
`match_stream` writes down, before a batch runs, the version it is matched at:

    1. pin: `pins/<batch>.json` is linked into place with the newest version, unless it is there;
    2. match the batch at the pinned version, and write it to parts;
    3. commit: the batch's manifest is linked into place, unless it is there;
    4. the pin is no longer needed and goes.

A crash between two steps runs the batch again from the first, with the same pin if it was made, and
whatever came of it the batch is committed once (`manifests.py`).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType

from kbn.errors import InvalidInputError, KbnError
from kbn.matching import SubscriptionStore
from kbn.spark.ingest import AnyMapping, ingest, quarantine
from kbn.spark.io import VERSION, Delivered, link, local_path, read_rows, register
from kbn.spark.matching import match, problems
from kbn.wording import counted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PINS = "pins"
_log = logging.getLogger("kbn.spark")
KAFKA_PACKAGE = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0"


def match_stream(
    notifications: DataFrame,
    store: SubscriptionStore | str | Path,
    path: str | Path,
    checkpoint: str | Path,
    *,
    trigger: Mapping[str, Any] | None = None,
    quarantine: str | Path | None = None,
    problems: str | Path | None = None,
    options: Mapping[str, str] | None = None,
    **how: Any,
) -> StreamingQuery:
    """Match a streaming DataFrame into the folder `path`, each batch once; starts the query.

    A change to the store counts from the first batch that begins after it. `trigger` is what
    `DataStreamWriter.trigger` takes, {"availableNow": True} for one. Rows that ingesting refused or
    that cannot be matched go to the folder `quarantine`, where there is one; all that is wrong with
    rows (`kbn.spark.problems`) goes to the folder `problems`. A batch that adds to either says so
    in the log `kbn.spark`. `options` are the sink's (`fileFormat`, `host` and `port`), `how` is
    what `match` takes. Read each folder with `read_delivered(path)`.

    ```python
    arriving = notifications(read(spark, "inbox", "json", stream=True))
    now = {"availableNow": True}
    query = match_stream(arriving, "store", "delivered", "checkpoint", trigger=now)
    query.awaitTermination()
    ```
    """
    if not notifications.isStreaming:
        raise InvalidInputError("match_stream is for streaming DataFrames: use match for this one")
    opened = store if isinstance(store, SubscriptionStore) else SubscriptionStore.open(store)
    job = MatchBatch(
        str(opened.directory.absolute()),
        local_path(str(path)),
        str(checkpoint),
        None if quarantine is None else local_path(str(quarantine)),
        None if problems is None else local_path(str(problems)),
        dict(options or {}),
        how,
    )
    writer = notifications.writeStream.foreachBatch(job).option(
        "checkpointLocation", str(checkpoint)
    )
    return writer.trigger(**trigger).start() if trigger else writer.start()


@dataclass(frozen=True)
class MatchBatch:
    """Matches and delivers one batch, by number."""

    store: str
    path: str
    checkpoint: str
    quarantine: str | None = None
    problems: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    how: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, batch: DataFrame, number: int) -> None:
        register(batch.sparkSession)
        version = pinned(self.path, number, lambda: SubscriptionStore.open(self.store).version)
        given = at_version(batch, version, self.how.get("id", "id"))
        if self.quarantine is not None:
            kept = _left_out(self._problems(given))
            if "reason" in batch.columns:
                kept = quarantine(batch).unionByName(kept)
            self._deliver(kept, number, self.quarantine, {}, {})
            _tell(number, self.quarantine, "in quarantine")
        if self.problems is not None:
            self._deliver(self._problems(given), number, self.problems, {}, {})
            _tell(number, self.problems, "with a problem")
        rows = match(given, self.store, **self.how)
        self._deliver(rows, number, self.path, {"version": version}, self.options)
        unpin(self.path, number)

    def _problems(self, given: DataFrame) -> DataFrame:
        known = ("id", "terms", "unknown_terms")
        return problems(
            given, self.store, **{name: self.how[name] for name in known if name in self.how}
        )

    def _deliver(
        self,
        rows: DataFrame,
        number: int,
        path: str,
        facts: Mapping[str, Any],
        options: Mapping[str, str],
    ) -> None:
        writer = rows.write.format("kbn").mode("append").options(**options)
        if stream := stream_id(self.checkpoint):
            writer = writer.option("stream", stream)
        writer.option("batch", number).option("facts", json.dumps(facts)).save(path)


def _left_out(found: DataFrame) -> DataFrame:
    """Rows that cannot be matched, as rows of the quarantine."""
    named = F.coalesce(F.col("notification").cast(StringType()), F.lit("without an id"))
    return found.where("left_out").select(
        F.lit("match").alias("source"),
        F.lit(None).cast(LongType()).alias("position"),
        F.col("record"),
        F.concat(F.lit("notification "), named, F.lit(": "), F.col("reason")).alias("reason"),
    )


def _tell(batch: int, path: str, what: str) -> None:
    """Log how many rows a batch added to a folder, and why the first is there."""
    delivered = Delivered(path)
    manifest = delivered.manifest_of(batch)
    if manifest is not None and manifest.rows:
        first = read_rows(delivered, manifest).slice(0, 1).to_pylist()[0]
        rows = counted(manifest.rows, "row")
        _log.warning(
            "batch %d: %s %s, see %s; the first: %s", batch, rows, what, path, first["reason"]
        )


def stream_id(checkpoint: str) -> str | None:
    """The id of the stream a checkpoint is of; None where it cannot be read from here.

    Tasks know it too, but not under Spark Connect.
    """
    try:
        about = (Path(local_path(checkpoint)) / "metadata").read_text(encoding="utf-8")
    except (OSError, InvalidInputError):
        return None
    return str(json.loads(about)["id"])


def at_version(notifications: DataFrame, version: int, id: str) -> DataFrame:
    """The notifications, to be matched at a version of the store."""
    if "attributes" not in notifications.columns:
        columns = [name for name in notifications.columns if name != id]
        packed = F.struct(*(F.col(_quoted(name)) for name in columns)).alias("attributes")
        notifications = notifications.select(_quoted(id), packed)
    return notifications.withColumn(VERSION.name, F.lit(version).cast(VERSION.dataType))


def pinned(directory: str | Path, batch: int, newest: Callable[[], int]) -> int:
    """The version of a batch: what was written down for it, or else `newest()`, written down."""
    path = Path(directory) / PINS / f"{batch:016d}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        link(path, json.dumps({"version": newest()}))
    return int(json.loads(path.read_text(encoding="utf-8"))["version"])


def unpin(directory: str | Path, batch: int) -> None:
    """Forget the version of a batch that is delivered."""
    (Path(directory) / PINS / f"{batch:016d}.json").unlink(missing_ok=True)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


# Kafka.


def kafka_source(
    spark: SparkSession,
    options: Mapping[str, str],
    format: str = "json",
    mapping: AnyMapping | None = None,
) -> DataFrame:
    """Notifications from Kafka as a stream of `columns.INGESTED`; `ingest` reads the values.

    `options` are the connector's: kafka.bootstrap.servers, subscribe, startingOffsets… A message
    that is no notification is known by its topic, partition and offset.

    ```python
    options = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "posts"}
    posts = notifications(kafka_source(spark, options))
    ```
    """
    with _connector():
        messages = spark.readStream.format("kafka").options(**options).load()
    return ingest(messages, format, mapping)


def to_kafka(rows: DataFrame, key: str | None = None) -> DataFrame:
    """Rows as Kafka's messages: the row as JSON, under the key of a column."""
    value = F.to_json(F.struct(*(F.col(_quoted(name)) for name in rows.columns))).alias("value")
    if key is None:
        return rows.select(value)
    return rows.select(F.col(_quoted(key)).cast(StringType()).alias("key"), value)


def kafka_sink(
    rows: DataFrame,
    options: Mapping[str, str],
    checkpoint: str | Path,
    *,
    key: str | None = None,
    trigger: Mapping[str, Any] | None = None,
) -> StreamingQuery:
    """Send a streaming DataFrame's rows to Kafka; starts the query.

    `options` are the connector's: kafka.bootstrap.servers, topic… At least once: a batch that runs
    again after a crash is sent again, so consumers tell rows apart by what is in them.

    ```python
    options = {"kafka.bootstrap.servers": "localhost:9092", "topic": "matches"}
    query = kafka_sink(match(posts, "store"), options, "checkpoint", key="subscriber")
    ```
    """
    writer = to_kafka(rows, key).writeStream.format("kafka").options(**options)
    writer = writer.option("checkpointLocation", str(checkpoint))
    with _connector():
        return writer.trigger(**trigger).start() if trigger else writer.start()


class _connector:
    """Says which package has Kafka's connector when it is not there."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, AnalysisException) and "kafka" in str(error).lower():
            raise KbnError(
                "Spark has no Kafka connector here: start it with "
                f"--packages {KAFKA_PACKAGE} (or set spark.jars.packages to that before the "
                f"session is made). It said: {str(error).splitlines()[0]}"
            ) from error
