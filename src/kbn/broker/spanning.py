"""The spanning tree of a network with cycles, the same one at every broker that knows the same.

Every broker tells all others which of its links are up (`LinkState`, the newest number counts). A
link is up when both its ends say so. From that each broker works out the tree by itself: Kruskal's
algorithm over all known links, those that are up first, otherwise by name. A link that is down is
in the tree only when nothing else connects its ends, so every broker ever heard of is in the tree,
and what must reach one that cannot be reached now is kept for it on the link where it will return.

The tree's digest is the *view*. Neighbours exchange notifications only while their views agree,
which is what makes it enough to flood within one view (see `broker.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from kbn.broker.fields import BROKERS_MAX, NUMBER_MAX
from kbn.broker.messages import LinkState

Edge = tuple[str, str]


class SpanningTree:
    """What one broker knows of the network's links, and the tree it makes of it."""

    def __init__(self, name: str, number: int) -> None:
        self._name = name
        self._states = {name: LinkState(name, number, ())}
        self._edges: frozenset[Edge] = frozenset()
        self.view = _digest(())
        self.neighbours: frozenset[str] = frozenset()

    @property
    def states(self) -> tuple[LinkState, ...]:
        """All that is known, for telling others."""
        return tuple(self._states.values())

    @property
    def brokers(self) -> frozenset[str]:
        """Every broker heard of."""
        return frozenset(self._states) | {n for s in self._states.values() for n, _ in s.links}

    def set_link(self, neighbour: str, is_up: bool) -> bool:
        """Say how one of our own links is; whether that changed the tree."""
        return self._set_own({**dict(self._states[self._name].links), neighbour: is_up})

    def remove_link(self, neighbour: str) -> bool:
        """One of our own links is gone for good; whether that changed the tree."""
        links = dict(self._states[self._name].links)
        links.pop(neighbour, None)
        return self._set_own(links)

    def learn(self, states: Iterable[LinkState]) -> tuple[bool, bool]:
        """Whether there was news in what a neighbour knows, and whether it changed the tree."""
        news = False
        for state in states:
            known = self._states.get(state.broker)
            if known is not None and known.number >= state.number:
                continue
            if known is None and len(self._states) >= BROKERS_MAX:
                continue  # nobody could be told of more
            news = True
            if state.broker == self._name:  # of an earlier epoch of ours
                mine = self._states[self._name]
                self._states[self._name] = LinkState(self._name, _above(state.number), mine.links)
            else:
                self._states[state.broker] = state
        return news, news and self._recompute()

    def _set_own(self, links: dict[str, bool]) -> bool:
        mine = self._states[self._name]
        stated = tuple(sorted(links.items()))
        if stated == mine.links:
            return False
        self._states[self._name] = LinkState(self._name, _above(mine.number), stated)
        return self._recompute()

    def _recompute(self) -> bool:
        edges = spanning_tree(self._links())
        if edges == self._edges:
            return False
        self._edges = edges
        self.view = _digest(sorted(edges))
        self.neighbours = frozenset(
            b if a == self._name else a for a, b in edges if self._name in (a, b)
        )
        return True

    def _links(self) -> dict[Edge, bool]:
        """Each known link, and whether it is up: both ends say so.

        An end that was heard and does not mention the link has taken it down for good.
        """
        said: dict[Edge, dict[str, bool]] = {}
        for state in self._states.values():
            for neighbour, is_up in state.links:
                edge = (min(state.broker, neighbour), max(state.broker, neighbour))
                said.setdefault(edge, {})[state.broker] = is_up
        return {
            edge: len(ends) == 2 and all(ends.values())
            for edge, ends in said.items()
            if len(ends) == 2 or any(end not in self._states for end in edge)
        }


def _above(number: int) -> int:
    """A newer number, while there is one: only a broker out of its mind uses them up."""
    return min(number + 1, NUMBER_MAX)


def spanning_tree(links: dict[Edge, bool]) -> frozenset[Edge]:
    """The edges of the tree (a forest, where nothing connects): links that are up come first."""
    parent: dict[str, str] = {}

    def top(broker: str) -> str:
        while (above := parent.setdefault(broker, broker)) != broker:
            broker = above
        return broker

    chosen = []
    for edge in sorted(links, key=lambda edge: (not links[edge], edge)):
        one, other = top(edge[0]), top(edge[1])
        if one != other:
            parent[max(one, other)] = min(one, other)
            chosen.append(edge)
    return frozenset(chosen)


def _digest(edges: Iterable[Edge]) -> str:
    return blake2b(repr(tuple(edges)).encode(), digest_size=8).hexdigest()
