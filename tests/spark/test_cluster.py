"""A cluster of two workers that see nothing of the driver's: stores are shipped to them.

The tables are made by the executors, so no folder at all is shared but the test's own signals. The
driver's store is moved away before any task reads it, and an executor is killed while others wait.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.spark import cluster_job
from tests.spark.cluster import PATIENCE_S, cluster, executors, surroundings

from kbn.spark import match

JOB = Path(cluster_job.__file__)
ROOT = JOB.parent.parent.parent
RUN_LIMIT_S = 600
# The full size: KBN_CLUSTER_SUBSCRIPTIONS=1000000.
SUBSCRIPTIONS = int(os.environ.get("KBN_CLUSTER_SUBSCRIPTIONS", "20000"))
NOTIFICATIONS = 400
ORDER = [("notification", "ascending"), ("subscription", "ascending")]

pytestmark = pytest.mark.slow


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Object storage: a server that speaks S3, and the address of a folder in it."""
    import s3fs
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    s3fs.S3FileSystem().mkdir("kbn-stores")
    yield "s3://kbn-stores/shipped"
    server.stop()


def found_on_a_cluster(place: Path, way: str) -> pa.Table:
    """Run the job, kill an executor in the middle, and read what was found."""
    (place / "driver").mkdir()
    with cluster(place) as address:
        arguments = [str(place), address, way, str(SUBSCRIPTIONS), str(NOTIFICATIONS)]
        log = place / "driver.log"
        with log.open("w") as into:
            driver = subprocess.Popen(
                [sys.executable, str(JOB), *arguments],
                env={**surroundings(place / "driver"), "PYTHONPATH": str(ROOT)},
                stdout=into,
                stderr=into,
            )
        try:
            wait_for(place / "some", driver, log)
            killed, *others = executors()
            assert len(others) == 1
            killed.kill()
            (place / "go").touch()
            assert driver.wait(RUN_LIMIT_S) == 0, log.read_text()[-6000:]
        finally:
            driver.kill()
            driver.wait()
    with pa.OSFile(str(place / "found.arrow")) as file:
        return pa.ipc.open_file(file).read_all().sort_by(ORDER)


def wait_for(signal: Path, driver: subprocess.Popen[bytes], log: Path) -> None:
    limit = time.monotonic() + max(PATIENCE_S, RUN_LIMIT_S)
    while not signal.exists():
        assert driver.poll() is None, log.read_text()[-6000:]
        assert time.monotonic() < limit, log.read_text()[-6000:]
        time.sleep(0.1)


def found_here(spark: SparkSession) -> pa.Table:
    notifications, subscriptions, podcast = cluster_job.tables(spark, SUBSCRIPTIONS, NOTIFICATIONS)
    found = match(notifications, subscriptions, podcast, terms={"category": "class"})
    return found.toArrow().sort_by(ORDER)


def test_a_cluster_finds_the_same_with_stores_shipped_as_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = found_on_a_cluster(tmp_path, "files")
    assert found.num_rows > NOTIFICATIONS
    assert found == found_here(spark)
    # Each executor unpacked a copy into the cache of its own worker, and none elsewhere.
    for number in range(2):
        unpacked = tmp_path / f"worker-{number}" / "cache" / "kbn" / "shipped"
        assert len([each for each in unpacked.iterdir() if (each / "store.json").exists()]) == 1
    assert not (tmp_path / "store").exists()


def test_a_cluster_finds_the_same_with_stores_in_object_storage(
    spark: SparkSession, tmp_path: Path, bucket: str
) -> None:
    assert found_on_a_cluster(tmp_path, bucket) == found_here(spark)
