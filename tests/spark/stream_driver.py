"""A driver to be killed: one stream from `in` to `out`, to the end of what is there.

python stream_driver.py ROOT kbn|parquet|match_stream
"""

from __future__ import annotations

import sys
from pathlib import Path

from kbn.spark.ingest import read
from kbn.spark.io.data_source import register
from kbn.spark.matching import match
from kbn.spark.runtime import session
from kbn.spark.streaming import match_stream

NOW = {"availableNow": True}


def main(root: Path, sink: str) -> None:
    spark = session(
        "local[1]",
        app="kbn killed driver",
        settings={
            "spark.sql.shuffle.partitions": "1",
            "spark.driver.memory": "512m",
            "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.local.dir": str(root / "scratch"),
            "spark.sql.warehouse.dir": str(root / "warehouse"),
        },
    )
    register(spark)
    if sink == "match_stream":
        stream = read(spark, root / "in", "json", stream=True, options={"maxFilesPerTrigger": "1"})
        query = match_stream(stream, root / "store", root / "out", root / "checkpoint", trigger=NOW)
    else:
        reader = spark.readStream.format("kbn").option("subscriptions", str(root / "store"))
        stream = reader.option("maxRowsPerBatch", "12").load(str(root / "in"))
        writer = match(stream, root / "store").writeStream.format(sink).trigger(**NOW)
        writer = writer.option("checkpointLocation", str(root / "checkpoint"))
        query = writer.start(str(root / "out"))
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
