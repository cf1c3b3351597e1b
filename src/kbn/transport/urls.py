"""Where a broker listens, as people write it: `kbn://host:port`, or `kbns://` for TLS."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

from kbn.errors import InvalidInputError

DEFAULT_PORT = 7420


class Address(NamedTuple):
    """A place to connect to."""

    host: str
    port: int
    tls: bool = False

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'kbns' if self.tls else 'kbn'}://{host}:{self.port}"


def parse_url(url: str) -> Address:
    """The address a URL names; InvalidInputError for anything else.

    >>> parse_url("kbns://broker.example:7000")
    Address(host='broker.example', port=7000, tls=True)
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        reason = str(error)[:1].lower() + str(error)[1:]
        raise _not_an_address(url, reason.replace("range 0-65535", "range (0 to 65535)")) from None
    if parts.scheme not in ("kbn", "kbns"):
        raise _not_an_address(url, "it begins with kbn:// or kbns://")
    if not host:
        raise _not_an_address(url, "it names no host")
    if parts.path.strip("/") or parts.query or parts.fragment or parts.username:
        raise _not_an_address(url, "it has nothing but a host and a port")
    return Address(host, DEFAULT_PORT if port is None else port, parts.scheme == "kbns")


def _not_an_address(url: str, reason: str) -> InvalidInputError:
    return InvalidInputError(
        f"{url!r} is not a broker's address: {reason}; write it as in kbn://localhost:{DEFAULT_PORT}"
    )
