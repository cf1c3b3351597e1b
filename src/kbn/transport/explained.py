"""What a broker has explained, as the library says it."""

from __future__ import annotations

from kbn.broker import Explained
from kbn.filters import (
    Explanation,
    Notification,
    UnknownTerm,
    Verdict,
    constraint_from_json,
    decode_json,
)
from kbn.ontology import Class, Individual, Link, Property, Term

KINDS: dict[str, type[Term]] = {"class": Class, "property": Property, "individual": Individual}


def explanation_of(explained: Explained, given: Notification) -> Explanation:
    """The explanation in an answer about a notification that was handed in."""
    filters = []
    for each in explained.filters:
        verdicts = []
        for note in each:
            constraint = constraint_from_json(decode_json(note.constraint))
            value = given.attributes.get(constraint.attribute)
            links = tuple(Link(*link) for link in note.links)
            verdicts.append(Verdict(constraint, value, note.accepted, note.reason, links))
        filters.append(tuple(verdicts))
    unknown = (
        UnknownTerm(note.attribute, KINDS.get(note.kind, Term)(note.iri), note.known_as)
        for note in explained.unknown
    )
    return Explanation(tuple(filters), tuple(unknown))
