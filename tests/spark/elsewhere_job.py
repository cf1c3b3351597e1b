"""The job that `test_elsewhere.py` runs in other places: match two tables, write what was found.

    elsewhere_job.py DIRECTORY [--master M | --remote R] [--ship]

It is what a user would write: their session, two tables, `match`, a table. It also checks how many
executors there are, and with --ship moves the store away so that workers must use what was shipped.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
from pathlib import Path

import kbn.spark
from kbn.spark.compiling import compile_subscriptions
from kbn.spark.matching import match
from kbn.spark.runtime import session


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("--master")
    parser.add_argument("--ship", action="store_true")
    given = parser.parse_args()
    place = given.directory
    spark = session(given.master, app="elsewhere", settings={"spark.executor.memory": "1g"})
    table = spark.read.parquet(str(place / "subscriptions"))
    store = compile_subscriptions(table, str(place / "ontology.kbno"), place / "store", shards=2)
    found = match(spark.read.parquet(str(place / "notifications")).repartition(4), store)
    pids = spark.range(8, numPartitions=8).mapInArrow(parents, "parent long")
    if given.ship:
        archive = shutil.make_archive(str(place / "shipped"), "zip", place / "store")
        spark.addArtifacts(f"{archive}#store", archive=True)
        (place / "store").rename(place / "moved")
    found.write.parquet(str(place / "found"))
    facts = {"executors": pids.distinct().count(), "kbn": Path(kbn.spark.__file__).name}
    (place / "facts.json").write_text(json.dumps(facts), encoding="utf-8")
    spark.stop()


def parents(batches):  # type: ignore[no-untyped-def]
    """The executor a worker belongs to: its daemon's parent, so one number per executor."""
    import psutil
    import pyarrow as pa

    executor = psutil.Process(os.getppid()).ppid()
    for batch in batches:
        yield pa.record_batch({"parent": [executor] * batch.num_rows})


if __name__ == "__main__":
    main()
