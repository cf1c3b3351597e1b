"""Unknown terms: what a broker does about notifications with terms that nobody can interpret.

Such a notification is passed on: another broker may use another ontology, and a term equals itself.
But mostly it is a mistake, so it is counted and its publisher is told (`told_terms.py`), or it is
refused, as the settings have it. Only the broker of the publisher looks at it.
"""

from __future__ import annotations

from collections.abc import Iterator

from kbn.broker.client_session import ClientSession
from kbn.broker.interests import Interests
from kbn.broker.messages import Grant, TermNote
from kbn.broker.outbox import Outbox
from kbn.broker.settings import UnknownTermsMode
from kbn.broker.told_terms import ToldTerms
from kbn.errors import UnknownTermError
from kbn.filters import Notification, UnknownTerm
from kbn.ontology import Ontology

FOUND_MAX = 16
"""So many unknown terms are looked for in one notification."""
SUGGESTED_AMONG_MAX = 4_000
"""Terms of an ontology among which the closest ones are looked for, to suggest them."""
SUGGESTED_COST = 2  # units of work for each term of the ontology
SENTENCE_CHARACTERS_MAX = 400
CONTENT_BYTES = 256  # of a content, for one unit of work


class UnknownTerms:
    """Looks at the terms of what clients publish; `count` counts notifications with unknown ones.

    What a subscription wants is no business of `refuse`: a class where individuals are wanted is
    told.
    """

    __slots__ = ("_interests", "_mode", "_outbox", "count")

    def __init__(self, mode: UnknownTermsMode, outbox: Outbox, interests: Interests) -> None:
        self.count = 0
        self._mode = mode
        self._outbox = outbox
        self._interests = interests

    def look_at(self, notification: Notification, size: int, session: ClientSession) -> None:
        """Count and tell the unknown terms of a notification; or raise `UnknownTermError`."""
        table = self._interests.table
        if table.ontology is None or self._mode == "ignore":
            return
        self._outbox.work.done += size // CONTENT_BYTES
        found = table.unknown_terms(notification, FOUND_MAX)
        if not found:
            return
        self.count += 1
        if self._mode == "refuse":
            for each in found:
                if not each.wanted:
                    reason = self._sentence(each, table.ontology)
                    raise UnknownTermError(each.term.iri, kind=each.term.kind, reason=reason)
        self._tell(found, table.ontology, session)

    def _tell(
        self, found: tuple[UnknownTerm, ...], ontology: Ontology, session: ClientSession
    ) -> None:
        told = session.told_terms
        if told is None:
            told = session.told_terms = ToldTerms(self._outbox.now)
        told.notifications += 1
        for each in found:
            name = (each.attribute, each.term.kind, cut(each.term.iri))
            if told.is_new(*name):
                told.add(TermNote(*name, self._sentence(each, ontology), each.known_as))
        if told.may_tell(self._outbox.now):
            self._outbox.send(session.peer, grant_of(session))

    def _sentence(self, unknown: UnknownTerm, ontology: Ontology) -> str:
        """What is wrong; with what may have been meant, where that is found quickly."""
        units = suggesting(ontology)
        if units == 0:
            return cut(str(unknown))
        self._outbox.work.done += units
        return cut(str(unknown.error(ontology)))


def suggesting(ontology: Ontology | None) -> int:
    """What it costs to look for terms that may have been meant; nothing where there are so many
    that it is not done.
    """
    if ontology is None:
        return 0
    terms = len(ontology.classes) + len(ontology.properties) + len(ontology.individuals)
    return SUGGESTED_COST * (1 + terms) if terms <= SUGGESTED_AMONG_MAX else 0


def grant_of(session: ClientSession) -> Grant:
    """What a publisher may publish, and what it is to know of what it has published."""
    granted, dropped = session.publications.granted, session.deliveries.dropped
    told = session.told_terms
    if told is None:
        return Grant(granted, dropped)
    return Grant(granted, dropped, told.notifications, told.take())


def grants_of(session: ClientSession) -> Iterator[Grant]:
    """All that a publisher is to know; nothing when that is nothing new."""
    told = session.told_terms
    while told is not None and told.has_more:
        yield grant_of(session)


def cut(text: str, longest: int = SENTENCE_CHARACTERS_MAX) -> str:
    """The text, or its beginning when it is long."""
    return text if len(text) <= longest else text[: longest - 1] + "…"
