"""Compiled ontologies on disk, found again by content.

An entry is one file: a magic line, a JSON head, and arrays that are memory-mapped when it is read.
No pickle, so a cache directory can hold nothing that runs. Its name is a hash of what the caller
asked for: the content of the files, every option that changes the answer, and the versions of the
code and the libraries that made it. What the files import is not known before they are parsed, so
the head lists the imported files with their hashes, and how the directories that were searched
looked; when any of that changed, the entry does not count and is written anew. So it is when IRIs
are relative to a file's name and the file has another name now.

A damaged entry is treated as absent. An entry is written beside its place and renamed into it, so
a reader sees a whole one or none. A cache that cannot be written is no error: the load was done.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterable
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from kbn.ontology.catalogue import CATALOGUE_FILE, candidates
from kbn.ontology.tables import Arrays, Facts, Tables

if TYPE_CHECKING:
    from kbn.ontology.catalogue import Catalogue
    from kbn.ontology.documents import Document
    from kbn.ontology.loading import Corpus, Request

FORMAT = 4
"""Raise it whenever the tables, or what they mean, change."""

_MAGIC = b"kbn-ontology\n"
_ALIGN = 64
_LIBRARIES = ("kbn", "pyoxigraph", "py-horned-owl", "owlready2")


class _Array(msgspec.Struct, frozen=True):
    name: str
    dtype: str
    size: int
    offset: int


class _Head(msgspec.Struct, frozen=True):
    format: int
    key: str
    body_digest: str
    body_size: int
    reasoning: str
    digest: str
    sources: tuple[str, ...]
    prefixes: tuple[tuple[str, str], ...]
    unsupported: tuple[str, ...]
    unsatisfiable: tuple[str, ...]
    is_skos: bool
    imported: tuple[tuple[str, str], ...]
    """(path, sha256) of each file that was imported."""
    lie_in: tuple[str, ...]
    """Where the files asked for lay, when that decided which imports were found; else empty."""
    searched: tuple[tuple[str, str], ...]
    """(directory, how it looked) of each directory imports were looked for in."""
    bases: tuple[str, ...]
    """The base of each file asked for that has IRIs relative to it, "" for the others."""
    arrays: tuple[_Array, ...]


def directory() -> Path:
    """Where entries are kept: KBN_CACHE_DIR, or the platform's place for caches."""
    given = os.environ.get("KBN_CACHE_DIR")
    if given:
        return Path(given) / "ontologies"
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = str(Path.home() / "Library" / "Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "kbn" / "ontologies"


def find(request: Request, asked: list[Document]) -> Tables | None:
    """The tables kept for `request` and the files `asked`, or None."""
    key = _key(request, asked)
    path = directory() / f"{key}.kbno"
    try:
        head, arrays = _read(path)
        if head.key != key or head.format != FORMAT or not _still_true(head, asked):
            return None
        sources = (*(document.name for document in asked), *head.sources[len(asked) :])
        facts = Facts(
            head.reasoning,
            head.digest,
            sources,
            head.prefixes,
            head.unsupported,
            head.unsatisfiable,
            head.is_skos,
        )
        return Tables.from_arrays(facts, arrays)
    except (OSError, ValueError, KeyError, TypeError, msgspec.MsgspecError):
        return None


def keep(request: Request, corpus: Corpus, catalogue: Catalogue, tables: Tables) -> None:
    """Keep `tables` for the next `find`; silently not, when the directory cannot be written."""
    asked = corpus.documents[: corpus.imported_from]
    imported = corpus.documents[corpus.imported_from :]
    if any(document.directory is None for document in imported):
        return  # Fetched from the network: what is there tomorrow is not known today.
    key = _key(request, asked)
    places, body = _laid_out(tables.arrays())
    facts = tables.facts
    names = (*tables.classes, *tables.properties, *tables.individuals)
    head = _Head(
        format=FORMAT,
        key=key,
        body_digest=sha256(body).hexdigest(),
        body_size=len(body),
        reasoning=facts.reasoning,
        digest=facts.digest,
        sources=facts.sources,
        prefixes=facts.prefixes,
        unsupported=facts.unsupported,
        unsatisfiable=facts.unsatisfiable,
        is_skos=facts.is_skos,
        imported=tuple((_absolute(one.name), one.digest) for one in imported),
        lie_in=_directories(asked) if catalogue.looked_at else (),
        searched=tuple((_absolute(one), _look(Path(one))) for one in sorted(catalogue.looked_at)),
        bases=tuple(one.base if one.is_base_of_any(names) else "" for one in asked),
        arrays=places,
    )
    with contextlib.suppress(OSError):
        _write(directory() / f"{key}.kbno", msgspec.json.encode(head), body)


def _key(request: Request, asked: Iterable[Document]) -> str:
    parts: list[Any] = [FORMAT, request.reasoning, request.skos, request.network]
    parts.append([[document.digest, document.format] for document in asked])
    parts.append(_catalogue_key(request))
    parts.append([[name, _version(name)] for name in _LIBRARIES])
    return sha256(msgspec.json.encode(parts)).hexdigest()


def _catalogue_key(request: Request) -> object:
    given = request.catalogue
    if given is None:
        return None
    if isinstance(given, (str, os.PathLike)):
        path = Path(given)
        content = sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        return [_absolute(path), content]
    return sorted([iri, _absolute(path)] for iri, path in given.items())


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _directories(asked: Iterable[Document]) -> tuple[str, ...]:
    return tuple(_absolute(document.directory) for document in asked)


def _still_true(head: _Head, asked: list[Document]) -> bool:
    """Whether the imports are what they were, and would be found where they were."""
    if head.lie_in and head.lie_in != _directories(asked):
        return False
    bases = [document.base for document in asked]
    if any(was and was != base for was, base in zip(head.bases, bases, strict=True)):
        return False
    for name, digest in head.imported:
        if sha256(Path(name).read_bytes()).hexdigest() != digest:
            return False
    return all(_look(Path(name)) == look for name, look in head.searched)


def _look(path: Path) -> str:
    """How a directory looks to the search for imports: names, sizes and times of its files."""
    listed = [*candidates(path), path / CATALOGUE_FILE] if path.is_dir() else []
    parts = []
    for one in listed:
        with contextlib.suppress(OSError):
            status = one.stat()
            parts.append([one.name, status.st_size, status.st_mtime_ns])
    return sha256(msgspec.json.encode(parts)).hexdigest()


def _absolute(path: object) -> str:
    return str(Path(str(path)).absolute())


# The file.


def _laid_out(arrays: Arrays) -> tuple[tuple[_Array, ...], bytes]:
    places: list[_Array] = []
    parts: list[bytes] = []
    offset = 0
    for name, array in sorted(arrays.items()):
        content = np.ascontiguousarray(array).tobytes()
        places.append(_Array(name, array.dtype.str, array.size, offset))
        padding = -len(content) % _ALIGN
        parts += [content, b"\0" * padding]
        offset += len(content) + padding
    return tuple(places), b"".join(parts)


def _write(path: Path, head: bytes, body: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    start = _MAGIC + len(head).to_bytes(8, "little") + head
    start += b"\0" * (-len(start) % _ALIGN)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.stem[:16], suffix=".part")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(start)
            stream.write(body)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def _read(path: Path) -> tuple[_Head, Arrays]:
    """The head and the arrays of an entry; an error of some kind when it is damaged."""
    mapped = np.memmap(path, dtype=np.uint8, mode="r")
    if mapped[: len(_MAGIC)].tobytes() != _MAGIC:
        raise ValueError("not a cache entry")
    start = len(_MAGIC) + 8
    size = int.from_bytes(mapped[len(_MAGIC) : start].tobytes(), "little")
    if size > len(mapped):
        raise ValueError("a damaged cache entry")
    head = msgspec.json.decode(mapped[start : start + size].tobytes(), type=_Head)
    body = mapped[start + size + (-(start + size) % _ALIGN) :]
    if len(body) != head.body_size or sha256(body.data).hexdigest() != head.body_digest:
        raise ValueError("a damaged cache entry")
    arrays: Arrays = {}
    for place in head.arrays:
        dtype = np.dtype(place.dtype)
        stop = place.offset + place.size * dtype.itemsize
        arrays[place.name] = np.asarray(body[place.offset : stop]).view(dtype)
    return head, arrays
