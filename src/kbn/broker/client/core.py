"""A client without sockets: requests of the application and messages of brokers go in, effects
come out.

The core repeats requests that were not answered, subscribes again at a broker that has forgotten
the client, keeps every durable notification until a broker has stored it, and gives each
notification to the application once, in the order of its publisher.

It is made of parts that do not know each other; the core passes values between them:

    Publisher      what is published: numbers, grants, what is unconfirmed     publisher.py
    Subscriptions  what is subscribed to and advertised                        subscriptions.py
    Deliveries     what the application is given: once, in order               deliveries.py
    ClientMove     the move to another broker, a table of states               move.py
    Refuges        where to go when the broker is away                         refuges.py
    Requests       what one broker was asked and has not answered              requests.py
    Inbox          what one broker delivers: repetitions, credit               inbox.py
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, assert_never

from kbn.broker.administration import AdminBody
from kbn.broker.client.deliveries import Deliveries
from kbn.broker.client.effects import (
    Confirmed,
    Delivered,
    Dial,
    Effect,
    Failed,
    HangUp,
    Lost,
    Moved,
    OntologyChanged,
)
from kbn.broker.client.inbox import Inbox
from kbn.broker.client.move import ClientMove, MoveEvent, MoveState, MoveStep
from kbn.broker.client.publisher import Publisher
from kbn.broker.client.refuges import Refuges as KnownRefuges
from kbn.broker.client.requests import CHANGES, Request, Requests
from kbn.broker.client.session import BrokerSession
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
    Connect,
    Deliver,
    Done,
    Grant,
    Leave,
    Left,
    Message,
    NewOntology,
    PubAck,
    Redirect,
    Refuges,
    Refused,
    ReportHops,
    Send,
    Subscribe,
    ToClient,
)
from kbn.broker.number_ranges import Ranges
from kbn.errors import LimitError

REPEATED_MAX = 64
PATIENCE_S = 2.0
"""How long a move may hold up what is published or delivered."""


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
        self._epoch = epoch
        self._settings = settings = settings or ClientSettings()
        self._home = self._new_session(broker, "", is_home=True)
        self._sessions = {broker: self._home}
        self._move = ClientMove()
        self._waits_since: float | None = None  # in a state of the move that must not last
        self._sent_before_join: int | None = None
        self._refuges = KnownRefuges()
        self._publisher = Publisher(settings.published)
        self._subscriptions = Subscriptions()
        self._deliveries = Deliveries()
        self._last_request = 0
        self._heartbeat = Timer(settings.heartbeat_s)
        self._retransmission = Timer(settings.retransmit_s)
        self._hops_report = Timer(None)
        self._out: list[Effect] = []

    def _new_session(self, broker: str, url: str, *, is_home: bool) -> BrokerSession:
        settings = self._settings
        return BrokerSession(
            broker,
            url,
            Inbox(
                settings.window,
                acknowledges_each=settings.retransmit_s is not None,
                holds=not is_home,
            ),
            Requests(holds_barriers=not is_home),
        )

    @property
    def broker(self) -> str:
        """The broker the client is at."""
        return self._home.broker

    @property
    def is_attached(self) -> bool:
        """Whether its broker has admitted it and the connection stands."""
        return self._home.state == "attached"

    @property
    def is_durable(self) -> bool:
        """Whether brokers keep what comes while it is away."""
        return self._settings.durable

    @property
    def is_moving(self) -> bool:
        """Whether it is between two brokers."""
        return self._move.is_under_way

    @property
    def former(self) -> tuple[str, ...]:
        """The brokers that it left without their leave, and that may still have something for it.

        A client that ends before it got that does not get it from anybody else.
        """
        return tuple(each.broker for each in self._sessions.values() if each.is_former)

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
        return message.id, self._finish()

    def unsubscribe(self, id: int) -> list[Effect]:
        """Withdraw a subscription."""
        message = self._subscriptions.unsubscribe(id)
        if message is not None:
            self._change("unsubscribe", id, message)
        return self._finish()

    def advertise(self, advertisement: str, *, is_text: bool = True) -> tuple[int, list[Effect]]:
        """Advertise what will be published; confirmed when the whole network knows."""
        message = self._subscriptions.advertise(advertisement, is_text=is_text)
        self._change("advertise", message.id, message)
        return message.id, self._finish()

    def unadvertise(self, id: int) -> list[Effect]:
        """Withdraw an advertisement."""
        message = self._subscriptions.unadvertise(id)
        if message is not None:
            self._change("unadvertise", id, message)
        return self._finish()

    def publish(self, content: bytes, time: float, durable: bool) -> tuple[int, list[Effect]]:
        """Publish; a durable one is confirmed by its number when a broker has stored it."""
        number = self._publisher.add(content, time, durable)
        if durable and number <= self._publisher.stored_up_to:
            self._out.append(Confirmed("publish", number))
        else:
            self._publish()
        return number, self._finish()

    def barrier(self) -> tuple[int, list[Effect]]:
        """Ask for a confirmation when every request so far is in force in the whole network."""
        request = self._next_request("barrier")
        self._ask(self._home, request, Barrier(request.number))
        return request.number, self._finish()

    def admin(self, body: AdminBody) -> tuple[int, list[Effect]]:
        """Ask the broker itself something, or tell it to do something."""
        request = self._next_request("admin-request")
        self._ask(self._home, request, AdminRequest(request.number, body))
        return request.number, self._finish()

    def use_token(self, token: str) -> None:
        """Show another token from now on, whenever it connects."""
        self._settings = replace(self._settings, token=token)

    def move(self, broker: str, url: str) -> list[Effect]:
        """Go to another broker."""
        self._redirected(Redirect(broker, url))
        return self._finish()

    def leave(self) -> list[Effect]:
        """Ask the broker to forget this client, after it has delivered what is on its way."""
        self._leave(self._home)
        return self._finish()

    def consumed(self, delivered: Delivered) -> list[Effect]:
        """The application has handled a notification, so the broker may send another."""
        session = self._sessions.get(delivered.broker)
        if session is not None:
            self._send_all(session, session.inbox.done_with(delivered.delivery))
        return self._finish()

    def acknowledge(self) -> list[Effect]:
        """Acknowledge everything that was handled, without waiting for more; before closing."""
        for session in self._sessions.values():
            if session.state == "attached":
                self._send_all(session, session.inbox.acknowledge())
        return self._finish()

    # What happens.

    def connected(self, broker: str, now: float) -> list[Effect]:
        """A connection to a broker is open, or open again: send `Connect`."""
        session = self._sessions.get(broker)
        if session is not None:
            self._connect(session)
        return self._finish()

    def disconnected(self, broker: str, now: float) -> list[Effect]:
        """A connection is broken; the shell tries again."""
        session = self._sessions.get(broker)
        if session is not None:
            session.state = "away"
            if session is not self._home and not self._settings.durable and not session.is_former:
                # An old broker keeps nothing for us; a new one that is away changes nothing.
                self._take(MoveEvent.RELEASED)
        return self._finish()

    def unreachable(self, broker: str, reason: str) -> list[Effect]:
        """The broker we move to cannot be reached: stay where we are."""
        if self.is_arriving_at(broker):
            self._out.append(Failed("move", 0, "TransportError", reason))
            self._take(MoveEvent.TURNED_AWAY)
        return self._finish()

    def receive(self, message: ToClient, broker: str, now: float) -> list[Effect]:
        """Handle a message from a broker."""
        session = self._sessions.get(broker)
        if session is None:
            return []
        match message:
            case Deliver():
                self._delivered(message, session)
            case PubAck(number, refused):
                if not session.is_former:  # what it has stored, another was sent again
                    self._stored(number, refused)
            case Grant(total):
                if session is self._home:
                    self._publisher.grant(total)
                    self._publish()
            case ConnAck():
                self._admitted(message, session)
            case Done(what, id):
                if self._answered(Request(what, id), session) and session is self._home:
                    self._out.append(Confirmed(what, id))
            case BarrierReached(number):
                self._barrier_reached(number, session)
            case Left(number):
                self._left(Request("leave", number), session)
            case AdminReply(number, body):
                if self._answered(Request("admin-request", number), session):
                    self._out.append(Confirmed("admin-request", number, body))
            case Refused():
                self._refused(message, session)
            case Redirect():
                if session is self._home:
                    self._redirected(message)
            case Refuges(brokers):
                if session is self._home:
                    self._refuges.told(brokers)
            case ReportHops(every_s):
                self._hops_report = Timer(every_s, now)
                self._send(session, self._deliveries.hops())
            case NewOntology(ontology):
                self._out.append(OntologyChanged(ontology))
            case Alive():
                pass
            case _:
                assert_never(message)
        return self._finish()

    def tick(self, now: float) -> list[Effect]:
        """Do what is due by the clock: send heartbeats, repeat what was not answered, and go where
        a broker answers.
        """
        self._look_after_home(now)
        self._look_after_move(now)
        if self._heartbeat.is_due(now):
            for session in self._sessions.values():
                if session.state == "attached":
                    self._send(session, Alive())
                    self._send_all(session, session.inbox.acknowledge())
        if self._hops_report.is_due(now) and self.is_attached:
            self._send(self._home, self._deliveries.hops())
        if self._retransmission.is_due(now):
            for session in self._sessions.values():
                self._repeat(session)
        return self._finish()

    # Connections.

    def _connect(self, session: BrokerSession) -> None:
        session.state = "connecting"
        session.told_stored = self._publisher.stored_up_to
        settings = self._settings
        self._send(
            session,
            Connect(
                self.name, self._epoch, token=settings.token, durable=settings.durable,
                window=settings.window, when_slow=settings.when_slow,
                published=self._publisher.stored_up_to, with_path=settings.with_path,
                strand=self._publisher.strand,
            ),
        )  # fmt: skip

    def _admitted(self, admitted: ConnAck, session: BrokerSession) -> None:
        if session.state != "connecting":
            return
        session.state = "attached"
        session.granted = admitted.credit
        is_resumed = admitted.resumed and session.known_epoch == admitted.epoch
        session.known_epoch = admitted.epoch
        session.inbox.connected(in_order=admitted.in_order, is_resumed=is_resumed)
        if admitted.dropped > session.inbox.dropped:
            self._lost(admitted.dropped, session)
        session.inbox.dropped = admitted.dropped
        if not is_resumed and not session.is_former and not session.requests.has("leave"):
            self._subscribe_again(session)
        if session is self._home:
            self._publisher.connected(admitted.credit)
        elif self._move.is_arriving and not session.is_former:
            self._take(MoveEvent.ADMITTED)
        self._send_all(session, session.requests.sendable())
        if session is self._home:
            self._stored(admitted.taken, admitted.refused)
            self._send_all(session, self._publisher.resend())
            self._publish()

    def _subscribe_again(self, session: BrokerSession) -> None:
        """Request every subscription and advertisement at a broker that knows none of them.

        The application has had its confirmation, or still waits for it under the same number.
        """
        for message in self._subscriptions:
            what = "subscribe" if isinstance(message, Subscribe) else "advertise"
            session.requests.note(Request(what, message.id), message)

    def _repeat(self, session: BrokerSession) -> None:
        if session.state == "connecting":
            self._connect(session)
        elif session.state == "attached":
            self._send_all(session, session.requests.sendable(REPEATED_MAX))
            if session is self._home:
                self._send_all(session, self._publisher.repeat(REPEATED_MAX))

    # Requests and answers.

    def _change(self, what: str, id: int, message: Message) -> None:
        """Tell every broker that must know what we want: while arriving at a new one, both."""
        sessions = [self._home, self._other] if self._move.is_arriving else [self._home]
        for session in sessions:
            self._ask(session, Request(what, id), message)

    def _ask(self, session: BrokerSession, request: Request, message: Message) -> None:
        sendable = session.requests.add(request, message)
        if session.state == "attached":
            self._send_all(session, sendable)

    def _answered(self, request: Request, session: BrokerSession) -> bool:
        """Whether an answer was expected; sends the barriers that waited for it."""
        was_waiting = session.requests.answered(request)
        if was_waiting and request.what in CHANGES:
            self._send_all(session, session.requests.barriers())
        return was_waiting

    def _barrier_reached(self, number: int, session: BrokerSession) -> None:
        if self._answered(Request("join", number), session):
            if session is self._home:
                self._leave_former()
            elif session.requests.has_changed:
                self._take(MoveEvent.CHANGED_SINCE)
                self._send_all(session, session.requests.barriers())
            else:
                self._take(MoveEvent.IN_FORCE)
                self._go_when_stored()
        elif self._answered(Request("barrier", number), session):
            self._out.append(Confirmed("barrier", number))

    def _refused(self, refused: Refused, session: BrokerSession) -> None:
        if refused.kind == "NotConnectedError":
            if session.state == "attached":
                self._connect(session)
            return
        if session.is_former:
            return
        if refused.what == "block":  # we are too slow; nothing that we asked for is refused
            self._out.append(Failed("block", 0, refused.kind, refused.reason))
            return
        request = Request(refused.what, refused.reference)
        if refused.what == "barrier" and session.requests.is_waiting(
            Request("join", refused.reference)
        ):
            request = Request("join", refused.reference)
        # One that was granted and is refused now by a new ontology is kept for later; one that is
        # not allowed any more is gone.
        is_gone = self._answered(request, session) or refused.kind == "NotAllowedError"
        if is_gone and session is self._home:
            self._subscriptions.refused(*request)
        is_of_move = request.what == "connect" and session is not self._home
        request = Request("move", 0) if is_of_move else request
        self._out.append(Failed(*request, refused.kind, refused.reason, refused.durable))
        if session is not self._home:
            self._take(MoveEvent.TURNED_AWAY)

    # Publishing.

    def _publish(self) -> None:
        """Send what waits, up to the credit that the broker granted; nothing while moving."""
        home = self._home
        if home.state == "attached" and self._move.may_publish:
            for publish in self._publisher.sendable():
                self._out.append(Send(home.peer, publish))

    def _stored(self, number: int, refused: Ranges) -> None:
        confirmed, denied = self._publisher.confirm(number, refused)
        for each in confirmed:
            self._out.append(Confirmed("publish", each))
        for each in denied:  # whoever asks was told why already, unless that was lost
            reason = "the broker has refused it"
            self._out.append(Failed("publish", each, LimitError.__name__, reason, durable=True))
        self._go_when_stored()

    # Deliveries.

    def _delivered(self, delivery: Deliver, session: BrokerSession) -> None:
        inbox = session.inbox
        if delivery.dropped > inbox.dropped:
            self._lost(delivery.dropped, session)
        if not inbox.accept(delivery):
            self._send_all(session, inbox.answer_unaccepted(delivery))
        elif inbox.held is not None:
            inbox.held.append(delivery)
        else:
            self._hand_over(delivery, session)

    def _lost(self, total: int, session: BrokerSession) -> None:
        more, session.inbox.dropped = total - session.inbox.dropped, total
        self._out.append(Lost(session.broker, more, total))

    def _hand_over(self, delivery: Deliver, session: BrokerSession) -> None:
        in_order, is_late = session.inbox.in_order, session.is_late
        is_brought_at_home = len(self._sessions) > 1 and self._compare(delivery, session)
        if not is_brought_at_home and self._deliveries.is_due(
            delivery, in_order=in_order, is_late=is_late
        ):
            self._out.append(Delivered(delivery, session.broker, is_late))
        else:
            self._send_all(session, session.inbox.done_with(delivery))

    def _compare(self, delivery: Deliver, session: BrokerSession) -> bool:
        """Whether what a former broker brings needs only be brought at home."""
        stream, number = delivery.envelope.stream, delivery.envelope.number
        if session is self._home:
            for other in self._sessions.values():
                if other.is_former:
                    other.home_from.setdefault(stream, number)
            return False
        self._waits_since = None  # an old broker that still delivers is not late
        return session.is_former and session.is_brought_at_home(stream, number)

    # Moving.

    def _look_after_home(self, now: float) -> None:
        """Leave a broker that is away for long, for one that answers."""
        home, refuges, move = self._home, self._refuges, self._move
        if home.state == "attached":
            if refuges.is_seeking and move.is_arriving:
                self._take(MoveEvent.TURNED_AWAY)
            refuges.home_is_there()
            return
        refuges.home_is_away(now)
        stays = self._settings.stays or home.requests.has("leave")
        if stays or not refuges.is_home_lost(now):
            return
        if move.is_between and self._other.state == "attached":
            self._take(MoveEvent.HOME_LOST)
        elif move.state is MoveState.LEAVING:
            self._take(MoveEvent.LATE)
        elif not move.is_under_way or refuges.is_seeking:
            refuge = refuges.next(now, but=home.broker)
            if refuge is not None:
                self._take(MoveEvent.TURNED_AWAY)  # the last one did not answer
                self._do_all(move.redirected(refuge, home.broker))

    def _look_after_move(self, now: float) -> None:
        """Wait for others no longer than can be borne."""
        if not self._move.is_bounded:
            self._waits_since = None
        elif self._waits_since is None or now < self._waits_since:
            self._waits_since = now
        elif now - self._waits_since >= PATIENCE_S:
            self._waits_since = None
            is_settling = self._move.state is MoveState.SETTLING
            if is_settling and self._other.requests.has_changed:
                self._take(MoveEvent.LATE_AND_CHANGED)
            elif self._home.state == "attached" or not is_settling:
                self._take(MoveEvent.LATE)

    def _redirected(self, redirect: Redirect) -> None:
        known = self._sessions.get(redirect.broker)
        if known is not None and known.is_former:
            self._move.postpone(redirect)  # until it has let us go
        else:
            self._do_all(self._move.redirected(redirect, self._home.broker))

    def _go_when_stored(self) -> None:
        if self._move.state is MoveState.DRAINING and not self._publisher.has_unconfirmed:
            is_quiet = self._sent_before_join == self._publisher.sent_ever
            self._take(MoveEvent.NOTHING_SENT if is_quiet else MoveEvent.ALL_STORED)
            if self._move.is_between and self._other.state == "attached":
                self._send_all(self._other, self._other.requests.barriers())

    def _left(self, request: Request, session: BrokerSession) -> None:
        if not self._answered(request, session):
            return
        if session is self._home:
            self._out.append(Confirmed(*request))
        elif session.is_former:
            self._hang_up(session)
            self._follow()
        else:
            self._take(MoveEvent.RELEASED)

    def _take(self, event: MoveEvent) -> None:
        self._do_all(self._move.on(event))

    def _do_all(self, steps: Iterable[MoveStep]) -> None:
        for step in steps:
            self._do(step)

    def _do(self, step: MoveStep) -> None:
        match step:
            case MoveStep.DIAL:
                self._dial(self._move.target)
            case MoveStep.ASK_BARRIER:
                self._ask_join(self._other)
            case MoveStep.SWITCH:
                self._switch(self._home, self._other)
            case MoveStep.NEW_STRAND:
                self._publisher.strand += 1
                self._connect(self._home)
            case MoveStep.HANG_UP:
                self._hang_up(self._other)
            case MoveStep.TURN_BACK:
                self._turn_back(self._other)
            case MoveStep.LEAVE_BEHIND:
                self._leave_behind(self._other, awaits_join=False)
            case MoveStep.ABANDON:
                self._abandon(self._home, self._other)
            case MoveStep.DELIVER_HELD:
                self._deliver_held()
            case MoveStep.PUBLISH:
                self._publish()
            case MoveStep.FOLLOW:
                self._follow()
            case _:
                assert_never(step)

    @property
    def _other(self) -> BrokerSession:
        """The broker that is not home, nor former; only while moving."""
        sessions = self._sessions.values()
        [other] = (each for each in sessions if each is not self._home and not each.is_former)
        return other

    def _follow(self) -> None:
        """Go where we were sent meanwhile."""
        postponed = self._move.take_postponed()
        if postponed is not None:
            self._redirected(postponed)

    def _dial(self, target: Redirect) -> None:
        former = self._sessions.get(target.broker)
        if former is None:
            session = self._new_session(target.broker, target.url, is_home=False)
            self._sessions[target.broker] = session
            self._out.append(Dial(target.broker, target.url))
        else:
            former.url = target.url
            former.come_back(each.id for each in self._subscriptions)
            if former.state == "attached":
                self._connect(former)

    def _ask_join(self, session: BrokerSession) -> None:
        """Note that a barrier is to be asked for; the caller sends it, or `_admitted` does."""
        request = self._next_request("join")
        publisher = self._publisher
        self._sent_before_join = None if publisher.has_unconfirmed else publisher.sent_ever
        session.requests.add(request, Barrier(request.number))

    def _switch(self, old: BrokerSession, new: BrokerSession) -> None:
        """Everything now reaches the new broker too: it is home, and the old one lets us go."""
        self._home = new
        self._publisher.connected(new.granted)
        if new.told_stored != self._publisher.stored_up_to:
            self._connect(new)  # it would wait for what the old one has stored since
        old.inbox.acknowledges_each = True
        self._leave(old)
        self._leave_former()
        for request, message in old.requests.take("barrier", "admin-request"):
            self._ask(new, request, message)

    def _abandon(self, old: BrokerSession, new: BrokerSession) -> None:
        """Be at home at the new broker, which may not know yet what comes; the old one is lost."""
        self._home = new
        self._refuges.home_is_there()
        new.requests.holds_barriers = False
        for request, message in old.requests.take("barrier"):
            self._ask(new, request, message)
        for request, _ in old.requests.take("admin-request"):
            reason = f"{old.broker} is away"
            self._out.append(Failed(*request, "TransportError", reason))
        for request, _ in old.requests.take(*CHANGES):
            if not new.requests.is_waiting(request):
                self._out.append(Confirmed(*request))
        if self._settings.durable:
            self._leave_behind(old, awaits_join=True)
        else:
            self._hang_up(old)
        if not new.requests.has("join"):
            self._ask_join(new)

    def _leave_behind(self, session: BrokerSession, *, awaits_join: bool) -> None:
        subscribed = [each.id for each in self._subscriptions]
        session.leave_behind(subscribed, awaits_join=awaits_join)
        if not awaits_join:
            self._leave(session)

    def _leave_former(self) -> None:
        """Everything reaches us at home: former brokers may forget us."""
        for session in self._sessions.values():
            if session.is_former and session.awaits_join:
                session.awaits_join = False
                self._leave(session)

    def _turn_back(self, session: BrokerSession) -> None:
        """Do not go there after all; a broker that keeps us is to forget us when it can."""
        keeps_us = self._settings.durable and session.known_epoch
        if not (keeps_us or session.is_late):
            self._hang_up(session)
            return
        self._leave_behind(session, awaits_join=session.is_late)
        if session.is_late and not self._home.requests.has("join"):
            self._ask_join(self._home)
            if self._home.state == "attached":
                self._send_all(self._home, self._home.requests.barriers())
        if session.state == "away":  # the shell may have given it up
            self._out += [HangUp(session.broker), Dial(session.broker, session.url)]

    def _hang_up(self, session: BrokerSession) -> None:
        del self._sessions[session.broker]
        self._out.append(HangUp(session.broker))

    def _leave(self, session: BrokerSession) -> None:
        request = self._next_request("leave")
        self._send_all(session, session.inbox.acknowledge())
        self._ask(session, request, Leave(request.number))

    def _deliver_held(self) -> None:
        """The old broker has delivered everything: continue with what the new one delivered."""
        home = self._home
        self._deliveries.moved()
        for delivery in home.inbox.release():
            self._hand_over(delivery, home)
        self._out.append(Moved(home.broker))
        home.requests.holds_barriers = False
        if home.state == "attached":
            self._send_all(home, home.requests.barriers())

    def _next_request(self, what: str) -> Request:
        self._last_request += 1
        return Request(what, self._last_request)

    def _send(self, session: BrokerSession, message: Any) -> None:
        self._out.append(Send(session.peer, message))

    def _send_all(self, session: BrokerSession, messages: Sequence[Any]) -> None:
        for message in messages:
            self._out.append(Send(session.peer, message))

    def _finish(self) -> list[Effect]:
        out, self._out = self._out, []
        return out
