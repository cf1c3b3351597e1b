"""Routing: where a notification goes from here."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from msgspec import msgpack
from msgspec.structs import replace

from kbn.broker import content
from kbn.broker.client_session import ENVELOPES, ClientSession
from kbn.broker.core import Core
from kbn.broker.messages import (
    Envelope,
    Forward,
)  # fmt: skip
from kbn.broker.neighbour import CARRIED_AHEAD_MAX, Neighbour
from kbn.broker.store import Store
from kbn.broker.table import Wanted
from kbn.errors import KbnError
from kbn.filters import Notification

ENCODER = msgpack.Encoder()
SEEN_MAX = 1_000_000
HOPS_MAX = 1_000


class Router(Core):
    """Delivers notifications to clients, and passes them on to neighbours."""

    def prematch(self, contents: Iterable[bytes]) -> None:
        """Read and match contents that are about to come, together: routing them is cheaper then.

        It changes nothing else: what was not prematched, or before a change of the table, is
        matched when it comes.
        """
        read: dict[bytes, Notification] = {}
        for each in contents:
            with suppress(KbnError):  # who sent it is told when it comes
                read[each] = content.decode(each)
        wanted = self.table.match_many(list(read.values()))
        self._prematched = dict(zip(read, zip(read.values(), wanted, strict=True), strict=True))
        self._prematched_in = self.table.version

    def _read_content(self, encoded: bytes) -> Notification:
        known = self._prematched.get(encoded)
        return content.decode(encoded) if known is None else known[0]

    def _match(self, encoded: bytes, notification: Notification) -> Wanted:
        known = self._prematched.get(encoded)
        if known is None or self._prematched_in != self.table.version:
            return self.table.match(notification)
        return known[1]

    def _route(
        self,
        envelope: Envelope,
        notification: Notification,
        source: Neighbour | None,
        publisher: ClientSession | None = None,
    ) -> None:
        """Deliver here and pass on."""
        if envelope.hops >= HOPS_MAX:
            self.counts["dropped"] += 1  # no tree is so deep: somebody has closed a cycle
            return
        is_new = True
        if self.routing == "general":
            known = self._known_view(envelope)
            if known == self._tree.view:
                return
            is_new = known is None
        path = None if envelope.path is None else (*envelope.path, self.name)
        envelope = replace(envelope, hops=envelope.hops + 1, path=path)
        wanted = self._match(envelope.content, notification)
        kept = Kept(self._store, envelope)
        if is_new:
            for name, ids in wanted.clients.items():
                self._deliver(self._clients[name], tuple(ids), kept, publisher)
        came_from = None if source is None else source.name
        if self._rehoming is not None:
            self._rehoming.saw(envelope)
        for neighbour in self._tree_neighbours():
            if self._rehoming is not None and not self._rehoming.lets_pass(
                came_from, neighbour.name
            ):
                continue
            if neighbour is not source and self._takes(neighbour, wanted.neighbours, envelope):
                self._pass_on(neighbour, kept)

    def _known_view(self, envelope: Envelope) -> str | None:
        """In which view this notification was handled before; from now on, in the present one."""
        id = envelope.id
        known = self._seen.pop(id, None)
        self._seen[id] = self._tree.view
        if len(self._seen) > SEEN_MAX:
            self._seen.popitem(last=False)
        if envelope.durable:
            mark = ENCODER.encode(id)
            if known is None and self._store.has_seen(mark):
                known = ""
            if known is None:
                self._store.saw(mark, SEEN_MAX)
        return known

    def _takes(self, neighbour: Neighbour, wanted: set[str], envelope: Envelope) -> bool:
        return (
            neighbour.role == "parent"
            or neighbour.name in wanted
            or envelope.everywhere
            or not self._is_trusted(neighbour)
        )

    def _deliver(
        self,
        session: ClientSession,
        ids: tuple[int, ...],
        kept: Kept,
        publisher: ClientSession | None,
    ) -> None:
        self.counts["matched"] += 1
        if session.unacked is not None:
            session.unacked.push(kept.key(), ENCODER.encode(ids), kept.body())
        else:
            session.enqueue(ids, kept.envelope, self.limits)
            if publisher is not None and session.is_full(self.limits):
                publisher.waits_for.add(session.peer.name)
                session.stops.add(publisher.peer.name)
        self._to_pump[session.peer.name] = session

    def _pass_on(self, neighbour: Neighbour, kept: Kept) -> None:
        self.counts["forwarded"] += 1
        if kept.envelope.durable:
            neighbour.unacked.push(kept.key(), b"", kept.body())
            self._carry(neighbour)
        else:
            neighbour.enqueue(kept.envelope)
            self._fire(neighbour)

    def _carry(self, neighbour: Neighbour) -> None:
        """Send what a neighbour is unacked, so far ahead of what it took."""
        if self._is_put_aside(neighbour):
            return
        while neighbour.channel is not None and neighbour.unacked.in_flight < CARRIED_AHEAD_MAX:
            unacked = neighbour.unacked.next()
            if unacked is None:
                break
            self._send_body(
                neighbour.name, Forward(unacked.sequence, ENVELOPES.decode(unacked.envelope))
            )
        self._follow(neighbour)

    def _is_put_aside(self, neighbour: Neighbour) -> bool:
        return self._rehoming is not None and neighbour.name == self._rehoming.new

    def _fire(self, neighbour: Neighbour) -> None:
        if self._is_put_aside(neighbour):
            return
        for fire in neighbour.fires():
            self._send(neighbour.peer, fire)
        self._follow(neighbour)

    def _route_again(self, envelope: Envelope) -> None:
        self._known_view(envelope)
        kept = Kept(self._store, envelope)
        for neighbour in self._tree_neighbours():
            self._pass_on(neighbour, kept)


class Kept:
    """A notification being routed: encoded and stored when the first asks for it, then shared."""

    __slots__ = ("_body", "_key", "_store", "envelope")

    def __init__(self, store: Store, envelope: Envelope) -> None:
        self.envelope = envelope
        self._store = store
        self._body: bytes | None = None
        self._key: int | None = None

    def body(self) -> bytes:
        if self._body is None:
            self._body = ENCODER.encode(self.envelope)
        return self._body

    def key(self) -> int:
        if self._key is None:
            self._key = self._store.keep(self.body())
        return self._key
