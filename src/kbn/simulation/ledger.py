"""The ledger of a world: who wanted what, who published what, and so what is owed to whom.

It knows nothing of brokers. It is the plain meaning of what they promise: it asks every
subscription about every publication.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kbn.broker import NotificationId
from kbn.filters import Notification, Subscription
from kbn.simulation.client import SimulatedClient
from kbn.simulation.drawing import Contents
from kbn.simulation.world_limits import refused_to


@dataclass(slots=True)
class Interest:
    """One subscription of a client, and when it began and ceased to count."""

    subscription: Subscription
    request: int | None = None
    in_force_at: float | None = None
    given_up_at: float | None = None
    is_unsubscribed: bool = False
    is_lost: bool = False  # by a disk: its broker does not know what it was

    @property
    def is_known(self) -> bool:
        """Whether its broker knows it, and can tell whether the client may have it."""
        return not self.is_unsubscribed and not self.is_lost

    def begin_again(self, request: int) -> None:
        """What was owed for it is not any more; it counts again from when it is in force."""
        self.in_force_at, self.request = None, request


@dataclass(slots=True)
class Published:
    """`id` is that of the publication wherever it is."""

    id: NotificationId
    notification: Notification
    at: float
    is_forbidden: bool = False  # its publisher may not publish it
    is_uncertain: bool = False  # it may be lost: refused for a while, or nobody has confirmed it
    was_taken: bool = False  # by a broker that has lost it: it may be refused, and delivered before
    may_repeat: bool = False  # a broker has lost the mark that it had this one


@dataclass(slots=True)
class Ledger:
    """What all clients of a world wanted and published, in all their processes.

    `ended` has the processes of clients that are over, by name.
    """

    contents: Contents
    interests: dict[str, dict[int, Interest]] = field(default_factory=dict)
    published: list[Published] = field(default_factory=list)
    ended: dict[str, list[SimulatedClient]] = field(default_factory=dict)
    _by_id: dict[NotificationId, Published] = field(default_factory=dict)

    def processes(self, client: SimulatedClient) -> list[SimulatedClient]:
        """All processes of a client so far."""
        return [*self.ended.get(client.name, ()), client]

    def received(self, client: SimulatedClient) -> set[NotificationId]:
        """What any process of a client has had."""
        return {each.id for process in self.processes(client) for each in process.received}

    def expected(
        self, client: SimulatedClient, publishers: Iterable[SimulatedClient]
    ) -> tuple[set[NotificationId], set[NotificationId]]:
        """What a client must have had, and what it may have had."""
        must, may = set(), set()
        refused = self._refused(publishers)
        for published in self.published:
            is_refused = published.id in refused and not published.was_taken
            if published.is_forbidden or is_refused:
                continue
            for interest in self.interests[client.name].values():
                if not self.contents.matches(interest.subscription, published.notification):
                    continue
                may.add(published.id)
                if client.core.is_durable and self._is_promised(interest, published):
                    must.add(published.id)
        return must, may

    def _is_promised(self, interest: Interest, published: Published) -> bool:
        in_force_at = interest.in_force_at
        return (
            in_force_at is not None
            and in_force_at < published.at
            and interest.given_up_at is None
            and not published.is_uncertain
        )

    def publish(self, published: Published) -> None:
        """Note a publication."""
        self.published.append(published)
        self._by_id[published.id] = published

    def is_as_published(self, id: NotificationId, received: Notification) -> bool:
        """Whether a client has had what was published under that id, or a part that it may see."""
        known = self._by_id.get(id)
        return known is not None and dict(received).items() <= dict(known.notification).items()

    def _refused(self, publishers: Iterable[SimulatedClient]) -> set[NotificationId]:
        """What publishers were told is refused."""
        return {
            NotificationId(process.name, process.epoch, number, durable=True)
            for publisher in publishers
            for process in self.processes(publisher)
            for number in refused_to(process)
        }

    def may_be_late(self, id: NotificationId) -> bool:
        """Whether this one may come out of order: a disk has lost it, or the mark that it came."""
        known = self._by_id.get(id)
        return known is not None and (known.was_taken or known.may_repeat)

    def mark_lost(self) -> None:
        """A broker does not know any more what a neighbour has sent: all of it may come again."""
        for published in self.published:
            published.may_repeat = True

    def note_in_force(self, client: SimulatedClient, now: float) -> None:
        """Note which subscriptions of a client are in force by now."""
        # Another broker than the one it is at may be the one that does not know what it has lost.
        is_at_one = not client.core.is_moving and not client.core.former
        for interest in self.interests[client.name].values():
            request = interest.request or 0
            is_waiting = interest.in_force_at is None and interest.request is not None
            if is_waiting and client.has("barrier", request):
                interest.in_force_at = now
            if interest.in_force_at is not None and is_at_one:
                interest.is_lost = False

    def lost(self, ids: Iterable[NotificationId]) -> None:
        """A disk has lost these: nobody is owed them any more."""
        for id in ids:
            published = self._by_id.get(id)
            if published is not None:
                published.is_uncertain = published.was_taken = True
