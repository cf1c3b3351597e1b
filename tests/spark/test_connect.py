"""Queues and tables through Spark Connect, where there is no SparkContext."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.spark.queue_servers import MockKafka
from tests.spark.releases import reads_streams
from tests.spark.test_elsewhere import run

from kbn.matching import SubscriptionStore

JOB = Path(__file__).parent / "connect_job.py"


@reads_streams
@pytest.mark.slow
def test_a_stream_goes_from_kafka_to_a_table_through_spark_connect(tmp_path: Path) -> None:
    kafka = MockKafka()
    posts = [{"id": f"n{n}", "attributes": {"price": n}} for n in (5, 15, 25)]
    kafka.publish("posts", [json.dumps(post).encode() for post in posts])
    store = SubscriptionStore.create(tmp_path / "store")
    store.change(add=[("s1", "ann", "price < 20"), ("s2", "bob", "price < 10")])
    run([sys.executable, str(JOB), str(tmp_path), kafka.servers], SPARK_LOCAL_IP="127.0.0.1")
    found = json.loads((tmp_path / "found.json").read_text())
    expected = [["n15", "s1", "ann"], ["n5", "s1", "ann"], ["n5", "s2", "bob"]]
    assert found["whole"] == found["streamed"] == expected
    assert "connect" in found["connect"][0][0]
