"""Queues for tests, on this machine: librdkafka's mock of a Kafka cluster, and a NATS server.

The mock keeps 5 MB or 100,000 messages of a partition, and lives in the process that starts it.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka
import nats

from kbn.spark.io.kafka_topics import KafkaQueue

STARTED_S = 60


class MockKafka:
    """A cluster of one broker; a topic has four partitions and is made when it is written to."""

    def __init__(self) -> None:
        quiet = {"log_level": 0}
        self._cluster = confluent_kafka.Producer({"test.mock.num.brokers": 1, **quiet})
        brokers = self._cluster.list_topics(timeout=STARTED_S).brokers.values()
        self.servers = ",".join(f"{each.host}:{each.port}" for each in brokers)
        self._producer = confluent_kafka.Producer({"bootstrap.servers": self.servers, **quiet})

    def publish(
        self, topic: str, values: Iterable[bytes], key: bytes | None = None
    ) -> list[tuple[str, int]]:
        """Where each of them came to stand."""
        places = {}
        for number, value in enumerate(values):

            def done(error: Any, message: Any, number: int = number) -> None:
                assert error is None, error
                places[number] = (f"{message.topic()}/{message.partition()}", message.offset())

            named = str(number).encode() if key is None else key
            self._producer.produce(topic, value, key=named, on_delivery=done)
        assert self._producer.flush(STARTED_S) == 0
        return [places[number] for number in sorted(places)]

    def values(self, topic: str) -> list[bytes]:
        """What a topic holds."""
        queue = KafkaQueue({"servers": self.servers, "topic": topic})
        found = [
            message.value or b""
            for place, held in queue.bounds().items()
            for message in queue.read(place, held.first, held.end)
        ]
        queue.close()
        return found


class NatsServer:
    """A server with JetStream, which keeps its streams in a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        program = Path(sys.executable).parent / "nats-server"
        here = ["-a", "127.0.0.1", "-p", "-1", "--ports_file_dir", folder]
        with open(folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [program, "-js", "-sd", folder, *here], stdout=log, stderr=log
            )
        self.servers = _address(folder)

    def add_stream(self, name: str, *subjects: str, **settings: Any) -> None:
        async def add(client: Any) -> None:
            await client.jetstream().add_stream(name=name, subjects=list(subjects), **settings)

        self._run(add)

    def publish(self, subject: str, values: Iterable[bytes]) -> list[int]:
        """The number of each of them in its stream."""

        async def send(client: Any) -> list[int]:
            stream = client.jetstream()
            return [(await stream.publish(subject, value)).seq for value in values]

        return self._run(send)

    def _run(self, work: Any) -> Any:
        async def connected() -> Any:
            client = await nats.connect(self.servers)
            try:
                return await work(client)
            finally:
                await client.close()

        return asyncio.run(connected())

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(STARTED_S)


@contextmanager
def nats_server(folder: Path) -> Iterator[NatsServer]:
    server = NatsServer(folder)
    try:
        yield server
    finally:
        server.stop()


def _address(folder: Path) -> str:
    for _ in range(STARTED_S * 50):
        for path in folder.glob("*.ports"):
            if text := path.read_text():
                return str(json.loads(text)["nats"][0])
        time.sleep(0.02)
    raise AssertionError((folder / "log").read_text())
