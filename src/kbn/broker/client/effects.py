"""Effects: what a client's core asks its shell to do."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from kbn.broker.administration import AdminResult
from kbn.broker.messages import Deliver, Explained, Send, TermNote


class Dial(NamedTuple):
    """Open a connection to a broker."""

    broker: str
    url: str


class HangUp(NamedTuple):
    """Close the connection to a broker."""

    broker: str


class Delivered(NamedTuple):
    """A notification for the application; say `consumed` when it is done with it.

    `is_late`: it comes from a former broker, maybe behind what its publisher published later.
    """

    delivery: Deliver
    broker: str
    is_late: bool = False


class Confirmed(NamedTuple):
    """A request is done: `what` as in `Done`, or publish, barrier, admin-request, explain,
    leave.
    """

    what: str
    reference: int
    result: AdminResult | Explained | None = None


class Failed(NamedTuple):
    """A request was refused; of a notification, `durable` tells which of its numbers is meant."""

    what: str
    reference: int
    kind: str
    reason: str
    durable: bool = False


class Lost(NamedTuple):
    """A broker has dropped deliveries to this client, `more` than it had: `total` by now."""

    broker: str
    more: int
    total: int


class TermsUnknown(NamedTuple):
    """Of what was published, so many `more` notifications had terms that the broker's ontology does
    not know; `terms` are those that were not told before.
    """

    more: int
    terms: tuple[TermNote, ...]


class OntologyChanged(NamedTuple):
    """The broker reasons with another ontology from now on."""

    ontology: str


class Moved(NamedTuple):
    """The client is at another broker now."""

    broker: str


Effect: TypeAlias = (
    Send
    | Dial
    | HangUp
    | Delivered
    | Lost
    | Confirmed
    | Failed
    | TermsUnknown
    | OntologyChanged
    | Moved
)
