"""Terms: the names an ontology gives to its classes, properties and individuals.

A term is an IRI plus the kind of thing it is used as. One IRI may be used as several kinds at
once (OWL calls that punning), so the kind is part of the value: `Class(iri)` and
`Individual(iri)` are different terms. A bare `Term(iri)` is a term whose kind nobody stated yet,
such as `wine:Wine` in a text that was read before any ontology was known.

A matcher holds and compares millions of these, so a term is two slots and its hash is computed
once. The number that orders the kinds (bare, class, property, individual) has no meaning beyond
giving every set of terms one reproducible order.
"""

from __future__ import annotations

from functools import total_ordering
from typing import ClassVar, Literal

from kbn.errors import InvalidInputError

__all__ = ["Class", "Individual", "Kind", "Property", "Term"]

Kind = Literal["class", "property", "individual", "term"]


@total_ordering
class Term:
    """An IRI used as a term; equal only to a term of the same kind with the same IRI.

    >>> Class("urn:x#Wine") == Class("urn:x#Wine")
    True
    >>> Class("urn:x#Wine") == Individual("urn:x#Wine")
    False
    >>> Property("urn:x#eats").kind
    'property'
    """

    __slots__ = ("_hash", "iri")

    kind: ClassVar[Kind] = "term"
    _rank: ClassVar[int] = 0

    iri: str

    def __init__(self, iri: str) -> None:
        if not isinstance(iri, str):
            raise InvalidInputError(f"a term's IRI is a string, not {type(iri).__name__}: {iri!r}")
        if not iri:
            raise InvalidInputError("a term's IRI is empty")
        object.__setattr__(self, "iri", iri)
        object.__setattr__(self, "_hash", hash((self._rank, iri)))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a {type(self).__name__} is immutable; cannot set {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a {type(self).__name__} is immutable; cannot delete {name!r}")

    def __hash__(self) -> int:
        return self._hash  # type: ignore[attr-defined, no-any-return]

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.iri == other.iri

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Term):
            return NotImplemented
        return (self._rank, self.iri) < (other._rank, other.iri)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.iri!r})"

    # The cached hash is salted per process, so a copy made elsewhere must compute its own.
    def __reduce__(self) -> tuple[type[Term], tuple[str]]:
        return type(self), (self.iri,)


class Class(Term):
    """A term used as a class.

    >>> Class("urn:x#Wine").iri
    'urn:x#Wine'
    """

    __slots__ = ()
    kind: ClassVar[Kind] = "class"
    _rank: ClassVar[int] = 1


class Property(Term):
    """A term used as a property.

    >>> Property("urn:x#eats").kind
    'property'
    """

    __slots__ = ()
    kind: ClassVar[Kind] = "property"
    _rank: ClassVar[int] = 2


class Individual(Term):
    """A term used as an individual.

    >>> Individual("urn:x#colleen") == Class("urn:x#colleen")
    False
    """

    __slots__ = ()
    kind: ClassVar[Kind] = "individual"
    _rank: ClassVar[int] = 3
