"""A broker as a process of its own, watched from outside: its metrics, memory and files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

import psutil

ANSWER_S = 30.0


@dataclass(frozen=True)
class BrokerProcess:
    """A broker under test."""

    process: subprocess.Popen[str]
    url: str
    metrics_url: str

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.url.rpartition("//")[2].rpartition(":")
        return host, int(port)

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def metrics(self) -> dict[str, float]:
        """All that has one value, by name; buckets with their bound."""
        with urlopen(self.metrics_url, timeout=ANSWER_S) as reply:
            lines = reply.read().decode().splitlines()
        return {
            name: float(value)
            for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")
        }

    def open_files(self) -> int:
        return psutil.Process(self.process.pid).num_fds()

    def memory(self) -> int:
        """Resident bytes."""
        return int(psutil.Process(self.process.pid).memory_info().rss)


@contextmanager
def broker_process(
    folder: Path, *options: str, stacks_after_ms: float = 0.0
) -> Iterator[BrokerProcess]:
    """A broker with a store in the folder; it ends with the block, or with this process.

    On request it writes the stacks of turns that take longer to `stacks.txt` there.
    """
    command = ["kbn"]
    if stacks_after_ms:
        command = ["tests.long.watched_broker", str(stacks_after_ms), str(folder / "stacks.txt")]
    command = [
        sys.executable, "-m", *command, "broker", "--name", "tested", "--port", "0", "--json",
        "--store", str(folder / "store.db"), "--metrics-port", "0", "--log-level", "error",
        "--end-with-stdin", *options,
    ]  # fmt: skip
    with (
        (folder / "broker.log").open("w") as log,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        ) as process,
    ):  # fmt: skip
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            assert said, f"the broker did not start: {(folder / 'broker.log').read_text()}"
            told = json.loads(said)
            yield BrokerProcess(process, told["url"], told["metrics"])
        finally:
            process.terminate()
            process.wait(ANSWER_S)
