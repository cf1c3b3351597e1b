"""One ontology file: which format it is in, and its triples.

A document is read into memory once and parsed when asked, because a level may need its triples
twice (once to compile, once to hand to an outside reasoner) and keeping millions of them is dearer
than parsing again. The format is told by the file's ending where that is certain and by the first
characters otherwise (`.owl` may be any of four formats).
"""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from stat import S_ISBLK, S_ISCHR

from kbn.errors import LimitError, OntologyError
from kbn.ontology import vocabulary as v
from kbn.ontology.triples import Triple, from_quads

CONTENT_MAX = 2 * 1024**3
"""How many bytes one file may hold once decompressed."""

ENTITY_MAX = 1024**2
"""How many characters one XML entity may expand to."""

ENDINGS = {
    ".ttl": "turtle",
    ".n3": "turtle",
    ".nt": "ntriples",
    ".ofn": "functional",
    ".owf": "functional",
    ".fss": "functional",
    ".obo": "obo",
    ".owx": "owlxml",
    ".jsonld": "jsonld",
}
"""Endings that settle the format; all others are told by content."""


@dataclass
class Document:
    """The content of one file and where it came from."""

    name: str
    """The path or address, as shown in messages."""
    content: bytes = field(repr=False)
    format: str = ""
    directory: Path | None = None
    """Where to look for imports beside it; None when it came from the network."""
    is_public: bool = False
    """Whether it came from an address of the network that everybody can reach."""

    def __post_init__(self) -> None:
        if not self.format:
            self.format = detect_format(self.name, self.content)
        self._rdf: bytes | None = None

    @property
    def digest(self) -> str:
        """The sha256 of the content, hex."""
        return sha256(self.content).hexdigest()

    @property
    def base(self) -> str:
        """What relative IRIs are relative to where the document does not say.

        By the file's name, without its folder: the same on all machines. What was fetched is
        relative to its address.
        """
        if "://" in self.name:
            return self.name.partition("#")[0]
        return "file:///" + re.sub(r"[^A-Za-z0-9._-]", "_", Path(self.name).name)

    def is_base_of_any(self, names: Iterable[str]) -> bool:
        """Whether one of the names is relative to this document, and so depends on its name."""
        base = self.base
        return any(name.startswith(base) for name in names)

    def triples(self) -> Iterator[Triple]:
        """The document's triples; OntologyError with the line when it is malformed."""
        if self.format == "obo":
            from kbn.ontology.obo import read_obo

            yield from read_obo(self.content, self.name)
        elif self.format in ("functional", "owlxml"):
            yield from self._parsed(self._as_rdf(), "rdfxml")
        else:
            yield from self._parsed(self.content, self.format)

    def located_triples(self) -> Iterator[tuple[Triple, int | None]]:
        """The document's triples, each with the line it ends on where that can be told.

        Slower than `triples`: the parser is fed line by line. A format that is translated before
        it is parsed has no lines to tell.
        """
        if self.format == "obo":
            from kbn.ontology.obo import read_obo_with_lines

            yield from read_obo_with_lines(self.content, self.name)
        elif self.format in ("functional", "owlxml", "jsonld"):
            yield from ((triple, None) for triple in self.triples())
        else:
            feeder = _LineByLine()
            for triple in self._parsed(self.content, self.format, feeder):
                yield triple, feeder.line

    def prefixes(self) -> dict[str, str]:
        """The prefixes the document declares."""
        match self.format:
            case "turtle":
                return _turtle_prefixes(self.content)
            case "rdfxml" | "owlxml":
                return _xml_prefixes(self.content)
            case "functional":
                return _functional_prefixes(self.content)
            case "jsonld":
                from kbn.ontology.json_documents import json_prefixes

                return json_prefixes(self.content)
            case "obo":
                from kbn.ontology.obo import obo_prefixes

                return obo_prefixes(self.content)
        return {}

    def _as_rdf(self) -> bytes:
        if self._rdf is None:
            from kbn.ontology.functional import to_rdf_xml

            self._rdf = to_rdf_xml(self.content, self.format, self.name)
        return self._rdf

    def _parsed(
        self, content: bytes, form: str, feeder: _LineByLine | None = None
    ) -> Iterator[Triple]:
        import pyoxigraph as ox

        formats = {
            "turtle": ox.RdfFormat.TURTLE,
            "ntriples": ox.RdfFormat.N_TRIPLES,
            "rdfxml": ox.RdfFormat.RDF_XML,
            "jsonld": ox.RdfFormat.JSON_LD,
        }
        if form == "rdfxml":
            content = as_utf8_xml(content, self.name)
            check_entities(content, self.name)
        if form == "jsonld":
            from kbn.ontology.json_documents import check_json

            content = check_json(content, self.name)
        if feeder is not None:
            feeder.feed(content)
        try:
            quads = ox.parse(
                content if feeder is None else feeder,  # type: ignore[arg-type]
                format=formats[form],
                base_iri=self.base,
                rename_blank_nodes=True,
                lenient=True,
            )
            yield from from_quads(quads)
        except SyntaxError as error:
            line = error.lineno or _failing_line(content, formats[form], self.base)
            reason = re.sub(r"^Parser error at line [^:]*: ", "", error.msg or str(error))
            raise OntologyError(
                f"not well-formed {_SPOKEN[form]}: {reason}", path=self.name, line=line
            ) from error


