"""The outbox: delivered batches sent on to a peer, each until it is acknowledged.

A peer listens; we connect after a batch is committed, and speak lines of JSON:

    we    {"stream": "…", "batch": 12, "rows": 3}        a frame: its head,
    we    a row a line, so many as the head says         and its rows
    peer  {"acknowledged": 12}

The acknowledgement is written down beside the manifests. What was not acknowledged when we stopped
is sent again after a restart, the same rows under the same number, in order. A peer that remembers
the last batch it took of each stream, together with what it did with it, can therefore drop what
comes twice (and acknowledge it again), and has every row exactly once. Rows are taken from the
parts that the manifest names, so a batch that ran twice is still sent as it was committed.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, cast

from pyspark.sql.types import StructType

from kbn.errors import KbnError
from kbn.spark.io.manifests import STREAM, Delivered, Manifest, replace
from kbn.spark.io.parts import json_lines, read_part
from kbn.spark.releases import arrow_schema

ACKNOWLEDGED = "acknowledged.json"
TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Frame:
    """One batch as a peer gets it."""

    stream: str | None
    batch: int
    rows: tuple[dict[str, Any], ...]


def send_pending(delivered: Delivered, peer: tuple[str, int]) -> int:
    """Send what the peer has not acknowledged, oldest first; returns how many batches."""
    pending = list(pending_batches(delivered))
    if not pending:
        return 0
    host, port = peer
    try:
        with socket.create_connection(peer, timeout=TIMEOUT_S) as connection:
            stream = cast(IO[bytes], connection.makefile("rwb"))
            with stream:
                for batch in pending:
                    _send(delivered, delivered.read_batch(batch), stream)
    except OSError as error:
        raise KbnError(
            f"{host}:{port} did not take batch {pending[0]}: {error}. The batch is safe in "
            f"{delivered.directory}, and is sent when the query is started again"
        ) from error
    return len(pending)


def pending_batches(delivered: Delivered) -> Iterator[int]:
    """The batches of a stream that were committed and not acknowledged, in order."""
    last = acknowledged(delivered).get("batch")
    batch = min(delivered.numbers(), default=0) if last is None else int(last) + 1
    while delivered.is_committed(batch):
        yield batch
        batch += 1


def acknowledged(delivered: Delivered) -> dict[str, Any]:
    """What was written down of what others have taken."""
    path = delivered.directory / ACKNOWLEDGED
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def write_down(delivered: Delivered, **news: Any) -> None:
    """Write down what others have taken, besides what was written before."""
    known = acknowledged(delivered)
    replace(delivered.directory / ACKNOWLEDGED, json.dumps({**known, **news}))


def stream_of(delivered: Delivered) -> str | None:
    """The stream that delivers into a folder, if it is one's."""
    path = delivered.directory / STREAM
    return json.loads(path.read_text(encoding="utf-8"))["stream"] if path.exists() else None


def _send(delivered: Delivered, manifest: Manifest, stream: IO[bytes]) -> None:
    head = {"stream": stream_of(delivered), "batch": manifest.batch, "rows": manifest.rows}
    stream.write(json.dumps(head).encode() + b"\n")
    schema = arrow_schema(StructType.fromJson(manifest.schema))
    for part in manifest.parts:
        stream.writelines(json_lines(read_part(delivered.parts / part.name, schema).to_batches()))
    stream.flush()
    answer = stream.readline()
    if _acknowledged(answer) != manifest.batch:
        raise OSError(f"it answered {answer[:80]!r}, not {{'acknowledged': {manifest.batch}}}")
    write_down(delivered, batch=manifest.batch)


def _acknowledged(answer: bytes) -> Any:
    try:
        return json.loads(answer)["acknowledged"]
    except (ValueError, TypeError, KeyError):
        return None


# The peer's side.


def frames(stream: IO[bytes]) -> Iterator[Frame]:
    """The frames that come over a connection, each as a whole; half a frame at its end is none.

    ```python
    with socket.create_server(("", 4000)) as server:
        connection, _ = server.accept()
        with connection.makefile("rwb") as stream:
            for frame in frames(stream):
                keep(frame.stream, frame.batch, frame.rows)
                acknowledge(stream, frame)
    ```
    """
    while head := stream.readline():
        about = json.loads(head)
        lines = [stream.readline() for _ in range(about["rows"])]
        if not all(line.endswith(b"\n") for line in lines):
            return
        rows = tuple(json.loads(line) for line in lines)
        yield Frame(about["stream"], about["batch"], rows)


def acknowledge(stream: IO[bytes], frame: Frame) -> None:
    """Say that a frame is safe with us. Say it also of one that was here before.

    >>> import io
    >>> stream = io.BytesIO()
    >>> acknowledge(stream, Frame("a stream", 12, ()))
    >>> stream.getvalue()
    b'{"acknowledged": 12}\\n'
    """
    stream.write(json.dumps({"acknowledged": frame.batch}).encode() + b"\n")
    stream.flush()
