"""The client's side, without sockets: what the application asks and what brokers say go in, what
to do comes out.

It repeats what was not answered, says everything again to a broker that has forgotten it, gives up
no durable notification before some broker has it, and hands each notification to the application
once, in the order of its publisher.

**Moving.** Told to go to another broker (`Redirect`), the client first lets the old one take what
it has published. It then greets the new one, subscribes there and waits until that is settled: from
then on everything published reaches the new broker. What was published before is on its way to the
old one, so the client asks that one to let it go (`Leave`), which drains the network first, and
holds back what the new broker delivers until the old one says `Left`. What both delivered has the
same id.

Links keep order, so whatever is older than something the old broker delivered of the same
publisher, and was not delivered by it, was not due: it is *past*, and dropped when the new broker
brings it. That needs both brokers to know the same wishes. So what is wished while the way to the
new broker is being settled is settled too before the old one is left, and what is wished after that
is called settled when the old one has let go. Nothing is lost, nothing comes twice, and the order
is kept; between general peers, where the order is not certain, nothing is called past.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

from kbn.broker.distances import Distances
from kbn.broker.messages import (
    Acknowledge,
    Advertise,
    Alive,
    Answer,
    Ask,
    Barrier,
    BarrierReached,
    ConnAck,
    Connect,
    Credit,
    Deliver,
    Done,
    Grant,
    Leave,
    Left,
    Message,
    NewOntology,
    NotificationId,
    Peer,
    Publish,
    Redirect,
    Refused,
    ReportHops,
    Send,
    Subscribe,
    Taken,
    ToClient,
    Unadvertise,
    Unsubscribe,
)  # fmt: skip

SEEN_MAX = 100_000
REPEATED_MAX = 64
ACKNOWLEDGED_EVERY = 32
WISHES = frozenset({"subscribe", "unsubscribe", "advertise", "unadvertise"})
SETTLING = frozenset({"barrier", "join"})


class Dial(NamedTuple):
    """Open a connection to a broker."""

    broker: str
    url: str


class HangUp(NamedTuple):
    """Close the connection to a broker."""

    broker: str


class Delivered(NamedTuple):
    """A notification for the application; say `consumed` when it is done with it."""

    delivery: Deliver
    broker: str


class Confirmed(NamedTuple):
    """Something asked for is done: `what` as in `Done`, or publish, settle, ask, move."""

    what: str
    reference: int
    about: Mapping[str, Any] = MappingProxyType({})


class Failed(NamedTuple):
    """Something asked for was refused."""

    what: str
    reference: int
    kind: str
    reason: str
    durable: bool = False


class OntologyChanged(NamedTuple):
    """The broker reasons with another ontology from now on."""

    ontology: str


class Moved(NamedTuple):
    """The client is at another broker now."""

    broker: str


Effect: TypeAlias = Send | Dial | HangUp | Delivered | Confirmed | Failed | OntologyChanged | Moved


@dataclass(slots=True)
class Connection:
    """What the client knows of its conversation with one broker."""

    broker: str
    state: Literal["away", "greeting", "attached"] = "away"
    waiting: dict[tuple[str, int], Message] = field(default_factory=dict)
    last_durable: int = 0
    last_fired: int = 0
    consumed: int = 0
    granted_to_it: int = 0
    held: list[Deliver] | None = None
    may_publish: int = 0
    in_order: bool = True
    has_new_wishes: bool = False  # since it was last asked to settle
    told_run: int = 0  # the run of the broker that was told everything we want
    acknowledged: int = 0
    to_acknowledge: int = 0

    @property
    def peer(self) -> Peer:
        return Peer("broker", self.broker)


class ClientCore:
    """One client, of any number of subscriptions, usually at one broker.

    A method that asks for something returns what to do, like every other; the answer comes later,
    as `Confirmed` or `Failed` with the number that the method was given or gave out. A publisher
    that goes on with an earlier run says how many durable ones of it are `published`: what a
    broker has of the following ones is not published twice.
    """

    def __init__(
        self,
        name: str,
        broker: str,
        run: int,
        *,
        durable: bool = False,
        window: int = 1000,
        when_slow: Literal["drop", "block"] = "drop",
        token: str = "",
        with_path: bool = False,
        published: int = 0,
        heartbeat_s: float = 1.0,
        retransmit_s: float | None = None,
    ) -> None:
        self.name = name
        self._run = run
        self._durable = durable
        self._window = window
        self._when_slow = when_slow
        self._token = token
        self._with_path = with_path
        self._heartbeat_s = heartbeat_s
        self._retransmit_s = retransmit_s
        self._beat_at = 0.0
        self._repeated_at = 0.0
        self._home = Connection(broker)
        self._next: Connection | None = None
        self._connections = {broker: self._home}
        self._redirect: Redirect | None = None
        self._later: Redirect | None = None
        self._subscriptions: dict[int, Subscribe] = {}
        self._advertisements: dict[int, Advertise] = {}
        self._ids = 0
        self._requests = 0
        self._published = published
        self._fired = 0
        self._taken = published
        self._granted = 0
        self._used = 0
        self._unsent: deque[Publish] = deque()
        self._untaken: deque[Publish] = deque()
        self._seen: OrderedDict[NotificationId, None] = OrderedDict()
        self._newest: dict[tuple[str, int, bool], int] = {}
        self._past: dict[tuple[str, int, bool], int] = {}
        self.distances = Distances()
        self._report_every_s = 0.0
        self._reported_at = 0.0
        self._out: list[Effect] = []

    @property
    def broker(self) -> str:
        """The broker the client is at."""
        return self._home.broker

    @property
    def is_attached(self) -> bool:
        return self._home.state == "attached"

    @property
    def is_durable(self) -> bool:
        return self._durable

    @property
    def is_moving(self) -> bool:
        """Whether it is between two brokers."""
        return self._redirect is not None or len(self._connections) > 1

    @property
    def unpublished(self) -> int:
        """How many notifications wait: for credit, or durable ones for a broker to take them."""
        return len(self._unsent) + len(self._untaken)

    # What the application asks.

    def subscribe(self, subscription: str, *, is_text: bool = True) -> tuple[int, list[Effect]]:
        """Want what the subscription says; its number, and what to do."""
        self._ids += 1
        message = self._subscriptions[self._ids] = Subscribe(self._ids, subscription, is_text)
        self._ask(self._everywhere(), "subscribe", self._ids, message)
        return self._ids, self._finish()

    def unsubscribe(self, id: int) -> list[Effect]:
        if self._subscriptions.pop(id, None) is not None:
            self._ask(self._everywhere(), "unsubscribe", id, Unsubscribe(id))
        return self._finish()

    def advertise(self, advertisement: str, *, is_text: bool = True) -> tuple[int, list[Effect]]:
        """Say what will be published; confirmed when the whole network knows."""
        self._ids += 1
        message = self._advertisements[self._ids] = Advertise(self._ids, advertisement, is_text)
        self._ask(self._everywhere(), "advertise", self._ids, message)
        return self._ids, self._finish()

    def unadvertise(self, id: int) -> list[Effect]:
        if self._advertisements.pop(id, None) is not None:
            self._ask(self._everywhere(), "unadvertise", id, Unadvertise(id))
        return self._finish()

    def publish(self, content: bytes, time: float, durable: bool) -> tuple[int, list[Effect]]:
        """Publish; a durable one is confirmed by its number when a broker has stored it."""
        if durable:
            self._published += 1
            number = self._published
            if number <= self._taken:  # of an earlier process of this run, and a broker has it
                self._out.append(Confirmed("publish", number))
                return number, self._finish()
        else:
            self._fired += 1
            number = self._fired
        self._unsent.append(Publish(number, time, content, durable))
        self._push()
        return number, self._finish()

    def barrier(self) -> tuple[int, list[Effect]]:
        """Have it confirmed when all that was asked so far is in force in the whole network."""
        request = self._next_request()
        self._ask([self._home], "barrier", request, Barrier(request))
        return request, self._finish()

    def ask(self, what: str, about: dict[str, Any]) -> tuple[int, list[Effect]]:
        """Ask the broker itself something."""
        request = self._next_request()
        self._ask([self._home], "ask", request, Ask(request, what, about))
        return request, self._finish()

    def move(self, broker: str, url: str) -> list[Effect]:
        """Go to another broker."""
        self._redirected(Redirect(broker, url))
        return self._finish()

    def leave(self) -> list[Effect]:
        """Have the broker forget this client, after it has delivered what is on its way."""
        request = self._next_request()
        self._acknowledge(self._home)
        self._ask([self._home], "leave", request, Leave(request))
        return self._finish()

    def consumed(self, delivered: Delivered) -> list[Effect]:
        """The application is done with a notification: another may be sent."""
        connection = self._connections.get(delivered.broker)
        if connection is not None:
            connection.consumed += 1
            if delivered.delivery.durable:
                connection.to_acknowledge = max(
                    connection.to_acknowledge, delivered.delivery.number
                )
            self._credit(connection)
        return self._finish()

    # What happens.

    def connected(self, broker: str, now: float) -> list[Effect]:
        """A connection to a broker stands (again): greet."""
        connection = self._connections.get(broker)
        if connection is None:
            return self._finish()
        self._greet(connection)
        return self._finish()

    def disconnected(self, broker: str, now: float) -> list[Effect]:
        """A connection is broken; the shell tries again."""
        connection = self._connections.get(broker)
        if connection is not None:
            connection.state = "away"
            if connection is not self._home and connection is not self._next and not self._durable:
                self._gone(connection)  # nobody keeps anything for us there
        return self._finish()

    def unreachable(self, broker: str, reason: str) -> list[Effect]:
        """A broker we were sent to cannot be reached: stay."""
        if self._next is not None and self._next.broker == broker:
            self._out.append(Failed("move", 0, "TransportError", reason))
            self._stay(self._next)
        return self._finish()

    def receive(self, message: ToClient, broker: str, now: float) -> list[Effect]:
        """Handle a message from a broker."""
        connection = self._connections.get(broker)
        if connection is None:
            return []
        match message:
            case Deliver():
                self._delivered(message, connection)
            case Taken(number):
                self._took(number)
            case Grant(total):
                if connection is self._home:
                    self._granted = max(self._granted, total)
                    self._push()
            case ConnAck():
                self._welcomed(message, connection)
            case Done(what, id):
                self._done(what, id, connection)
            case BarrierReached(request):
                self._settled(request, connection)
            case Left(request):
                self._left(request, connection)
            case Answer(request, about):
                if self._answered("ask", request, connection):
                    self._out.append(Confirmed("ask", request, about))
            case Refused():
                self._refused(message, connection)
            case Redirect():
                if connection is self._home:
                    self._redirected(message)
            case ReportHops(every_s):
                self._report_every_s, self._reported_at = every_s, now
                self._send(connection, self.distances.message())
            case NewOntology(ontology):
                self._out.append(OntologyChanged(ontology))
            case Alive():
                pass
        return self._finish()

    def tick(self, now: float) -> list[Effect]:
        """Do what is due by the clock: give signs of life, repeat what was not answered."""
        if now - self._beat_at >= self._heartbeat_s:
            self._beat_at = now
            for connection in self._connections.values():
                if connection.state == "attached":
                    self._send(connection, Alive())
                    self._acknowledge(connection)
        if self._report_every_s and now - self._reported_at >= self._report_every_s:
            self._reported_at = now
            if self.is_attached:
                self._send(self._home, self.distances.message())
        if self._retransmit_s is not None and now - self._repeated_at >= self._retransmit_s:
            self._repeated_at = now
            for connection in list(self._connections.values()):
                self._repeat(connection)
        return self._finish()

    # Greetings.

    def _greet(self, connection: Connection) -> None:
        connection.state = "greeting"
        self._send(
            connection,
            Connect(
                self.name, self._run, token=self._token, durable=self._durable,
                window=self._window, when_slow=self._when_slow, published=self._taken,
                with_path=self._with_path,
            ),
        )  # fmt: skip

    def _welcomed(self, welcome: ConnAck, connection: Connection) -> None:
        if connection.state != "greeting":
            return
        connection.state = "attached"
        connection.consumed, connection.granted_to_it = 0, self._window
        connection.may_publish = welcome.credit
        connection.in_order = welcome.in_order
        if connection is self._home:
            self._granted, self._used = welcome.credit, 0
        if not welcome.resumed or connection.told_run != welcome.epoch:
            self._say_everything(connection)
            connection.last_fired = 0
        connection.told_run = welcome.epoch
        if connection is self._next and not any(what == "join" for what, _ in connection.waiting):
            self._settle_way(connection)
        self._say_waiting(connection)
        if connection is self._home:
            self._took(welcome.taken)
            self._publish_again()

    def _say_everything(self, connection: Connection) -> None:
        """Subscribe and advertise all, to a broker that knows nothing of us.

        Asked for silently: the application has had its confirmation, or still waits for it under
        the same number.
        """
        for id, subscription in self._subscriptions.items():
            connection.waiting.setdefault(("subscribe", id), subscription)
        for id, advertisement in self._advertisements.items():
            connection.waiting.setdefault(("advertise", id), advertisement)

    def _publish_again(self) -> None:
        for publish in self._untaken:
            self._used += 1
            self._send(self._home, publish)
        self._push()

    # Requests and answers.

    def _ask(
        self, connections: list[Connection], what: str, reference: int, message: Message
    ) -> None:
        for connection in connections:
            connection.waiting[what, reference] = message
            connection.has_new_wishes |= what in WISHES
            if connection.state == "attached" and self._may_say(what, connection):
                self._send(connection, message)

    def _may_say(self, what: str, connection: Connection) -> bool:
        """Whether a request must not wait: to settle is asked when all else was answered, and not
        while the broker left behind may still deliver by other wishes.
        """
        if what == "barrier" and connection.held is not None:
            return False
        return what not in SETTLING or not any(kind in WISHES for kind, _ in connection.waiting)

    def _say_waiting(self, connection: Connection, at_most: int | None = None) -> None:
        for (what, _), message in list(connection.waiting.items())[:at_most]:
            if self._may_say(what, connection):
                self._send(connection, message)

    def _say_settling(self, connection: Connection) -> None:
        """The last wish was answered: now it can be asked whether they are in force."""
        for (what, _), message in list(connection.waiting.items()):
            if what in SETTLING and self._may_say(what, connection):
                self._send(connection, message)

    def _answered(self, what: str, reference: int, connection: Connection) -> bool:
        was_waiting = connection.waiting.pop((what, reference), None) is not None
        if was_waiting and what in WISHES:
            self._say_settling(connection)
        return was_waiting

    def _done(self, what: str, id: int, connection: Connection) -> None:
        if self._answered(what, id, connection) and connection is self._home:
            self._out.append(Confirmed(what, id))

    def _settled(self, request: int, connection: Connection) -> None:
        if self._answered("join", request, connection):
            if connection.has_new_wishes:
                self._settle_way(connection)
                self._say_settling(connection)
            else:
                self._joined(connection)
        elif self._answered("barrier", request, connection):
            self._out.append(Confirmed("barrier", request))

    def _refused(self, refused: Refused, connection: Connection) -> None:
        if refused.kind == "NotGreetedError":
            if connection.state == "attached":
                self._greet(connection)
            return
        what, reference = refused.what, refused.reference
        if what == "barrier" and ("join", reference) in connection.waiting:
            what = "join"
        # One that was granted and is refused now (by a new ontology, say) is kept for later.
        if self._answered(what, reference, connection) and connection is self._home:
            if what == "subscribe":
                self._subscriptions.pop(reference, None)
            if what == "advertise":
                self._advertisements.pop(reference, None)
        self._out.append(Failed(what, reference, refused.kind, refused.reason, refused.durable))
        if connection is self._next:
            self._stay(connection)

    # Publishing.

    def _push(self) -> None:
        """Send what waits, as far as the broker's grant goes; nothing while moving."""
        home = self._home
        while (
            self._unsent
            and home.state == "attached"
            and self._redirect is None
            and self._used < self._granted
        ):
            publish = self._unsent.popleft()
            self._used += 1
            if publish.durable:
                self._untaken.append(publish)
            self._send(home, publish)

    def _took(self, number: int) -> None:
        self._taken = max(self._taken, number)
        while self._untaken and self._untaken[0].number <= self._taken:
            self._out.append(Confirmed("publish", self._untaken.popleft().number))
        if self._redirect is not None and not self._untaken:
            self._go()

    # Deliveries.

    def _delivered(self, delivery: Deliver, connection: Connection) -> None:
        if delivery.durable:
            if delivery.number <= connection.last_durable:
                if delivery.number <= connection.to_acknowledge:
                    connection.consumed += 1  # in an earlier connection; here it used up credit
                    self._credit(connection)
                self._acknowledge(connection, again=True)
                return
            if delivery.after > connection.last_durable:
                return  # one before it is lost, and will be repeated
            connection.last_durable = delivery.number
        else:
            if delivery.number <= connection.last_fired:
                return
            connection.last_fired = delivery.number
        if connection.held is not None:
            connection.held.append(delivery)
        else:
            self._hand_over(delivery, connection)

    def _hand_over(self, delivery: Deliver, connection: Connection) -> None:
        """Give a notification to the application, unless it has had it or it would be out of order:
        because it is past, or may be lost and was overtaken.
        """
        id = delivery.envelope.id
        delivered = Delivered(delivery, connection.broker)
        stream = (id.publisher, id.epoch, id.durable)
        passed = self._past if delivery.durable else self._newest
        is_late = connection.in_order and id.number <= passed.get(stream, 0)
        if is_late or id in self._seen:
            connection.consumed += 1
            if delivery.durable:
                connection.to_acknowledge = max(connection.to_acknowledge, delivery.number)
            self._credit(connection)
            return
        self._seen[id] = None
        self._newest[stream] = max(self._newest.get(stream, 0), id.number)
        if len(self._seen) > SEEN_MAX:
            self._seen.popitem(last=False)
        self.distances.count(id.publisher, delivery.envelope.hops)
        self._out.append(delivered)

    def _credit(self, connection: Connection) -> None:
        """Grant more deliveries when half of the window is used, and acknowledge so far."""
        total = connection.consumed + self._window
        if total - connection.granted_to_it >= max(1, self._window // 2):
            connection.granted_to_it = total
            self._send(connection, Credit(total))
        if connection.to_acknowledge and (
            self._retransmit_s is not None
            or connection is not self._home
            or not connection.consumed % ACKNOWLEDGED_EVERY
        ):
            self._acknowledge(connection)

    def _acknowledge(self, connection: Connection, *, again: bool = False) -> None:
        if again or connection.to_acknowledge > connection.acknowledged:
            connection.acknowledged = connection.to_acknowledge
            self._send(connection, Acknowledge(connection.acknowledged))

    # Moving.

    def _redirected(self, redirect: Redirect) -> None:
        if self.is_moving:
            self._later = redirect
            return
        if redirect.broker == self._home.broker:
            return
        self._redirect = redirect
        if not self._untaken:
            self._go()

    def _go(self) -> None:
        """What was published is safe: open the connection to the new broker."""
        if self._redirect is None or self._next is not None:
            return
        broker, url = self._redirect.broker, self._redirect.url
        self._next = Connection(broker, held=[])
        self._connections[broker] = self._next
        self._out.append(Dial(broker, url))

    def _settle_way(self, connection: Connection) -> None:
        """Have it settled that everything reaches the new broker too."""
        request = self._next_request()
        connection.waiting["join", request] = Barrier(request)
        connection.has_new_wishes = False

    def _joined(self, connection: Connection) -> None:
        """Everything now reaches the new broker too: publish there, and leave the old one."""
        old, self._home, self._next = self._home, connection, None
        self._redirect = None
        self._granted, self._used = connection.may_publish, 0
        request = self._next_request()
        self._acknowledge(old)
        self._ask([old], "leave", request, Leave(request))
        self._move_waiting(old, connection)
        self._push()

    def _move_waiting(self, old: Connection, new: Connection) -> None:
        """Requests to the old broker that were not answered go to the new one."""
        for (what, reference), message in list(old.waiting.items()):
            if what in ("barrier", "ask"):
                del old.waiting[what, reference]
                self._ask([new], what, reference, message)

    def _left(self, request: int, connection: Connection) -> None:
        if not self._answered("leave", request, connection):
            return
        if connection is self._home:
            self._out.append(Confirmed("leave", request))
            return
        self._gone(connection)

    def _gone(self, connection: Connection) -> None:
        """The old broker has given us everything: go on with what the new one has delivered."""
        self._connections.pop(connection.broker, None)
        self._out.append(HangUp(connection.broker))
        held, self._home.held = self._home.held or [], None
        self._past = dict(self._newest)
        self.distances.clear()
        for delivery in held:
            self._hand_over(delivery, self._home)
        self._out.append(Moved(self._home.broker))
        self._say_settling(self._home)
        self._go_on()

    def _stay(self, connection: Connection) -> None:
        """The new broker will not have us: stay where we are."""
        self._connections.pop(connection.broker, None)
        self._next, self._redirect = None, None
        self._out.append(HangUp(connection.broker))
        self._push()
        self._go_on()

    def _go_on(self) -> None:
        """Follow where we were sent while still on the way elsewhere."""
        later, self._later = self._later, None
        if later is not None:
            self._redirected(later)

    # By the clock.

    def _repeat(self, connection: Connection) -> None:
        if connection.state == "greeting":
            self._greet(connection)
        elif connection.state == "attached":
            self._say_waiting(connection, REPEATED_MAX)
            if connection is self._home:
                for publish in list(self._untaken)[:REPEATED_MAX]:
                    self._send(connection, publish)

    def _everywhere(self) -> list[Connection]:
        """The brokers that must know what we want: while moving, both."""
        return [self._home] if self._next is None else [self._home, self._next]

    def _next_request(self) -> int:
        self._requests += 1
        return self._requests

    def _send(self, connection: Connection, message: Any) -> None:
        self._out.append(Send(connection.peer, message))

    def _finish(self) -> list[Effect]:
        out, self._out = self._out, []
        return out
