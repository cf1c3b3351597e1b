"""Manifests: a batch is delivered once, wherever a driver dies on the way."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pytest

from kbn.errors import InvalidInputError, KbnError
from kbn.spark.columns import MATCHES
from kbn.spark.io.manifests import Delivered
from kbn.spark.io.outbox import Frame, acknowledge, frames, pending_batches
from kbn.spark.io.parts import FORMATS
from kbn.spark.io.sink import Target, Written, read_delivered

STEPS_MAX = 60


def rows(batch: int) -> list[dict[str, str]]:
    """What batch so and so has, whoever computes it."""
    return [
        {"notification": f"n{batch}", "subscription": f"s{n}", "subscriber": "ann"}
        for n in range(batch % 3)
    ]


def attempt(target: Target, batch: int, stream: str = "query") -> None:
    """What Spark does for one batch: tasks write, the driver commits."""
    table = pa.Table.from_pylist(rows(batch), pa.schema([(n, pa.string()) for n in MATCHES.names]))
    half = len(table) // 2
    parts = [table.slice(0, half), table.slice(half)]
    messages = [target.write(iter(part.to_batches())) for part in parts]
    target.commit([Written(m.part, stream) for m in messages], batch)


def delivered_rows(directory: Path) -> list[dict[str, str]]:
    return read_delivered(directory).to_pylist()


class Dead(BaseException):
    """The process is gone: nothing after this runs."""


class MortalOs:
    """The module `os`, for a process that dies before one of its calls, and stays dead."""

    def __init__(self, lives: int) -> None:
        self.lives = lives

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name not in ("link", "unlink", "replace", "fsync", "open"):
            return real

        def call(*args: Any, **named: Any) -> Any:
            self.lives -= 1
            if self.lives < 0:
                raise Dead
            return real(*args, **named)

        return call


def dies_at_every_step(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, run: Any
) -> Iterator[tuple[Path, bool]]:
    """Run with ever more lives until it survives; the folder each time, and whether it did."""
    for lives in range(STEPS_MAX):
        directory = tmp_path / f"lives{lives}"
        with monkeypatch.context() as patch:
            mortal = MortalOs(lives)
            for module in ("manifests", "spool", "parts"):
                patch.setattr(f"kbn.spark.io.{module}.os", mortal)
            with suppress(Dead):
                run(directory)
        yield directory, mortal.lives >= 0
        if mortal.lives >= 0:
            return
    raise AssertionError("it never survived")


def test_a_driver_that_dies_at_any_step_delivers_each_batch_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(directory: Path) -> None:
        target = Target({"path": str(directory)}, MATCHES)
        for batch in range(3):
            attempt(target, batch)

    deaths = 0
    for directory, survived in dies_at_every_step(monkeypatch, tmp_path, run):
        deaths += not survived
        # Spark starts again with the batch that it has not seen committed, or with one before.
        committed = Delivered(directory).numbers()
        target = Target({"path": str(directory)}, MATCHES)
        for batch in range(max(0, len(committed) - 1), 4):
            attempt(target, batch)
        assert delivered_rows(directory) == [row for batch in range(4) for row in rows(batch)]
        Delivered(directory).sweep(now=time.time() + 10, older_than_s=0)
        left = {path.name for path in (directory / "parts").iterdir()}
        named = {part.name for each in Delivered(directory).batches() for part in each.parts}
        assert left == named
    assert deaths > 15


class Receiver(Thread):
    """A peer that remembers the last batch it took, and hangs up before some of its answers."""

    def __init__(self, silent: int = 0) -> None:
        super().__init__(daemon=True)
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self.silent = silent
        self.taken: list[Frame] = []
        self.heard = 0

    def run(self) -> None:
        with closing(self._server):
            while True:
                connection, _ = self._server.accept()
                with connection, connection.makefile("rwb") as stream:
                    if not self._serve(stream):
                        return

    def _serve(self, stream: Any) -> bool:
        for frame in frames(stream):
            if frame.batch < 0:
                return False
            self.heard += 1
            if not self.taken or frame.batch > self.taken[-1].batch:
                self.taken.append(frame)
            if self.silent:
                self.silent -= 1
                return True
            acknowledge(stream, frame)
        return True

    def end(self) -> None:
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            connection.sendall(b'{"stream": null, "batch": -1, "rows": 0}\n')
        self.join(60)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    started = Receiver()
    started.start()
    yield started
    started.end()


def test_a_peer_that_remembers_the_last_batch_has_every_row_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(directory: Path) -> None:
        peer = receivers[directory.name] = Receiver()
        peer.start()
        options = {"path": str(directory), "host": "127.0.0.1", "port": str(peer.port)}
        for batch in range(2):
            attempt(Target(options, MATCHES), batch)

    receivers: dict[str, Receiver] = {}
    for directory, _ in dies_at_every_step(monkeypatch, tmp_path, run):
        peer = receivers[directory.name]
        options = {"path": str(directory), "host": "127.0.0.1", "port": str(peer.port)}
        for batch in range(max(0, len(Delivered(directory).numbers()) - 1), 3):
            attempt(Target(options, MATCHES), batch)
        peer.end()
        assert [(f.stream, f.batch, list(f.rows)) for f in peer.taken] == [
            ("query", batch, rows(batch)) for batch in range(3)
        ]
        assert list(pending_batches(Delivered(directory))) == []


def test_what_was_not_acknowledged_is_sent_again(tmp_path: Path, receiver: Receiver) -> None:
    receiver.silent = 1
    options = {"path": str(tmp_path), "host": "127.0.0.1", "port": str(receiver.port)}
    with pytest.raises(KbnError, match="safe"):
        attempt(Target(options, MATCHES), 0)
    for batch in (0, 1, 2):
        attempt(Target(options, MATCHES), batch)
    assert receiver.heard == 4
    assert [frame.batch for frame in receiver.taken] == [0, 1, 2]
    assert [row for frame in receiver.taken for row in frame.rows] == delivered_rows(tmp_path)


def test_aborting_after_the_commit_leaves_what_was_delivered(tmp_path: Path) -> None:
    target = Target({"path": str(tmp_path)}, MATCHES)
    table = pa.Table.from_pylist(rows(2))
    message = target.write(iter(table.to_batches()))
    target.commit([message], 2)
    target.abort([message, None], 2)
    assert delivered_rows(tmp_path) == rows(2)
    stray = target.write(iter(table.to_batches()))
    target.abort([stray, None], 3)
    assert stray.part is not None
    assert not (tmp_path / "parts" / stray.part.name).exists()


def test_another_stream_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    target = Target({"path": str(tmp_path)}, MATCHES)
    attempt(target, 2, "one")
    with pytest.raises(InvalidInputError, match="another stream"):
        attempt(target, 2, "other")
    with pytest.raises(InvalidInputError, match="another stream"):
        attempt(target, 5, "other")
    assert delivered_rows(tmp_path) == rows(2)


def test_the_sweep_leaves_young_parts_and_delivered_ones(tmp_path: Path) -> None:
    target = Target({"path": str(tmp_path)}, MATCHES)
    attempt(target, 2)
    target.write(iter(pa.Table.from_pylist(rows(2)).to_batches()))
    delivered = Delivered(tmp_path)
    assert delivered.sweep(now=time.time(), older_than_s=3600) == 0
    assert delivered.sweep(now=time.time() + 7200, older_than_s=3600) == 1
    assert delivered_rows(tmp_path) == rows(2)


@pytest.mark.parametrize("format", FORMATS)
def test_rows_come_back_as_they_were(tmp_path: Path, format: str) -> None:
    from datetime import UTC, datetime

    from pyspark.sql.types import ArrayType, BinaryType, StructType, TimestampType

    schema = StructType().add("a", ArrayType(MATCHES["notification"].dataType))
    schema = schema.add("t", TimestampType()).add("b", BinaryType())
    given = [
        {"a": ["x", None], "t": datetime(2026, 11, 15, 12, 0, 0, 1, tzinfo=UTC), "b": b"\xff"},
        {"a": None, "t": None, "b": None},
    ]
    arrow = pa.schema(
        [("a", pa.list_(pa.string())), ("t", pa.timestamp("us", "UTC")), ("b", pa.binary())]
    )
    target = Target({"path": str(tmp_path), "fileFormat": format}, schema)
    message = target.write(iter(pa.Table.from_pylist(given, arrow).to_batches()))
    target.commit([message], 0)
    assert read_delivered(tmp_path).to_pylist() == given


def test_an_unknown_file_format_and_an_empty_folder_are_invalid(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="parquet, arrow, json"):
        Target({"path": str(tmp_path), "fileFormat": "csv"}, MATCHES)
    with pytest.raises(InvalidInputError, match="nothing was delivered"):
        read_delivered(tmp_path)
