"""A hierarchy with names: questions about IRIs, answered by a `Hierarchy` over ids."""

from __future__ import annotations

from collections.abc import Iterable

from kbn.ontology.hierarchy import Hierarchy, Ids


class NamedHierarchy:
    """The classes, the properties or the individuals of an ontology, and the order among them.

    The id of a name is its place in `names`. An unknown name relates only to itself.
    """

    __slots__ = ("ids", "names", "tree")

    def __init__(self, names: tuple[str, ...], tree: Hierarchy) -> None:
        self.names = names
        self.tree = tree
        self.ids = {iri: number for number, iri in enumerate(names)}

    def above(self, iri: str) -> frozenset[str]:
        """`iri`, its equivalents, and all names above."""
        number = self.ids.get(iri)
        return frozenset({iri}) if number is None else self._names(self.tree.above(number))

    def below(self, iri: str) -> frozenset[str]:
        """`iri`, its equivalents, and all names below."""
        number = self.ids.get(iri)
        return frozenset({iri}) if number is None else self._names(self.tree.below(number))

    def alike(self, iri: str) -> frozenset[str]:
        """`iri` and its equivalents."""
        number = self.ids.get(iri)
        return frozenset({iri}) if number is None else self._names(self.tree.alike(number))

    def component(self, iri: str) -> int | None:
        """The component of `iri` in `tree`; None when the name is unknown."""
        number = self.ids.get(iri)
        return None if number is None else int(self.tree.component_of[number])

    def named(self, components: Ids) -> frozenset[str]:
        """The names that belong to some components."""
        return self._names(self.tree.expand(components))

    def _names(self, ids: Iterable[int]) -> frozenset[str]:
        names = self.names
        return frozenset([names[i] for i in ids])
