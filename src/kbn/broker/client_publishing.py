"""Publishing: what a client publishes is checked, put into an envelope and routed."""

from __future__ import annotations

from kbn.broker.client_answers import ClientAnswers
from kbn.broker.client_session import ClientSession
from kbn.broker.client_sessions import ClientSessions
from kbn.broker.content_size import value_count
from kbn.broker.contents import Contents
from kbn.broker.fields import SECONDS_MAX
from kbn.broker.interests import Interests
from kbn.broker.messages import Envelope, Publish
from kbn.broker.network import Network
from kbn.broker.outbox import Outbox
from kbn.broker.settings import Settings
from kbn.broker.unknown_terms import UnknownTerms
from kbn.broker.work import COMPARED, SIZED
from kbn.errors import InvalidInputError, KbnError
from kbn.filters import Notification

CONTENT_LOOKED_INTO = 2_048  # bytes: with less there is not too much in it
VALUES_COUNTED = 5  # of a content, for one unit of work
ADVERTISEMENTS_ASKED = 1_000  # of a publisher; what none of them covers goes everywhere

NOTHING = b"http://www.w3.org/2002/07/owl#Nothing"


class ClientPublishing:
    """Handles what the clients of one broker publish; `published` counts what was not refused."""

    def __init__(
        self,
        network: Network,
        settings: Settings,
        outbox: Outbox,
        clients: ClientSessions,
        interests: Interests,
        contents: Contents,
        answers: ClientAnswers,
    ) -> None:
        self.published = 0
        self._network = network
        self._settings = settings
        self._outbox = outbox
        self._by_name = clients.by_name
        self._flow = clients.flow
        self._interests = interests
        self._contents = contents
        self._answers = answers
        self.unknown_terms = UnknownTerms(settings.unknown_terms, outbox, interests)

    def publish(self, publish: Publish, session: ClientSession) -> None:
        """Route what a client publishes, or refuse it."""
        if not self._flow.accept(publish, session):
            return
        is_refused = True
        try:
            notification = self._checked(publish, session)
            is_refused = False
        except KbnError as error:
            # Before `PubAck`, which has no reason.
            self._answers.refuse(session.peer, publish, error)
            return
        finally:
            self._flow.grant(session)
            if publish.durable:
                self._flow.handled(publish, session, is_refused=is_refused)
        self.published += 1
        everywhere = self._settings.advertisements and not self._is_advertised(
            notification, publish.content, session
        )
        envelope = Envelope(
            session.peer.name,
            session.epoch,
            publish.number,
            publish.time,
            publish.content,
            publish.durable,
            hops=1,
            everywhere=everywhere,
            path=(self._network.name,) if session.with_path else None,
            by_manager=session.permission.manage,
            strand=session.publications.strand,
        )
        self._network.publish(envelope, notification, session)

    def _checked(self, publish: Publish, session: ClientSession) -> Notification:
        """What a client publishes; a KbnError when it may not."""
        if not abs(publish.time) <= SECONDS_MAX:
            raise InvalidInputError("a notification's time of publication is no number")
        notification = self.read(publish.content, session)
        session.permission.check_publish(notification)
        if publish.durable and not self._settings.keeps:
            raise InvalidInputError("this broker keeps nothing: start it with a store")
        if publish.durable:
            self._network.check_room(publish.content, notification)
        self.unknown_terms.look_at(notification, len(publish.content), session)
        return notification

    def read(self, content: bytes, session: ClientSession) -> Notification:
        """The notification in a content of a client; a KbnError when it is too large, or none."""
        self._check_content(content, session)
        notification = self._contents.read(content)
        self._check_size(notification, len(content), session)
        return notification

    def _check_size(self, notification: Notification, size: int, session: ClientSession) -> None:
        elements = session.limits.check_notification(notification, size)
        self._outbox.work.done += elements // SIZED

    def _check_content(self, content: bytes, session: ClientSession) -> None:
        """Raise `LimitError` when a content is too large to be read."""
        limits = session.limits
        limits.check_content(len(content))
        if len(content) > limits.values and not self._contents.is_open(content):
            count = value_count(content, limits.values)
            self._outbox.work.done += min(count, limits.values) // VALUES_COUNTED
            limits.check_values(count)

    def is_refused(self, content: bytes, name: str) -> bool:
        """Whether what a client publishes is too large, or the client is gone: then it need not be
        matched.
        """
        session = self._by_name.get(name)
        if session is None or not session.is_connected:
            return True
        try:
            self._check_content(content, session)
            if len(content) > CONTENT_LOOKED_INTO and self._contents.open(content):
                self._check_size(self._contents.read(content), len(content), session)
        except KbnError:
            return True
        return False

    def _is_advertised(
        self, notification: Notification, encoded: bytes, session: ClientSession
    ) -> bool:
        if NOTHING in encoded:  # below every class, so no two advertisements are apart for it
            return False
        ontology = self._interests.table.ontology
        for asked, id in enumerate(session.in_force):
            if asked == ADVERTISEMENTS_ASKED:
                return False
            self._outbox.work.done += COMPARED
            if session.advertisements[id].matches(notification, ontology):
                return True
        return False
