"""The status of a broker: what a person or a machine wants to know of it."""

from __future__ import annotations

from msgspec import Struct


class ClientStatus(Struct, frozen=True):
    client: str
    connected: bool
    durable: bool
    subscriptions: int
    queued: int
    dropped: int
    published: int
    queued_bytes: int = 0


class ClientTotals(Struct, frozen=True):
    """Of all clients: how many are connected or away, what waits for them, and the most for one.

    `queued` is in memory, `unacked` in the store.
    """

    connected: int = 0
    away: int = 0
    queued: int = 0
    queued_max: int = 0
    queued_bytes: int = 0
    unacked: int = 0
    unacked_max: int = 0
    unacked_bytes: int = 0


class NeighbourStatus(Struct, frozen=True):
    broker: str
    role: str
    connected: bool
    in_session: bool
    complete: bool
    in_tree: bool
    wants: int
    told: int
    unacked: int
    queued: int
    dropped: int
    unacked_bytes: int = 0
    queued_bytes: int = 0
    held: int = 0


class LinkStatus(Struct, frozen=True):
    """A link that the broker dials; `broker` is empty until it was reached.

    `kept` counts what is kept for a broker that was never met.
    """

    url: str
    broker: str
    problem: str
    kept: int = 0


class MoveStatus(Struct, frozen=True, rename={"leaving": "from"}):
    """A move of the broker that is over; `trouble` says why it stays where it was."""

    leaving: str
    to: str
    trouble: str | None


class TurnStatus(Struct, frozen=True):
    """How many turns there were, and what they cost in units of work (see `work.py`).

    `buckets` counts them by what they cost, up to each of `bounds`, and beyond.
    """

    count: int = 0
    work: int = 0
    largest: int = 0
    bounds: tuple[int, ...] = ()
    buckets: tuple[int, ...] = ()


class BrokerStatus(Struct, frozen=True):
    """All of it.

    Of very many `clients` only some are listed, those that lost most first; `totals` has all. From
    `connections` on, the fields come from the node around the broker.
    """

    broker: str
    epoch: int
    routing: str
    ontology: str
    subscriptions: int
    filters: int
    roots: int | None
    advertisements: int
    counts: dict[str, int]
    clients: tuple[ClientStatus, ...]
    neighbours: tuple[NeighbourStatus, ...]
    store_bytes: int = 0
    totals: ClientTotals = ClientTotals()
    connections: int = 0
    ontology_problem: str = ""
    links: tuple[LinkStatus, ...] = ()
    moved: tuple[MoveStatus, ...] = ()
    turns: TurnStatus = TurnStatus()
