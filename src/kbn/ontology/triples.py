"""RDF triples as plain tuples, and the way from and to pyoxigraph.

A triple is `(subject, predicate, object)`. An IRI is a plain string, a blank node a string that
starts with `_:` (no IRI does), a literal a `Literal`. That is all the rest of the room needs to
know about RDF, so another parser can take pyoxigraph's place in this one file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from kbn.ontology.vocabulary import XSD

if TYPE_CHECKING:
    import pyoxigraph as ox

STRING = XSD + "string"


class Literal(NamedTuple):
    """A literal: its text, its datatype's IRI, and its language tag ("" when it has none)."""

    value: str
    datatype: str = STRING
    language: str = ""


Object = str | Literal
Triple = tuple[str, str, Object]


def from_quads(quads: Iterable[ox.Quad]) -> Iterator[Triple]:
    """The triples of parsed quads; RDF-star subjects and objects are left out."""
    import pyoxigraph as ox

    iri, blank, literal = ox.NamedNode, ox.BlankNode, ox.Literal
    for quad in quads:
        subject, node = quad.subject, quad.object
        if type(subject) is iri:
            start = subject.value
        elif type(subject) is blank:
            start = "_:" + subject.value
        else:
            continue
        if type(node) is iri:
            yield start, quad.predicate.value, node.value
        elif type(node) is blank:
            yield start, quad.predicate.value, "_:" + node.value
        elif type(node) is literal:
            yield (
                start,
                quad.predicate.value,
                Literal(node.value, node.datatype.value, node.language or ""),
            )


def serialise(triples: Iterable[Triple], path: str, *, xml: bool) -> None:
    """Write `triples` to `path` as RDF/XML or as N-Triples."""
    import pyoxigraph as ox

    form = ox.RdfFormat.RDF_XML if xml else ox.RdfFormat.N_TRIPLES
    ox.serialize((_to_ox(triple) for triple in triples), output=path, format=form)


def _to_ox(triple: Triple) -> ox.Triple:
    import pyoxigraph as ox

    subject, predicate, node = triple
    start = ox.BlankNode(subject[2:]) if subject.startswith("_:") else ox.NamedNode(subject)
    end: ox.NamedNode | ox.BlankNode | ox.Literal
    if isinstance(node, Literal):
        if node.language:
            end = ox.Literal(node.value, language=node.language)
        else:
            end = ox.Literal(node.value, datatype=ox.NamedNode(node.datatype))
    else:
        end = ox.BlankNode(node[2:]) if node.startswith("_:") else ox.NamedNode(node)
    return ox.Triple(start, ox.NamedNode(predicate), end)
