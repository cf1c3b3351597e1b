"""What a node is made with: one name, one store, one authorizer, its links and its limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kbn.broker.access import AllowAll, Authorizer
from kbn.broker.limits import BrokerLimits, ClientLimits
from kbn.broker.settings import UnknownTermsMode
from kbn.broker.store import Store
from kbn.broker.topology import Role, Routing
from kbn.broker.wire_versions import WIRE, WireVersions
from kbn.ontology import Ontology


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Bounds of one node; `ClientLimits` has those of a client's requests.

    One turn does `turn_work` units of work (see `work.py`), and what does not fit waits for the
    next. A client is sent deliveries while less than `room_bytes` waits in its socket. A connection
    in which more than `unwritten_bytes` waits is dropped: nobody reads there. `ontology_bytes` is
    what the files of an ontology may hold that a manager asks for.
    """

    turn_work: int = 20_000
    connections: int = 10_000
    frame_bytes: int = 4 << 20
    broker_frame_bytes: int = 256 << 20
    room_bytes: int = 1 << 20
    unwritten_bytes: int = 256 << 20
    ontology_bytes: int = 256 << 20
    connect_timeout_s: float = 10.0
    silent_s: float = 30.0


@dataclass(frozen=True, slots=True)
class LinkTo:
    """A neighbour to connect to; `role` is what it is to us, `token` what we show it.

    With its `name`, what is published before it was ever reached is kept for it, too.
    """

    url: str
    role: Role = "peer"
    token: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """The configuration of one node.

    One that `adapts` takes the shape of the first neighbour that comes while it has none.
    `token` is what it shows where it was not told another: at a broker that it is moved to.
    Without a `store`, or with one that does not outlive the process (`keeps`), durable requests
    are refused. `check_url` raises `InvalidInputError` for what is no address, `check_ontologies`
    for files that a manager may not have loaded. `ontology_digest` is the digest of the ontology,
    unless another is given. With `checks_certificates` a peer must have the name that its
    certificate shows.
    """

    name: str
    routing: Routing = "acyclic"
    adapts: bool = False
    links: tuple[LinkTo, ...] = ()
    token: str = ""
    ontology: Ontology | None = None
    ontology_digest: str | None = None
    store: Store | None = None
    keeps: bool = True
    authorizer: Authorizer = field(default_factory=AllowAll)
    limits: ClientLimits = field(default_factory=ClientLimits)
    broker_limits: BrokerLimits = field(default_factory=BrokerLimits)
    server_limits: ServerLimits = field(default_factory=ServerLimits)
    advertisements: bool = False
    unknown_terms: UnknownTermsMode = "tell"
    keeps_roots: bool = False
    checks_certificates: bool = False
    wire: WireVersions = WIRE
    check_url: Callable[[str], None] = lambda url: None
    check_ontologies: Callable[[tuple[str, ...]], None] = lambda paths: None
    retransmit_s: float | None = None

    @property
    def digest(self) -> str:
        """The digest that clients and neighbours are told."""
        if self.ontology_digest is not None:
            return self.ontology_digest
        return "" if self.ontology is None else self.ontology.digest
