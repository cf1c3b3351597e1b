"""The session of one client: who it is, what it may do, what it wants, and how it leaves."""

from __future__ import annotations

from dataclasses import dataclass, field
from weakref import ref

from kbn.broker.access import Permission
from kbn.broker.deliveries import Deliveries
from kbn.broker.limits import ClientLimits
from kbn.broker.messages import Connect, Hops, Peer
from kbn.broker.publications import Publications
from kbn.broker.told_terms import ToldTerms
from kbn.filters import Subscription


@dataclass(slots=True, weakref_slot=True)
class ClientSession:
    """One client; it is kept while the client is away if the client is durable.

    `token` is what it showed when it came, `redirect` the broker and the url it is sent to,
    `leaving` the number of its request to be forgotten, `hops` what it last told of the distances
    its notifications came. `former` is what it was subscribed to until it left.
    """

    peer: Peer
    epoch: int
    permission: Permission
    deliveries: Deliveries
    limits: ClientLimits
    token: str = ""
    publications: Publications = field(default_factory=Publications)
    is_connected: bool = True
    with_path: bool = False
    heard_at: float = 0.0
    subscriptions: dict[int, Subscription] = field(default_factory=dict)
    subscription_bytes: dict[int, int] = field(default_factory=dict)
    subscribed_bytes: int = 0  # of all of them
    former: dict[int, Subscription] = field(default_factory=dict)
    advertisements: dict[int, Subscription] = field(default_factory=dict)
    # Advertisements that the whole network knows of; until then what they cover goes everywhere.
    in_force: set[int] = field(default_factory=set)
    leaving: int | None = None
    is_drained: bool = False
    redirect: tuple[str, str] | None = None
    hops: Hops | None = None
    told_terms: ToldTerms | None = None  # once it has published an unknown one
    is_looked_at: bool = True  # since the access rules have changed

    def __post_init__(self) -> None:
        # Not the method itself: sessions that refer to themselves would be left to the search for
        # garbage, which does not look at what is old.
        session = ref(self)
        self.deliveries.holds = lambda id: (found := session()) is not None and found.holds(id)

    @property
    def name(self) -> str:
        return self.peer.name

    def holds(self, id: int) -> bool:
        """Whether it has a subscription, or had it when it left."""
        return id in self.subscriptions or id in self.former

    def allow(self, permission: Permission, limits: ClientLimits) -> None:
        """From now on it may do this, and use so much."""
        self.permission, self.limits = permission, limits
        self.deliveries.shown = permission.subscribe

    def count_text(self, id: int, size: int) -> None:
        """The text of a subscription has so many characters; 0: it is gone."""
        self.subscribed_bytes += size - self.subscription_bytes.pop(id, 0)
        if size:
            self.subscription_bytes[id] = size

    @property
    def is_durable(self) -> bool:
        return self.deliveries.unacked is not None

    @property
    def has_left(self) -> bool:
        """Whether it asked to be forgotten and has all that was on its way to it."""
        return self.leaving is not None and self.is_drained and self.deliveries.is_empty

    @property
    def room_bytes(self) -> float:
        """How many bytes of content its socket takes now; whoever drives the broker sets it."""
        return self.deliveries.room_bytes

    @room_bytes.setter
    def room_bytes(self, room_bytes: float) -> None:
        self.deliveries.room_bytes = room_bytes

    def connect(self, connect: Connect, permission: Permission, limits: ClientLimits) -> None:
        """Begin a connection, with what the client may do and use now."""
        self.allow(permission, limits)
        is_new_epoch = connect.epoch != self.epoch
        self.is_connected = True
        self.leaving, self.is_drained = None, False  # it says so again, if it still wants to
        self.told_terms = None
        self.token = connect.token
        self.with_path = connect.with_path
        self.epoch = connect.epoch
        self.deliveries.connect(connect, limits, is_new_epoch=is_new_epoch)
        self.publications.connect(connect, limits, is_new_epoch=is_new_epoch)
