"""The handover: deliveries on their way from the brokers to the application."""

from __future__ import annotations

from kbn.broker.client.deliveries import Deliveries
from kbn.broker.client.effects import Delivered, Lost
from kbn.broker.client.move import ClientMove
from kbn.broker.client.session import BrokerSession
from kbn.broker.client.sessions import BrokerSessions
from kbn.broker.messages import Deliver


class Handover:
    """Gives the application what is due of what brokers deliver; answers for the rest."""

    __slots__ = ("_deliveries", "_move", "_sessions")

    def __init__(self, sessions: BrokerSessions, deliveries: Deliveries, move: ClientMove) -> None:
        self._sessions = sessions
        self._deliveries = deliveries
        self._move = move

    def delivered(self, delivery: Deliver, session: BrokerSession) -> None:
        """A broker delivers something; what a new one does is held while the old one may, too."""
        inbox = session.inbox
        if delivery.dropped > inbox.dropped:
            self.lost(delivery.dropped, session)
        if not inbox.accept(delivery):
            self._sessions.send_all(session, inbox.answer_unaccepted(delivery))
        elif inbox.held is not None:
            inbox.held.append(delivery)
        else:
            self._hand_over(delivery, session)

    def lost(self, total: int, session: BrokerSession) -> None:
        """A broker has dropped so many in all, because we were slow."""
        more, session.inbox.dropped = total - session.inbox.dropped, total
        self._sessions.effects.append(Lost(session.broker, more, total))

    def _hand_over(self, delivery: Deliver, session: BrokerSession) -> None:
        in_order, is_late = session.inbox.in_order, session.is_late
        is_brought_at_home = len(self._sessions.by_broker) > 1 and self._compare(delivery, session)
        if not is_brought_at_home and self._deliveries.is_due(
            delivery, in_order=in_order, is_late=is_late
        ):
            self._sessions.effects.append(Delivered(delivery, session.broker, is_late))
        else:
            self._sessions.send_all(session, session.inbox.done_with(delivery))

    def _compare(self, delivery: Deliver, session: BrokerSession) -> bool:
        """Whether what a former broker brings needs only be brought at home."""
        stream, number = delivery.envelope.stream, delivery.envelope.number
        if session is self._sessions.home:
            for other in self._sessions.by_broker.values():
                if other.is_former:
                    other.home_from.setdefault(stream, number)
            return False
        self._move.waits_since = None  # an old broker that still delivers is not late
        return session.is_former and session.is_brought_at_home(stream, number)

    def release_held(self) -> None:
        """The old broker has delivered everything: continue with what the new one delivered."""
        home = self._sessions.home
        self._deliveries.moved()
        for delivery in home.inbox.release():
            self._hand_over(delivery, home)
