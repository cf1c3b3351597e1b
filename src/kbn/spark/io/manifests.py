"""Manifests: what was delivered, batch by batch, each batch once.

    parts/<unique>.parquet              rows, written by tasks; nothing points at them yet
    manifests/0000000000000012.json     batch 12: its parts and their rows. Now it is delivered
    manifests/write-<unique>.json       rows that were written outside a stream
    stream.json                         the stream that delivers here

A task writes its part under a name nobody else has. The batch is committed by linking its manifest
into place: that happens as a whole or not at all, and only once per batch, so a batch that runs
again after a crash finds itself delivered, and its new parts go. Readers look at manifests, never
at folders of parts: parts of attempts that crashed are there for nobody, until `sweep` takes them.

Batch numbers are a stream's own: they begin again with a new checkpoint. So the folder remembers
which stream it belongs to and refuses another, whose batch 12 would be taken for one it has.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from kbn.errors import InvalidInputError, KbnError
from kbn.spark.io.spool import sync_directory

MANIFESTS = "manifests"
PARTS = "parts"
STREAM = "stream.json"


@dataclass(frozen=True, slots=True)
class Part:
    """A file of rows, by its name in the folder of parts."""

    name: str
    rows: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """What one batch delivered.

    `batch` is None for rows written outside a stream; `schema` is Spark's, as JSON; `facts` is
    whatever the writer wants remembered; `replaces` names the manifests it took the place of.
    """

    batch: int | None
    parts: tuple[Part, ...]
    schema: dict[str, Any]
    facts: Mapping[str, Any] = field(default_factory=dict)
    replaces: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        read = json.loads(text)
        parts = tuple(Part(**part) for part in read.pop("parts"))
        return cls(parts=parts, replaces=tuple(read.pop("replaces")), **read)


class Delivered:
    """A folder of delivered batches."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)

    @property
    def parts(self) -> Path:
        return self.directory / PARTS

    @property
    def manifests(self) -> Path:
        return self.directory / MANIFESTS

    def prepare(self) -> None:
        """Make the folders, where they are not there."""
        self.parts.mkdir(parents=True, exist_ok=True)
        self.manifests.mkdir(exist_ok=True)

    def name_of(self, batch: int) -> str:
        """The name of a batch's manifest."""
        return _name(batch)

    def is_committed(self, batch: int) -> bool:
        return (self.manifests / _name(batch)).exists()

    def manifest_of(self, batch: int) -> Manifest | None:
        """What a batch delivered; None when it has not, or is part of a later manifest now."""
        with suppress(FileNotFoundError):
            return Manifest.from_json((self.manifests / _name(batch)).read_text(encoding="utf-8"))
        return None

    def commit(self, manifest: Manifest, stream: str | None = None) -> bool:
        """Deliver a batch; False, with its parts deleted, when it was delivered before."""
        self.prepare()
        if stream is not None:
            self.claim(stream)
        sync_directory(self.parts)
        if link(self.manifests / _name(manifest.batch), manifest.to_json()):
            return True
        self.discard(manifest.batch, manifest.parts)
        return False

    def discard(self, batch: int | None, parts: Iterable[Part]) -> None:
        """Delete parts of an attempt, except what the batch's manifest has."""
        kept: set[str] = set()
        if batch is not None and self.is_committed(batch):
            kept = {part.name for part in self.read(_name(batch)).parts}
        for part in parts:
            if part.name not in kept:
                with suppress(FileNotFoundError):
                    os.unlink(self.parts / part.name)

    def claim(self, stream: str) -> None:
        """Make this the folder of a stream, for ever."""
        mine = json.dumps({"stream": stream})
        path = self.directory / STREAM
        if path.exists() or not link(path, mine):
            owner = json.loads(path.read_text(encoding="utf-8"))["stream"]
            if owner != stream:
                raise InvalidInputError(
                    f"{self.directory} holds what another stream delivered ({owner}; this one is "
                    f"{stream}). A stream is known by its checkpoint: restart it with the one it "
                    "had, or give this one a folder of its own"
                )

    def names(self) -> list[str]:
        """The manifests that count: writes first, then a stream's batches in order."""
        try:
            found = [name for name in os.listdir(self.manifests) if not name.startswith(".")]
        except FileNotFoundError:
            return []
        replaced = {
            old for name in found if name.startswith("write-") for old in self.read(name).replaces
        }
        return sorted(set(found) - replaced, key=lambda name: (not name.startswith("w"), name))

    def read(self, name: str) -> Manifest:
        path = self.manifests / name
        try:
            return Manifest.from_json(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise KbnError(f"{path} cannot be read: {error}") from error

    def read_batch(self, batch: int) -> Manifest:
        return self.read(_name(batch))

    def numbers(self) -> list[int]:
        """The numbers of a stream's batches."""
        return [int(name[:-5]) for name in self.names() if name[:-5].isdigit()]

    def batches(self) -> Iterator[Manifest]:
        """What was delivered, in the order of `names`."""
        return (self.read(name) for name in self.names())

    def sweep(self, *, now: float, older_than_s: float = 86_400.0) -> int:
        """Delete the parts no manifest has; returns how many.

        Those of an attempt under way are not in a manifest yet: leave enough time.
        """
        # Parts are listed first: one that is committed meanwhile is in a manifest read after.
        listed = list(os.scandir(self.parts)) if self.parts.exists() else []
        old = [entry for entry in listed if now - entry.stat().st_mtime > older_than_s]
        used = {part.name for manifest in self.batches() for part in manifest.parts}
        orphans = [entry for entry in old if entry.name not in used]
        for entry in orphans:
            os.unlink(entry.path)
        return len(orphans)


def link(path: Path, content: str) -> bool:
    """Write a file as a whole where there is none; False when there is one.

    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "0.json"
    >>> link(path, "{}"), link(path, "{}")
    (True, False)
    """
    beside = path.parent / f".{uuid4().hex}"
    try:
        with open(beside, "x", encoding="utf-8") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.link(beside, path)
        sync_directory(path.parent)
    except FileExistsError:
        return False
    finally:
        with suppress(FileNotFoundError):
            os.unlink(beside)
    return True


def replace(path: Path, content: str) -> None:
    """Write a file as a whole in the place of the one there is."""
    beside = path.parent / f".{uuid4().hex}"
    with open(beside, "x", encoding="utf-8") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(beside, path)
    sync_directory(path.parent)


def _name(batch: int | None) -> str:
    return f"write-{uuid4().hex}.json" if batch is None else f"{batch:016d}.json"
