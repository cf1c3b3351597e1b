"""A client in the simulated network, and the notifications that reached it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kbn.broker import (
    AdminBody,
    ClientCore,
    ClientSettings,
    Confirmed,
    Delivered,
    Failed,
    Lost,
    NotificationId,
    TermsUnknown,
    content,
)
from kbn.filters import Notification, Subscription
from kbn.simulation.connection import End, SimulatedConnection

if TYPE_CHECKING:
    from kbn.simulation.network import Network


@dataclass(frozen=True, slots=True)
class Received:
    """A notification that reached an application."""

    id: NotificationId
    notification: Notification
    subscriptions: tuple[int, ...]
    hops: int
    path: tuple[str, ...] | None
    at: float
    delay_s: float
    by_manager: bool = False
    broker: str = ""
    strand: int = 0
    is_late: bool = False


@dataclass(slots=True, eq=False)
class Line:
    """A broker that a client wants a connection to, and the connection while there is one."""

    broker: str
    connection: SimulatedConnection | None = None
    end: End | None = None
    was_welcome: bool = False
    attempts: int = 0
    heard_at: float = 0.0


@dataclass(slots=True, eq=False)
class SimulatedClient:
    """A client in the network. What it asks takes effect as simulated time goes on.

    It is one process, whose `epoch` is its own. Its clock is `ahead_s`.
    """

    network: Network
    core: ClientCore
    key: str
    epoch: int
    settings: ClientSettings
    ahead_s: float = 0.0
    received: list[Received] = field(default_factory=list)
    confirmed: list[Confirmed] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)
    moves: list[str] = field(default_factory=list)
    ontologies: list[str] = field(default_factory=list)
    unknown: list[TermsUnknown] = field(default_factory=list)
    lost: list[Lost] = field(default_factory=list)
    unread: list[Delivered] = field(default_factory=list)
    is_reading: bool = True
    lines: dict[str, Line] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.core.name

    @property
    def broker(self) -> str:
        return self.core.broker

    def subscribe(self, subscription: Subscription | str) -> int:
        """Want what the subscription says; the number it is known by."""
        if isinstance(subscription, str):
            id, effects = self.core.subscribe(subscription)
        else:
            id, effects = self.core.subscribe(json_text(subscription), is_text=False)
        self.network.carry_out(self, effects)
        return id

    def unsubscribe(self, id: int) -> None:
        self.network.carry_out(self, self.core.unsubscribe(id))

    def advertise(self, advertisement: Subscription | str) -> int:
        if isinstance(advertisement, str):
            id, effects = self.core.advertise(advertisement)
        else:
            id, effects = self.core.advertise(json_text(advertisement), is_text=False)
        self.network.carry_out(self, effects)
        return id

    def unadvertise(self, id: int) -> None:
        self.network.carry_out(self, self.core.unadvertise(id))

    def publish(
        self, notification: Notification | Mapping[str, object], *, durable: bool = False
    ) -> int:
        """Publish; the number by which a durable one is confirmed."""
        if not isinstance(notification, Notification):
            notification = Notification(notification)
        body = content.encode(notification.attributes)
        number, effects = self.core.publish(body, self.network.now + self.ahead_s, durable)
        self.network.carry_out(self, effects)
        return number

    def admin(self, body: AdminBody) -> int:
        """Ask the broker, or instruct it; the number by which it is answered."""
        request, effects = self.core.admin(body)
        self.network.carry_out(self, effects)
        return request

    def barrier(self) -> int:
        request, effects = self.core.barrier()
        self.network.carry_out(self, effects)
        return request

    def move(self, broker: str) -> None:
        self.network.carry_out(self, self.core.move(broker, broker))

    def stop_reading(self) -> None:
        """Be done with nothing that comes, until `read`."""
        self.is_reading = False

    def read(self) -> None:
        """Be done with all that has come, and with what comes from now on."""
        self.is_reading = True
        unread, self.unread = self.unread, []
        for delivered in unread:
            self.network.carry_out(self, self.core.consumed(delivered))

    def leave(self) -> None:
        self.network.carry_out(self, self.core.leave())

    def has(self, what: str, reference: int) -> bool:
        """Whether something asked for is confirmed."""
        return any((each.what, each.reference) == (what, reference) for each in self.confirmed)


def json_text(subscription: Subscription) -> str:
    """A subscription's JSON, as it is sent."""
    import json

    return json.dumps(subscription.to_json(), separators=(",", ":"), ensure_ascii=False)
