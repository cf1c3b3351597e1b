"""The job that `test_cluster.py` runs on a cluster: match two tables that no file holds.

    cluster_job.py PLACE MASTER WAY SUBSCRIPTIONS NOTIFICATIONS

The driver compiles a store and ships it; before any task reads it, the store is moved away. Some
tasks then wait until the test has killed an executor: the driver writes `PLACE/some` when the first
ones are done, and they go on when `PLACE/go` is there. What was found goes to `PLACE/found.arrow`.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kbn import Ontology, data
from kbn.spark import compile_subscriptions, match, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS = 8
FREE = 4
"""Partitions that do not wait."""
PATIENCE_S = 600


def tables(spark: SparkSession, wanted: int, given: int) -> tuple[DataFrame, DataFrame, Ontology]:
    """Notifications, subscriptions, both made by the executors, and what they are about."""
    podcast = Ontology.load(data.path("podcast"))
    iris = ", ".join(f"'{iri}'" for iri in sorted(podcast.classes))
    count = len(podcast.classes)
    subscriptions = spark.range(wanted).selectExpr(
        "concat('s', id) as subscription",
        "concat('c', id % 1000) as subscriber",
        f"concat('category #>/@> {{<', element_at(array({iris}), cast(id % {count} + 1 as int)), "
        "'>} and duration < ', id) as filter",
    )
    notifications = spark.range(given, numPartitions=PARTITIONS).selectExpr(
        "id",
        f"array(element_at(array({iris}), cast(id % {count} + 1 as int))) as category",
        f"greatest(0, {wanted} - 20 * (id % 50) - 20) as duration",
    )
    return notifications, subscriptions, podcast


def main() -> None:
    place, address, way = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    wanted, given = int(sys.argv[4]), int(sys.argv[5])
    memory = "4g" if wanted > 100_000 else "1g"
    settings = {
        "spark.kbn.ship": way,
        "spark.executor.memory": "1g",
        "spark.driver.memory": memory,
        "spark.sql.shuffle.partitions": "2",
    }
    spark = session(address, app="cluster", settings=settings)
    notifications, subscriptions, podcast = tables(spark, wanted, given)
    store = compile_subscriptions(subscriptions, podcast, place / "store", strict=True)
    gated = notifications.mapInArrow(
        lambda batches: gate(batches, str(place)), notifications.schema
    )
    found = match(gated, store, terms={"category": "class"})
    (place / "store").rename(place / "moved")
    watching = threading.Thread(target=tell, args=(spark, place), daemon=True)
    watching.start()
    table = found.toArrow()
    with (
        pa.OSFile(str(place / "found.arrow"), "wb") as file,
        pa.ipc.new_file(file, table.schema) as writer,
    ):
        writer.write_table(table)
    spark.stop()


def gate(batches: Any, place: str) -> Any:
    """Hold the later partitions until the test lets them go."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    limit = time.monotonic() + PATIENCE_S
    while context.partitionId() >= FREE and not (Path(place) / "go").exists():
        assert time.monotonic() < limit
        time.sleep(0.1)
    yield from batches


def tell(spark: SparkSession, place: Path) -> None:
    """Say when the partitions that do not wait are done."""
    tracker = spark.sparkContext.statusTracker()
    limit = time.monotonic() + PATIENCE_S
    while time.monotonic() < limit:
        stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
        if any(stage is not None and stage.numCompletedTasks >= FREE for stage in stages):
            (place / "some").touch()
            return
        time.sleep(0.1)


if __name__ == "__main__":
    main()
