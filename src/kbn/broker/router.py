"""The router: takes a notification to the clients and the neighbours that it is for.

A notification goes to the clients that want it and to the neighbours that announced a filter for
it, never back to where it came from. `route` decides; the router knows what is decided about, and
puts the notification into the queues. Between general peers it goes along the edges of a spanning
tree, and the view of the tree tells repetitions.
"""

from __future__ import annotations

from collections.abc import Iterator

from kbn.broker.chores import Chores
from kbn.broker.client_session import ClientSession
from kbn.broker.client_sessions import ClientSessions
from kbn.broker.contents import Contents
from kbn.broker.fan_out import FanOuts
from kbn.broker.interests import Interests
from kbn.broker.kept import Kept
from kbn.broker.messages import Envelope, Peer
from kbn.broker.neighbour import Neighbour
from kbn.broker.neighbour_sessions import NeighbourSessions
from kbn.broker.outbox import Outbox
from kbn.broker.room import Room
from kbn.broker.route import route
from kbn.broker.seen import SeenViews
from kbn.broker.store import Store
from kbn.broker.work import SENT
from kbn.filters import Notification


class Router:
    """Routes the notifications of one broker.

    `forwarded` counts what neighbours were sent. With `uses_advertisements`, a durable notification
    may have to go to every neighbour.
    """

    def __init__(
        self,
        store: Store,
        outbox: Outbox,
        clients: ClientSessions,
        neighbours: NeighbourSessions,
        interests: Interests,
        room: Room,
        fan_outs: FanOuts,
    ) -> None:
        self.forwarded = 0
        self.uses_advertisements = False
        self.contents = Contents(outbox.work)
        self.chores = Chores(outbox.work)
        self.fan_outs = fan_outs
        self._store = store
        self._outbox = outbox
        self._deliver = clients.traffic.deliver
        self._neighbours = neighbours
        self._interests = interests
        self._room = room
        self._seen = SeenViews(store)

    def route(
        self,
        envelope: Envelope,
        notification: Notification,
        publisher: ClientSession | None = None,
        *,
        came_from: str | None,
    ) -> None:
        """Deliver here and pass on: what a client of ours publishes, or a neighbour brings."""
        neighbours = self._neighbours
        is_repetition = False
        if neighbours.routing == "general":
            view = neighbours.tree.view
            known = self._seen.see(envelope, view)
            if known == view:
                return
            is_repetition = known is not None
        move = neighbours.move
        if move is not None:
            move.saw(envelope)
        targets = route(
            self.contents.match(envelope.content, notification, self._interests.table),
            came_from,
            neighbours.in_tree(),
            everywhere=envelope.everywhere,
            move=move,
            is_repetition=is_repetition,
        )
        kept = Kept(self._store, envelope)
        for neighbour in targets.neighbours:
            self.pass_on(neighbour, kept)
        if self.fan_outs.is_small(targets.clients):
            for name, ids in targets.clients.items():
                self._deliver(name, ids, kept, publisher)
        else:
            sender = publisher.peer if publisher is not None else Peer("broker", str(came_from))
            rest = self.fan_outs.begin(targets.clients, kept, publisher, sender)
            if rest is not None:
                self.chores.add(rest, sender)
        if envelope.durable and neighbours.unmet and not is_repetition:
            for url, queue in neighbours.unmet.keep(kept):
                self._room.queued(url, queue)

    def restore(self) -> None:
        """Go on with what was on its way to many when the broker was stopped."""
        for rest, sender in self.fan_outs.restore():
            self.chores.add(rest, sender)

    def pass_on(self, neighbour: Neighbour, kept: Kept) -> None:
        """Send a notification to a neighbour."""
        self.forwarded += 1
        self._outbox.work.done += SENT
        self._neighbours.traffic.pass_on(neighbour, kept)
        if kept.envelope.durable:
            self._room.queued(neighbour.name, neighbour.unacked)

    def route_again(self, envelope: Envelope) -> None:
        """Send what a neighbour has not acknowledged to all neighbours in the new tree."""
        self._seen.see(envelope, self._neighbours.tree.view)
        kept = Kept(self._store, envelope)
        for neighbour in self._neighbours.in_tree():
            self.pass_on(neighbour, kept)

    def route_late(self, envelope: Envelope, neighbour: Neighbour) -> None:
        """Send what was kept for a neighbour before we knew that it was one."""
        if self._neighbours.routing == "general":
            self.route_again(envelope)
        else:
            self.pass_on(neighbour, Kept(self._store, envelope))

    # What can be handled, and when.

    def has_matched(self, content: bytes) -> bool:
        """Whether a notification was matched ahead of time."""
        return self.contents.has_matched(content, self._interests.table)

    def is_ready_for(self, content: bytes, sender: Peer) -> bool:
        """Whether a notification can be handled now; if not, it is matched first, in steps."""
        if self.contents.is_ready(content, self._interests.table):
            return True
        self.chores.add(self.preparing(content), sender)
        return False

    def preparing(self, content: bytes) -> Iterator[None]:
        """Match a notification in steps; it can be handled then."""
        self.contents.open(content)
        while not self.contents.prepare(content, self._interests.table):
            yield

    def check_room(self, content: bytes, notification: Notification) -> None:
        """Raise `LimitError` when there is no room for a durable notification of our client."""
        self._room.check(len(content))
        if self._room.full:
            self._room.refuse(self._durable_hops(content, notification, None))

    def has_room(self, content: bytes, notification: Notification, came_from: str) -> bool:
        """Whether there is room for a durable notification that a neighbour brings."""
        return self._room.full.isdisjoint(self._durable_hops(content, notification, came_from))

    def _durable_hops(
        self, content: bytes, notification: Notification, came_from: str | None
    ) -> list[str]:
        """Whom a durable notification would be kept for, beside clients."""
        neighbours = self._neighbours
        targets = route(
            self.contents.match(content, notification, self._interests.table),
            came_from,
            neighbours.in_tree(),
            # With advertisements it may go everywhere: to wait for room in vain does no harm.
            everywhere=self.uses_advertisements,
            move=neighbours.move,
        )
        return [*(each.name for each in targets.neighbours), *neighbours.unmet]
