"""The examples of `kbn broker --help`, run as they stand there, but for ports and files."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
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
            two, below = start(with_port(second, url), tmp_path)
            with two:
                try:
                    check_joined(url, below)
                finally:
                    two.terminate()
        finally:
            one.terminate()


def check_joined(url: str, below: str) -> None:
    """A barrier of the second broker passes the first: then they are in session."""
    import kbn.sync

    with kbn.sync.connect(below, timeout=PATIENCE_S) as client:
        client.barrier()
    with kbn.sync.connect(url) as client:
        neighbours = client.status().neighbours
    assert [(n.broker, n.role, n.in_session) for n in neighbours] == [("cork", "child", True)]
