"""OBO files as triples.

An OBO file is a header and stanzas (`[Term]`, `[Typedef]`, `[Instance]`) of `tag: value` lines. The
mapping follows the format's own to OWL (identifier `GO:0008150` is `obo:GO_0008150`; a relation
with a cross-reference such as `BFO:0000050` takes that IRI), with two choices of ours:

- obsolete terms are skipped, because no subscription should be able to name them;
- an alternative id is a class equivalent to the term that took it over, so that a filter written
  with the old id still matches.

The lines are read here because a library that checks every definition and cross-reference needs
five times as long for the Gene Ontology, and a reasoner asks for none of those.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from kbn.errors import OntologyError
from kbn.ontology import vocabulary as v
from kbn.ontology.triples import Literal, Triple

_SYNONYM = re.compile(r'"((?:[^"\\]|\\.)*)"\s*(EXACT|BROAD|NARROW|RELATED)?')
_SYNONYM_PROPERTIES = {
    "EXACT": v.OBO_IN_OWL + "hasExactSynonym",
    "BROAD": v.OBO_IN_OWL + "hasBroadSynonym",
    "NARROW": v.OBO_IN_OWL + "hasNarrowSynonym",
    "RELATED": v.OBO_IN_OWL + "hasRelatedSynonym",
}
_ESCAPES = {"n": "\n", "W": " ", "t": "\t"}
_LINE = re.compile(r"[\w-]+:")

# Tags whose values mean nothing to a reasoner; skipped before any further look.
_IGNORED = {
    "def",
    "comment",
    "subset",
    "created_by",
    "creation_date",
    "namespace",
    "consider",
    "replaced_by",
    "xref",
    "builtin",
    "is_anonymous",
    "expand_assertion_to",
    "expand_expression_to",
}


# The commonest tags, for which no further look at the line is needed.
_USED = {"id", "name", "synonym", "is_a", "relationship", "intersection_of", "alt_id"}


@dataclass(slots=True)
class _Stanza:
    kind: str
    line: int
    clauses: list[tuple[str, str]] = field(default_factory=list)
    id: str = ""

    def is_true(self, tag: str) -> bool:
        return (tag, "true") in self.clauses


def read_obo(content: bytes, name: str) -> Iterator[Triple]:
    """The triples of an OBO document; OntologyError with the line when it is malformed."""
    return (triple for triple, _ in read_obo_with_lines(content, name))


def read_obo_with_lines(content: bytes, name: str) -> Iterator[tuple[Triple, int]]:
    """The same, each with the line on which its stanza starts."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise OntologyError(f"not well-formed OBO: {error.reason}", path=name, line=line) from error
    stanzas = _stanzas(text, name)
    naming = _Naming(next(stanzas), content)
    yield from ((triple, 1) for triple in naming.header_triples())
    mapping = _Mapping(naming, name)
    for stanza in stanzas:
        for triple in mapping.triples(stanza):
            yield triple, stanza.line


def obo_prefixes(content: bytes) -> dict[str, str]:
    """The id spaces in use: those declared, and `obo:PREFIX_` for the others."""
    head = content[: content.find(b"\n[")]
    declared = re.findall(rb"^idspace:\s*(\S+)\s+(\S+)", head, re.MULTILINE)
    used = set(re.findall(rb"^id:\s*([A-Za-z][\w.-]*):", content, re.MULTILINE))
    found = {prefix.decode(): f"{v.OBO}{prefix.decode()}_" for prefix in sorted(used)}
    found.update((key.decode(), space.decode("utf-8", "replace")) for key, space in declared)
    return found | {"obo": v.OBO}


