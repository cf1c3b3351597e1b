"""Shape: what the overlay looks like to a broker that was not told.

A broker that adapts and has no neighbours takes the shape of the first that comes: a child or a
parent makes it part of a hierarchy, a peer that speaks of a spanning tree makes it a general peer,
and any other an acyclic one. The store keeps the shape: after a restart, the neighbours are known
before they come.
"""

from __future__ import annotations

from typing import get_args

from kbn.broker.messages import Greet
from kbn.broker.neighbour_sessions import NeighbourSessions
from kbn.broker.store import Store
from kbn.broker.topology import Routing

MARK = "routing"


class Shape:
    """The shape of one broker."""

    __slots__ = ("_adapts", "_neighbours", "_store")

    def __init__(self, neighbours: NeighbourSessions, store: Store, *, adapts: bool) -> None:
        self._neighbours = neighbours
        self._store = store
        self._adapts = adapts
        kept = (store.marked(MARK) or b"").decode()
        if adapts and kept in get_args(Routing):
            neighbours.take_shape(kept)  # type: ignore[arg-type]

    def keeps_order(self) -> bool:
        """Whether notifications of one publisher always come in their order, now and later."""
        is_open = self._adapts and not self._neighbours.by_name
        return self._neighbours.routing != "general" and not is_open

    def look_at(self, greet: Greet) -> None:
        """A broker nobody told us of greets: take its shape if we have none of our own."""
        routing = routing_of(greet)
        if self._adapts and not self._neighbours.by_name and routing != self._neighbours.routing:
            self._neighbours.take_shape(routing)
            self._store.mark(MARK, routing.encode())


def routing_of(greet: Greet) -> Routing:
    """The shape of the overlay that a greeting comes from.

    >>> routing_of(Greet("east", 1, 0, "child", ""))
    'hierarchical'
    """
    if greet.role != "peer":
        return "hierarchical"
    return "general" if greet.view else "acyclic"
