"""What a shell tells its `Node`: what happened to connections, and what an administrator asks.

A connection is known by a number that the shell gives it and never uses again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from kbn.broker.routing_table import RoutingTable
from kbn.ontology import Ontology


class Opened(NamedTuple):
    """A connection stands.

    `link` is the number of the `Dial` that made it; None when the other side connected to us.
    `certificate` is the name in the certificate that the other side has shown.
    """

    connection: int
    address: str = ""
    link: int | None = None
    certificate: str | None = None


class Received(NamedTuple):
    """Whole frames arrived on a connection, in this order."""

    connection: int
    frames: list[bytes]


class Broken(NamedTuple):
    """What arrived cannot be cut into frames."""

    connection: int
    reason: str


class Stalled(NamedTuple):
    """The other side does not read: so many bytes wait to be written, which is too much."""

    connection: int
    waiting_bytes: int


class Writable(NamedTuple):
    """There is room: what was sent is written, but for so many bytes.

    Reported after a `Send` that left bytes waiting or was cut short, and when `Stalled` is over.
    """

    connection: int
    waiting_bytes: int = 0


class Closed(NamedTuple):
    """A connection is closed, by whichever side."""

    connection: int


class DialFailed(NamedTuple):
    """A `Dial` made no connection."""

    link: int
    reason: str


class Tick(NamedTuple):
    """Time has passed."""


class Unlink(NamedTuple):
    """Drop a neighbour, and what is unacked by it; of a `retired` one, that goes elsewhere."""

    broker: str
    retired: bool = False


class MoveBroker(NamedTuple):
    """Move this broker, with all that hangs on it, to the broker at `url`.

    `leaving` names the neighbour to leave; it may be left out when there is only one.
    """

    url: str
    leaving: str | None = None


@dataclass(frozen=True, slots=True)
class UseOntology:
    """Reason with another ontology from now on; `table` is what `Broker.rebuilding` made for it."""

    ontology: Ontology | None
    digest: str
    table: RoutingTable | None = None


class AccessChanged(NamedTuple):
    """The authorizer decides by other rules from now on: everybody is to obey them."""


class OntologyFailed(NamedTuple):
    """An ontology could not be loaded; the one in use stays."""

    reason: str


Event: TypeAlias = (
    Opened
    | Received
    | Broken
    | Stalled
    | Writable
    | Closed
    | DialFailed
    | Tick
    | Unlink
    | MoveBroker
    | UseOntology
    | OntologyFailed
    | AccessChanged
)
