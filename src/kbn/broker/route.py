"""Routing: where a notification goes from one broker."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Generic, NamedTuple, Protocol, TypeVar

from kbn.broker.wanted import Wanted


class NextHop(Protocol):
    """A neighbour that a notification may go to.

    `wants_everything`: it is a parent, or it has not said (so that we understand it) what it wants.
    """

    @property
    def name(self) -> str: ...

    @property
    def wants_everything(self) -> bool: ...


class Passage(Protocol):
    """A move of this broker, which closes some ways while it lasts; see `broker_move.py`."""

    def lets_pass(self, source: str | None, to: str) -> bool: ...


Hop = TypeVar("Hop", bound=NextHop)


class Targets(NamedTuple, Generic[Hop]):
    """Clients with those of their subscriptions that want it, and neighbours."""

    clients: Mapping[str, Mapping[int, None]]
    neighbours: list[Hop]


def route(
    wanted: Wanted,
    came_from: str | None,
    hops: Collection[Hop],
    *,
    everywhere: bool = False,
    move: Passage | None = None,
    is_repetition: bool = False,
) -> Targets[Hop]:
    """Where a notification goes that came from a neighbour (None: from a client of ours).

    It goes to the clients that want it, unless they have had it (`is_repetition`), and to the
    neighbours that want it: those that announced so, all when it goes `everywhere`, and those that
    want everything. It never goes back, and during a move only where the move lets it pass.
    """
    wanting = wanted.neighbours
    neighbours = (
        [
            hop
            for hop in hops
            if (everywhere or hop.name in wanting or hop.wants_everything) and hop.name != came_from
        ]
        if hops
        else []
    )
    if move is not None:
        neighbours = [hop for hop in neighbours if move.lets_pass(came_from, hop.name)]
    return Targets({} if is_repetition else wanted.clients, neighbours)
