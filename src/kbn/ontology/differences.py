"""What one ontology holds and another does not, as links that can be explained.

Of classes, properties and types only the *direct* links are listed: those to the next class above.
Whatever else is new follows from them and from what was there before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kbn.ontology.chains import IS_ONE, KIND_OF, SAME, Link
from kbn.ontology.vocabulary import NOTHING

if TYPE_CHECKING:
    from kbn.ontology.compiled import Ontology


def new_links(before: Ontology, after: Ontology) -> tuple[Link, ...]:
    """The links that `after` has and `before` does not: between classes, properties, individuals.

    A class that can have no member is linked to owl:Nothing.

    >>> from kbn.data import path
    >>> from kbn.ontology import Ontology
    >>> rdfs, el = (Ontology.load(path("drinks"), level) for level in ("rdfs", "el"))
    >>> for link in new_links(rdfs, el)[:2]:
    ...     print(el.shorten(link.first), link.relation, el.shorten(link.second))
    :Burgundy is a kind of :DryWine
    :DessertWine is a kind of :SweetWine
    """
    found = (
        *_of_classes(before, after),
        *_of_properties(before, after),
        *_of_individuals(before, after),
    )
    return tuple(found)


def _of_classes(before: Ontology, after: Ontology) -> Iterator[Link]:
    for name in after.classes:
        had = before.ancestors(name)
        if name in before.unsatisfiable:
            continue  # it was below everything already
        if name in after.unsatisfiable:
            if name not in before.unsatisfiable:
                yield Link(name, KIND_OF, NOTHING)
            continue
        alike = after.equivalents(name) - {name}
        for other in sorted(alike):
            if not (other in had and name in before.ancestors(other)):
                yield Link(name, SAME, other)
        for wider in sorted(after.parents(name) - had):
            # Of equivalents above, the first stands for all.
            if wider == min(after.equivalents(wider)):
                yield Link(name, KIND_OF, wider)


def _of_properties(before: Ontology, after: Ontology) -> Iterator[Link]:
    for name in after.properties:
        had, has = before.property_ancestors(name), after.property_ancestors(name)
        alike = after.equivalent_properties(name)
        for other in sorted(has - had - {name}):
            yield Link(name, SAME if other in alike else KIND_OF, other)


def _of_individuals(before: Ontology, after: Ontology) -> Iterator[Link]:
    for name in after.individuals:
        for kind in sorted(after.direct_types(name) - before.types(name)):
            if kind == min(after.equivalents(kind)):
                yield Link(name, IS_ONE, kind)
        for other in sorted(after.same_as(name) - before.same_as(name) - {name}):
            yield Link(name, SAME, other)
        for prop, other in sorted(after.relations(name) - before.relations(name)):
            yield Link(name, prop, other)
