"""The benchmarks on Spark at a small size: they run, and their answers are checked."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from kbn.cli import main
from kbn.lab.spark.process_tree import TreeClock

pytestmark = pytest.mark.java


def told(*arguments: str) -> dict[str, Any]:
    """In a process of its own: it starts and stops a Spark."""
    done = subprocess.run(
        [sys.executable, "-m", "kbn", "bench", *arguments, "--json"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.slow
def test_spark_counts_what_sql_counts() -> None:
    """The run itself ends with an error when a relational plan counts otherwise."""
    report = told(
        "spark", "--subscriptions", "300", "--notifications", "200", "--pairs", "20",
        "--relational", "10", "--cores", "1", "--why",
    )  # fmt: skip
    rows = {row["what"]: row for row in report["rows"]}
    assert set(rows) == {
        "compile", "compile, all distinct",
        "counted, columns", "counted, json", "pairs", "pairs, why",
        "SQL, predicate", "SQL, counting",
    }  # fmt: skip
    assert report["answers"]["pairs, why"] == report["answers"]["pairs"]
    assert set(report["times pairs"]) == {"why on 1"}
    assert report["answers"]["counted, columns"] == report["answers"]["counted, json"] > 0
    assert report["answers"]["pairs"] == rows["pairs"]["count"] > 0
    assert all(row["cpu_s"] > 0 and row["wall_s"] > 0 for row in rows.values())
    assert report["answers"]["compile, all distinct"] == 300
    assert set(report["times SQL"]) == {"SQL, predicate", "SQL, counting"}


class Process:
    """A process that has used so much; None when it has ended."""

    def __init__(self, pid: int, *used: float | None) -> None:
        self.pid = pid
        self._used = list(used)

    def create_time(self) -> float:
        return 0.0

    def cpu_times(self) -> Any:
        now = self._used.pop(0)
        if now is None:
            raise psutil.NoSuchProcess(self.pid)
        return SimpleNamespace(user=now, system=0.0, children_user=99.0, children_system=99.0)


def test_a_process_that_ends_leaves_the_time_it_used() -> None:
    """Once the sum over the living went back: the SQL plan took -43 s."""
    clock = TreeClock(lambda: [stays, ends])
    stays, ends = Process(1, 1.0, 2.0, 3.0), Process(2, 40.0, 50.0, None)
    assert [clock.cpu_seconds() for _ in range(3)] == [41.0, 52.0, 53.0]


@pytest.mark.slow
def test_a_stream_is_measured_from_source_to_sink() -> None:
    report = told(
        "stream", "--rate", "200", "--subscriptions", "300", "--seconds", "3", "--warm", "1"
    )
    assert report["notifications"] > 0
    assert 0 < report["p50_s"] <= report["p99_s"] <= report["longest_s"]


def test_wrong_sizes_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "spark", "--cores", "two"]) == 2
    assert "--cores takes numbers by commas, not 'two'" in capsys.readouterr().err
    assert main(["bench", "spark", "--subscriptions", "0"]) == 2
    assert main(["bench", "stream", "--rate", "0"]) == 2
