"""A driver to be killed: from Kafka and NATS to queues and tables, to the end of what is there.

python queue_driver.py ROOT KAFKA NATS kafka-to-nats nats-to-delta
"""

from __future__ import annotations

import sys
from pathlib import Path

from kbn.spark.io.data_source import register
from kbn.spark.matching import match
from kbn.spark.runtime import session


def main(root: Path, kafka: str, nats: str, names: list[str]) -> None:
    spark = session(
        "local[2]",
        app="kbn killed driver of queues",
        settings={
            "spark.sql.shuffle.partitions": "1",
            "spark.driver.memory": "512m",
            "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.local.dir": str(root / "scratch"),
            "spark.sql.warehouse.dir": str(root / "warehouse"),
        },
    )
    register(spark)
    sources = {
        "kafka": {"servers": kafka, "topic": "posts"},
        "nats": {"servers": nats, "stream": "POSTS"},
    }
    sinks = {
        "nats": {"servers": nats, "stream": "MATCHES", "subject": "matches"},
        "delta": {"path": str(root / "delta")},
        "kafka": {"servers": kafka, "topic": "matches", "key": "subscriber"},
        "iceberg": {
            "table": "db.matches",
            "catalog.type": "sql",
            "catalog.uri": f"sqlite:///{root}/catalog.db",
            "catalog.warehouse": f"file://{root}/lake",
        },
    }
    queries = []
    for name in names:
        source, _, sink = name.split("-")
        reader = spark.readStream.format(f"kbn-{source}").options(**sources[source])
        reader = reader.option("subscriptions", str(root / "store")).option("tasks", "1")
        rows = match(reader.option("maxRowsPerBatch", "25").load(), root / "store")
        writer = rows.writeStream.format(f"kbn-{sink}").options(**sinks[sink])
        writer = writer.option("checkpointLocation", str(root / "checkpoints" / name))
        queries.append(writer.trigger(availableNow=True).start())
    for query in queries:
        query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:])
