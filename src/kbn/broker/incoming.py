"""Incoming notifications: what neighbours bring is taken once, checked, and routed on."""

from __future__ import annotations

from msgspec.structs import replace

from kbn.broker.fields import HOPS_MAX
from kbn.broker.messages import BestEffort, Envelope, Forward
from kbn.broker.neighbour import Neighbour
from kbn.broker.neighbour_sessions import NeighbourSessions
from kbn.broker.router import Router
from kbn.errors import KbnError


class Incoming:
    """Takes in the notifications that neighbours send to the broker of a name.

    `received` counts them, `dropped` those that had gone too far or cannot be read.
    """

    __slots__ = ("_name", "_neighbours", "_router", "dropped", "received")

    def __init__(self, name: str, neighbours: NeighbourSessions, router: Router) -> None:
        self.received = 0
        self.dropped = 0
        self._name = name
        self._neighbours = neighbours
        self._router = router

    def take(self, message: Forward | BestEffort, neighbour: Neighbour) -> None:
        """Handle a notification that a neighbour has sent; a durable one only once."""
        if isinstance(message, BestEffort) or self._neighbours.traffic.receive_forward(
            message.sequence, neighbour
        ):
            self._arrived(message.envelope, neighbour)

    def _arrived(self, envelope: Envelope, neighbour: Neighbour) -> None:
        self.received += 1
        move = self._neighbours.move
        if move is not None and move.drops(neighbour.name):
            return
        if neighbour.received.past and neighbour.received.is_past(envelope):
            return
        path = envelope.path
        if envelope.hops >= HOPS_MAX or (path is not None and len(path) >= HOPS_MAX):
            self.dropped += 1
            return
        try:
            notification = self._router.contents.read(envelope.content)
        except KbnError:
            self.dropped += 1  # its first broker has checked it: this is not one of us
            return
        path = None if path is None else (*path, self._name)
        envelope = replace(envelope, hops=envelope.hops + 1, path=path)
        self._router.route(envelope, notification, came_from=neighbour.name)
