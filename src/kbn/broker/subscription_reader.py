"""Reading subscriptions: from text or JSON, each once."""

from __future__ import annotations

from kbn.filters import Subscription
from kbn.ontology import Ontology

READ_MAX = 65_536


class SubscriptionReader:
    """Remembers what it has read; `clear` it when the ontology changes, with its prefixes."""

    __slots__ = ("_read",)

    def __init__(self) -> None:
        self._read: dict[tuple[str, bool], Subscription] = {}

    def read(self, text: str, ontology: Ontology | None, *, is_text: bool) -> Subscription:
        """The subscription in a text, or in JSON; a KbnError when there is none."""
        known = self._read.get((text, is_text))
        if known is None:
            if len(self._read) >= READ_MAX:
                self._read.clear()
            prefixes = None if ontology is None else ontology.prefixes
            known = Subscription.parse(text, prefixes) if is_text else Subscription.from_json(text)
            self._read[text, is_text] = known
        return known

    def clear(self) -> None:
        self._read.clear()
