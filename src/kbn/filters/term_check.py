"""The terms of a notification that an ontology does not know as what they are used for.

Such a term is no error: it equals only itself, and a broker passes on what it cannot interpret. But
it is mostly a mistake, and one that shows only in what does not arrive, so whoever publishes is
told. Without an ontology, or with an empty one, no term is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kbn.errors import UnknownTermError
from kbn.filters.mentions import terms_named_in
from kbn.filters.notification import as_notification
from kbn.filters.vocabulary import expanded
from kbn.wording import close_names

if TYPE_CHECKING:
    from kbn.filters.notification import Notification
    from kbn.ontology import Ontology, Term

__all__ = ["UnknownTerm", "unknown_terms"]


@dataclass(frozen=True)
class UnknownTerm:
    """A term of a notification that the ontology does not know, or knows as something else."""

    attribute: str
    term: Term
    """As the notification has it."""
    known_as: tuple[str, ...]
    """The kinds that the ontology knows it as; empty when it does not know it at all."""

    def __str__(self) -> str:
        if self.known_as:
            kinds = " and ".join(self.known_as)
            return (
                f"{self.attribute}: <{self.term.iri}> is known as {kinds}, not as {self.term.kind}"
            )
        return (
            f"{self.attribute}: the ontology does not know the {self.term.kind} <{self.term.iri}>"
        )

    def error(self, ontology: Ontology) -> UnknownTermError:
        """The error that names the closest terms and prefixes; slower than `str`."""
        prefix, colon, _ = self.term.iri.partition(":")
        if colon and "://" not in self.term.iri and prefix not in ontology.prefixes:
            close = [f"{name}:" for name in close_names(prefix, ontology.prefixes) if name]
            if close:
                hint = f"; the prefix {prefix}: is not declared; did you mean {' or '.join(close)}?"
                return UnknownTermError(self.term.iri, kind=self.term.kind, reason=f"{self}{hint}")
        full = expanded(self.term, ontology)
        try:
            ontology.require(full.iri, self.term.kind)
        except UnknownTermError as error:
            reason = f"{self.attribute}: {error}"
            return UnknownTermError(self.term.iri, kind=self.term.kind, reason=reason)
        return UnknownTermError(self.term.iri, kind=self.term.kind, reason=str(self))

    def to_json(self) -> dict[str, object]:
        """The same as JSON-ready data."""
        return {
            "attribute": self.attribute,
            "term": {self.term.kind: self.term.iri},
            "known_as": list(self.known_as),
        }


def unknown_terms(
    notification: Notification | Mapping[str, object], ontology: Ontology | None
) -> tuple[UnknownTerm, ...]:
    """The terms in `notification` that `ontology` does not know as what they are used for.

    >>> from kbn.data import path
    >>> from kbn.ontology import Class, Ontology
    >>> animals = Ontology.load(path("animals"))
    >>> found = unknown_terms({"x": Class("animals:Human"), "y": Class("animals:Humn")}, animals)
    >>> [each.attribute for each in found]
    ['y']
    """
    if ontology is None or not (ontology.classes or ontology.properties or ontology.individuals):
        return ()
    found: dict[UnknownTerm, None] = {}
    for attribute, value in as_notification(notification).attributes.items():
        for term in terms_named_in(value):
            kinds = ontology.kinds(expanded(term, ontology).iri)
            if not kinds or (term.kind != "term" and term.kind not in kinds):
                found[UnknownTerm(attribute, term, tuple(sorted(kinds)))] = None
    return tuple(found)
