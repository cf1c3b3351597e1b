"""What a `Node` notes for those who watch it: logs, metrics, tests. Nobody has to listen."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from kbn.broker.messages import ByeCause, Peer
from kbn.broker.occurrences import Lost, Occurrence, SetAside, StoppedWaiting, StoreFull

__all__ = ["Lost", "Note", "SetAside", "StoppedWaiting", "StoreFull"]


class ClientAttached(NamedTuple):
    """A client has connected, and had no connection before."""

    client: str
    address: str


class ClientLeft(NamedTuple):
    """The connection of a client is closed."""

    client: str


class ConnectionRefused(NamedTuple):
    """A connection was dropped, for a reason that the other side was told."""

    peer: Peer | None
    address: str
    kind: str
    reason: str


class RequestRefused(NamedTuple):
    """A client asked for something that is wrong or not allowed."""

    client: str
    what: str
    kind: str
    reason: str


class ConnectionReplaced(NamedTuple):
    """A newer connection has taken the place of an older one of the same peer."""

    peer: Peer


class ConnectionsCrossed(NamedTuple):
    """This broker and a neighbour connected to each other; one connection was kept."""

    broker: str
    kept: Literal["ours", "theirs"]


class NeighbourConnected(NamedTuple):
    """A neighbour is connected; `again` says that it was before, since this node started."""

    broker: str
    again: bool


class NeighbourLost(NamedTuple):
    """The connection to a neighbour is closed."""

    broker: str


class NeighbourLeft(NamedTuple):
    """A neighbour says that it takes the link down, or refuses it."""

    broker: str
    cause: ByeCause
    reason: str


class DialFailed(NamedTuple):
    """A neighbour could not be reached, or refused; the node tries again."""

    url: str
    reason: str


class MoveEnded(NamedTuple):
    """A move of this broker is over; `trouble` says why it stays where it was."""

    leaving: str
    to: str
    trouble: str | None


class NotReading(NamedTuple):
    """A peer does not read what it is sent, and was dropped."""

    peer: Peer | None


class Bug(NamedTuple):
    """The broker stumbled over a message; its sender was dropped."""

    peer: Peer
    message: str
    error: Exception


class OntologyUnchanged(NamedTuple):
    """The ontology was loaded again and is the one in use."""

    digest: str


class OntologyUsed(NamedTuple):
    """The broker reasons with another ontology."""

    digest: str


class OntologyFailed(NamedTuple):
    """An ontology could not be loaded; the one in use stays."""

    reason: str


class StoreFailed(NamedTuple):
    """The store cannot keep what it is given; the node stops."""

    reason: str


Note: TypeAlias = (
    ClientAttached
    | ClientLeft
    | ConnectionRefused
    | RequestRefused
    | ConnectionReplaced
    | ConnectionsCrossed
    | NeighbourConnected
    | NeighbourLost
    | NeighbourLeft
    | DialFailed
    | MoveEnded
    | NotReading
    | Bug
    | OntologyUnchanged
    | OntologyUsed
    | OntologyFailed
    | StoreFailed
    | Occurrence
)
