"""The ledger of a world: who wanted what, who published what, and so what is owed to whom.

It knows nothing of brokers. It is the plain meaning of what they promise: it asks every
subscription about every publication.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
    was_taken: bool = False  # by a broker that does not know: it may be refused, and was delivered
    may_repeat: bool = False  # a broker does not know that it had it from a neighbour


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
            is_refused = published.id in refused
            if published.is_forbidden or (is_refused and not published.was_taken):
                continue
            for interest in self.interests[client.name].values():
                if not self.contents.matches(interest.subscription, published.notification):
                    continue
                may.add(published.id)
                is_promised = self._is_promised(interest, published) and not is_refused
                if client.core.is_durable and is_promised:
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

    def may_come_again(self, ids: Iterable[NotificationId]) -> None:
        """A broker does not know any more that it had these from a neighbour."""
        for id in ids:
            self._by_id[id].may_repeat = True

    def may_be_published_again(self, ids: Iterable[NotificationId]) -> None:
        """A broker does not know any more that it had these from their publisher."""
        for id in ids:
            self._by_id[id].was_taken = True

    def unconfirmed(self, client: SimulatedClient) -> set[NotificationId]:
        """What a process has published, and no broker has confirmed to it."""
        mine = {each.id for each in self.published if each.id[:2] == (client.name, client.epoch)}
        return {id for id in mine if id.number > client.core.stored_up_to}

    def up_to(self, newest: Mapping[tuple[str, int], int]) -> set[NotificationId]:
        """What processes of publishers have published up to these numbers."""
        found = (each.id for each in self.published)
        return {id for id in found if id.number <= newest.get((id.publisher, id.epoch), 0)}

    def note_in_force(self, client: SimulatedClient, now: float) -> None:
        """Note which subscriptions of a client are in force by now."""
        for interest in self.interests[client.name].values():
            request = interest.request or 0
            is_waiting = interest.in_force_at is None and interest.request is not None
            if is_waiting and client.has("barrier", request):
                interest.in_force_at = now

    def lost(self, ids: Iterable[NotificationId]) -> None:
        """A disk has lost these: nobody is owed them any more."""
        for id in ids:
            published = self._by_id.get(id)
            if published is not None:
                published.is_uncertain = published.was_taken = True
