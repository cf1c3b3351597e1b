"""OWL functional syntax and OWL/XML, by way of py-horned-owl, as RDF/XML.

The rest of the room reads triples only, so these two formats are turned into RDF/XML once and then
read like any other file.
"""

from __future__ import annotations

import re
from typing import Literal

from kbn.errors import OntologyError

_CODES: dict[str, Literal["ofn", "owx"]] = {"functional": "ofn", "owlxml": "owx"}
_SPOKEN = {"functional": "OWL functional syntax", "owlxml": "OWL/XML"}


def to_rdf_xml(content: bytes, form: str, name: str) -> bytes:
    """The document as RDF/XML; OntologyError with the line when it is malformed."""
    import pyhornedowl

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
    line, found = None, ""
    if place:
        content, offset = text.encode(), int(place.group(1))
        line = content.count(b"\n", 0, offset) + 1
        found = _found(content[offset:])
    expected = re.search(r"positives: \[([^\]]*)\]", message)
    if expected:
        return f"expected {_in_words(expected.group(1))}{found}", line
    plain = re.search(r"\w+Error\(\"([^\"]*)\"", message)
    if plain:
        return plain.group(1), line
    return f"the reader does not take it{found}", line


def _xml_fault(text: str) -> tuple[str, int] | None:
    """What is wrong with it as XML, and the line; None when the XML as such is well formed."""
    from xml.parsers import expat

    try:
        expat.ParserCreate("utf-8").Parse(text.encode(), True)
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code)
        is_cut_off = reason == expat.errors.XML_ERROR_NO_ELEMENTS
        return "the file ends too soon" if is_cut_off else reason, error.lineno
    return None


_WORDS = {
    "OntologyDocument": "Prefix(…) or Ontology(…)",
    "OntologyAxiom": "an axiom",
    "FullIRI": "an IRI",
    "EOI": "the end of the file",
}


def _in_words(rules: str) -> str:
    """Names of grammar rules, `OntologyAxiom, FullIRI`, as a person says them."""
    names = [name.strip() for name in rules.split(",")]
    spoken = [re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name) for name in names]
    return " or ".join(_WORDS.get(n, s) for n, s in zip(names, spoken, strict=True))


def _found(rest: bytes) -> str:
    """What stands where something else was expected."""
    left = rest.decode("utf-8", "replace").strip()
    return f" at {left.splitlines()[0][:100]!r}" if left else ", and the file ends"
