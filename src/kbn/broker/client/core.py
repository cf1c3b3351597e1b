"""A client without sockets: requests of the application and messages of brokers go in, effects
come out.

The core repeats requests that were not answered, subscribes again at a broker that has forgotten
the client, keeps every durable notification until a broker has stored it, and gives each
notification to the application once, in the order of its publisher.

It is made of parts:

    BrokerSessions the brokers it speaks with, and what it says to them        sessions.py
    Publisher      what is published: numbers, grants, what is unconfirmed     publisher.py
    Subscriptions  what is subscribed to and advertised                        subscriptions.py
    Deliveries     what the application is given: once, in order               deliveries.py
    ClientMove     the move to another broker, a table of states               move.py
    Refuges        where to go when the broker is away                         refuges.py
    Requests       what one broker was asked and has not answered              requests.py
    Inbox          what one broker delivers: repetitions, credit               inbox.py

The core passes values between them, `Handover` takes what is delivered to the application, and
`ClientMover` carries out a move.
"""

from __future__ import annotations

from typing import assert_never

from kbn.broker.administration import AdminBody
from kbn.broker.client.deliveries import Deliveries
from kbn.broker.client.effects import (
    Confirmed,
    Delivered,
    Effect,
    Failed,
    OntologyChanged,
    TermsUnknown,
)
from kbn.broker.client.handover import Handover
from kbn.broker.client.move import ClientMove, MoveEvent
from kbn.broker.client.mover import ClientMover
from kbn.broker.client.publisher import Publisher
from kbn.broker.client.requests import Request
from kbn.broker.client.session import BrokerSession
from kbn.broker.client.sessions import BrokerSessions
from kbn.broker.client.settings import ClientSettings
from kbn.broker.client.subscriptions import Subscriptions
from kbn.broker.client.timer import Timer
from kbn.broker.messages import (
    AdminReply,
    AdminRequest,
    Alive,
    Barrier,
    BarrierReached,
    ConnAck,
    Deliver,
    Done,
    Explain,
    Explained,
    Grant,
    Left,
    Message,
    NewOntology,
    PubAck,
    Redirect,
    Refuges,
    Refused,
    ReportHops,
    Subscribe,
    TermNote,
    ToClient,
)
from kbn.broker.number_ranges import Ranges
from kbn.errors import InvalidInputError, LimitError

REPEATED_MAX = 64