def _stanzas(text: str, name: str) -> Iterator[_Stanza]:
    """The header as a stanza of kind "", then the stanzas in order."""
    stanza = _Stanza("", 1)
    for number, line in enumerate(text.split("\n"), 1):
        tag, colon, value = line.partition(":")
        if tag in _IGNORED:
            continue
        if colon and (tag in _USED or _LINE.match(line)):
            value = _plain(value, tag)
            if tag == "id":
                stanza.id = value
            else:
                stanza.clauses.append((tag, value))
        elif line.startswith("["):
            yield _checked(stanza, name)
            stanza = _Stanza(line.strip().strip("[]"), number)
        elif line.strip() and not line.startswith("!"):
            raise OntologyError(
                f"not well-formed OBO: expected 'tag: value' or '[Stanza]', found {line[:60]!r}",
                path=name,
                line=number,
            )
    yield _checked(stanza, name)


def _checked(stanza: _Stanza, name: str) -> _Stanza:
    if stanza.kind and not stanza.id:
        raise OntologyError(
            f"not well-formed OBO: a [{stanza.kind}] without an id", path=name, line=stanza.line
        )
    return stanza


def _plain(value: str, tag: str) -> str:
    """A value without its comment and its trailing modifiers."""
    if tag == "synonym":
        return value.strip()
    if "!" in value:
        value = value.partition(" ! ")[0]
    value = value.strip()
    if value.endswith("}") and not value.endswith("\\}"):
        value = value[: value.rfind("{")].rstrip()
    return value


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found.group(1), found.group(1)), text)


