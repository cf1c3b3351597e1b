"""Compiled ontologies on disk, found again by content.

An entry is one file of arrays (`array_file.py`), memory-mapped when it is read. Its name is a hash
of what the caller asked for: the content of the files, every option that changes the answer, and
the versions of the code and the libraries that made it. What the files import is not known before
they are parsed, so the head lists the imported files with their hashes, and how the directories
that were searched looked; when any of that changed, the entry does not count and is written anew.
So it is when IRIs are relative to a file's name and the file has another name now.

A damaged entry is treated as absent. An entry is written beside its place and renamed into it, so
a reader sees a whole one or none. A cache that cannot be written is no error: the load was done.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from kbn.ontology import array_file
from kbn.ontology.cache_folder import cache_directory
from kbn.ontology.catalogue import CATALOGUE_FILE, candidates
from kbn.ontology.tables import Facts, Tables

if TYPE_CHECKING:
    from kbn.ontology.catalogue import Catalogue
    from kbn.ontology.documents import Document
    from kbn.ontology.loading import Corpus, Request

FORMAT = 8
"""Raise it whenever the tables, or what they mean, change."""

_LIBRARIES = ("kbn", "pyoxigraph", "py-horned-owl", "owlready2")


class _Head(msgspec.Struct, frozen=True):
    format: int
    key: str
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


def find(request: Request, asked: list[Document]) -> Tables | None:
    """The tables kept for `request` and the files `asked`, or None."""
    key = _key(request, asked)
    path = cache_directory() / f"{key}.kbno"
    try:
        about, arrays = array_file.read(path)
        head = msgspec.json.decode(about, type=_Head)
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
    facts = tables.facts
    names = (*tables.classes, *tables.properties, *tables.individuals)
    head = _Head(
        format=FORMAT,
        key=key,
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
    )
    with contextlib.suppress(OSError):
        array_file.write(cache_directory() / f"{key}.kbno", head, tables.arrays())


def _key(request: Request, asked: Iterable[Document]) -> str:
    fetches = request.network or request.offline
    parts: list[Any] = [FORMAT, request.reasoning, request.skos, fetches]
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
