"""What happens inside a broker that a person should hear of, beside what its peers are told."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from kbn.broker.messages import Peer


class SetAside(NamedTuple):
    """What the store has kept cannot be read; it is kept apart, and all else goes on."""

    what: str
    reason: str


class Lost(NamedTuple):
    """A durable client is owed too much: its oldest deliveries are dropped, `total` by now.

    The client is told when it comes, or with what it is sent next.
    """

    client: str
    total: int
    reason: str


class StoppedWaiting(NamedTuple):
    """Publishers have waited long enough for a slow client: its oldest deliveries are dropped."""

    client: str
    seconds: float


class StoreFull(NamedTuple):
    """No durable notification is taken: the store is full, or what a neighbour is owed."""

    peer: Peer | None
    used_bytes: int


Occurrence: TypeAlias = SetAside | Lost | StoppedWaiting | StoreFull
