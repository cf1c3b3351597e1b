"""Real brokers: what is acknowledged before a neighbour was ever reached is not lost."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen

import pytest
from tests.transport.overlay import run, start_process, take

import kbn

COUNT = 50
PATIENCE_S = 240.0  # six processes start, one after the other


@pytest.fixture
def running() -> Iterator[list[Popen[str]]]:
    processes: list[Popen[str]] = []
    yield processes
    for process in processes:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.mark.slow
def test_a_subscriber_there_before_its_broker_finds_its_neighbour_gets_all_of_it(
    running: list[Popen[str]], tmp_path: Path
) -> None:
    port = free_port()

    async def scenario() -> None:
        there, there_url = start_process("there", tmp_path / "there.db", port, "kbn://127.0.0.1:1")
        running.append(there)
        async with kbn.connect(there_url, name="ann", durable=True) as ann:
            await ann.subscribe("n >= 0")
        there.kill()
        there.wait()
        here, url = start_process("here", tmp_path / "here.db", 0, there_url)
        running.append(here)
        async with kbn.connect(url, name="bob") as bob:
            for n in range(COUNT):
                await bob.publish({"n": n}, durable=True)
        here.kill()  # started again, it still knows whom it owes that
        here.wait()
        running.append(start_process("here", tmp_path / "here.db", 0, there_url)[0])
        running.append(start_process("there", tmp_path / "there.db", port)[0])
        async with kbn.connect(there_url, name="ann", durable=True) as ann:
            got = await take(ann.subscribe("n >= 0"), COUNT)
        assert [each["n"] for each in got] == list(range(COUNT))

    run(scenario(), PATIENCE_S)
