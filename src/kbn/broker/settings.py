"""Settings: what a broker can be told when it is made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias, TypedDict

from kbn.broker.access import AllowAll, Authorizer
from kbn.broker.limits import BrokerLimits, ClientLimits
from kbn.broker.store import Store
from kbn.broker.topology import Routing
from kbn.ontology import Ontology

UnknownTermsMode: TypeAlias = Literal["tell", "refuse", "ignore"]


class SettingsGiven(TypedDict, total=False):
    """The fields of `Settings`, as arguments of `Broker`; None stands for what is usual."""

    routing: Routing
    adapts: bool
    ontology: Ontology | None
    ontology_digest: str
    store: Store | None
    keeps: bool
    advertisements: bool
    authorizer: Authorizer | None
    limits: ClientLimits | None
    broker_limits: BrokerLimits | None
    unknown_terms: UnknownTermsMode
    keeps_roots: bool
    now: float
    heartbeat_s: float
    dead_after_s: float
    retransmit_s: float | None


@dataclass(frozen=True, slots=True)
class Settings:
    """How a broker behaves.

    One that `adapts` takes the shape of the first neighbour that comes while it has none, whatever
    its `routing`. `keeps` is False where the store does not outlive the process: durable requests
    are refused then. `unknown_terms` says what to do about a notification with a term that the
    ontology does not know: tell its publisher, refuse it, or nothing. `now` is any clock that does
    not run backwards, in seconds; `retransmit_s` is None on links that neither lose nor reorder.
    """

    routing: Routing = "acyclic"
    adapts: bool = False
    keeps: bool = True
    advertisements: bool = False
    unknown_terms: UnknownTermsMode = "tell"
    authorizer: Authorizer = field(default_factory=AllowAll)
    limits: ClientLimits = field(default_factory=ClientLimits)
    broker_limits: BrokerLimits = field(default_factory=BrokerLimits)
    heartbeat_s: float = 1.0
    dead_after_s: float = 5.0
    retransmit_s: float | None = None

    @classmethod
    def of(cls, given: SettingsGiven) -> Settings:
        """The settings among a broker's arguments; the rest is what it starts with."""
        chosen = {k: v for k, v in given.items() if k in cls.__slots__ and v is not None}
        return cls(**chosen)  # type: ignore[arg-type]
