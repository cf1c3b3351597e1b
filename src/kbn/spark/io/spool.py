"""The spool: what comes over a connection is written down before it counts.

A receiver, in a thread, appends lines to segments, files named by the number of their first line;
how many are safe is read off the last of them after a restart. From there on a connection is a
folder of files. Sockets are here; what a broker delivers is in `brokers.py`.

A socket's peer listens; we connect, and speak lines of JSON:

    we    {"have": 120}                 so many lines are safe here: begin with the next
    peer  a notification a line …
    we    {"have": 340}                 after each write that reached the disk

A peer that keeps its lines until they are acknowledged, and begins after those we say we have,
loses and doubles nothing, whichever side breaks down. One that does not care about the answers
(`nc -lk`) loses what was under way when the connection broke, and no more.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from abc import ABC, abstractmethod
from collections import deque
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import BinaryIO

from kbn.errors import KbnError
from kbn.spark.io.slices import BLOCK
from kbn.spark.io.sources import File, FilesSource, Offset

SEGMENT_BYTES = 64 << 20
LINE_BYTES_MAX = 64 << 20
LOCK_WAIT_S = 30.0
CONNECT_S = 10.0
POLL_S = 0.5
PAUSE_S_MAX = 5.0


class Spool:
    """Lines in segments on disk; one process at a time writes."""

    def __init__(self, directory: str | Path, segment_bytes: int = SEGMENT_BYTES) -> None:
        self.directory = Path(directory)
        self.lines = 0
        """How many lines were ever spooled and are safe."""
        self.end = ("", 0)
        """The last segment and how many of its bytes are safe."""
        self._segment_bytes = segment_bytes
        self._segment: BinaryIO | None = None
        self._lock: BinaryIO | None = None

    def open(self) -> None:
        """Take possession, and go on where the last owner stopped."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._lock = locked(
            self.directory / ".lock", "is in use by another query: give each its own spool"
        )
        names = self._names()
        if not names:
            self._begin_segment()
            return
        self._segment = open(self.directory / names[-1], "r+b")  # noqa: SIM115
        content = self._segment.read()
        # Half a line was never acknowledged: its sender sends it again.
        size = content.rfind(b"\n") + 1
        self._cut_to(size)
        os.fsync(self._segment.fileno())
        self.lines = int(Path(names[-1]).stem) + content.count(b"\n")
        self.end = (names[-1], size)

    def append(self, data: bytes) -> None:
        """Write whole lines; when this returns they are safe."""
        assert data.endswith(b"\n") and self._segment is not None
        if self.end[1] >= self._segment_bytes:
            self._segment.close()
            self._begin_segment()
        name, size = self.end
        try:
            self._segment.write(data)
            self._segment.flush()
            os.fsync(self._segment.fileno())
        except OSError as error:
            with suppress(OSError):
                self._cut_to(size)
            raise KbnError(f"{self.directory}: cannot spool: {error.strerror}") from error
        self.lines += data.count(b"\n")
        self.end = (name, size + len(data))

    def last(self, count: int) -> list[bytes]:
        """The last so many lines, or as many as there are."""
        found: deque[bytes] = deque(maxlen=count)
        for name in self._names(keeping=count):
            with open(self.directory / name, "rb") as segment:
                found.extend(segment)
        return list(found)

    def forget(self, before: str, *, keeping: int = 0) -> None:
        """Delete the segments whose names sort before `before` and have none of the last lines."""
        kept = {self.end[0], *self._names(keeping=keeping)}
        for name in self._names():
            if name < before and name not in kept:
                (self.directory / name).unlink(missing_ok=True)

    def _names(self, keeping: int | None = None) -> list[str]:
        """The segments in order; those that hold the last so many lines."""
        names = sorted(path.name for path in self.directory.glob("*.jsonl"))
        if keeping is None:
            return names
        # A segment ends where the next begins.
        ends = [*(int(Path(name).stem) for name in names[1:]), self.lines]
        wanted = self.lines - keeping
        return [name for name, end in zip(names, ends, strict=True) if end > wanted]

    def close(self) -> None:
        for held in (self._segment, self._lock):
            if held is not None:
                held.close()
        self._segment = self._lock = None

    def _begin_segment(self) -> None:
        name = f"{self.lines:020d}.jsonl"
        self._segment = open(self.directory / name, "xb")  # noqa: SIM115
        sync_directory(self.directory)
        self.end = (name, 0)

    def _cut_to(self, size: int) -> None:
        assert self._segment is not None
        self._segment.truncate(size)
        self._segment.seek(size)


