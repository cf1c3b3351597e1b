"""A standalone cluster on this machine: processes with homes of their own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pyspark

HOME = Path(pyspark.__file__).parent
CLASSES = "org.apache.spark.deploy"
PATIENCE_S = 120


@contextmanager
def cluster(place: Path, workers: int = 2, memory: str = "1g") -> Iterator[str]:
    """The address of a cluster with so many workers of one core; all are gone afterwards."""
    port = _free_port()
    address = f"spark://127.0.0.1:{port}"
    with ExitStack() as running:
        bound = ["--host", "127.0.0.1", "--webui-port", "0"]
        log = place / "master.log"
        running.enter_context(
            _process(f"{CLASSES}.master.Master", [*bound, "--port", str(port)], place, log)
        )
        _wait_for("I have been elected leader", log)
        for number in range(workers):
            home = place / f"worker-{number}"
            home.mkdir()
            log = place / f"worker-{number}.log"
            size = ["--cores", "1", "--memory", memory, "--work-dir", str(home / "work")]
            running.enter_context(
                _process(f"{CLASSES}.worker.Worker", [*bound, *size, address], home, log)
            )
            _wait_for("Successfully registered with master", log)
        yield address


def surroundings(home: Path) -> dict[str, str]:
    """The environment of a process whose caches are its own; kernels are kept where they are."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_", "KBN_"))}
    return {
        **kept,
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home / "cache"),
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(home / "local"),
        "PYSPARK_PYTHON": sys.executable,
    }


def executors() -> list[psutil.Process]:
    """The executors of clusters that this process started, and of no other."""
    return [
        process
        for process in psutil.Process().children(recursive=True)
        if any("CoarseGrainedExecutorBackend" in word for word in _words(process))
    ]


def _words(process: psutil.Process) -> list[str]:
    """The command line of a process, none of one that has ended."""
    try:
        return list(process.cmdline())
    except psutil.NoSuchProcess:
        return []


@contextmanager
def _process(name: str, arguments: list[str], home: Path, log: Path) -> Iterator[None]:
    with log.open("w") as into:
        started = subprocess.Popen(
            [str(HOME / "bin" / "spark-class"), name, *arguments],
            env={**surroundings(home), "SPARK_DAEMON_MEMORY": "256m"},
            stdout=into,
            stderr=into,
            start_new_session=True,
        )
    try:
        yield
    finally:
        os.killpg(started.pid, signal.SIGKILL)
        started.wait()


def _wait_for(line: str, log: Path) -> None:
    limit = time.monotonic() + PATIENCE_S
    while line not in log.read_text(errors="replace"):
        assert time.monotonic() < limit, log.read_text(errors="replace")[-4000:]
        time.sleep(0.1)


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