_SPOKEN = {"turtle": "Turtle", "ntriples": "N-Triples", "rdfxml": "RDF/XML", "jsonld": "JSON-LD"}


def read_document(path: Path, bytes_max: int = CONTENT_MAX) -> Document:
    """The document at `path`, decompressed when it ends in `.gz`; of at most so many bytes.

    A pipe is read, as in `kbn ontology show <(…)`; a device is refused, for it may never end.
    """
    bytes_max = max(0, min(bytes_max, CONTENT_MAX))
    try:
        content = _content(path, bytes_max)
    except FileNotFoundError as error:
        raise OntologyError("there is no such file", path=str(path)) from error
    except (OSError, EOFError, zlib.error) as error:
        raise OntologyError(f"cannot be read: {error}", path=str(path)) from error
    if len(content) > bytes_max:
        raise LimitError(
            f"{path} is too large: {bytes_max:,} more bytes are allowed; load less, or have the "
            "limit raised",
            limit="bytes_max",
            maximum=bytes_max,
        )
    return Document(str(path), content, directory=path.parent)


def detect_format(name: str, content: bytes) -> str:
    """The format of a file called `name` that holds `content`."""
    path = Path(name)
    ending = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    settled = ENDINGS.get(ending.lower())
    if settled is not None:
        return settled
    text = decoded(content[:65_536])
    if text.lstrip()[:1] in ("{", "["):
        return "jsonld"
    if re.search(r"<(\w+:)?RDF[\s>]", text):
        return "rdfxml"
    if re.search(r"<(\w+:)?Ontology\s", text) and "http://www.w3.org/2002/07/owl#" in text:
        return "owlxml"
    if re.search(r"^\s*(Prefix|Ontology)\s*\(", text, re.MULTILINE):
        return "functional"
    if re.search(r"^(format-version:|\[Term\]|\[Typedef\])", text, re.MULTILINE):
        return "obo"
    if text.lstrip().startswith("<?xml"):
        return "rdfxml"
    if re.search(r"^\s*(@prefix|@base|prefix|base)\s", text, re.MULTILINE | re.IGNORECASE):
        return "turtle"
    if re.search(r"^\s*(<[^>]*>|_:\S+)\s+<[^>]*>\s", text, re.MULTILINE):
        return "turtle"
    raise OntologyError(
        "the format is not recognised; known are RDF/XML, Turtle, N-Triples, OWL functional syntax "
        "(.ofn), OWL/XML (.owx), JSON-LD (.jsonld) and OBO (.obo)",
        path=name,
    )


def decoded(content: bytes) -> str:
    """Text for looking at, whatever its encoding; never fails."""
    for mark, encoding in ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16")):
        if content.startswith(mark):
            return content.decode(encoding, "replace")
    return content.decode("utf-8-sig", "replace")


def as_utf8_xml(content: bytes, name: str) -> bytes:
    """XML in UTF-8 whatever encoding it declares; the parser takes nothing else."""
    head = decoded(content[:200])
    declared = re.match(r"""\s*<\?xml[^>]*?\sencoding\s*=\s*["']([\w.:-]+)["']""", head)
    encoding = declared.group(1) if declared else "utf-8"
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        encoding = "utf-16"
    if encoding.lower() in ("utf-8", "utf8"):
        return content.removeprefix(b"\xef\xbb\xbf")
    try:
        text = content.decode(encoding)
    except (LookupError, UnicodeDecodeError) as error:
        raise OntologyError(f"cannot be decoded as {encoding}: {error}", path=name) from error
    return re.sub(r"^\s*<\?xml[^>]*\?>", "", text, count=1).encode("utf-8")


