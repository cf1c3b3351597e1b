"""The listener for machines that look after brokers: `/health`, `/live` and `/metrics` over HTTP.

It knows as much of HTTP as that takes: one GET or HEAD per connection, answered and closed. It is
beside the broker's work, so it takes little whatever is sent: a request is read up to a few KiB and
a few seconds, a few connections are open at once, and metrics are gathered anew only after a while.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Any, NamedTuple

from kbn.transport.metrics import CONTENT_TYPE

REQUEST_BYTES_MAX = 8 * 1024
REQUEST_TIMEOUT_S = 5.0
CONNECTIONS_MAX = 32
KEPT_S = 0.5
READS_MAX = 16


class Response(NamedTuple):
    status: HTTPStatus
    type: str
    body: bytes


class HealthListener:
    """Answers on a port of its own.

    `health` says whether the broker is well, and what about it; `metrics` is the page of metrics.
    """

    def __init__(
        self,
        health: Callable[[], tuple[bool, dict[str, Any]]],
        metrics: Callable[[], str],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        request_timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> None:
        self._health = health
        self._metrics = metrics
        self._host, self._port = host, port
        self._timeout_s = request_timeout_s
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[Any]] = set()
        self._page: tuple[float, bytes] | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(
            self._serve, self._host, self._port, limit=REQUEST_BYTES_MAX
        )

    @property
    def url(self) -> str:
        assert self._server is not None, "start it first"
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def stop(self) -> None:
        if self._server is None:
            return
        self._server.close()
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            # Whatever goes wrong here is the other side's affair.
            with suppress(OSError, TimeoutError, asyncio.CancelledError):
                async with asyncio.timeout(self._timeout_s):
                    await self._answer(reader, writer)
        finally:
            self._open.discard(task)
            writer.transport.abort() if writer.transport.get_write_buffer_size() else writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) > 2 * CONNECTIONS_MAX:
            return
        if len(self._open) > CONNECTIONS_MAX:
            busy = _plain(HTTPStatus.SERVICE_UNAVAILABLE, "busy: too many connections")
            await _send(reader, writer, _response(busy, with_body=True))
            return
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            answer, method = _plain(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE), "GET"
        except asyncio.IncompleteReadError:
            return
        else:
            answer, method = self._answer_to(head)
        await _send(reader, writer, _response(answer, with_body=method != "HEAD"))

    def _answer_to(self, head: bytes) -> tuple[Response, str]:
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return _plain(HTTPStatus.BAD_REQUEST), "GET"
        method, path = words[0].decode("latin-1"), words[1].split(b"?", 1)[0]
        if method not in ("GET", "HEAD"):
            return _plain(HTTPStatus.METHOD_NOT_ALLOWED), method
        if path == b"/health":
            is_well, about = self._health()
            status = HTTPStatus.OK if is_well else HTTPStatus.SERVICE_UNAVAILABLE
            return Response(status, "application/json", json.dumps(about).encode() + b"\n"), method
        if path == b"/live":
            return _plain(HTTPStatus.OK), method
        if path == b"/metrics":
            return Response(HTTPStatus.OK, CONTENT_TYPE, self._metrics_page()), method
        return _plain(HTTPStatus.NOT_FOUND, "try /health, /live or /metrics"), method

    def _metrics_page(self) -> bytes:
        now = asyncio.get_running_loop().time()
        if self._page is None or now - self._page[0] >= KEPT_S:
            self._page = (now, self._metrics().encode())
        return self._page[1]


async def _send(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, response: bytes
) -> None:
    writer.write(response)
    await writer.drain()
    writer.write_eof()
    # Closing with something unread would reset the connection, and the response with it.
    for _ in range(READS_MAX):
        if not await reader.read(REQUEST_BYTES_MAX):
            return


def _plain(status: HTTPStatus, text: str = "") -> Response:
    return Response(status, "text/plain; charset=utf-8", f"{text or status.phrase}\n".encode())


def _response(answer: Response, *, with_body: bool) -> bytes:
    head = (
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\n"
        f"Content-Type: {answer.type}\r\n"
        f"Content-Length: {len(answer.body)}\r\n"
        "Cache-Control: no-store\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + (answer.body if with_body else b"")