class SpooledSource(FilesSource, ABC):
    """The lines a receiver has written to a spool; its subclasses say which receiver."""

    lines_kept = 0
    """So many of the last lines are kept, although they were delivered."""

    def __init__(self, spool: str | Path) -> None:
        super().__init__(spool, "*.jsonl")
        # Opened in one process only; the readers in the workers have none.
        self._spool: Spool | None = None
        self._receiver: Receiver | None = None

    @abstractmethod
    def receiver(self, spool: Spool) -> Receiver:
        """Who fills the spool; it is not started yet."""

    def open(self) -> None:
        self._spool = Spool(self.directory)
        self._spool.open()
        self._receiver = self.receiver(self._spool)
        self._receiver.start()

    def latest(self, start: Offset, rows_max: int | None) -> Offset:
        assert self._receiver is not None
        self._receiver.check()
        return super().latest(start, rows_max)

    def listing(self) -> list[File]:
        """The segments, as far as they are safe."""
        # Asked before the folder: what is safe now is in the listing that follows.
        safe = None if self._spool is None else self._spool.end
        found = super().listing()
        if safe is None:
            return found
        name, size = safe
        return [
            file if file.name < name else File(name, min(size, file.size), file.changed)
            for file in found
            if file.name <= name
        ]

    def done(self, end: Offset) -> None:
        if self._spool is not None:
            self._spool.forget(end.file, keeping=self.lines_kept)

    def close(self) -> None:
        if self._receiver is not None:
            self._receiver.stop()
        if self._spool is not None:
            self._spool.close()
        self._receiver = self._spool = None


class Receiver(Thread, ABC):
    """Fills a spool from somewhere, and connects again when the connection breaks."""

    def __init__(self, sender: str, spool: Spool, give_up_s: float) -> None:
        super().__init__(name=f"kbn receiver of {sender}", daemon=True)
        self._sender = sender
        self._spool = spool
        self._give_up_s = give_up_s
        self._stopping = Event()
        self._last_heard = time.monotonic()
        self._connected = False
        self._trouble = "no connection yet"
        self._failed: KbnError | None = None

    def check(self) -> None:
        """Raise when the sender cannot be reached for too long, or nothing can be written."""
        if self._failed is not None:
            raise self._failed
        silent_s = time.monotonic() - self._last_heard
        if not self._connected and silent_s > self._give_up_s:
            raise KbnError(
                f"{self._sender} cannot be reached for {silent_s:.0f} s ({self._trouble}). What it "
                "sent is safe: start the query again when it is back, or set the option "
                "giveUpAfter (seconds) higher"
            )

    def stop(self) -> None:
        self._stopping.set()
        self.join()

    @abstractmethod
    def run(self) -> None: ...


class SocketSource(SpooledSource):
    """The lines a peer sends, by way of a spool."""

    def __init__(self, host: str, port: int, spool: str | Path, give_up_s: float = 60.0) -> None:
        super().__init__(spool)
        self._peer = (host, port)
        self._give_up_s = give_up_s

    def receiver(self, spool: Spool) -> Receiver:
        return SocketReceiver(self._peer, spool, self._give_up_s)


class SocketReceiver(Receiver):
    """Fills a spool with the lines of a peer."""

    def __init__(self, peer: tuple[str, int], spool: Spool, give_up_s: float) -> None:
        super().__init__(f"{peer[0]}:{peer[1]}", spool, give_up_s)
        self._peer = peer

    def run(self) -> None:
        pause_s = 0.1
        while not self._stopping.is_set():
            try:
                with socket.create_connection(self._peer, timeout=CONNECT_S) as connection:
                    self._connected, pause_s = True, 0.1
                    self._receive(connection)
                self._trouble = "it closed the connection"
            except OSError as error:
                self._trouble = str(error)
            except KbnError as error:
                self._failed = error
                return
            if self._connected:
                self._connected, self._last_heard = False, time.monotonic()
            self._stopping.wait(pause_s)
            pause_s = min(2 * pause_s, PAUSE_S_MAX)

    def _receive(self, connection: socket.socket) -> None:
        connection.settimeout(POLL_S)
        rest = b""
        self._acknowledge(connection)
        while not self._stopping.is_set():
            try:
                data = connection.recv(BLOCK)
            except TimeoutError:
                continue
            if not data:
                return
            whole, newline, tail = data.rpartition(b"\n")
            if newline:
                self._spool.append(rest + whole + newline)
                self._acknowledge(connection)
                rest = tail
            else:
                rest += data
                self._check_length(rest)

    def _check_length(self, rest: bytes) -> None:
        if len(rest) > LINE_BYTES_MAX:
            raise KbnError(f"{self._sender} sent a line of more than {LINE_BYTES_MAX} bytes")

    def _acknowledge(self, connection: socket.socket) -> None:
        connection.sendall(json.dumps({"have": self._spool.lines}).encode() + b"\n")


def sync_directory(directory: Path) -> None:
    """Make the names in a directory as durable as what they name."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def locked(path: Path, otherwise: str) -> BinaryIO:
    """The lock file, held; an owner that is about to end is waited for.

    `otherwise` ends the sentence that begins with the folder, when it does not end.
    """
    handle = open(path, "wb")  # noqa: SIM115
    waiting = Event()
    for _ in range(int(LOCK_WAIT_S / 0.1)):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting.wait(0.1)
        else:
            return handle
    handle.close()
    raise KbnError(f"{path.parent} {otherwise}")
