"""Reading many subscriptions: what one says, another said before.

A million subscriptions are made of far fewer constraints. A text that is plainly a conjunction is
cut at its `and`s, and each part is parsed once. Any text that could be something else (an `or`,
brackets, quotes that hold an `and`, a comment) is parsed as a whole, so the answer is that of
`parse` for every text; only the time differs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kbn.errors import InvalidInputError
from kbn.filters.model import Constraint, Filter, Subscription
from kbn.filters.parsing import parse
from kbn.filters.term_resolution import resolve_terms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kbn.ontology import Ontology

REMEMBERED_BYTES_MAX = 1 << 25
PART_BYTES = 600
"""What a part takes besides its text: its constraints and its place in a dictionary."""

# With any of these a text may mean something else than its parts do: escapes, brackets, other
# quotes, several lines, `||`, comments, declarations.
_NOT_PLAIN = re.compile(r"[\\()'`\n\r|]|#(?![<>=])|\bprefix\b", re.IGNORECASE)
_IRI = re.compile(r"\b(?:class|property|individual|term)\(<[A-Za-z][^<>\s]*>\)|<[A-Za-z][^<>\s]*>")
_AND = " and "


class BulkReader:
    """Reads subscriptions, texts or JSON forms, with one ontology.

    >>> reader = BulkReader()
    >>> reader.read('price < 20 and kind = "book"') == parse('price < 20 and kind = "book"')
    True
    """

    def __init__(
        self, ontology: Ontology | None = None, prefixes: Mapping[str, str] | None = None
    ) -> None:
        """`prefixes` are the ontology's unless they are given."""
        self._ontology = ontology
        known = None if ontology is None else ontology.prefixes
        self._prefixes = known if prefixes is None else prefixes
        self._parts: dict[str, tuple[Constraint, ...] | None] = {}
        self.remembered_bytes = 0

    def read(self, text: str | dict[str, Any] | list[Any]) -> Subscription:
        """The subscription a text or a JSON form stands for; unknown terms are errors."""
        if isinstance(text, (dict, list)):
            return resolve_terms(Subscription.from_json(text), self._ontology)
        if not isinstance(text, str):
            raise InvalidInputError(f"a subscription's text is a string, not {text!r}"[:200])
        if text.lstrip()[:1] in ("{", "["):
            return resolve_terms(Subscription.from_json(text), self._ontology)
        # An IRI may hold a # that starts no comment; the lexer knows it by the same signs.
        if _NOT_PLAIN.search(_IRI.sub("", text)) is None:
            constraints: list[Constraint] = []
            for part in text.split(_AND):
                found = self.part(part)
                if found is None:
                    return self._whole(text)
                constraints += found
            return Subscription.trusted((Filter(constraints),))
        return self._whole(text)

    def part(self, text: str) -> tuple[Constraint, ...] | None:
        """The constraints of a part, None when it cannot stand alone."""
        try:
            return self._parts[text]
        except KeyError:
            pass
        found = None
        if text.count('"') % 2 == 0:
            try:
                filters = self._whole(text).filters
            except InvalidInputError:
                filters = ()  # the whole text says better where the mistake is
            if len(filters) == 1:
                found = filters[0].constraints
        self.remembered_bytes += PART_BYTES + len(text)
        if self.remembered_bytes > REMEMBERED_BYTES_MAX:
            self._parts.clear()
            self.remembered_bytes = PART_BYTES + len(text)
        self._parts[text] = found
        return found

    def _whole(self, text: str) -> Subscription:
        return parse(text, self._prefixes, self._ontology)
