"""What was fetched over the network, kept on disk by address.

An entry is one file: a line of JSON about the download, then its content. Whoever asks again sends
the entity tag or the date along, so that an unchanged document is not sent twice; without a network
the entry is all there is. A damaged entry is treated as absent. An entry is written beside its
place and renamed into it. The oldest entries go when there are too many, or too many bytes.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import msgspec

from kbn.ontology.cache_folder import cache_directory
from kbn.ontology.documents import Document

ENTRIES_MAX = 1_000
BYTES_MAX = 2 * 1024**3
"""How much is kept in all."""


class About(msgspec.Struct, frozen=True):
    """What is known of a download beside its content."""

    url: str
    format: str
    etag: str
    last_modified: str
    is_public: bool
    """Whether it came from an address that everybody can reach."""
    digest: str


@dataclass(frozen=True)
class Download:
    """A document that was fetched, and how to ask whether it has changed."""

    about: About
    content: bytes

    def document(self) -> Document:
        """The same as a document."""
        about = self.about
        return Document(about.url, self.content, about.format, is_public=about.is_public)


def find(url: str) -> Download | None:
    """The download that is kept for an address, if there is one."""
    path = _path(url)
    try:
        head, _, content = path.read_bytes().partition(b"\n")
        about = msgspec.json.decode(head, type=About)
    except (OSError, msgspec.MsgspecError):
        return None
    if about.url != url or sha256(content).hexdigest() != about.digest:
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # Used now: others go first.
    return Download(about, content)


def keep(download: Download) -> None:
    """Keep a download; silently not, when the directory cannot be written."""
    path = _path(download.about.url)
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(msgspec.json.encode(download.about) + b"\n" + download.content)
        beside.replace(path)
        _prune(path.parent)


def _path(url: str) -> Path:
    name = sha256(url.encode("utf-8", "surrogatepass")).hexdigest()
    return cache_directory().parent / "downloads" / name


def _prune(directory: Path) -> None:
    """Delete the entries that were not used for longest until the rest is within the limits."""
    found = [(path.stat(), path) for path in directory.iterdir()]
    found.sort(key=lambda each: each[0].st_mtime, reverse=True)
    total = 0
    for place, (status, path) in enumerate(found):
        total += status.st_size
        if place and (place >= ENTRIES_MAX or total > BYTES_MAX):
            path.unlink(missing_ok=True)
