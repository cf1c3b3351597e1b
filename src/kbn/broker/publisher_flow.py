"""Publisher flow: how much each client may publish, and who waits for a slow subscriber.

A publisher is granted so many notifications ahead. It gets no more while a client of this broker
that blocks (`when_slow`) has too much waiting for it; after `block_s` the publishers go on, and the
slow client loses its oldest deliveries. Durable publications are taken in order and once: the store
knows how far each publisher is.
"""

from __future__ import annotations

from collections.abc import Mapping

from kbn.broker.client_session import ClientSession
from kbn.broker.messages import Grant, PubAck, Publish, Refused
from kbn.broker.occurrences import StoppedWaiting
from kbn.broker.outbox import Outbox
from kbn.broker.publisher_marks import PublisherMarks
from kbn.broker.set_aside import Aside
from kbn.broker.store import Store
from kbn.errors import LimitError


class PublisherFlow:
    """The publications of the clients of one broker."""

    def __init__(
        self, by_name: Mapping[str, ClientSession], store: Store, aside: Aside, outbox: Outbox
    ) -> None:
        self._by_name = by_name
        self._outbox = outbox
        self._marks = PublisherMarks(store, aside, outbox.now)
        self._slow: dict[str, ClientSession] = {}  # those that publishers wait for

    def resume(self, session: ClientSession, published: int) -> None:
        """A client has connected: go on where the store has it; it knows of those `published`."""
        stored = self._marks.of(session.name, session.epoch)
        session.publications.resume(stored, published)

    def accept(self, publish: Publish, session: ClientSession) -> bool:
        """Whether to handle a publication: it is the next, and the client was granted it.

        Its number is used up then. LimitError when it was not granted, and nobody stopped it.
        """
        publications = session.publications
        if not publications.is_next(publish):
            if publish.durable and publish.number <= publications.stored:
                self._outbox.send(session.peer, self.stored_up_to(session))
            return False
        if publications.published >= publications.granted:
            if publications.waits_for:
                return False
            raise LimitError(
                f"more than {session.limits.publish_ahead} notifications ahead of what was granted",
                limit="notifications published ahead",
                maximum=session.limits.publish_ahead,
            )
        publications.count(publish)
        return True

    def handled(self, publish: Publish, session: ClientSession, *, is_refused: bool) -> None:
        """A durable publication is about to be stored, or is refused."""
        publications = session.publications
        if is_refused:
            publications.refuse(publish, session.limits.publish_ahead)
        self._marks.keep(
            session.name, session.epoch, publish.number, publications.refused, self._outbox.now
        )
        self._outbox.send(session.peer, self.stored_up_to(session))

    def stored_up_to(self, session: ClientSession) -> PubAck:
        """What a publisher is told of its durable notifications."""
        return PubAck(session.publications.stored, session.publications.refused)

    def forget_silent(self) -> None:
        """Forget how far publishers are that are silent too long."""
        self._marks.tick(self._outbox.now)

    def grant(self, session: ClientSession) -> None:
        """Let a publisher go on before it has to wait, unless a slow subscriber stops it."""
        total = session.publications.grant(session.limits.publish_ahead)
        if total is not None:
            self._outbox.send(session.peer, Grant(total))

    def stop_when_full(self, publisher: ClientSession, slow: ClientSession) -> None:
        """Let a publisher wait for a slow client that is here and has too much before it."""
        if not slow.is_connected or not slow.deliveries.stops_publishers(slow.limits):
            return
        waiting = slow.deliveries.waiting
        publisher.publications.waits_for.add(slow.name)
        waiting.publishers.add(publisher.name)
        if waiting.since is None:
            waiting.since = self._outbox.now
            self._slow[slow.name] = slow

    def release(self, slow: ClientSession) -> None:
        """Those that a slow client had stopped need not wait for it any longer."""
        self._slow.pop(slow.name, None)
        for name in sorted(slow.deliveries.waiting.end()):
            publisher = self._by_name.get(name)
            if publisher is not None:
                publisher.publications.waits_for.discard(slow.name)
                self.grant(publisher)

    def end_long_waits(self) -> None:
        """Publishers that have waited long enough for a slow client go on; it is told."""
        for session in list(self._slow.values()):
            since, limit = session.deliveries.waiting.since, session.limits.block_s
            if since is None or self._outbox.now - since < limit:
                continue
            self.release(session)
            session.deliveries.waiting.is_over = True
            reason = (
                f"publishers waited {limit:g} s for you: your oldest deliveries are dropped now"
            )
            refused = Refused("block", 0, LimitError.__name__, reason)
            self._outbox.send(session.peer, refused)
            self._outbox.note(StoppedWaiting(session.name, limit))
