"""A publisher's agent: what it publishes about, told when that changes."""

from __future__ import annotations

from collections import deque

from kbn.filters import Notification, terms_named_in
from kbn.management.reports import PublisherInfo
from kbn.placement import RunningMedoid, SemanticMap

WINDOW = 1000
"""A publisher is about what its last so many notifications name."""


class PublisherAgent:
    """Follows what one publisher publishes; `publisher` is the id instructions are sent to."""

    def __init__(self, publisher: str, semantic_map: SemanticMap, window: int = WINDOW) -> None:
        self._publisher = publisher
        self._centre = RunningMedoid(semantic_map)
        self._recent: deque[list[str]] = deque()
        self._window = window
        self._told: tuple[str | None, str | None] | None = None

    def publishing(self, notification: Notification) -> None:
        """A notification is about to be published."""
        terms = [term.iri for term in terms_named_in(notification)]
        if not terms:
            return
        self._centre.add(terms)
        self._recent.append(terms)
        if len(self._recent) > self._window:
            self._centre.remove(self._recent.popleft())

    def info(self, broker: str | None, *, again: bool = False) -> PublisherInfo | None:
        """What to report: None when nothing is new, unless it is wanted `again`."""
        medoid = self._centre.medoid()
        # The spread changes with every notification, and moves nobody.
        if (broker, medoid.term) == self._told and not again:
            return None
        self._told = (broker, medoid.term)
        return PublisherInfo(self._publisher, broker, medoid.term, medoid.spread)
