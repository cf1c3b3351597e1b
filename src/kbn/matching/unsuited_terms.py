"""Terms that the ontology knows and no subscription can accept where they stand.

`kind @= b:HVAC` asks for an individual. A notification whose `kind` is the class `b:Fan` never
satisfies it, however far below `b:HVAC` the class is. Where some constraints on the attribute are
of that sort and no other accepts the class, whoever publishes it is told.

A constraint counts until the index is made anew, even if the last subscription that had it is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kbn.filters import UnknownTerm, with_known_kind
from kbn.matching.tokens import TokenTable
from kbn.ontology import Class, Term


def classes_for_individuals(
    tables: Sequence[TokenTable], named: Iterable[tuple[str, Term]]
) -> Iterator[UnknownTerm]:
    """The classes among the terms of a notification that stand where individuals are wanted.

    The tables are those of all parts of one set of subscriptions, and have one ontology.
    """
    for attribute, term in named:
        found = [table.attributes.get(attribute) for table in tables]
        indexes = [index for index in found if index is not None]
        if not indexes or term.kind not in ("class", "term"):
            continue
        ontology = tables[0].ontology
        known = with_known_kind(term, ontology)
        if type(known) is not Class or "class" not in ontology.kinds(known.iri):
            continue
        # A term in a bag is looked at by what is asked of elements, any other by the rest.
        elements = [index.elements for index in indexes if index.elements is not None]
        asked = [*indexes, *elements]
        if not any(each.hits(known) for each in asked) and any(
            each.asks_for_individuals for each in asked
        ):
            yield UnknownTerm(attribute, term, ("class",), "individual")
