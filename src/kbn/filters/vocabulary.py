"""What the semantic operators ask of an ontology, and what they are told when there is none.

`kbn.ontology.Ontology` answers these questions; the operators need nothing else of it. Every
relation is reflexive, and a term the ontology does not know is related to itself alone.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Protocol, TypeVar, cast

from kbn.ontology import (
    NOTHING,
    THING,
    WELL_KNOWN_PREFIXES,
    Class,
    Individual,
    Property,
    Term,
    full_iri,
)

__all__ = [
    "KINDS",
    "NO_ONTOLOGY",
    "NoOntology",
    "Vocabulary",
    "expanded",
    "may_have_prefix",
    "with_known_kind",
]


class Vocabulary(Protocol):
    """The questions, by IRI; `Ontology` documents the answers."""

    def kinds(self, iri: str, /) -> Set[str]: ...

    def full_iri(self, name: str, /) -> str: ...

    def require(self, iri: str, /, kind: str | None = None) -> None: ...

    def is_subclass(self, a: str, b: str, /) -> bool: ...

    def is_subproperty(self, a: str, b: str, /) -> bool: ...

    def is_instance(self, individual: str, cls: str, /) -> bool: ...

    def are_disjoint(self, a: str, b: str, /) -> bool: ...

    def ancestors(self, cls: str, /) -> Set[str]: ...

    def property_ancestors(self, prop: str, /) -> Set[str]: ...

    def equivalents(self, cls: str, /) -> Set[str]: ...

    def equivalent_properties(self, prop: str, /) -> Set[str]: ...

    def same_as(self, individual: str, /) -> Set[str]: ...

    def types(self, individual: str, /) -> Set[str]: ...

    def instances(self, cls: str, /) -> Set[str]: ...

    def related(self, individual: str, prop: str, /) -> Set[str]: ...

    def steps_to(
        self, kind: str, one: str, others: Sequence[str], most: int, /
    ) -> Sequence[int | None]: ...


class NoOntology:
    """The ontology that knows nothing: each term is related to itself alone."""

    def kinds(self, iri: str, /) -> Set[str]:
        # Every ontology, even the empty one, has owl:Thing and owl:Nothing.
        return frozenset(("class",)) if iri in (THING, NOTHING) else frozenset()

    def full_iri(self, name: str, /) -> str:
        return full_iri(name, WELL_KNOWN_PREFIXES)

    def require(self, iri: str, /, kind: str | None = None) -> None:
        return None

    def is_subclass(self, a: str, b: str, /) -> bool:
        return a == b or (a == NOTHING and b == THING)

    def is_subproperty(self, a: str, b: str, /) -> bool:
        return a == b

    def is_instance(self, individual: str, cls: str, /) -> bool:
        return False

    are_disjoint = is_instance

    def ancestors(self, cls: str, /) -> Set[str]:
        return frozenset((cls, THING)) if cls == NOTHING else frozenset((cls,))

    def property_ancestors(self, prop: str, /) -> Set[str]:
        return frozenset((prop,))

    equivalents = equivalent_properties = same_as = property_ancestors

    def types(self, individual: str, /) -> Set[str]:
        return frozenset()

    instances = types

    def related(self, individual: str, prop: str, /) -> Set[str]:
        return frozenset()

    def steps_to(
        self, kind: str, one: str, others: Sequence[str], most: int, /
    ) -> Sequence[int | None]:
        return [0 if one == other else None for other in others]


NO_ONTOLOGY: Vocabulary = NoOntology()

KINDS: dict[str, type[Term]] = {"class": Class, "property": Property, "individual": Individual}

T = TypeVar("T")
AnyTerm = TypeVar("AnyTerm", bound=Term)


def may_have_prefix(term: Term) -> bool:
    """Whether the term may be written with a prefix; what has `://` in it is an IRI.

    >>> may_have_prefix(Class("b:Fan")), may_have_prefix(Class("http://example.org/b#Fan"))
    (True, False)
    """
    return "://" not in term.iri


def expanded(term: AnyTerm, ontology: Vocabulary) -> AnyTerm:
    """The term with its prefix expanded, if the ontology knows that; else the term itself."""
    iri = ontology.full_iri(term.iri)
    return term if iri == term.iri else type(term)(iri)


def with_known_kind(value: T, ontology: Vocabulary) -> T | Term:
    """A term as the ontology reads it; any other value as given.

    A prefix that the ontology knows is expanded. A bare term gets the kind that the ontology knows
    it by, if that is exactly one.

    >>> with_known_kind("tea", NO_ONTOLOGY), with_known_kind(Class("owl:Thing"), NO_ONTOLOGY)
    ('tea', Class('http://www.w3.org/2002/07/owl#Thing'))
    """
    if not isinstance(value, Term):
        return value
    if may_have_prefix(value):
        value = expanded(value, ontology)
    if type(value) is not Term:
        return value
    iri = cast(Term, value).iri
    kinds = ontology.kinds(iri)
    if len(kinds) != 1:
        return value
    (kind,) = kinds
    return KINDS[kind](iri)
