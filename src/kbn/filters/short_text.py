"""Filters as short as a person reads them: prefixes in place of long IRIs, labels beside codes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kbn.ontology import telling_label

if TYPE_CHECKING:
    from kbn.ontology import Ontology

_TERM = re.compile(r"(?:class|individual|property|term)\(<([^<>\s]+)>\)|<([^<>\s]+:[^<>\s]+)>")


def short_filter(text: str, ontology: Ontology) -> str:
    """A filter with CURIEs in place of IRIs, which for known terms also say the kind, and with
    the label of a term where that says more.

    >>> from kbn.ontology import Ontology
    >>> short_filter("topic @= class(<urn:x>)", Ontology.empty())
    'topic @= class(<urn:x>)'
    """

    def short(found: re.Match[str]) -> str:
        iri = found[1] or found[2]
        name, label = ontology.shorten(iri), telling_label(ontology, iri)
        shown = found[0] if name == iri else name
        return shown if label is None else f"{shown} ({label})"

    return _TERM.sub(short, text)
