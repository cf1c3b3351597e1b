"""Terms by what people call them: IRI, CURIE, label, synonym, code or local name.

Two texts are the same name when they fold to the same text: case, accents, dashes and spaces do
not count, and `&` reads as `and`. The accents of Latin, Greek and Cyrillic letters are dropped;
the marks of other scripts make other words and stay.

One name may belong to several terms. They are put in one order, the same in every process: a
preferred label before a synonym, that before a name of something narrower, that before a code or
the last part of the IRI; then the text as it is written before one that only folds to it; then
classes, individuals, properties; then by IRI. `find` gives the first, `is_ambiguous` says that it
had to choose. Names of something broader and names that are only related (OBO's BROAD and RELATED)
find nothing: the term would say more than the text does.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import unquote

from kbn.errors import InvalidInputError
from kbn.ontology import vocabulary as v
from kbn.ontology.closest import local_name
from kbn.ontology.compiled import Ontology
from kbn.ontology.terms import Class, Individual, Property, Term

__all__ = ["NameIndex", "fold", "telling_label"]

_KINDS: tuple[type[Term], ...] = (Class, Individual, Property)
_KIND_NAMES = ("term", *(kind.kind for kind in _KINDS))
_TIERS = {v.PREFERRED: 0, v.SYNONYM: 1, v.HIDDEN: 1, v.NARROW: 2, v.CODE: 3}
_LOCAL_NAME_TIER = 3

_SEPARATORS = re.compile(r"[\s_:;,/\-\u2010-\u2015\u2212]+")
_ACCENTS = re.compile(r"[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]")
# Letters that Unicode does not take apart, and two ways to write one sign.
_ALIKE = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ħ": "h", "ı": "i", "æ": "ae", "œ": "oe", "’": "'", "ʼ": "'"}
)
_CAMEL = re.compile(r"(?<=[a-z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def fold(text: str) -> str:
    """The text without what does not count in a name.

    >>> fold("  Café_au  Lait "), fold("Fashion & Beauty"), fold("C++")
    ('cafe au lait', 'fashion and beauty', 'c++')
    """
    made = text.casefold()
    if not made.isascii():
        plain = _ACCENTS.sub("", unicodedata.normalize("NFKD", made)).casefold()
        made = unicodedata.normalize("NFKC", plain).translate(_ALIKE)
    if "&" in made:
        made = made.replace("&", " and ")
    return _SEPARATORS.sub(" ", made).strip()


def telling_label(ontology: Ontology, iri: str) -> str | None:
    """The label of a term where it says more than the last part of the IRI.

    >>> telling_label(Ontology.empty(), "urn:x#C03") is None
    True
    """
    label = ontology.label(iri)
    if label is None or fold(label).replace(" ", "") == fold(local_name(iri)).replace(" ", ""):
        return None
    return label


class _Entry(NamedTuple):
    """A term under one of its names; entries sort best first, but for the text as written."""

    tier: int
    text: str
    kind: int
    iri: str


class NameIndex:
    """Finds the terms of an ontology by name; built in one pass over its names.

    >>> index = NameIndex(Ontology.empty())
    >>> index.find("Wine") is None
    True
    """

    def __init__(self, ontology: Ontology) -> None:
        self._ontology = ontology
        self._entries: dict[str, list[_Entry]] = {}
        for kind, iris in enumerate((ontology.classes, ontology.individuals, ontology.properties)):
            for iri in iris:
                self._add(iri, kind)

    def find(self, text: str, kind: str | None = None) -> Term | None:
        """The term `text` names, as a `kind` when one is asked for; None when it names none."""
        return next(iter(self.all(text, kind)), None)

    def all(self, text: str, kind: str | None = None) -> tuple[Term, ...]:
        """Every term `text` names, best first; an IRI or CURIE names just one, per kind."""
        return tuple(dict.fromkeys(term for _, term in self._ranked(text, kind)))

    def is_ambiguous(self, text: str, kind: str | None = None) -> bool:
        """Whether several terms go by this name equally well, so that `find` takes the first."""
        ranked = self._ranked(text, kind)
        return len({term.iri for rank, term in ranked if rank == ranked[0][0]}) > 1

    def search(self, text: str) -> tuple[tuple[Term, str], ...]:
        """Every term with all words of `text` in one of its names, and that name; best first.

        A word may be part of a word. Names that start so come first, then by how good the name is.
        """
        wanted = fold(text)
        words = wanted.split()
        if not words:
            raise InvalidInputError("there is nothing to search for: give a word, or part of one")
        found = sorted(
            (name != wanted, not name.startswith(wanted), entry.tier, len(name), entry)
            for name, entries in self._entries.items()
            if all(word in name for word in words)
            for entry in entries
        )
        best: dict[Term, str] = {}
        for *_, entry in found:
            best.setdefault(_KINDS[entry.kind](entry.iri), entry.text)
        return tuple(best.items())

    def __len__(self) -> int:
        return len(self._entries)

    def _ranked(self, text: str, kind: str | None) -> list[tuple[tuple[int, bool], Term]]:
        """The terms, best first, each with how good its name is."""
        if kind is not None and kind not in _KIND_NAMES:
            raise InvalidInputError(f"a kind is one of {', '.join(_KIND_NAMES)}, not {kind!r}")
        name = text.strip()
        wanted = None if kind in (None, "term") else kind
        by_iri = self._by_iri(name, wanted)
        if by_iri:
            return [((-1, False), term) for term in by_iri]
        found = self._entries.get(fold(name), ())
        ranked = sorted((e.tier, e.text != name, e.kind, e.iri) for e in found)
        return [
            ((tier, folded), _KINDS[number](iri))
            for tier, folded, number, iri in ranked
            if wanted is None or _KINDS[number].kind == wanted
        ]

    def _by_iri(self, name: str, kind: str | None) -> list[Term]:
        for iri in self._iris(name):
            known = self._ontology.kinds(iri)
            terms = [one(iri) for one in _KINDS if one.kind in known and kind in (None, one.kind)]
            if terms:
                return terms
        return []

    def _iris(self, name: str) -> Iterator[str]:
        """What the name is if it is an IRI, in <> or not, or a CURIE."""
        if name.startswith("<") and name.endswith(">"):
            name = name[1:-1]
        yield name
        prefix, colon, rest = name.partition(":")
        namespace = self._ontology.prefixes.get(prefix) if colon else None
        if namespace is not None:
            yield namespace + rest

    def _add(self, iri: str, kind: int) -> None:
        for quality, text in self._ontology.names(iri):
            if quality in _TIERS:
                self._put(text, _Entry(_TIERS[quality], text, kind, iri))
        local = local_name(iri)
        if "%" in local:
            local = unquote(local)
        self._put(local, _Entry(_LOCAL_NAME_TIER, local, kind, iri))
        words = _CAMEL.sub(" ", local)
        if words != local:
            self._put(words, _Entry(_LOCAL_NAME_TIER, words, kind, iri))

    def _put(self, text: str, entry: _Entry) -> None:
        name = fold(text)
        if name:
            self._entries.setdefault(name, []).append(entry)
