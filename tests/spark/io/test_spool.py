"""The spool: what a peer sends is there once, whoever breaks down in between."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from threading import Thread

import pytest

from kbn.errors import KbnError
from kbn.spark.io.slices import lines
from kbn.spark.io.sources import Offset
from kbn.spark.io.spool import SocketSource, Spool

LIMIT_S = 60.0


class Peer(Thread):
    """Sends numbered lines, keeps them until they are acknowledged, and hangs up now and then."""

    def __init__(self, total: int, random: Random) -> None:
        super().__init__(daemon=True)
        self._lines = [b'{"id": "n%d", "attributes": {}}\n' % n for n in range(total)]
        self._random = random
        self._server = socket.create_server(("127.0.0.1", 0))
        self._server.settimeout(LIMIT_S)
        self.port: int = self._server.getsockname()[1]
        self.acknowledged = 0

    def run(self) -> None:
        with closing(self._server):
            while self.acknowledged < len(self._lines):
                connection, _ = self._server.accept()
                connection.settimeout(LIMIT_S)
                with connection, connection.makefile("rb") as answers:
                    self._serve(connection, answers)

    def _serve(self, connection: socket.socket, answers: Iterator[bytes]) -> None:
        sent = self._hear(answers)
        while self.acknowledged < len(self._lines):
            some = b"".join(self._lines[sent : sent + self._random.randrange(1, 9)])
            if self._random.random() < 0.2:
                connection.sendall(some[: self._random.randrange(len(some) + 1)])
                return
            connection.sendall(some)
            sent += some.count(b"\n")
            while self.acknowledged < sent:
                self._hear(answers)

    def _hear(self, answers: Iterator[bytes]) -> int:
        self.acknowledged = json.loads(next(answers))["have"]
        return self.acknowledged


@contextmanager
def opened(source: SocketSource) -> Iterator[SocketSource]:
    source.open()
    try:
        yield source
    finally:
        source.close()


def numbers(source: SocketSource, start: Offset, end: Offset) -> list[str]:
    parts = source.slices(start, end)
    return [json.loads(line)["id"] for part in parts for _, line in lines(part)]


def test_a_peer_that_hangs_up_in_mid_line_loses_and_doubles_nothing(
    tmp_path: Path, seed: int
) -> None:
    peer = Peer(200, Random(seed))
    peer.start()
    with opened(SocketSource("127.0.0.1", peer.port, tmp_path / "spool")) as source:
        peer.join(LIMIT_S)
        assert peer.acknowledged == 200
        end = source.latest(Offset(), None)
        assert numbers(source, Offset(), end) == [f"n{n}" for n in range(200)]


def test_after_a_restart_the_peer_is_told_from_where_to_go_on(tmp_path: Path, seed: int) -> None:
    with closing(Spool(tmp_path)) as spool:
        spool.open()
        spool.append(b'{"id": "n0", "attributes": {}}\n{"id": "n1", "attributes": {}}\n')
    # The process ended in the middle of a line.
    with open(tmp_path / spool.end[0], "ab") as segment:
        segment.write(b'{"id": "n2", "att')
    peer = Peer(5, Random(seed))
    peer.start()
    with opened(SocketSource("127.0.0.1", peer.port, tmp_path)) as source:
        peer.join(LIMIT_S)
        end = source.latest(Offset(), None)
        assert numbers(source, Offset(), end) == [f"n{n}" for n in range(5)]


def test_what_is_not_yet_safe_does_not_count(tmp_path: Path) -> None:
    source = SocketSource("127.0.0.1", 1, tmp_path)
    spool = Spool(tmp_path)
    spool.open()
    spool.append(b"1\n")
    with open(tmp_path / spool.end[0], "ab") as segment:
        segment.write(b"2\n")
    source._spool = spool
    assert [file.size for file in source.listing()] == [2]
    spool.close()


def test_segments_are_named_by_their_first_line_and_forgotten_when_delivered(
    tmp_path: Path,
) -> None:
    spool = Spool(tmp_path, segment_bytes=4)
    spool.open()
    for n in range(5):
        spool.append(b"%d\n%d\n" % (n, n))
    names = sorted(path.name for path in tmp_path.glob("*.jsonl"))
    assert [int(name[:-6]) for name in names] == [0, 2, 4, 6, 8]
    spool.forget(names[3])
    assert sorted(path.name for path in tmp_path.glob("*.jsonl")) == names[3:]
    spool.close()
    again = Spool(tmp_path, segment_bytes=4)
    again.open()
    assert (again.lines, again.end) == (10, (names[4], 4))
    again.close()


def test_two_queries_cannot_share_a_spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kbn.spark.io.spool.LOCK_WAIT_S", 0.1)
    with closing(Spool(tmp_path)) as first:
        first.open()
        with pytest.raises(KbnError, match="its own spool"):
            Spool(tmp_path).open()


def test_a_peer_that_is_away_for_too_long_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with (
        opened(SocketSource("127.0.0.1", port, tmp_path, give_up_s=-1)) as source,
        pytest.raises(KbnError, match=r"cannot be reached.*giveUpAfter"),
    ):
        source.latest(Offset(), None)
