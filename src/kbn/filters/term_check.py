"""The terms of a notification that an ontology does not know as what they are used for.

Such a term is no error: it equals only itself, and a broker passes on what it cannot interpret. But
it is mostly a mistake, and one that shows only in what does not arrive, so whoever publishes is
told. Without an ontology, or with an empty one, no term is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING

from kbn.errors import UnknownTermError
from kbn.filters.mentions import terms_named_in
from kbn.filters.notification import as_notification
from kbn.filters.vocabulary import expanded
from kbn.wording import close_names

if TYPE_CHECKING:
    from kbn.filters.notification import Notification
    from kbn.ontology import Ontology, Term

__all__ = ["TermCheck", "UnknownTerm", "unknown_terms"]

_PLAIN = frozenset({bool, int, float, str, bytes, datetime})
REMEMBERED_MAX = 16_384
REMEMBERED_IRI_MAX = 256
"""So many terms are remembered, with IRIs no longer than this."""


@dataclass(frozen=True)
class UnknownTerm:
    """A term of a notification that the ontology does not know, or knows as something else."""

    attribute: str
    term: Term
    """As the notification has it."""
    known_as: tuple[str, ...]
    """The kinds that the ontology knows it as; empty when it does not know it at all."""
    wanted: str = ""
    """The kind that subscriptions ask for instead, where the ontology knows it as what it is."""

    def __str__(self) -> str:
        if self.wanted:
            return (
                f"{self.attribute}: <{self.term.iri}> is a class, and subscriptions ask for an "
                f"{self.wanted} here (@=); @> asks for classes"
            )
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
        form: dict[str, object] = {
            "attribute": self.attribute,
            "term": {self.term.kind: self.term.iri},
            "known_as": list(self.known_as),
        }
        return {**form, "wanted": self.wanted} if self.wanted else form


class TermCheck:
    """Finds the unknown terms of many notifications; what is found of a term is remembered.

    >>> from kbn.data import path
    >>> from kbn.ontology import Class, Ontology
    >>> check = TermCheck(Ontology.load(path("animals")))
    >>> [str(each) for each in check.unknown_in({"x": Class("animals:Human"), "age": 3})]
    []
    """

    __slots__ = ("_known_as", "_ontology", "is_idle")

    def __init__(self, ontology: Ontology | None) -> None:
        self._ontology = ontology
        self.is_idle = ontology is None or not (
            ontology.classes or ontology.properties or ontology.individuals
        )
        """Whether nothing is unknown, because nothing is known."""
        self._known_as: dict[Term, tuple[str, ...] | None] = {}

    def terms_of(self, attributes: Mapping[str, object]) -> list[tuple[str, Term]]:
        """Each term that is named, with its attribute; quick where there is none."""
        found: list[tuple[str, Term]] = []
        for attribute, value in attributes.items():
            if value.__class__ not in _PLAIN:
                found += [(attribute, term) for term in terms_named_in(value)]  # type: ignore[arg-type]
        return found

    def unknown_in(self, attributes: Mapping[str, object]) -> Iterator[UnknownTerm]:
        """The unknown terms, each as often as it is named, as they are found."""
        if not self.is_idle:
            yield from self.unknown_among(self.terms_of(attributes))

    def unknown_among(self, named: list[tuple[str, Term]]) -> Iterator[UnknownTerm]:
        """Those among the terms of a notification that are unknown, as they are found."""
        known_as = self._known_as
        for attribute, term in named:
            kinds = known_as[term] if term in known_as else self._look_up(term)
            if kinds is not None:
                yield UnknownTerm(attribute, term, kinds)

    def _look_up(self, term: Term) -> tuple[str, ...] | None:
        """The kinds of a term that is not known as what it is used for; None for one that is."""
        assert self._ontology is not None
        kinds = self._ontology.kinds(expanded(term, self._ontology).iri)
        is_known = bool(kinds) if term.kind == "term" else term.kind in kinds
        found = None if is_known else tuple(sorted(kinds))
        if len(term.iri) <= REMEMBERED_IRI_MAX:
            if len(self._known_as) >= REMEMBERED_MAX:
                self._known_as.clear()
            self._known_as[term] = found
        return found


def unknown_terms(
    notification: Notification | Mapping[str, object],
    ontology: Ontology | None,
    at_most: int | None = None,
) -> tuple[UnknownTerm, ...]:
    """The terms in `notification` that `ontology` does not know as what they are used for.

    >>> from kbn.data import path
    >>> from kbn.ontology import Class, Ontology
    >>> animals = Ontology.load(path("animals"))
    >>> found = unknown_terms({"x": Class("animals:Human"), "y": Class("animals:Humn")}, animals)
    >>> [each.attribute for each in found]
    ['y']
    """
    found = TermCheck(ontology).unknown_in(as_notification(notification).attributes)
    return tuple(dict.fromkeys(islice(found, at_most)))
