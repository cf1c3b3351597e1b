"""One Spark for each pytest worker, on two cores; the JVM is started once and kept small."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kbn.spark.releases import RELEASE
from kbn.spark.runtime import session

UNCLOSED = "ignore:unclosed <socket.socket:ResourceWarning"
FOR_TESTS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.driver.memory": "1g",
}


@pytest.hookimpl(tryfirst=True)  # before the one that skips them where there is no Java
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.java)
            if RELEASE < (4, 2):  # leaves its sockets to the garbage collector
                item.add_marker(pytest.mark.filterwarnings(UNCLOSED))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    scratch = tmp_path_factory.mktemp("spark")
    started = session(
        "local[2]",
        app="kbn tests",
        settings={
            **FOR_TESTS,
            "spark.sql.warehouse.dir": str(scratch / "warehouse"),
            "spark.local.dir": str(scratch / "local"),
        },
    )
    yield started
    started.stop()
