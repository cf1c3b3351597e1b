"""Class expressions as plain values that can be compared, counted and printed.

An expression is an IRI, or a tuple that starts with what it is:

    ("one", i)  ("and", ...)  ("or", ...)  ("not", c)  ("some", p, c)  ("only", p, c)  ("self", p)
    ("min", n, p, c)  ("max", n, p, c)  ("exactly", n, p, c)  ("unread", node)

`("one", i)` is the class of nothing but the individual i, so "i is in c" is written as any other
inclusion. A property is an IRI, or `("after", p, q)`: the values of q of the values of p.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kbn.ontology.axioms import Axioms
from kbn.ontology.vocabulary import THING

Form = str | tuple[Any, ...]
"""An expression, or a property."""


def one(individual: str) -> Form:
    """The class of nothing but this individual."""
    return ("one", individual)


def is_one(form: Form) -> bool:
    """Whether it stands for an individual."""
    return isinstance(form, tuple) and form[0] == "one"


def all_of(members: tuple[Form, ...]) -> Form:
    """The intersection of the members, which are taken once each and in no order."""
    return _set("and", members)


def any_of(members: tuple[Form, ...]) -> Form:
    """The union of the members."""
    return _set("or", members)


def _set(kind: str, members: tuple[Form, ...]) -> Form:
    listed = sorted(set(members), key=repr)
    return listed[0] if len(listed) == 1 else (kind, *listed)


def parts(form: Form) -> Iterator[Form]:
    """The expressions that `form` is made of, itself first."""
    yield form
    if isinstance(form, tuple):
        inside: dict[str, tuple[Form, ...]] = {
            "and": form[1:],
            "or": form[1:],
            "not": form[1:2],
            "some": form[2:],
            "only": form[2:],
            "min": form[3:],
            "max": form[3:],
            "exactly": form[3:],
        }
        for each in inside.get(form[0], ()):
            yield from parts(each)


class FormReader:
    """The forms of the nodes of one set of axioms."""

    def __init__(self, axioms: Axioms) -> None:
        self._expressions = axioms.expressions
        self._found: dict[str, Form] = {}
        self._reading: set[str] = set()

    def form(self, node: str) -> Form:
        """What a class or a blank node stands for; a class stands for itself."""
        if not node.startswith("_:"):
            return node
        if node not in self._found:
            if node in self._reading:  # an expression that contains itself
                return ("unread", node)
            self._reading.add(node)
            written = list(self.written(node))
            self._reading.discard(node)
            self._found[node] = written[0] if len(written) == 1 else ("unread", node)
        return self._found[node]

    def written(self, node: str) -> Iterator[Form]:
        """Every expression that is written at a node, blank or named."""
        found = self._expressions
        if node in found.intersections:
            yield all_of(tuple(self.form(each) for each in found.intersections[node]))
        if node in found.unions:
            yield any_of(tuple(self.form(each) for each in found.unions[node]))
        if node in found.complements:
            yield ("not", self.form(found.complements[node]))
        if node in found.enumerations:
            yield any_of(tuple(one(each) for each in found.enumerations[node]))
        if node in found.somes:
            name, filler = found.somes[node]
            yield ("some", name, self.form(filler))
        if node in found.alls:
            name, filler = found.alls[node]
            yield ("only", name, self.form(filler))
        if node in found.values:
            name, individual = found.values[node]
            yield ("some", name, one(individual))
        if node in found.selves:
            yield ("self", found.selves[node])
        yield from self._written_bounds(node)

    def _written_bounds(self, node: str) -> Iterator[Form]:
        found = self._expressions
        for word, table in (("max", found.at_most), ("min", found.at_least)):
            if node in table and not (node in found.exact and word == "max"):
                name, number, filler = table[node]
                word = "exactly" if node in found.exact else word
                yield (word, number, name, self.form(filler))


def spoken(form: Form, name: Callable[[str], str], *, inside: bool = False) -> str:
    """A form as a person reads it; `name` says how a term is shown."""
    if isinstance(form, str):
        return name(form)

    def said(each: Form) -> str:
        return spoken(each, name, inside=True)

    kind, *rest = form
    match kind:
        case "one":
            return name(rest[0])
        case "and" | "or":
            text = f" {kind} ".join(said(each) for each in rest)
        case "not":
            text = f"not {said(rest[0])}"
        case "some" if is_one(rest[1]):
            text = f"{said(rest[0])} value {said(rest[1])}"
        case "some" | "only":
            text = f"{said(rest[0])} {kind} {said(rest[1])}"
        case "self":
            text = f"{said(rest[0])} Self"
        case "after":
            text = f"{said(rest[0])} o {said(rest[1])}"
        case "min" | "max" | "exactly":
            number, prop, filler = rest
            text = f"{said(prop)} {kind} {number}"
            text += "" if filler == THING else f" {said(filler)}"
        case _:
            return "an expression that is not read"
    return f"({text})" if inside else text
