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
    if ontology.mappings:
        return mapped_chain(ontology, first, second, kind)
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
    if ontology.mappings:
        return mapped_chain(ontology, individual, kind, "individual")
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
        if ontology.mappings and second in ontology.same_as(first):
            return mapped_chain(ontology, first, second, "individual")
        if first != second and second in ontology.same_as(first):
            return (Link(first, SAME, second),)
        held = sorted(name for name, node in ontology.relations(first) if node == second)
        links = (links_of_relation(ontology, first, name, second) for name in held)
        return tuple(dict.fromkeys(link for each in links for link in each))
    return ()


def links_of_relation(ontology: Ontology, first: str, name: str, second: str) -> tuple[Link, ...]:
    """The links by which an individual has a property to another, which it must have.

    >>> from kbn.ontology import Ontology
    >>> links_of_relation(Ontology.empty(), "urn:a", "urn:p", "urn:b")
    (Link(first='urn:a', relation='urn:p', second='urn:b', source='ontology'),)
    """
    plain = ontology.unmapped
    if plain is ontology or second in plain.related(first, name):
        return (Link(first, name, second),)
    for one in sorted(ontology.same_as(first)):
        for held, node in sorted(plain.relations(one)):
            if node in ontology.same_as(second) and ontology.is_subproperty(held, name):
                return (
                    *links_between_same(ontology, first, one),
                    Link(one, held, node),
                    *chain(ontology, held, name, "property"),
                    *links_between_same(ontology, node, second),
                )
    return (Link(first, name, second),)


def links_between_same(ontology: Ontology, first: str, second: str) -> tuple[Link, ...]:
    """The links by which two individuals are the same; none between one and itself.

    >>> from kbn.ontology import Ontology
    >>> links_between_same(Ontology.empty(), "urn:a", "urn:a")
    ()
    """
    if first == second:
        return ()
    if ontology.mappings:
        return mapped_chain(ontology, first, second, "individual")
    return (Link(first, SAME, second),)


def mapped_chain(ontology: Ontology, first: str, second: str, kind: str) -> tuple[Link, ...]:
    """The fewest rows of mappings that lead from `first` to `second`, and the links in between.

    Empty when none do. What is reached by the ontology alone is reached by no row. A row is a link
    whose source is its file and line.
    """
    plain = ontology.unmapped
    rows = _rows_from(ontology)
    came: dict[str, tuple[str, Link] | None] = {first: None}
    waiting = [first]
    for at in waiting:
        if second in _reached(plain, at, kind):
            return _way(plain, came, at, second)
        for start in _reached(plain, at, kind) & rows.keys():
            for link in rows[start]:
                if link.second not in came:
                    came[link.second] = (at, link)
                    waiting.append(link.second)
    return ()


def _rows_from(ontology: Ontology) -> dict[str, list[Link]]:
    """Term -> the rows that lead on from it."""
    found: dict[str, list[Link]] = {}
    for row in ontology.mappings:
        both = row.relation == "same"
        word = SAME if both else KIND_OF
        if not both and "class" not in ontology.kinds(row.subject):
            word = IS_ONE if "class" in ontology.kinds(row.object) else KIND_OF
        for one, other in ((row.subject, row.object), (row.object, row.subject))[: 1 + both]:
            found.setdefault(one, []).append(Link(one, word, other, row.place))
    return found


def _reached(plain: Ontology, term: str, kind: str) -> frozenset[str]:
    """What the ontology alone leads to from a term."""
    if kind == "individual":
        own = plain.same_as(term) | plain.types(term) if "individual" in plain.kinds(term) else None
        return plain.ancestors(term) if own is None else own
    return plain.ancestors(term) if kind == "class" else plain.property_ancestors(term)


def _way(
    plain: Ontology, came: dict[str, tuple[str, Link] | None], at: str, second: str
) -> tuple[Link, ...]:
    parts = [links_between(plain, at, second)]
    while (step := came[at]) is not None:
        at, row = step
        parts += [(row,), links_between(plain, at, row.first)]
    return tuple(link for part in reversed(parts) for link in part)


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
