"""An overlay that is upgraded broker by broker, under load: nothing is lost; no way back unseen."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE, Popen

import pytest
from tests.transport.changed_broker import changed_versions
from tests.transport.overlay import PROCESS, run, until
from tests.transport.test_durability import publish_all, read_all

import kbn
from kbn.broker import check_store
from kbn.transport.urls import parse_url

BETWEEN = 150
CHANGED = ["-m", "tests.transport.changed_broker"]
PRESENT = ["-c", PROCESS]


class Overlay:
    """Three brokers in a row, each a process: a - b - c."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, Popen[str]] = {}
        self.urls: dict[str, str] = {}

    def path(self, name: str) -> Path:
        return self._folder / f"{name}.db"

    def start(self, name: str, code: list[str]) -> None:
        port = parse_url(self.urls[name]).port if name in self.urls else 0
        links = [self.urls[{"b": "a", "c": "b"}[name]]] if name != "a" else []
        command = [sys.executable, *code, name, str(self.path(name)), str(port), *links]
        process = Popen(command, stdout=PIPE, text=True)
        assert process.stdout is not None
        self._running[name] = process
        url = process.stdout.readline().strip()
        assert self.urls.setdefault(name, url) == url

    def stop(self, name: str) -> None:
        process = self._running.pop(name)
        process.terminate()
        process.wait(timeout=30)
        assert process.stdout is not None
        process.stdout.close()

    def upgrade(self, name: str) -> None:
        self.stop(name)
        self.start(name, CHANGED)

    def end(self) -> None:
        for name in list(self._running):
            self.stop(name)


async def upgraded_under_load(overlay: Overlay, order: str) -> None:
    total = BETWEEN * (len(order) + 1)
    stored: list[int] = []
    got: list[object] = []
    ann = kbn.connect(overlay.urls["c"], name="ann", durable=True, window=100)
    async with ann, kbn.connect(overlay.urls["a"], name="bob") as bob:
        while not (await ann.status()).neighbours[0].complete:
            await asyncio.sleep(0.01)
        feed = await ann.subscribe("n any").in_force()
        reading = asyncio.ensure_future(read_all(feed, total, got))
        publishing = asyncio.ensure_future(publish_all(bob, total, stored))
        for step, name in enumerate(order):
            await until(lambda step=step: len(stored) > step * BETWEEN)  # type: ignore[misc]
            await asyncio.to_thread(overlay.upgrade, name)
        await publishing
        await reading
    assert got == list(range(total)), "each once, and in order"


@pytest.mark.slow
def test_an_overlay_is_upgraded_broker_by_broker_under_load_and_loses_nothing(
    tmp_path: Path,
) -> None:
    overlay = Overlay(tmp_path)
    try:
        for name in "abc":
            overlay.start(name, PRESENT)
        run(upgraded_under_load(overlay, "bac"))
    finally:
        overlay.end()
    newest = changed_versions()[-1].number
    for name in "abc":
        checked = check_store(overlay.path(name), changed_versions())
        assert checked.is_whole and checked.version == newest
        assert check_store(f"{overlay.path(name)}.v{newest - 1}").is_whole
    refused = subprocess.run(
        [sys.executable, *PRESENT, "a", str(overlay.path("a")), "0"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert refused.returncode != 0
    assert f"of version {newest}, and this kbn knows up to version {newest - 1}" in refused.stderr
    assert f"kbn store restore {overlay.path('a')}.v{newest - 1}" in refused.stderr
