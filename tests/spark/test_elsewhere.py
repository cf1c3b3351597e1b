"""The same job on two executors of their own, by spark-submit, and through Spark Connect."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pyspark
import pytest
from pyspark.sql import SparkSession
from tests.matching.worlds import world_of
from tests.spark.test_matching import (
    notifications_of,
    oracle,
    random_wanted,
    rows_of,
    subscriptions_of,
)

from kbn.spark.matching import match

JOB = Path(__file__).parent / "elsewhere_job.py"
SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
TWO_EXECUTORS = "local-cluster[2,1,1024]"


@pytest.fixture
def prepared(spark: SparkSession, tmp_path: Path, seed: int) -> list[object]:
    """Tables and an ontology in `tmp_path`; what must be found, checked on this session first."""
    random = Random(seed)
    world = world_of(4 * random.randrange(100))
    assert world.ontology is not None
    wanted = random_wanted(world, random)
    given = [world.random_notification(random) for _ in range(200)]
    world.ontology.save(tmp_path / "ontology.kbno")
    subscriptions_of(spark, wanted).write.parquet(str(tmp_path / "subscriptions"))
    notifications_of(spark, given).write.parquet(str(tmp_path / "notifications"))
    expected = oracle(wanted, given, world.ontology)
    assert expected
    here = match(
        spark.read.parquet(str(tmp_path / "notifications")),
        spark.read.parquet(str(tmp_path / "subscriptions")),
        world.ontology,
    )
    assert rows_of(here) == expected
    return expected


def run(command: list[str], **environment: str) -> None:
    """Run in a process of its own: a JVM has one Spark."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    told = subprocess.run(
        command,
        env={**inherited, "PYSPARK_PYTHON": sys.executable, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert told.returncode == 0, told.stdout[-2000:] + told.stderr[-6000:]


def facts_of(place: Path) -> dict[str, object]:
    read: dict[str, object] = json.loads((place / "facts.json").read_text(encoding="utf-8"))
    return read


@pytest.mark.slow
def test_two_executors_find_the_same_with_a_store_that_was_shipped(
    spark: SparkSession, prepared: list[object], tmp_path: Path
) -> None:
    """By spark-submit onto a cluster of two executors; workers see only the shipped archive."""
    home = str(Path(pyspark.__file__).parent)
    options = ["--conf", "spark.ui.enabled=false", "--conf", "spark.executor.memory=1g"]
    command = [str(SUBMIT), "--master", TWO_EXECUTORS, *options, str(JOB), str(tmp_path), "--ship"]
    run(command, SPARK_HOME=home, SPARK_LOCAL_IP="127.0.0.1")
    assert rows_of(spark.read.parquet(str(tmp_path / "found"))) == prepared
    assert facts_of(tmp_path)["executors"] == 2
    assert not (tmp_path / "store").exists()


@pytest.mark.slow
def test_spark_connect_finds_the_same(
    spark: SparkSession, prepared: list[object], tmp_path: Path
) -> None:
    run(
        [sys.executable, str(JOB), str(tmp_path), "--master", "sc://local[2]"],
        SPARK_LOCAL_IP="127.0.0.1",
    )
    assert rows_of(spark.read.parquet(str(tmp_path / "found"))) == prepared
