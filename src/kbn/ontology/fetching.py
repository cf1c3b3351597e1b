"""Ontologies over http and https, within limits; what was fetched is kept (`downloads.py`).

An answer is bounded in bytes, also once it is unpacked, in time, from the first connection to the
last byte, and in redirects. A timer shuts the socket down when the time is over, so a server that
sends a byte now and then does not get more of it.

Only http and https are fetched, and https never leads to http. What the network leads to, a
redirect or an import of a document that was fetched, must not reach into the network of whoever
loads it: from a public address the way never leads to a private one. The address is checked that
the socket is connected to, so no name can promise one and be another.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from ipaddress import ip_address
from threading import Timer
from time import monotonic
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

from kbn.errors import KbnError, LimitError, OntologyError
from kbn.ontology import downloads
from kbn.ontology.documents import CONTENT_MAX, Document, detect_format
from kbn.ontology.downloads import About, Download

BYTES_MAX = 512 * 1024**2
SECONDS_MAX = 60.0
REDIRECTS_MAX = 5

FORMATS = {
    "text/turtle": "turtle",
    "application/x-turtle": "turtle",
    "application/n-triples": "ntriples",
    "application/rdf+xml": "rdfxml",
    "application/ld+json": "jsonld",
    "application/json": "jsonld",
    "application/owl+xml": "owlxml",
    "text/owl-functional": "functional",
    "text/obo": "obo",
}
"""Content types that settle the format."""
UNTOLD = {
    *("", "text/plain", "application/xml", "text/xml", "text/n3"),
    *("application/octet-stream", "binary/octet-stream", "application/gzip", "application/x-gzip"),
}
"""Content types of anything: the name and the content tell the format."""
ACCEPT = (
    "text/turtle, application/rdf+xml;q=0.9, application/n-triples;q=0.8, application/ld+json;q=0.7"
    ", application/owl+xml;q=0.6, text/owl-functional;q=0.6, */*;q=0.1"
)

_REDIRECTS = {301, 302, 303, 307, 308}
_GZIP = b"\x1f\x8b"


def is_address(source: object) -> bool:
    """Whether a source is an address to fetch, and not a path.

    >>> is_address("https://example.org/wine.ttl"), is_address("wine.ttl")
    (True, False)
    """
    return isinstance(source, str) and source.lower().startswith(("http://", "https://"))


def is_private(address: str) -> bool:
    """Whether an IP address is not one that everybody can reach.

    >>> is_private("127.0.0.1"), is_private("169.254.169.254"), is_private("192.0.46.8")
    (True, True, False)
    """
    return not ip_address(address.partition("%")[0]).is_global


class _UnreachableError(Exception):
    """The network's fault, or the server's for now: a kept copy may do."""


class _Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    content: bytes
    is_public: bool


@dataclass
class Fetcher:
    """Fetches documents, or takes them from those that are kept."""

    offline: bool = False
    """Fetch nothing: only what is kept counts."""
    say: Callable[[str], None] = field(default=lambda _: None)
    bytes_max: int = BYTES_MAX
    seconds_max: float = SECONDS_MAX
    is_private: Callable[[str], bool] = is_private

    def get(
        self, url: str, bytes_max: int = CONTENT_MAX, *, only_public: bool = False
    ) -> Document | None:
        """The document at an address; None when it is not kept and nothing may be fetched.

        `only_public` refuses private addresses.
        """
        _check(url)
        kept = downloads.find(url)
        if kept is not None and only_public and not kept.about.is_public:
            kept = None
        if self.offline:
            return None if kept is None else kept.document()
        self.say(f"fetching {url}")
        try:
            found = self._fetch(url, kept, min(bytes_max, self.bytes_max), only_public)
        except _UnreachableError as error:
            if kept is None:
                raise OntologyError(f"cannot be fetched: {error}", path=url) from error
            self.say(f"{url} cannot be fetched ({error}): the kept copy is used")
            return kept.document()
        downloads.keep(found)
        return found.document()

    def _fetch(
        self, url: str, kept: Download | None, bytes_max: int, only_public: bool
    ) -> Download:
        until, at = monotonic() + self.seconds_max, url
        for _ in range(REDIRECTS_MAX + 1):
            answer = self._ask(at, kept, bytes_max, only_public, until)
            if answer.status == 304 and kept is not None:
                return kept
            if answer.status in _REDIRECTS:
                at = _next(at, answer, url)
                only_public = only_public or answer.is_public
                continue
            if answer.status != 200:
                raise _refusal(answer.status, url)
            return _download(url, at, answer, bytes_max)
        raise OntologyError(f"more than {REDIRECTS_MAX} redirects, the last to {at}", path=url)

    def _ask(
        self, url: str, kept: Download | None, bytes_max: int, only_public: bool, until: float
    ) -> _Answer:
        """One request and its answer; the socket is shut down when the time is over."""
        left = until - monotonic()
        if left <= 0:
            raise _UnreachableError(self._too_slow())
        parts = urlsplit(url)
        try:
            of_scheme = _Tls if parts.scheme == "https" else _Plain
            connection = of_scheme(parts.hostname or "", parts.port, timeout=left)
        except (ValueError, HTTPException) as error:
            raise OntologyError(f"not an address: {error}", path=url) from error
        over = _Shutdown(connection)
        timer = Timer(left, over)
        timer.daemon = True
        timer.start()
        try:
            connection.connect()
            over.socket = connection.sock
            is_public = not self.is_private(connection.sock.getpeername()[0])
            if only_public and not is_public:
                raise OntologyError("a public document leads to this private address", path=url)
            answer = _answer(connection, url, kept, bytes_max, is_public)
            if over.happened:  # what came looks whole because the socket was shut down
                raise TimeoutError
            return answer
        except KbnError:
            raise
        except zlib.error as error:
            raise OntologyError(f"cannot be unpacked: {error}", path=url) from error
        except (OSError, HTTPException, ValueError) as error:
            raise _UnreachableError(
                self._too_slow()
                if over.happened or isinstance(error, TimeoutError)
                else f"{error or type(error).__name__}"
            ) from error
        finally:
            timer.cancel()
            connection.close()

    def _too_slow(self) -> str:
        return f"no whole answer within {self.seconds_max:g} s"


class _Plain(HTTPConnection):
    """As the library has it: named to have one name for both kinds of connections."""


class _Tls(HTTPSConnection):
    """With the certificate checked, as the library does unless it is told not to."""


@dataclass
class _Shutdown:
    """Ends what a connection does, from another thread."""

    connection: HTTPConnection
    socket: Any = None
    happened: bool = False

    def __call__(self) -> None:
        self.happened = True
        socket = self.socket or self.connection.sock
        if socket is not None:
            with contextlib.suppress(OSError):
                socket.shutdown(2)


def _check(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https"):
        raise OntologyError(f"only http and https are fetched, not <{url}>", path=url)
    if parts.username is not None or parts.password is not None:
        raise OntologyError("give no user or password in an address", path=parts.hostname)
    if not parts.hostname:
        raise OntologyError("names no host", path=url)
    if not url.isascii() or any(letter <= " " for letter in url):
        raise OntologyError("an address has only printable ASCII; write the rest as %XX", path=url)


def _next(at: str, answer: _Answer, url: str) -> str:
    """Where a redirect leads."""
    location = answer.headers.get("location")
    if not location:
        raise OntologyError(f"a redirect that says no place (status {answer.status})", path=url)
    target = urljoin(at, location)
    _check(target)
    if at.startswith("https:") and not target.startswith("https:"):
        raise OntologyError(f"is redirected from https to {target}", path=url)
    return target


def _refusal(status: int, url: str) -> Exception:
    if status >= 500 or status in (408, 429):
        return _UnreachableError(f"the server answers with status {status}")
    reason = {401: "it needs a login", 403: "it may not be read", 404: "there is no such page"}
    return OntologyError(
        f"cannot be fetched: {reason.get(status, 'the server refuses it')} (status {status})",
        path=url,
    )


def _answer(
    connection: HTTPConnection, url: str, kept: Download | None, bytes_max: int, is_public: bool
) -> _Answer:
    parts = urlsplit(url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    headers = {"Accept": ACCEPT, "Accept-Encoding": "gzip", "User-Agent": "kbn"}
    if kept is not None and kept.about.etag:
        headers["If-None-Match"] = kept.about.etag
    if kept is not None and kept.about.last_modified:
        headers["If-Modified-Since"] = kept.about.last_modified
    connection.request("GET", path, headers=headers)
    with connection.getresponse() as reply:
        told = {name.lower(): value for name, value in reply.getheaders()}
        content = _content(reply, told, url, bytes_max) if reply.status == 200 else b""
        return _Answer(reply.status, told, content, is_public)


def _content(reply: HTTPResponse, headers: dict[str, str], url: str, bytes_max: int) -> bytes:
    encoding = headers.get("content-encoding", "identity").lower()
    if encoding not in ("identity", "gzip", "x-gzip"):
        raise OntologyError(f"is encoded as {encoding}, which was not asked for", path=url)
    unpack = None if encoding == "identity" else _Unpacking(url, bytes_max)
    found, received = bytearray(), 0
    while chunk := reply.read1(65_536):
        received += len(chunk)
        found += chunk if unpack is None else unpack.more(chunk, len(found))
        if len(found) > bytes_max:
            raise _too_large(url, bytes_max)
    length = headers.get("content-length", "")
    if length.isdigit() and "transfer-encoding" not in headers and received != int(length):
        raise _UnreachableError(f"the answer ended after {received:,} of {int(length):,} bytes")
    if unpack is not None:
        unpack.end()
    if found.startswith(_GZIP):  # a compressed file, whatever it is called
        unpack = _Unpacking(url, bytes_max)
        found = bytearray(unpack.more(bytes(found), 0))
        unpack.end()
    return bytes(found)


class _Unpacking:
    """Unpacks gzip part by part, never more than is allowed."""

    def __init__(self, url: str, bytes_max: int) -> None:
        self._url, self._bytes_max = url, bytes_max
        self._stream = zlib.decompressobj(wbits=31)

    def more(self, packed: bytes, had: int) -> bytes:
        found = self._stream.decompress(packed, self._bytes_max - had + 1)
        if had + len(found) > self._bytes_max:
            raise _too_large(self._url, self._bytes_max)
        return found

    def end(self) -> None:
        if not self._stream.eof:
            raise _UnreachableError("the compressed answer ended early")


def _too_large(url: str, bytes_max: int) -> LimitError:
    return LimitError(
        f"{url} is too large: at most {bytes_max:,} bytes are fetched",
        limit="bytes_max",
        maximum=bytes_max,
    )


def _download(url: str, at: str, answer: _Answer, bytes_max: int) -> Download:
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in FORMATS and kind not in UNTOLD:
        page = " (a web page: look there for the address of the file)" if "html" in kind else ""
        raise OntologyError(f"is {kind}{page}, and not an ontology", path=url)
    plain = urlsplit(at)._replace(query="", fragment="").geturl()
    form = FORMATS.get(kind) or detect_format(plain, answer.content)
    about = About(
        url=url,
        format=form,
        etag=answer.headers.get("etag", ""),
        last_modified=answer.headers.get("last-modified", ""),
        is_public=answer.is_public,
        digest=sha256(answer.content).hexdigest(),
    )
    return Download(about, answer.content)
