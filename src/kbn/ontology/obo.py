"""OBO files as triples: fastobo reads the text, this maps its frames to OWL.

The mapping follows the OBO format's own (identifier `GO:0008150` is `obo:GO_0008150`; a relation
with a cross-reference such as `BFO:0000050` takes that IRI), with two choices of ours:

- obsolete terms are skipped, because no subscription should be able to name them;
- an alternative id is a class equivalent to the term that took it over, so that a filter written
  with the old id still matches.

Definitions, cross-references of terms and other lines that mean nothing to a reasoner are blanked
before parsing, which halves the work; blanking, not cutting, keeps line numbers true. fastobo gives
no access to what instance frames say, so those are counted and left out.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from typing import Any

from kbn.errors import MissingDependencyError, OntologyError
from kbn.ontology import vocabulary as v
from kbn.ontology.triples import Literal, Triple

_IGNORED = re.compile(
    rb"^(?:def|comment|subset|created_by|creation_date|namespace|property_value|consider"
    rb"|replaced_by|expand_assertion_to|expand_expression_to):.*$",
    re.MULTILINE,
)
_STANZA = re.compile(rb"^\[", re.MULTILINE)
_SYNONYMS = {
    "EXACT": v.OBO_IN_OWL + "hasExactSynonym",
    "BROAD": v.OBO_IN_OWL + "hasBroadSynonym",
    "NARROW": v.OBO_IN_OWL + "hasNarrowSynonym",
    "RELATED": v.OBO_IN_OWL + "hasRelatedSynonym",
}


def read_obo(content: bytes, name: str) -> Iterator[Triple]:
    """The triples of an OBO document; OntologyError with the line when it is malformed."""
    try:
        import fastobo
    except ImportError as error:
        raise MissingDependencyError("reading OBO files", extra="obo") from error
    try:
        frames = fastobo.iter(io.BytesIO(_trimmed(content)), threads=0)
        naming = _Naming(frames.header(), content)
        yield from naming.header_triples()
        mapping = _Mapping(naming)
        for frame in frames:
            if isinstance(frame, fastobo.term.TermFrame):
                yield from mapping.term(frame)
            elif isinstance(frame, fastobo.typedef.TypedefFrame):
                yield from mapping.typedef(frame)
    except SyntaxError as error:
        raise OntologyError(
            f"not well-formed OBO: {error.msg}", path=name, line=error.lineno
        ) from error
    except (ValueError, OSError) as error:
        raise OntologyError(f"not well-formed OBO: {error}", path=name) from error


def instance_count(content: bytes) -> int:
    """How many instance frames an OBO document has; they are not read."""
    return len(re.findall(rb"^\[Instance\]", content, re.MULTILINE))


def obo_prefixes(content: bytes) -> dict[str, str]:
    """The id spaces in use: those declared, and `obo:PREFIX_` for the others."""
    head = content[: content.find(b"\n[")]
    declared = re.findall(rb"^idspace:\s*(\S+)\s+(\S+)", head, re.MULTILINE)
    used = set(re.findall(rb"^id:\s*([A-Za-z][\w.-]*):", content, re.MULTILINE))
    found = {prefix.decode(): f"{v.OBO}{prefix.decode()}_" for prefix in sorted(used)}
    found.update((key.decode(), space.decode("utf-8", "replace")) for key, space in declared)
    return found | {"obo": v.OBO}


def _trimmed(content: bytes) -> bytes:
    start = _STANZA.search(content)
    if start is None:
        return content
    return content[: start.start()] + _IGNORED.sub(b"", content[start.start() :])


class _Naming:
    """How an identifier becomes an IRI, which the header and the typedefs decide."""

    def __init__(self, header: Any, content: bytes) -> None:
        self.spaces: dict[str, str] = {}
        self.ontology = ""
        self.imports: list[str] = []
        for clause in header:
            match clause.raw_tag():
                case "idspace":
                    self.spaces[str(clause.prefix)] = str(clause.url)
                case "ontology":
                    self.ontology = str(clause.ontology)
                case "import":
                    self.imports.append(str(clause.reference))
        self.relations = _relation_names(content)
        self._known: dict[str, str] = {}

    def header_triples(self) -> Iterator[Triple]:
        if self.ontology:
            own = self.ontology_iri(self.ontology)
            yield own, v.TYPE, v.ONTOLOGY
            for reference in self.imports:
                yield own, v.IMPORTS, self.ontology_iri(reference)

    def ontology_iri(self, name: str) -> str:
        return name if "://" in name else f"{v.OBO}{name}.owl"

    def iri(self, identifier: Any) -> str:
        """The IRI of a fastobo identifier."""
        text = str(identifier)
        found = self._known.get(text)
        if found is None:
            found = self._known[text] = self._make(text)
        return found

    def _make(self, text: str) -> str:
        text = self.relations.get(text, text).replace("\\", "")
        if "://" in text:
            return text
        prefix, colon, local = text.partition(":")
        if colon and prefix in self.spaces:
            return self.spaces[prefix] + local
        if colon:
            return f"{v.OBO}{prefix}_{local}"
        return f"{v.OBO}{self.ontology or 'TEMP'}#{text}"


def _relation_names(content: bytes) -> dict[str, str]:
    """Short relation id (`part_of`) -> the identifier its typedef's cross-reference gives."""
    found: dict[str, str] = {}
    for stanza in re.findall(rb"^\[Typedef\](.*?)(?=^\[|\Z)", content, re.MULTILINE | re.DOTALL):
        own = re.search(rb"^id:\s*(\S+)", stanza, re.MULTILINE)
        other = re.search(rb"^xref:\s*((?:BFO|RO):\d+)", stanza, re.MULTILINE)
        if own and other and b":" not in own.group(1):
            found[own.group(1).decode()] = other.group(1).decode()
    return found


