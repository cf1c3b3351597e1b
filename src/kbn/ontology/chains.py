"""The way from a term up to another, link by link: why an ontology says that they are related.

A link is between neighbours of the compiled hierarchy. From each term the way goes on to a parent
that still has the goal above it, so no search is needed, and it is as long as the hierarchy is deep
at most. Between equivalents the way is one link.

Where other sources than an ontology relate terms (a mapping from one vocabulary to another), their
links go into the same tuple, with another `source`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kbn.ontology.vocabulary import NOTHING, THING

if TYPE_CHECKING:
    from kbn.ontology.compiled import Ontology
    from kbn.ontology.named_hierarchy import NamedHierarchy


class Link(NamedTuple):
    """One link of a chain: the first term is so related to the second."""

    first: str
    relation: str
    second: str
    source: str = "ontology"


KIND_OF, SAME, IS_ONE = "is a kind of", "is equivalent to", "is one of the"


def chain(ontology: Ontology, first: str, second: str, kind: str = "class") -> tuple[Link, ...]:
    """The links from `first` up to `second`, two classes or two properties.

    Empty when the two are the same term, or when `second` is not above `first`.

    >>> from kbn.data import path
    >>> from kbn.ontology import Ontology
    >>> animals = Ontology.load(path("animals"))
    >>> human, animal = map(animals.expand, ("animals:Human", "animals:Animal"))
    >>> [animals.shorten(link.second) for link in chain(animals, human, animal)]
    [':Mammal', ':Animal']
    """
    if first == second:
        return ()
    if kind == "class" and (second == THING or first == NOTHING):
        return (Link(first, KIND_OF, second),) if ontology.is_subclass(first, second) else ()
    names = ontology.hierarchy_of(kind)
    one, other = names.ids.get(first), names.ids.get(second)
    if one is None or other is None or not names.tree.is_below(one, other):
        return ()
    return tuple(_links(names, first, second))


def chain_of_individual(ontology: Ontology, individual: str, kind: str) -> tuple[Link, ...]:
    """The links from an individual by way of one of its direct types up to class `kind`.

    >>> from kbn.ontology import Ontology
    >>> chain_of_individual(Ontology.empty(), "urn:a", "urn:A")
    ()
    """
    if not ontology.is_instance(individual, kind):
        return ()
    lowest = sorted(ontology.direct_types(individual))
    found = [kind] if kind in lowest else [c for c in lowest if ontology.is_subclass(c, kind)]
    start = found[0] if found else kind
    return (Link(individual, IS_ONE, start), *chain(ontology, start, kind))


def links_between(ontology: Ontology, first: str, second: str) -> tuple[Link, ...]:
    """The links from `first` to `second`, whatever kinds of terms they are; empty without any.

    >>> from kbn.data import path
    >>> from kbn.ontology import Ontology
    >>> animals = Ontology.load(path("animals"))
    >>> links = links_between(animals, *map(animals.expand, ("animals:John", "animals:Animal")))
    >>> [animals.shorten(link.second) for link in links]
    [':Human', ':Mammal', ':Animal']
    """
    kinds, wanted = ontology.kinds(first), ontology.kinds(second)
    for kind in ("class", "property"):
        if kind in kinds & wanted:
            found = chain(ontology, first, second, kind)
            if found:
                return found
    if "individual" in kinds and "class" in wanted:
        return chain_of_individual(ontology, first, second)
    if "individual" in kinds & wanted:
        if first != second and second in ontology.same_as(first):
            return (Link(first, SAME, second),)
        held = sorted(name for name, node in ontology.relations(first) if node == second)
        return tuple(Link(first, name, second) for name in held)
    return ()


def _links(names: NamedHierarchy, first: str, second: str) -> list[Link]:
    tree = names.tree
    at, goal = tree.component_of[names.ids[first]], tree.component_of[names.ids[second]]
    links: list[Link] = []
    while at != goal:
        above = (up for up in tree.parents[at] if goal in tree.ancestors[up])
        at = next(above)
        wider = second if at == goal else names.names[tree.members[at][0]]
        links.append(Link(first, KIND_OF, wider))
        first = wider
    return links or [Link(first, SAME, second)]
