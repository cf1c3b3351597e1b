"""Reading subscriptions: from text or JSON, each once."""

from __future__ import annotations

from collections.abc import Mapping

from kbn.filters import Subscription, check_parts, decode_json
from kbn.ontology import Ontology

READ_MAX = 65_536


class SubscriptionReader:
    """Remembers what it has read; `clear` it when the ontology changes, with its prefixes."""

    __slots__ = ("_read",)

    def __init__(self) -> None:
        self._read: dict[tuple[str, bool], Subscription] = {}

    def read(
        self, text: str, ontology: Ontology | None, *, is_text: bool, tokens_max: int | None = None
    ) -> Subscription:
        """The subscription in a text, or in JSON; a KbnError when there is none.

        LimitError when it has more than `tokens_max` tokens (as JSON, values): it is not read then.
        """
        known = self._read.get((text, is_text))
        if known is None:
            if len(self._read) >= READ_MAX:
                self._read.clear()
            prefixes = None if ontology is None else ontology.prefixes
            known = _parsed(text, prefixes, tokens_max) if is_text else _decoded(text, tokens_max)
            self._read[text, is_text] = known
        return known

    def clear(self) -> None:
        self._read.clear()


def _parsed(text: str, prefixes: Mapping[str, str] | None, tokens_max: int | None) -> Subscription:
    if tokens_max is None:
        return Subscription.parse(text, prefixes)
    return Subscription.parse(text, prefixes, tokens_max=tokens_max)


def _decoded(text: str, tokens_max: int | None) -> Subscription:
    data = decode_json(text)
    if tokens_max is not None:
        check_parts(data, tokens_max)
    return Subscription.from_json(data)