class _Mapping:
    """Frames to triples; numbers the blank nodes it needs."""

    def __init__(self, naming: _Naming) -> None:
        self.iri = naming.iri
        self._blanks = 0

    def term(self, frame: Any) -> Iterator[Triple]:
        iri = self.iri
        clauses = [(clause.raw_tag(), clause) for clause in frame]
        if any(tag == "is_obsolete" and clause.obsolete for tag, clause in clauses):
            return
        own = iri(frame.id)
        yield own, v.TYPE, v.CLASS
        genus: list[Any] = []
        union: list[str] = []
        for tag, clause in clauses:
            if tag == "is_a":
                yield own, v.SUB_CLASS_OF, iri(clause.term)
            elif tag == "synonym":
                synonym = clause.synonym
                yield own, _SYNONYMS[synonym.scope], Literal(synonym.desc)
            elif tag == "name":
                yield own, v.LABEL, Literal(clause.name)
            elif tag == "relationship":
                yield from self._some(own, v.SUB_CLASS_OF, clause)
            elif tag == "intersection_of":
                genus.append(clause)
            elif tag == "alt_id":
                yield iri(clause.alt_id), v.EQUIVALENT_CLASS, own
            elif tag == "union_of":
                union.append(iri(clause.term))
            elif tag == "disjoint_from":
                yield own, v.DISJOINT_WITH, iri(clause.term)
            elif tag == "equivalent_to":
                yield own, v.EQUIVALENT_CLASS, iri(clause.term)
        if genus:
            yield from self._intersection(own, genus)
        if union:
            node = self._blank()
            yield own, v.EQUIVALENT_CLASS, node
            yield node, v.TYPE, v.CLASS
            yield from self._list(node, v.UNION_OF, union)

    def typedef(self, frame: Any) -> Iterator[Triple]:
        clauses = [(clause.raw_tag(), clause) for clause in frame]
        flags = {tag for tag, clause in clauses if str(clause).endswith(": true")}
        if "is_obsolete" in flags:
            return
        own = self.iri(frame.id)
        metadata = "is_metadata_tag" in flags
        yield own, v.TYPE, v.ANNOTATION_PROPERTY if metadata else v.OBJECT_PROPERTY
        for tag, kind in _CHARACTERISTICS.items():
            if tag in flags:
                yield own, v.TYPE, kind
        for tag, clause in clauses:
            simple = _TYPEDEF_TRIPLES.get(tag)
            if simple is not None:
                yield own, simple[0], self.iri(simple[1](clause))
            elif tag == "name":
                yield own, v.LABEL, Literal(clause.name)
            elif tag == "transitive_over":
                yield from self._list(own, v.PROPERTY_CHAIN, [own, self.iri(clause.typedef)])
            elif tag in ("holds_over_chain", "equivalent_to_chain"):
                links = [self.iri(clause.first), self.iri(clause.last)]
                yield from self._list(own, v.PROPERTY_CHAIN, links)

    def _some(self, subject: str, predicate: str, clause: Any) -> Iterator[Triple]:
        node = self._blank()
        yield subject, predicate, node
        yield from self._restriction(node, clause)

    def _restriction(self, node: str, clause: Any) -> Iterator[Triple]:
        yield node, v.TYPE, v.RESTRICTION
        yield node, v.ON_PROPERTY, self.iri(clause.typedef)
        yield node, v.SOME_VALUES_FROM, self.iri(clause.term)

    def _intersection(self, own: str, clauses: list[Any]) -> Iterator[Triple]:
        node = self._blank()
        yield own, v.EQUIVALENT_CLASS, node
        yield node, v.TYPE, v.CLASS
        parts: list[str] = []
        for clause in clauses:
            if clause.typedef is None:
                parts.append(self.iri(clause.term))
            else:
                part = self._blank()
                yield from self._restriction(part, clause)
                parts.append(part)
        yield from self._list(node, v.INTERSECTION_OF, parts)

    def _list(self, subject: str, predicate: str, items: list[str]) -> Iterator[Triple]:
        for item in items:
            cell = self._blank()
            yield subject, predicate, cell
            yield cell, v.FIRST, item
            subject, predicate = cell, v.REST
        yield subject, predicate, v.NIL

    def _blank(self) -> str:
        self._blanks += 1
        # Not what any parser writes, so blank nodes of several documents stay apart.
        return f"_:obo{id(self):x}n{self._blanks}"


_CHARACTERISTICS = {
    "is_transitive": v.TRANSITIVE_PROPERTY,
    "is_symmetric": v.SYMMETRIC_PROPERTY,
    "is_functional": v.FUNCTIONAL_PROPERTY,
    "is_inverse_functional": v.INVERSE_FUNCTIONAL_PROPERTY,
    "is_reflexive": v.OWL + "ReflexiveProperty",
}
_TYPEDEF_TRIPLES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "is_a": (v.SUB_PROPERTY_OF, lambda clause: clause.typedef),
    "inverse_of": (v.INVERSE_OF, lambda clause: clause.typedef),
    "equivalent_to": (v.EQUIVALENT_PROPERTY, lambda clause: clause.typedef),
    "domain": (v.DOMAIN, lambda clause: clause.domain),
    "range": (v.RANGE, lambda clause: clause.range),
}