class ClientCore:
    """One client, of any number of subscriptions, at one broker, or at two while it moves.

    Brokers that it left without their leave are *former*: it gets what they still have for it when
    they are back, and then leaves them for good.

    Every method returns the effects to perform. The answer to a request comes later, as `Confirmed`
    or `Failed` with the number of the request. The `epoch` is larger each time the process of the
    client starts.
    """

    def __init__(
        self, name: str, broker: str, epoch: int, settings: ClientSettings | None = None
    ) -> None:
        self.name = name
        settings = settings or ClientSettings()
        self._publisher = publisher = Publisher(settings.published)
        self._reasons: dict[int, Refused] = {}  # of durable ones that brokers do not take
        self._subscriptions = subscriptions = Subscriptions()
        self._deliveries = Deliveries()
        self._sessions = sessions = BrokerSessions(name, broker, epoch, settings, publisher)
        self._move = move = ClientMove()
        self._handover = handover = Handover(sessions, self._deliveries, move)
        self._mover = ClientMover(move, sessions, publisher, subscriptions, handover)
        self._heartbeat = Timer(settings.heartbeat_s)
        self._retransmission = Timer(settings.retransmit_s)
        self._hops_report = Timer(None)

    @property
    def broker(self) -> str:
        """The broker the client is at."""
        return self._sessions.home.broker

    @property
    def is_attached(self) -> bool:
        """Whether its broker has admitted it and the connection stands."""
        return self._sessions.home.state == "attached"

    @property
    def is_durable(self) -> bool:
        """Whether brokers keep what comes while it is away."""
        return self._sessions.settings.durable

    @property
    def is_moving(self) -> bool:
        """Whether it is between two brokers."""
        return self._move.is_under_way

    @property
    def former(self) -> tuple[str, ...]:
        """The brokers that it left without their leave, and that may still have something for it.

        A client that ends before it got that does not get it from anybody else.
        """
        return tuple(each.broker for each in self._sessions.former())

    def is_arriving_at(self, broker: str) -> bool:
        """Whether it is on its way to this broker, and could still stay where it is."""
        return self._move.is_arriving and self._move.target.broker == broker

    @property
    def unpublished(self) -> int:
        """How many notifications wait for a grant, or durable ones for a broker to store them."""
        return self._publisher.unpublished

    @property
    def stored_up_to(self) -> int:
        """A broker has stored the durable notifications of this epoch up to this number."""
        return self._publisher.stored_up_to

    # What the application asks.

    def subscribe(self, subscription: str, *, is_text: bool = True) -> tuple[int, list[Effect]]:
        """Subscribe; returns the number of the subscription, and the effects."""
        message = self._subscriptions.subscribe(subscription, is_text=is_text)
        self._change("subscribe", message.id, message)
        return message.id, self._sessions.take_effects()

    def unsubscribe(self, id: int) -> list[Effect]:
        """Withdraw a subscription."""
        message = self._subscriptions.unsubscribe(id)
        if message is not None:
            self._change("unsubscribe", id, message)
        return self._sessions.take_effects()

    def advertise(self, advertisement: str, *, is_text: bool = True) -> tuple[int, list[Effect]]:
        """Advertise what will be published; confirmed when the whole network knows."""
        message = self._subscriptions.advertise(advertisement, is_text=is_text)
        self._change("advertise", message.id, message)
        return message.id, self._sessions.take_effects()

    def unadvertise(self, id: int) -> list[Effect]:
        """Withdraw an advertisement."""
        message = self._subscriptions.unadvertise(id)
        if message is not None:
            self._change("unadvertise", id, message)
        return self._sessions.take_effects()

    def publish(self, content: bytes, time: float, durable: bool) -> tuple[int, list[Effect]]:
        """Publish; a durable one is confirmed by its number when a broker has stored it."""
        number = self._publisher.add(content, time, durable)
        if durable and number <= self._publisher.stored_up_to:
            self._sessions.effects.append(Confirmed("publish", number))
        else:
            self._mover.publish()
        return number, self._sessions.take_effects()

    def barrier(self) -> tuple[int, list[Effect]]:
        """Ask for a confirmation when every request so far is in force in the whole network."""
        request = self._sessions.next_request("barrier")
        self._sessions.ask(self._sessions.home, request, Barrier(request.number))
        return request.number, self._sessions.take_effects()

    def admin(self, body: AdminBody) -> tuple[int, list[Effect]]:
        """Ask the broker itself something, or tell it to do something."""
        request = self._sessions.next_request("admin-request")
        self._sessions.ask(self._sessions.home, request, AdminRequest(request.number, body))
        return request.number, self._sessions.take_effects()

    def explain(
        self, content: bytes, subscription: int = 0, text: str = "", *, is_text: bool = True
    ) -> tuple[int, list[Effect]]:
        """Ask why a subscription, by its number or in a text, accepts a content, or why not."""
        home = self._sessions.home
        if not home.explains:
            raise InvalidInputError(f"{home.broker} does not explain: upgrade that broker")
        request = self._sessions.next_request("explain")
        message = Explain(request.number, content, subscription, text, is_text)
        self._sessions.ask(home, request, message)
        return request.number, self._sessions.take_effects()

    def use_token(self, token: str) -> None:
        """Show another token from now on, whenever it connects."""
        self._sessions.use_token(token)

    def move(self, broker: str, url: str) -> list[Effect]:
        """Go to another broker."""
        self._mover.redirected(Redirect(broker, url))
        return self._sessions.take_effects()

    def leave(self) -> list[Effect]:
        """Ask the broker to forget this client, after it has delivered what is on its way."""
        self._sessions.leave(self._sessions.home)
        return self._sessions.take_effects()

    def consumed(self, delivered: Delivered) -> list[Effect]:
        """The application has handled a notification, so the broker may send another."""
        session = self._sessions.by_broker.get(delivered.broker)
        if session is not None:
            self._sessions.send_all(session, session.inbox.done_with(delivered.delivery))
        return self._sessions.take_effects()

    def acknowledge(self) -> list[Effect]:
        """Acknowledge everything that was handled, without waiting for more; before closing."""
        for session in self._sessions.by_broker.values():
            if session.state == "attached":
                self._sessions.send_all(session, session.inbox.acknowledge())
        return self._sessions.take_effects()

    # What happens.

    def connected(self, broker: str, now: float) -> list[Effect]:
        """A connection to a broker is open, or open again: send `Connect`."""
        session = self._sessions.by_broker.get(broker)
        if session is not None:
            self._sessions.connect(session)
        return self._sessions.take_effects()

    def disconnected(self, broker: str, now: float) -> list[Effect]:
        """A connection is broken; the shell tries again."""
        session = self._sessions.by_broker.get(broker)
        if session is not None:
            session.state = "away"
            is_other = session is not self._sessions.home and not session.is_former
            if is_other and not self.is_durable:
                # An old broker keeps nothing for us; a new one that is away changes nothing.
                self._mover.on(MoveEvent.RELEASED)
        return self._sessions.take_effects()

    def unreachable(self, broker: str, reason: str) -> list[Effect]:
        """The broker we move to cannot be reached: stay where we are."""
        if self.is_arriving_at(broker):
            self._sessions.effects.append(Failed("move", 0, "TransportError", reason))
            self._mover.on(MoveEvent.TURNED_AWAY)
        return self._sessions.take_effects()

    def receive(self, message: ToClient, broker: str, now: float) -> list[Effect]:
        """Handle a message from a broker."""
        session = self._sessions.by_broker.get(broker)
        if session is None:
            return []
        match message:
            case Deliver():
                self._handover.delivered(message, session)
            case PubAck(number, refused):
                if not session.is_former:  # what it has stored, another was sent again
                    self._stored(number, refused)
            case Grant(total, dropped, unknown, terms):
                if dropped > session.inbox.dropped:
                    self._handover.lost(dropped, session)
                if unknown:
                    self._told_unknown(unknown, terms, session)
                if session is self._sessions.home:
                    self._publisher.grant(total)
                    self._mover.publish()
            case ConnAck():
                self._admitted(message, session)
            case Done(what, id):
                was_asked = self._sessions.answered(Request(what, id), session)
                if was_asked and session is self._sessions.home:
                    self._sessions.effects.append(Confirmed(what, id))
            case BarrierReached(number):
                self._barrier_reached(number, session)
            case Left(number, dropped):
                self._left(Request("leave", number), session, dropped)
            case AdminReply(number, body):
                if self._sessions.answered(Request("admin-request", number), session):
                    self._sessions.effects.append(Confirmed("admin-request", number, body))
            case Explained(number):
                if self._sessions.answered(Request("explain", number), session):
                    self._sessions.effects.append(Confirmed("explain", number, message))
            case Refused():
                self._refused(message, session)
            case Redirect():
                if session is self._sessions.home:
                    self._mover.redirected(message)
            case Refuges(brokers):
                if session is self._sessions.home:
                    self._mover.refuges.told(brokers)
            case ReportHops(every_s):
                self._hops_report = Timer(every_s, now)
                self._sessions.send(session, self._deliveries.hops())
            case NewOntology(ontology):
                self._sessions.effects.append(OntologyChanged(ontology))
            case Alive():
                pass
            case _:
                assert_never(message)
        return self._sessions.take_effects()

    def tick(self, now: float) -> list[Effect]:
        """Do what is due by the clock: send heartbeats, repeat what was not answered, and go where
        a broker answers.
        """
        self._mover.look_after_home(now)
        self._mover.look_after_move(now)
        if self._heartbeat.is_due(now):
            for session in self._sessions.by_broker.values():
                if session.state == "attached":
                    self._sessions.send(session, Alive())
                    self._sessions.send_all(session, session.inbox.acknowledge())
        if self._hops_report.is_due(now) and self.is_attached:
            self._sessions.send(self._sessions.home, self._deliveries.hops())
        if self._retransmission.is_due(now):
            for session in self._sessions.by_broker.values():
                self._repeat(session)
        return self._sessions.take_effects()

    # Connections.

    def _admitted(self, admitted: ConnAck, session: BrokerSession) -> None:
        if session.state != "connecting":
            return
        session.state = "attached"
        session.granted = admitted.credit
        session.explains = admitted.explains
        is_resumed = admitted.resumed and session.known_epoch == admitted.epoch
        session.known_epoch = admitted.epoch
        session.inbox.connected(in_order=admitted.in_order, is_resumed=is_resumed)
        if admitted.dropped > session.inbox.dropped:
            self._handover.lost(admitted.dropped, session)
        session.inbox.dropped = admitted.dropped
        if not is_resumed and not session.is_former and not session.requests.has("leave"):
            self._subscribe_again(session)
        if session is self._sessions.home:
            self._publisher.connected(admitted.credit)
        elif self._move.is_arriving and not session.is_former:
            self._mover.on(MoveEvent.ADMITTED)
        self._sessions.send_all(session, session.requests.sendable())
        if session is self._sessions.home:
            self._stored(admitted.taken, admitted.refused)
            self._sessions.send_all(session, self._publisher.resend())
            self._mover.publish()

    def _subscribe_again(self, session: BrokerSession) -> None:
        """Request every subscription and advertisement at a broker that knows none of them.

        The application has had its confirmation, or still waits for it under the same number.
        """
        for message in self._subscriptions:
            what = "subscribe" if isinstance(message, Subscribe) else "advertise"
            session.requests.note(Request(what, message.id), message)

    def _repeat(self, session: BrokerSession) -> None:
        if session.state == "connecting":
            self._sessions.connect(session)
        elif session.state == "attached":
            self._sessions.send_all(session, session.requests.sendable(REPEATED_MAX))
            if session is self._sessions.home:
                self._sessions.send_all(session, self._publisher.repeat(REPEATED_MAX))

    def _told_unknown(
        self, unknown: int, terms: tuple[TermNote, ...], session: BrokerSession
    ) -> None:
        more = max(0, unknown - session.told_unknown)
        session.told_unknown += more
        if more or terms:
            self._sessions.effects.append(TermsUnknown(more, terms))

    # Requests and answers.

    def _change(self, what: str, id: int, message: Message) -> None:
        """Tell every broker that must know what we want: while arriving at a new one, both."""
        self._sessions.ask(self._sessions.home, Request(what, id), message)
        if self._move.is_arriving:
            self._sessions.ask(self._sessions.other, Request(what, id), message)

    def _barrier_reached(self, number: int, session: BrokerSession) -> None:
        if self._sessions.answered(Request("join", number), session):
            if session is self._sessions.home:
                self._mover.leave_former()
            elif session.requests.has_changed:
                self._mover.on(MoveEvent.CHANGED_SINCE)
                self._sessions.send_all(session, session.requests.barriers())
            else:
                self._mover.on(MoveEvent.IN_FORCE)
                self._mover.go_when_stored()
        elif self._sessions.answered(Request("barrier", number), session):
            self._sessions.effects.append(Confirmed("barrier", number))

    def _refused(self, refused: Refused, session: BrokerSession) -> None:
        if refused.kind == "NotConnectedError":
            if session.state == "attached":
                self._sessions.connect(session)
            return
        if session.is_former:
            return
        if refused.what == "block":  # we are too slow; nothing that we asked for is refused
            self._sessions.effects.append(Failed("block", 0, refused.kind, refused.reason))
            return
        if refused.what == "publish" and refused.durable:
            # `PubAck` says that it is. Until then another broker may get it, and take it.
            if refused.reference > self._publisher.stored_up_to:
                self._reasons[refused.reference] = refused
            return
        request = Request(refused.what, refused.reference)
        if refused.what == "barrier" and session.requests.is_waiting(
            Request("join", refused.reference)
        ):
            request = Request("join", refused.reference)
        # One that was granted and is refused now by a new ontology is kept for later; one that is
        # not allowed any more is gone.
        is_gone = self._sessions.answered(request, session) or refused.kind == "NotAllowedError"
        if is_gone and session is self._sessions.home:
            self._subscriptions.refused(*request)
        is_of_move = request.what == "connect" and session is not self._sessions.home
        request = Request("move", 0) if is_of_move else request
        self._sessions.effects.append(
            Failed(*request, refused.kind, refused.reason, refused.durable)
        )
        if session is not self._sessions.home:
            self._mover.on(MoveEvent.TURNED_AWAY)

    # Answers to what was published, and to farewells.

    def _stored(self, number: int, refused: Ranges) -> None:
        confirmed, denied = self._publisher.confirm(number, refused)
        reasons = self._reasons
        for each in confirmed:
            reasons.pop(each, None)
            self._sessions.effects.append(Confirmed("publish", each))
        for each in denied:
            why = reasons.pop(each, None)
            kind = LimitError.__name__ if why is None else why.kind
            reason = "the broker has refused it" if why is None else why.reason
            self._sessions.effects.append(Failed("publish", each, kind, reason, durable=True))
        self._mover.go_when_stored()

    def _left(self, request: Request, session: BrokerSession, dropped: int) -> None:
        if not self._sessions.answered(request, session):
            return
        if dropped > session.inbox.dropped:
            self._handover.lost(dropped, session)
        if session is self._sessions.home:
            self._sessions.effects.append(Confirmed(*request))
        else:
            self._mover.released_by(session)