def check_entities(content: bytes, name: str) -> None:
    """Refuse XML entities that expand without bound ("billion laughs")."""
    end = content.find(b"]>")
    if b"<!ENTITY" not in content[: max(end, 0)]:
        return
    head = content[:end].decode("utf-8", "replace")
    sizes: dict[str, int] = {}
    for key, _, value in re.findall(r"""<!ENTITY\s+([\w.:-]+)\s+(["'])(.*?)\2""", head, re.DOTALL):
        # An entity can only use those declared before it, so one pass in order is enough.
        uses = re.findall(r"&([\w.:-]+);", value)
        sizes[key] = len(value) + sum(sizes.get(use, 0) for use in uses)
        if sizes[key] > ENTITY_MAX:
            raise LimitError(
                f"{name}: the XML entity {key!r} expands to more than {ENTITY_MAX:,} characters",
                limit="ENTITY_MAX",
                maximum=ENTITY_MAX,
            )


def _content(path: Path, bytes_max: int) -> bytes:
    """What is in a file, or a byte more than is allowed."""
    with path.open("rb") as stream:
        mode = os.fstat(stream.fileno()).st_mode
        if S_ISCHR(mode) or S_ISBLK(mode):
            raise OSError("it is a device, not a file")
        if path.suffix == ".gz":
            with gzip.open(stream, "rb") as unpacked:
                return unpacked.read(bytes_max + 1)
        return stream.read(bytes_max + 1)


def _failing_line(content: bytes, form: object, base: str) -> int | None:
    """The line a parser that tells no line fails on, found by feeding it line by line."""
    import pyoxigraph as ox

    feeder = _LineByLine()
    feeder.feed(content)
    try:
        for _ in ox.parse(feeder, format=form, base_iri=base, lenient=True):  # type: ignore[arg-type]
            pass
    except SyntaxError:
        return max(feeder.line, 1)
    return None


class _LineByLine:
    """A binary stream that hands out one line per read and counts them."""

    def __init__(self) -> None:
        self._lines: Iterator[bytes] = iter(())
        self._rest = b""
        self.line = 0

    def feed(self, content: bytes) -> None:
        """Start with this content."""
        self._lines = iter(content.splitlines(keepends=True))

    def read(self, size: int = -1) -> bytes:
        if not self._rest:
            self._rest = next(self._lines, b"")
            self.line += bool(self._rest)
        part = self._rest if size < 0 else self._rest[:size]
        self._rest = self._rest[len(part) :]
        return part


def _turtle_prefixes(content: bytes) -> dict[str, str]:
    pattern = rb"^\s*@?prefix\s+([\w.-]*):\s*<([^>]*)>"
    found = re.findall(pattern, content, re.MULTILINE | re.IGNORECASE)
    return {prefix.decode(): namespace.decode("utf-8", "replace") for prefix, namespace in found}


def _functional_prefixes(content: bytes) -> dict[str, str]:
    found = re.findall(rb"^\s*Prefix\s*\(\s*([\w.-]*):\s*=\s*<([^>]*)>", content, re.MULTILINE)
    return {prefix.decode(): namespace.decode("utf-8", "replace") for prefix, namespace in found}


def _xml_prefixes(content: bytes) -> dict[str, str]:
    """The namespaces the root element declares, its entities resolved."""
    text = decoded(content[:262_144])
    entities: dict[str, str] = {**_XML_ENTITIES}

    def resolved(value: str) -> str:
        return re.sub(r"&([\w.:-]+);", lambda use: entities.get(use.group(1), ""), value)

    for key, _, value in re.findall(r"""<!ENTITY\s+([\w.:-]+)\s+(["'])(.*?)\2""", text, re.DOTALL):
        entities[key] = resolved(value)[:ENTITY_MAX]
    root = re.search(r"<(?:\w+:)?(?:RDF|Ontology)\b([^>]*)>", text, re.DOTALL)
    if root is None:
        return {}
    pattern = r"""xmlns(?::([\w.-]+))?\s*=\s*(["'])(.*?)\2"""
    spaces = re.findall(pattern, root.group(1), re.DOTALL)
    found = {prefix: resolved(value) for prefix, _, value in spaces}
    found.update(
        (prefix, resolved(value))
        for prefix, value in re.findall(r'<Prefix\s+name="([^"]*)"\s+IRI="([^"]*)"', text)
    )
    return {prefix: namespace for prefix, namespace in found.items() if namespace != v.OWL[:-1]}


_XML_ENTITIES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
