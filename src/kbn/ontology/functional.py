"""OWL functional syntax and OWL/XML, by way of py-horned-owl, as RDF/XML.

The rest of the room reads triples only, so these two formats are turned into RDF/XML once and then
read like any other file.
"""

from __future__ import annotations

import re
from typing import Literal

from kbn.errors import MissingDependencyError, OntologyError

_CODES: dict[str, Literal["ofn", "owx"]] = {"functional": "ofn", "owlxml": "owx"}
_SPOKEN = {"functional": "OWL functional syntax", "owlxml": "OWL/XML"}


def to_rdf_xml(content: bytes, form: str, name: str) -> bytes:
    """The document as RDF/XML; OntologyError with the line when it is malformed."""
    try:
        import pyhornedowl
    except ImportError as error:
        raise MissingDependencyError(f"reading {_SPOKEN[form]}", extra="el") from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise OntologyError(f"is not UTF-8: {error}", path=name) from error
    try:
        ontology = pyhornedowl.open_ontology_from_string(text, _CODES[form])
        return str(ontology.save_to_string("owl")).encode()
    except Exception as error:
        reason, line = _explained(str(error), text, form)
        raise OntologyError(
            f"not well-formed {_SPOKEN[form]}: {reason}", path=name, line=line
        ) from error


def _explained(message: str, text: str, form: str) -> tuple[str, int | None]:
    """The library's message in few words, and the line it points to."""
    fault = _xml_fault(text) if form == "owlxml" else None
    if fault is not None:
        return fault
    place = re.search(r"(?:BytePosition|ByteSpan)\((\d+)", message)
    line = None
    if place:
        before = text.encode()[: int(place.group(1))]
        line = before.count(b"\n") + 1
    expected = re.search(r"positives: \[([^\]]*)\]", message)
    if expected:
        return f"expected {_in_words(expected.group(1))}{_shown(text, line)}", line
    plain = re.search(r"\w+Error\(\"([^\"]*)\"", message)
    if plain:
        return plain.group(1), line
    return f"the reader does not take it{_shown(text, line)}", line


def _xml_fault(text: str) -> tuple[str, int] | None:
    """What is wrong with it as XML, and the line; None when the XML as such is well formed."""
    from xml.parsers import expat

    try:
        expat.ParserCreate("utf-8").Parse(text.encode(), True)
    except expat.ExpatError as error:
        return expat.ErrorString(error.code), error.lineno
    return None


_WORDS = {"OntologyDocument": "Prefix(…) or Ontology(…)", "EOI": "the end of the file"}


def _in_words(rules: str) -> str:
    """Names of grammar rules, `OntologyAxiom, FullIRI`, as a person says them."""
    names = [name.strip() for name in rules.split(",")]
    spoken = [re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name) for name in names]
    return " or ".join(_WORDS.get(n, s) for n, s in zip(names, spoken, strict=True))


def _shown(text: str, line: int | None) -> str:
    lines = text.splitlines()
    found = lines[line - 1].strip()[:100] if line is not None and line <= len(lines) else ""
    return f" at {found!r}" if found else ""
