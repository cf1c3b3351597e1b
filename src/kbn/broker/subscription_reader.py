"""Reading subscriptions: from text or JSON, each once."""

from __future__ import annotations

from collections.abc import Mapping

from kbn.filters import Subscription, check_parts, decode_json
from kbn.ontology import Ontology

READ_BYTES_MAX = 4 << 20
"""What is remembered takes so much memory, about: only what many clients ask for comes again."""
# A parsed subscription takes several times its text, and some room however short that is.
PARSED_SHARE = 8
PARSED_BYTES = 1024


class SubscriptionReader:
    """Remembers what it has read; `clear` it when the ontology changes, with its prefixes."""

    __slots__ = ("_read", "size")

    def __init__(self) -> None:
        self._read: dict[tuple[str, bool], Subscription] = {}
        self.size = 0

    def read(
        self, text: str, ontology: Ontology | None, *, is_text: bool, tokens_max: int | None = None
    ) -> Subscription:
        """The subscription in a text, or in JSON; a KbnError when there is none.

        LimitError when it has more than `tokens_max` tokens (as JSON, values): it is not read then.
        """
        known = self._read.get((text, is_text))
        if known is None:
            prefixes = None if ontology is None else ontology.prefixes
            known = _parsed(text, prefixes, tokens_max) if is_text else _decoded(text, tokens_max)
            self._remember(text, is_text, known)
        return known

    def clear(self) -> None:
        self._read.clear()
        self.size = 0

    def _remember(self, text: str, is_text: bool, read: Subscription) -> None:
        """Remember one, after all others are forgotten if there is too much of it.

        One that would take all the room by itself is not remembered.
        """
        size = PARSED_BYTES + PARSED_SHARE * len(text)
        if size > READ_BYTES_MAX:
            return
        if self.size + size > READ_BYTES_MAX:
            self.clear()
        self.size += size
        self._read[text, is_text] = read


def _parsed(text: str, prefixes: Mapping[str, str] | None, tokens_max: int | None) -> Subscription:
    if tokens_max is None:
        return Subscription.parse(text, prefixes)
    return Subscription.parse(text, prefixes, tokens_max=tokens_max)


def _decoded(text: str, tokens_max: int | None) -> Subscription:
    data = decode_json(text)
    if tokens_max is not None:
        check_parts(data, tokens_max)
    return Subscription.from_json(data)
