"""The job that `test_connect.py` runs through Spark Connect: from Kafka to a Delta table.

connect_job.py DIRECTORY SERVERS
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from kbn.spark import match, register
from kbn.spark.runtime import session


def main(place: Path, servers: str) -> None:
    spark = session("sc://local[2]", app="connected")
    register(spark)
    source = {"servers": servers, "topic": "posts"}
    whole = spark.read.format("kbn-kafka").options(**source).load()
    rows = match(whole, place / "store")
    rows.write.format("kbn-delta").mode("append").save(str(place / "whole"))
    reader = spark.readStream.format("kbn-kafka").options(**source)
    stream = reader.option("subscriptions", str(place / "store")).load()
    writer = match(stream, place / "store").writeStream.format("kbn-delta")
    writer = writer.option("checkpointLocation", str(place / "checkpoint"))
    writer.trigger(availableNow=True).start(str(place / "streamed")).awaitTermination()
    found = {
        name: [
            list(row)
            for row in spark.read.format("kbn-delta")
            .load(str(place / name))
            .sort("notification", "subscription")
            .collect()
        ]
        for name in ("whole", "streamed")
    }
    found["connect"] = [[type(spark).__module__]]
    (place / "found.json").write_text(json.dumps(found), encoding="utf-8")
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
