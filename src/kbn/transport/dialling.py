"""Opening connections: the socket, TLS, and the question for a broker's name."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from errno import ECONNREFUSED

from kbn.broker import FrameError, FrameReader, Who, decode_name, wire
from kbn.errors import TransportError
from kbn.transport.connection import Connection
from kbn.transport.security import client_tls
from kbn.transport.urls import parse_url

CONNECT_TIMEOUT_S = 10.0
NAME_BYTES_MAX = 64 * 1024
HOST_MISMATCH, ADDRESS_MISMATCH = 62, 64
"""What OpenSSL says of a certificate for another host."""


async def dial(
    url: str, made: Callable[[], Connection], tls: ssl.SSLContext | None = None
) -> Connection:
    """A new connection to the broker at a URL; TransportError when there is none to be had."""
    address = parse_url(url)
    context = (tls or client_tls()) if address.tls else None
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            _, connection = await loop.create_connection(
                made, address.host, address.port, ssl=context
            )
    except (OSError, TimeoutError) as error:  # TLS errors are OSErrors
        raise TransportError(f"{url} cannot be reached: {reason_of(error)}") from None
    return connection


async def ask_name(url: str, tls: ssl.SSLContext | None = None) -> str:
    """The name of the broker at a URL."""
    address = parse_url(url)
    context = (tls or client_tls()) if address.tls else None
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(address.host, address.port, ssl=context)
            try:
                writer.write(wire.encode(Who()))
                answer = decode_name(await _first_frame(reader, address.tls))
            finally:
                writer.close()
    except (OSError, TimeoutError, FrameError) as error:
        raise TransportError(f"{url} cannot be reached: {reason_of(error)}") from None
    if not isinstance(answer, Who):
        raise TransportError(f"{url} refuses: {answer.reason}")
    return answer.broker


def reason_of(error: Exception) -> str:
    """Why there is no connection, without the address, which the message has already.

    >>> reason_of(ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 7420)"))
    'connection refused: no broker listens there'
    >>> reason_of(TimeoutError())
    'no answer'
    """
    # A name with several addresses gives an OSError without a number, but for those in its text.
    if isinstance(error, ConnectionRefusedError) or f"[Errno {ECONNREFUSED}]" in str(error):
        return "connection refused: no broker listens there"
    if isinstance(error, ssl.SSLCertVerificationError):
        other_name = error.verify_code in (HOST_MISMATCH, ADDRESS_MISMATCH)
        hint = "use the name in it" if other_name else "name its authority (--tls-ca)"
        return f"certificate verify failed: {error.verify_message}; {hint}"
    return str(error) or "no answer"


async def _first_frame(reader: asyncio.StreamReader, tls: bool) -> bytes:
    frames = FrameReader(NAME_BYTES_MAX)
    while True:
        data = await reader.read(NAME_BYTES_MAX)
        if not data:
            mine = "it wants your certificate (--tls-cert and --tls-key)"
            hint = mine if tls else "it uses TLS: write kbns://"
            raise FrameError(f"it closed the connection without an answer; perhaps {hint}")
        if found := frames.feed(data):
            return found[0]
