"""Where the ontology behind an `owl:imports` lies on this machine.

Looked at in this order, the first that fits is taken:

1. the catalogue: an explicit mapping from ontology IRI to file, an OASIS catalogue file
   (`catalog-v001.xml`, as Protégé writes it), or a directory whose files are compared as in 3;
2. a `catalog-v001.xml` beside the importing file;
3. the files beside the importing file: one that declares the wanted ontology IRI (or version IRI),
   else one whose name is the last part of it.

Nothing is ever fetched from the network unless the caller asked for it; then that is tried last.
A trailing `#` or `/`, and http against https, make no difference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from kbn.errors import OntologyError
from kbn.ontology.documents import CONTENT_MAX, ENDINGS, Document, decoded, read_document
from kbn.ontology.fetching import Fetcher

CATALOGUE_FILE = "catalog-v001.xml"
CANDIDATES_MAX = 2_000
"""How many files of one directory are looked into."""
HEAD_BYTES = 65_536

_ONTOLOGY_ENDINGS = {*ENDINGS, ".owl", ".rdf", ".xml", ".rdfs"}


@dataclass
class Catalogue:
    """The places named by the caller; what each resolution looked at is kept for the cache."""

    entries: dict[str, Path] = field(default_factory=dict)
    directories: tuple[Path, ...] = ()
    fetcher: Fetcher | None = None
    """Who fetches what is not on this machine, if anybody."""
    bytes_left: int = CONTENT_MAX
    """How much the next document may hold."""
    looked_at: set[Path] = field(default_factory=set)
    """The directories whose listing decided a resolution."""
    _names: dict[Path, dict[str, Path]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, given: str | object | Mapping[str, object] | None, fetcher: Fetcher | None = None
    ) -> Catalogue:
        """The catalogue a caller described: a mapping, a directory, a file, or nothing."""
        if given is None:
            return cls(fetcher=fetcher)
        if isinstance(given, Mapping):
            entries = {_normal(iri): Path(str(path)) for iri, path in given.items()}
            return cls(entries, fetcher=fetcher)
        path = Path(str(given))
        if path.is_dir():
            return cls(directories=(path,), fetcher=fetcher)
        if path.is_file():
            return cls(read_catalogue(path), fetcher=fetcher)
        raise OntologyError("the catalogue is neither a directory nor a file", path=str(path))

    def resolve(self, iri: str, importer: Document) -> Document | None:
        """The document for ontology `iri`, or None when it is nowhere to be found."""
        path = self._local(iri, importer)
        if path is not None:
            return read_document(path, self.bytes_left)
        if self.fetcher is None:
            return None
        return self.fetcher.get(iri, self.bytes_left, only_public=importer.is_public)

    def _local(self, iri: str, importer: Document) -> Path | None:
        wanted = _normal(iri)
        if wanted in self.entries:
            return self.entries[wanted]
        beside = (importer.directory,) if importer.directory is not None else ()
        for directory in (*self.directories, *beside):
            self.looked_at.add(directory)
            found = self._known_in(directory).get(wanted) or _by_name(directory, iri)
            if found is not None:
                return found
        return None

    def _known_in(self, directory: Path) -> dict[str, Path]:
        """Normalised ontology IRI -> file, for the files of `directory`."""
        if directory not in self._names:
            names: dict[str, Path] = {}
            for path in candidates(directory):
                for iri in ontology_names(path):
                    names.setdefault(_normal(iri), path)
            listed = directory / CATALOGUE_FILE
            if listed.is_file():
                names.update(read_catalogue(listed))
            self._names[directory] = names
        return self._names[directory]


def candidates(directory: Path) -> list[Path]:
    """The files of `directory` that look like ontologies, sorted, at most CANDIDATES_MAX."""
    found = [
        path
        for path in sorted(directory.iterdir())
        if path.suffix.lower() in _ONTOLOGY_ENDINGS and path.is_file()
    ]
    return found[:CANDIDATES_MAX]


def ontology_names(path: Path) -> Iterator[str]:
    """The ontology IRI and version IRI `path` declares, read from its text without parsing it.

    The declaration may stand anywhere in a Turtle file, so those are searched whole.
    """
    try:
        with path.open("rb") as stream:
            content = stream.read(-1 if path.suffix in (".ttl", ".n3", ".nt") else HEAD_BYTES)
    except OSError:
        return
    text = decoded(content)
    entities = dict(re.findall(r"""<!ENTITY\s+([\w.:-]+)\s+["'](.*?)["']""", text))
    base = re.search(r"""xml:base\s*=\s*["'](.*?)["']""", text)
    prefixes = dict(re.findall(r"@?(?i:prefix)\s+([\w.-]*):\s*<([^>]*)>", text))
    for pattern in _DECLARATIONS:
        for found in re.findall(pattern, text, re.DOTALL):
            iri = re.sub(r"&([\w.:-]+);", lambda use: entities.get(use.group(1), ""), found)
            if iri == "" and base:
                iri = re.sub(
                    r"&([\w.:-]+);", lambda use: entities.get(use.group(1), ""), base.group(1)
                )
            if iri and not iri.startswith("<") and "//" not in iri and ":" in iri:
                prefix, _, name = iri.partition(":")
                iri = prefixes.get(prefix, prefix + ":") + name
            if iri:
                yield iri.strip("<>")


_DECLARATIONS = (
    r"""<owl:Ontology\s[^>]*?rdf:about\s*=\s*["'](.*?)["']""",
    r"""<owl:versionIRI\s[^>]*?rdf:resource\s*=\s*["'](.*?)["']""",
    r"""<Ontology\s[^>]*?ontologyIRI\s*=\s*["'](.*?)["']""",
    r"""(?<!\S)(<[^>\s]*>|[\w.-]*:[\w./#-]*)\s+"""
    r"""(?:a|rdf:type|<http://www\.w3\.org/1999/02/22-rdf-syntax-ns#type>)\s+"""
    r"""(?:owl:Ontology\b|<http://www\.w3\.org/2002/07/owl#Ontology>)""",
    r"""(?m:^\s*Ontology\s*\(\s*(<[^>]*>))""",
)


def read_catalogue(path: Path) -> dict[str, Path]:
    """The entries of an OASIS XML catalogue; relative targets are relative to it."""
    from xml.etree import ElementTree

    try:
        tree = ElementTree.parse(path)
    except ElementTree.ParseError as error:
        line = error.position[0]
        raise OntologyError(f"not a catalogue: {error}", path=str(path), line=line) from error
    except OSError as error:
        raise OntologyError(f"cannot be read: {error}", path=str(path)) from error
    entries: dict[str, Path] = {}
    for element in tree.iter():
        name, target = element.get("name"), element.get("uri")
        if element.tag.rpartition("}")[2] == "uri" and name and target:
            entries[_normal(name)] = _target(path.parent, target)
    return entries


def _by_name(directory: Path, iri: str) -> Path | None:
    last = re.split(r"[/#:]", iri.rstrip("#/"))[-1]
    if not last or last in (".", ".."):
        return None
    for name in (last, *(last + ending for ending in sorted(_ONTOLOGY_ENDINGS))):
        path = directory / name
        if path.suffix.lower() in _ONTOLOGY_ENDINGS and path.is_file():
            return path
    return None


def _target(directory: Path, target: str) -> Path:
    if target.startswith("file:"):
        return Path(unquote(urlsplit(target).path))
    return directory / unquote(target)


def _normal(iri: str) -> str:
    return re.sub(r"^https?://", "//", iri).rstrip("#/")
