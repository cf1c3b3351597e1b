"""Topologies: which brokers there are, and which are neighbours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from kbn.errors import InvalidInputError

Routing = Literal["hierarchical", "acyclic", "general"]
Role = Literal["peer", "parent", "child"]
"""What a neighbour is to a broker."""


@dataclass(frozen=True, slots=True)
class Topology:
    """An overlay's shape. In a hierarchy each link is (broker, its parent).

    >>> Topology.hierarchy({"root": None, "east": "root", "west": "root"}).links
    (('east', 'root'), ('west', 'root'))
    """

    routing: Routing
    brokers: tuple[str, ...]
    links: tuple[tuple[str, str], ...]

    @classmethod
    def hierarchy(cls, parents: Mapping[str, str | None]) -> Topology:
        """A tree: each broker's parent, None for the root."""
        links = tuple((name, parent) for name, parent in parents.items() if parent is not None)
        topology = cls("hierarchical", tuple(parents), links)
        topology._check(is_acyclic=True)
        return topology

    @classmethod
    def peers(cls, links: Iterable[tuple[str, str]], brokers: Iterable[str] = ()) -> Topology:
        """Equal brokers, connected without cycles."""
        topology = cls("acyclic", *_named(links, brokers))
        topology._check(is_acyclic=True)
        return topology

    @classmethod
    def general(cls, links: Iterable[tuple[str, str]], brokers: Iterable[str] = ()) -> Topology:
        """Equal brokers, connected in any way."""
        topology = cls("general", *_named(links, brokers))
        topology._check(is_acyclic=False)
        return topology

    def _check(self, is_acyclic: bool) -> None:
        known = set(self.brokers)
        top = {name: name for name in self.brokers}

        def group(name: str) -> str:
            while top[name] != name:
                name = top[name]
            return name

        for one, other in self.links:
            if one not in known or other not in known or one == other:
                raise InvalidInputError(f"a link from {one!r} to {other!r} makes no sense")
            if is_acyclic and group(one) == group(other):
                raise InvalidInputError(
                    f"the link from {one!r} to {other!r} closes a cycle: use general routing"
                )
            top[group(one)] = group(other)


def _named(
    links: Iterable[tuple[str, str]], brokers: Iterable[str]
) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    pairs = tuple((one, other) for one, other in links)
    return tuple(dict.fromkeys((*brokers, *(name for pair in pairs for name in pair)))), pairs
