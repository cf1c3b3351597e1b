"""Told terms: what a publisher is told of the unknown terms in what it publishes.

A publisher is told each term once on a connection, in a few messages: the first ones at once, then
one a second, or with an answer that it gets anyway. How many of its notifications had unknown terms
is in all of them.
"""

from __future__ import annotations

from kbn.broker.messages import TERMS_TOLD_MAX, TermNote

TOLD_MAX = 256
"""So many terms are told on one connection; of more, only the notifications are counted."""
AT_ONCE = 8
"""So many messages are sent at once before they are one a second."""


class ToldTerms:
    """What one publisher was told, and is to be told.

    >>> told = ToldTerms(now=0.0)
    >>> told.add(TermNote("x", "class", "urn:Tea", "no class <urn:Tea>"))
    >>> told.add(TermNote("x", "class", "urn:Tea", "no class <urn:Tea>"))
    >>> len(told.take()), len(told.take())
    (1, 0)
    """

    __slots__ = ("_allowed", "_at", "_known", "_waiting", "notifications")

    def __init__(self, now: float) -> None:
        self.notifications = 0
        self._known: set[tuple[str, str, str]] = set()
        self._waiting: list[TermNote] = []
        self._allowed = float(AT_ONCE)
        self._at = now

    @property
    def has_more(self) -> bool:
        """Whether there is something to tell."""
        return bool(self._waiting)

    def is_new(self, attribute: str, kind: str, iri: str) -> bool:
        """Whether a term is to be told."""
        return len(self._known) < TOLD_MAX and (attribute, kind, iri) not in self._known

    def add(self, note: TermNote) -> None:
        """Tell a term, unless it was told."""
        if self.is_new(note.attribute, note.kind, note.iri):
            self._known.add((note.attribute, note.kind, note.iri))
            self._waiting.append(note)

    def may_tell(self, now: float) -> bool:
        """Whether there is something to tell, and a message for it may be sent now."""
        if not self._waiting:
            return False
        self._allowed = min(AT_ONCE, self._allowed + max(0.0, now - self._at))
        self._at = now
        if self._allowed < 1.0:
            return False
        self._allowed -= 1.0
        return True

    def take(self) -> tuple[TermNote, ...]:
        """What one message may tell."""
        taken = tuple(self._waiting[:TERMS_TOLD_MAX])
        del self._waiting[:TERMS_TOLD_MAX]
        return taken