class _Naming:
    """How an identifier becomes an IRI, which the header and the typedefs decide."""

    def __init__(self, header: _Stanza, content: bytes) -> None:
        self.spaces: dict[str, str] = {}
        self.ontology = ""
        self.imports: list[str] = []
        for tag, value in header.clauses:
            match tag:
                case "idspace":
                    prefix, _, rest = value.partition(" ")
                    self.spaces[prefix] = rest.split(" ")[0]
                case "ontology":
                    self.ontology = value
                case "import":
                    self.imports.append(value)
        self.relations = _relation_names(content)
        self._known: dict[str, str] = {}

    def header_triples(self) -> Iterator[Triple]:
        """The ontology's own name and what it imports."""
        own = self.ontology_iri(self.ontology) if self.ontology else "_:ontology"
        yield own, v.TYPE, v.ONTOLOGY
        for reference in self.imports:
            yield own, v.IMPORTS, self.ontology_iri(reference)

    def ontology_iri(self, name: str) -> str:
        return name if "://" in name else f"{v.OBO}{name}.owl"

    def iri(self, identifier: str) -> str:
        """The IRI of an identifier."""
        found = self._known.get(identifier)
        if found is None:
            found = self._known[identifier] = self._make(identifier)
        return found

    def _make(self, text: str) -> str:
        text = _unescaped(self.relations.get(text, text))
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
    """Stanzas to triples; numbers the blank nodes it needs."""

    def __init__(self, naming: _Naming, name: str) -> None:
        self.iri = naming.iri
        self.name = name
        self._blanks = 0

    def triples(self, stanza: _Stanza) -> Iterator[Triple]:
        if stanza.is_true("is_obsolete"):
            return
        match stanza.kind:
            case "Term":
                yield from self._term(stanza)
            case "Typedef":
                yield from self._typedef(stanza)
            case "Instance":
                yield from self._instance(stanza)

    def _term(self, stanza: _Stanza) -> Iterator[Triple]:
        iri = self.iri
        own = iri(stanza.id)
        yield own, v.TYPE, v.CLASS
        genus: list[str] = []
        union: list[str] = []
        for tag, value in stanza.clauses:
            if tag == "is_a":
                yield own, v.SUB_CLASS_OF, iri(value)
            elif tag == "synonym" or tag == "name":
                yield self._label(own, tag, value, stanza)
            elif tag == "relationship":
                node = self._blank()
                yield own, v.SUB_CLASS_OF, node
                yield from self._restriction(node, value, stanza)
            elif tag == "intersection_of":
                genus.append(value)
            elif tag == "alt_id":
                yield iri(value), v.EQUIVALENT_CLASS, own
            elif tag == "union_of":
                union.append(iri(value))
            elif tag == "disjoint_from":
                yield own, v.DISJOINT_WITH, iri(value)
            elif tag == "equivalent_to":
                yield own, v.EQUIVALENT_CLASS, iri(value)
        if genus:
            yield from self._intersection(own, genus, stanza)
        if union:
            yield from self._list(own, v.UNION_OF, union)

    def _typedef(self, stanza: _Stanza) -> Iterator[Triple]:
        own = self.iri(stanza.id)
        metadata = stanza.is_true("is_metadata_tag")
        yield own, v.TYPE, v.ANNOTATION_PROPERTY if metadata else v.OBJECT_PROPERTY
        for tag, kind in _CHARACTERISTICS.items():
            if stanza.is_true(tag):
                yield own, v.TYPE, kind
        for tag, value in stanza.clauses:
            if tag in _TYPEDEF_PROPERTIES:
                yield own, _TYPEDEF_PROPERTIES[tag], self.iri(value)
            elif tag in ("name", "synonym"):
                yield self._label(own, tag, value, stanza)
            elif tag == "transitive_over":
                yield from self._list(own, v.PROPERTY_CHAIN, [own, self.iri(value)])
            elif tag in ("holds_over_chain", "equivalent_to_chain"):
                links = [self.iri(link) for link in value.split()]
                yield from self._list(own, v.PROPERTY_CHAIN, links)

    def _instance(self, stanza: _Stanza) -> Iterator[Triple]:
        own = self.iri(stanza.id)
        yield own, v.TYPE, v.NAMED_INDIVIDUAL
        for tag, value in stanza.clauses:
            if tag == "instance_of":
                yield own, v.TYPE, self.iri(value)
            elif tag in ("name", "synonym"):
                yield self._label(own, tag, value, stanza)
            elif tag in ("relationship", "property_value") and '"' not in value:
                name, node = self._two(value, stanza)
                yield own, self.iri(name), self.iri(node)

    def _label(self, own: str, tag: str, value: str, stanza: _Stanza) -> Triple:
        if tag == "name":
            return own, v.LABEL, Literal(_unescaped(value))
        found = _SYNONYM.match(value)
        if found is None:
            raise self._malformed(stanza, f"the synonym {value[:60]!r} is not quoted")
        scope = found.group(2) or "RELATED"
        return own, _SYNONYM_PROPERTIES[scope], Literal(_unescaped(found.group(1)))

    def _two(self, value: str, stanza: _Stanza) -> tuple[str, str]:
        parts = value.split()
        if len(parts) < 2:
            raise self._malformed(stanza, f"expected a relation and an identifier, found {value!r}")
        return parts[0], parts[1]

    def _malformed(self, stanza: _Stanza, reason: str) -> OntologyError:
        return OntologyError(
            f"not well-formed OBO: in the stanza of {stanza.id}: {reason}",
            path=self.name,
            line=stanza.line,
        )

    def _restriction(self, node: str, value: str, stanza: _Stanza) -> Iterator[Triple]:
        name, filler = self._two(value, stanza)
        yield node, v.TYPE, v.RESTRICTION
        yield node, v.ON_PROPERTY, self.iri(name)
        yield node, v.SOME_VALUES_FROM, self.iri(filler)

    def _intersection(self, own: str, values: list[str], stanza: _Stanza) -> Iterator[Triple]:
        parts: list[str] = []
        for value in values:
            if " " not in value:
                parts.append(self.iri(value))
                continue
            part = self._blank()
            yield from self._restriction(part, value, stanza)
            parts.append(part)
        node = self._blank()
        yield own, v.EQUIVALENT_CLASS, node
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
_TYPEDEF_PROPERTIES = {
    "is_a": v.SUB_PROPERTY_OF,
    "inverse_of": v.INVERSE_OF,
    "equivalent_to": v.EQUIVALENT_PROPERTY,
    "domain": v.DOMAIN,
    "range": v.RANGE,
}
