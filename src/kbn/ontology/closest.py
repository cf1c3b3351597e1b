"""Which known terms lie closest to a name nobody knows, for error messages that help."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from typing import TYPE_CHECKING

from kbn.errors import UnknownTermError

if TYPE_CHECKING:
    from kbn.ontology.compiled import Ontology

SHOWN_MAX = 3
SCORE_MIN = 60.0
LONGEST = 200  # characters of a name that somebody may have misspelled

_among: ContextVar[float] = ContextVar("among", default=inf)


@contextmanager
def suggesting_among(most: float) -> Iterator[None]:
    """Meanwhile look for what may have been meant only among so many terms: it takes a microsecond
    or two for each, which somebody who serves others may not have.

    >>> from kbn.data import path
    >>> from kbn.ontology import Ontology
    >>> animals = Ontology.load(path("animals"))
    >>> closest_terms(animals, "urn:Humn", "class")
    ('https://kbn.example/ontology/animals#Human',)
    >>> with suggesting_among(0): closest_terms(animals, "urn:Humn", "class")
    ()
    """
    before = _among.set(most)
    try:
        yield
    finally:
        _among.reset(before)


def local_name(iri: str) -> str:
    """What stands after the last `#`, `/` or `:` of an IRI."""
    stripped = iri.rstrip("#/:")
    start = max(stripped.rfind("#"), stripped.rfind("/"), stripped.rfind(":"))
    return stripped[start + 1 :]


def closest_terms(ontology: Ontology, iri: str, kind: str) -> tuple[str, ...]:
    """Up to three known IRIs of `kind` whose local name or label is most like that of `iri`."""
    from rapidfuzz import fuzz, process
    from rapidfuzz.utils import default_process

    wanted = local_name(iri)
    candidates = tuple(_candidates(ontology, kind)) if _among.get() else ()
    if len(candidates) > _among.get() or len(wanted) > LONGEST:
        return ()
    best: dict[str, float] = {}
    names = [local_name(one) for one in candidates]
    labels = [ontology.label(one) or "" for one in candidates]
    for texts in (names, labels):
        found = process.extract(
            wanted,
            texts,
            scorer=fuzz.ratio,
            processor=default_process,
            limit=2 * SHOWN_MAX,
            score_cutoff=SCORE_MIN,
        )
        for _, score, place in found:
            best[candidates[place]] = max(score, best.get(candidates[place], 0.0))
    ranked = sorted(best, key=lambda one: (-best[one], one))
    return tuple(ranked[:SHOWN_MAX])


def unknown_term(
    ontology: Ontology, iri: str, kind: str, kinds: frozenset[str]
) -> UnknownTermError:
    """The error for `iri`, which the ontology does not know as a `kind`."""
    if kinds:
        known_as = " and ".join(sorted(kinds))
        reason = f"the ontology knows <{iri}> as {known_as}, not as {kind}"
        return UnknownTermError(iri, kind=kind, reason=reason)
    from kbn.ontology.names import telling_label

    closest = closest_terms(ontology, iri, kind)
    labels = {one: label for one in closest if (label := telling_label(ontology, one))}
    return UnknownTermError(iri, closest=closest, kind=kind, labels=labels)


def _candidates(ontology: Ontology, kind: str) -> Iterable[str]:
    match kind:
        case "class":
            return ontology.classes
        case "property":
            return ontology.properties
        case "individual":
            return ontology.individuals
    return dict.fromkeys((*ontology.classes, *ontology.properties, *ontology.individuals))
