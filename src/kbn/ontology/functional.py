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
        reason, line = _explained(str(error), text)
        raise OntologyError(
            f"not well-formed {_SPOKEN[form]}: {reason}", path=name, line=line
        ) from error


def _explained(message: str, text: str) -> tuple[str, int | None]:
    """The library's message in few words, and the line it points to."""
    message = message.removeprefix("Failed to open ontology: ")
    place = re.search(r"(?:BytePosition|ByteSpan)\((\d+)", message)
    line = None
    if place:
        before = text.encode()[: int(place.group(1))]
        line = before.count(b"\n") + 1
    expected = re.search(r"positives: \[([^\]]*)\].*?line: \"([^\"]*)\"", message)
    if expected:
        return f"expected {expected.group(1)} at {expected.group(2).strip()!r}", line
    plain = re.search(r"\w+Error\(\"([^\"]*)\"", message)
    return (plain.group(1) if plain else " ".join(message.split())), line
