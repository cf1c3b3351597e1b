"""The examples of `kbn broker --help`, run as they stand there, but for ports and files."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kbn.cli.app import app

PATIENCE_S = 60.0


def examples() -> list[list[str]]:
    """The commands that the help shows, in its order."""
    text = CliRunner().invoke(app, ["broker", "--help"]).output
    found = re.findall(r"^ +kbn (broker .*)$", text, re.MULTILINE)
    return [shlex.split(each) for each in found]


def start(command: list[str], folder: Path) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "kbn", *command, "--json"],
        cwd=folder, stdout=subprocess.PIPE, text=True, env=dict(os.environ),
    )  # fmt: skip
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())["url"]


def with_port(command: list[str], url: str = "") -> list[str]:
    """On a free port, and with the parent where it is."""
    made = [*command, "--port", "0"] if "--port" not in command else [*command]
    if "--port" in command:
        made[made.index("--port") + 1] = "0"
    for option, value in (("--metrics-port", "0"), ("--parent", url)):
        if option in made:
            made[made.index(option) + 1] = value
    return made


@pytest.mark.slow
def test_the_examples_of_the_help_work_together(tmp_path: Path) -> None:
    first, second = examples()
    assert "--parent" in second
    one, url = start(with_port(first), tmp_path)
    with one:  # closes its pipe, and waits
        try:
            two, _ = start(with_port(second, url), tmp_path)
            with two:
                try:
                    until_joined(url)
                finally:
                    two.terminate()
        finally:
            one.terminate()


def until_joined(url: str) -> None:
    """Wait until the first broker is in session with the second."""
    import kbn.sync

    end = time.monotonic() + PATIENCE_S
    with kbn.sync.connect(url) as client:
        while time.monotonic() < end:
            neighbours = client.status().neighbours
            if [(n.broker, n.role, n.in_session) for n in neighbours] == [("cork", "child", True)]:
                return
            time.sleep(0.05)
    raise AssertionError(f"not joined: {neighbours}")
