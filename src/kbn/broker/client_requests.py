"""Client requests: what clients may ask of a broker, and what it does then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import assert_never

from kbn.broker.access import NotConnectedError, Permission
from kbn.broker.administration import AdminBody, AdminResult, LoadOntology
from kbn.broker.changes import Changes
from kbn.broker.client_session import ClientSession
from kbn.broker.client_sessions import ClientSessions
from kbn.broker.content_size import value_count
from kbn.broker.contents import Contents
from kbn.broker.fields import SECONDS_MAX, shortened
from kbn.broker.interests import Interests
from kbn.broker.messages import (
    AdminReply,
    AdminRequest,
    Advertise,
    Alive,
    Barrier,
    BarrierReached,
    ConnAck,
    Connect,
    Credit,
    DeliverAck,
    Done,
    Envelope,
    FromClient,
    Grant,
    Hops,
    Leave,
    Left,
    Peer,
    Publish,
    Redirect,
    Refuges,
    Refused,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from kbn.broker.outbox import Outbox
from kbn.broker.settings import Settings
from kbn.broker.store import KeptClient
from kbn.broker.wanted import Key
from kbn.broker.work import (
    CHANGED,
    CHARACTERS_READ,
    COMMA,
    COMPARED,
    CONSTRAINT,
    ELEMENT,
    JSON_READ,
)
from kbn.errors import InvalidInputError, KbnError
from kbn.filters import Notification, Subscription

EPOCH_AHEAD_S = 86_400.0  # a client's clock may be ahead of ours by so much
CONTENT_LOOKED_INTO = 2_048  # bytes: with less there is not too much in it

VALUES_COUNTED = 5  # of a content, for one unit of work
ADVERTISEMENTS_ASKED = 1_000  # of a publisher; what none of them covers goes everywhere

NOTHING = b"http://www.w3.org/2002/07/owl#Nothing"


@dataclass(frozen=True, slots=True)
class Network:
    """What a client's request needs of the broker beyond its clients: who it is, to route a
    notification, to know that there is room for a durable one (a `LimitError` says that there is
    none), and to be called when all that was said before has arrived everywhere; to do something
    in steps, and to have delivered at once what is on its way to a client.
    """

    name: str
    epoch: int
    keeps_order: Callable[[], bool]
    publish: Callable[[Envelope, Notification, ClientSession], None]
    check_room: Callable[[bytes, Notification], None]
    begin_wave: Callable[[Callable[[], None]], None]
    begin_chore: Callable[[Iterator[None], Peer], None]
    deliver_to: Callable[[str], None]


class ClientRequests:
    """Handles what clients say.

    `administer` carries out what managers ask. `hold_to_permission` withdraws what a client may not
    have. `ontology` is the digest that clients are told.
    """

    def __init__(
        self,
        network: Network,
        settings: Settings,
        outbox: Outbox,
        clients: ClientSessions,
        interests: Interests,
        contents: Contents,
        changes: Changes,
    ) -> None:
        self.administer: Callable[[AdminBody], AdminResult]
        self.hold_to_permission: Callable[[ClientSession], None]
        self.ontology = ""
        self.refuges: tuple[tuple[str, str], ...] = ()
        self.published = 0
        self.refused = 0
        self._network = network
        self._settings = settings
        self._outbox = outbox
        self._clients = clients
        self._interests = interests
        self._contents = contents
        self._changes = changes

    def handle(self, message: FromClient, sender: Peer) -> None:
        """Do what a client asks, or refuse it."""
        session = self._clients.by_name.get(sender.name)
        try:
            if isinstance(message, Connect):
                self._connect(message, sender, session)
                return
            if session is not None and not session.is_looked_at:
                self._clients.look_at(session)
            if session is None or not session.is_connected:
                self._from_stranger(message, sender)
            else:
                session.heard_at = self._outbox.now
                self._request(message, session)
        except KbnError as error:
            self.refuse(sender, message, error)

    def _from_stranger(self, message: FromClient, sender: Peer) -> None:
        if isinstance(message, Leave) and sender.name not in self._clients.by_name:
            # It has left before, and did not hear our answer.
            self._outbox.send(sender, Left(message.request))
            return
        raise NotConnectedError("send Connect first: this broker does not know you (any more)")

    def _request(self, message: FromClient, session: ClientSession) -> None:
        peer = session.peer
        match message:
            case Publish():
                self._publish(message, session)
            case DeliverAck(number):
                self._clients.acked(number, session)
            case Credit(total):
                self._clients.credit(total, session)
            case Subscribe(id, text, is_text):
                self._subscribe(session, id, self._read(session, text, is_text), len(text))
                self._outbox.send(peer, Done("subscribe", id))
            case Unsubscribe(id):
                self._unsubscribe(session, id)
                self._outbox.send(peer, Done("unsubscribe", id))
            case Advertise(id, text, is_text):
                self._advertise(session, id, self._read(session, text, is_text))
            case Unadvertise(id):
                self._unadvertise(session, id)
                self._outbox.send(peer, Done("unadvertise", id))
            case Barrier(request):
                reached = BarrierReached(request)
                self._begin_wave(session, lambda: self._outbox.send(peer, reached))
            case Leave(request):
                self._leave(session, request)
            case AdminRequest(request, body):
                session.permission.check_manage()
                if isinstance(body, LoadOntology):
                    session.permission.check_ontologies()
                self._outbox.send(peer, AdminReply(request, self.administer(body)))
            case Hops():
                self._clients.told_hops(message, session)
                self._changes.of_hops(session.name)
            case Alive():
                granted, dropped = session.publications.granted, session.deliveries.dropped
                self._outbox.send(peer, Grant(granted, dropped))
            case Connect():
                raise AssertionError("a connection begins elsewhere")
            case _:
                assert_never(message)

    # Coming and going.

    def _connect(self, connect: Connect, sender: Peer, known: ClientSession | None) -> None:
        settings = self._settings
        permission = settings.authorizer.admit(connect.client, connect.token)
        if permission is None:
            raise InvalidInputError(f"client {connect.client!r} is not admitted: check its token")
        self.check_owner(connect, permission)
        if known is not None and connect.epoch < known.epoch:
            raise InvalidInputError(f"a newer process of {connect.client!r} is attached")
        if connect.durable and not settings.keeps:
            raise InvalidInputError("this broker keeps nothing: start it with a store")
        if connect.durable and known is None:
            settings.broker_limits.check_durable(self._clients.durable_count)
        if connect.when_slow == "block":
            permission.check_block()
        is_resumed = known is not None and known.epoch == connect.epoch
        is_changed = known is not None and known.permission != permission
        session = self._clients.connect(connect, sender, permission)
        session.is_looked_at = True  # by what it shows now
        self._outbox.send(sender, self._welcome(session, is_resumed))
        if self.refuges:
            self._outbox.send(sender, Refuges(self.refuges))
        if session.redirect is not None:
            self._outbox.send(sender, Redirect(*session.redirect))
        if is_changed:
            self.hold_to_permission(session)

    def use_refuges(self, refuges: tuple[tuple[str, str], ...]) -> None:
        """Clients are to go there when this broker is away."""
        self.refuges = refuges
        for session in self._clients.by_name.values():
            if session.is_connected:
                self._outbox.send(session.peer, Refuges(refuges))

    def _welcome(self, session: ClientSession, is_resumed: bool) -> ConnAck:
        publications = session.publications
        return ConnAck(
            self._network.name,
            self._network.epoch,
            self.ontology,
            publications.stored,
            publications.granted,
            self._settings.keeps,
            is_resumed,
            in_order=self._network.keeps_order(),
            dropped=session.deliveries.dropped,
            refused=publications.refused,
        )

    def check_owner(self, connect: Connect, permission: Permission) -> None:
        """Refuse a client whose name is another's, and one with an epoch that cannot be."""
        epoch_max = int((max(self._outbox.now, 0.0) + EPOCH_AHEAD_S) * 1_000_000)
        if connect.epoch > epoch_max:
            raise InvalidInputError(
                f"epoch {connect.epoch} is ahead of this broker's clock, in microseconds: set the "
                "clock of the client, or give it a smaller epoch"
            )
        known = self._clients.by_name.get(connect.client)
        attached = known.token if known is not None and self._is_attached(known) else None
        self._clients.owners.check(connect, permission, attached)

    def _is_attached(self, session: ClientSession) -> bool:
        """Whether a client is here, and is not about to be turned away."""
        admit = self._settings.authorizer.admit
        return session.is_connected and (
            session.is_looked_at or admit(session.name, session.token) is not None
        )

    def restore(self, kept: KeptClient) -> None:
        """Attach a durable client that the store has kept, with what it wants."""
        authorizer = self._settings.authorizer
        # One that knows names as well is asked when all are here (`access_change.py`).
        knows_names = hasattr(authorizer, "permission_of")
        permission = None if knows_names else authorizer.admit(kept.name, "")
        session = self._clients.restore(kept, permission)
        former = self._clients.former_of(kept.name)
        for id, text in kept.subscriptions.items():
            held = session.former if id in former else session.subscriptions
            try:
                held[id] = self._interests.read(text, is_text=False)
                session.count_text(id, len(text))
            except KbnError as error:
                self._clients.set_aside(kept.name, id, text, error)
        for id, subscription in session.subscriptions.items():
            # An ontology that does not know a term of it: another may.
            with suppress(KbnError):
                self._interests.subscribe((session.peer, id), subscription)

    def _leave(self, session: ClientSession, request: int) -> None:
        if session.leaving != request:
            session.leaving = request
            self._begin_wave(session, lambda: self._drained(session, request))

    def _drained(self, session: ClientSession, request: int) -> None:
        """All that was on its way to a leaving client is here; nothing more need come.

        A client that has connected again since may have changed its mind.
        """
        if session.leaving != request:
            return
        self._network.deliver_to(session.name)
        self._clients.make_former(session)
        self._network.begin_chore(self._draining(session), session.peer)

    def _draining(self, session: ClientSession) -> Iterator[None]:
        for id in list(session.former):
            self._outbox.work.done += CHANGED
            self._interests.unsubscribe((session.peer, id))
            yield
        if session.former:
            self._changes.of_subscriptions(session.name)
        self._clients.drained(session)

    def detach(self, session: ClientSession) -> None:
        """A client is away: a durable one is kept, another forgotten."""
        session.is_connected = False
        self._clients.release_publishers(session)
        if not session.is_durable:
            self.forget(session)
        elif session.advertisements:
            self._network.begin_chore(self._unadvertising(session), session.peer)

    def finish(self) -> None:
        """Deliver what waits, and forget those who have left."""
        for session in self._clients.send_ready():
            self._clients.say_left(session)
            self.forget(session)

    def forget(self, session: ClientSession) -> None:
        """A client is no longer ours, and nothing is kept for it; done in steps."""
        self._network.begin_chore(self._forgetting(session), session.peer)

    def _forgetting(self, session: ClientSession) -> Iterator[None]:
        yield from self._unadvertising(session)
        yield from self._unsubscribing(session)
        if self._clients.by_name.get(session.name) is session:  # not one that came since
            self._clients.forget(session)

    def _unadvertising(self, session: ClientSession) -> Iterator[None]:
        for id in list(session.advertisements):
            self._outbox.work.done += CHANGED
            self._unadvertise(session, id)
            yield

    def _unsubscribing(self, session: ClientSession) -> Iterator[None]:
        for id in list(session.subscriptions):
            self._unsubscribe(session, id)
            yield

    # Publishing.

    def _publish(self, publish: Publish, session: ClientSession) -> None:
        if not self._clients.accept(publish, session):
            return
        is_refused = True
        try:
            notification = self._checked(publish, session)
            is_refused = False
        except KbnError as error:
            self.refuse(session.peer, publish, error)  # before `PubAck`, which has no reason
            return
        finally:
            self._clients.grant(session)
            if publish.durable:
                self._clients.handled(publish, session, is_refused=is_refused)
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

    def is_refused(self, content: bytes, name: str) -> bool:
        """Whether what a client publishes is too large, or the client is gone: then it need not be
        matched.
        """
        session = self._clients.by_name.get(name)
        if session is None or not session.is_connected:
            return True
        try:
            self._check_content(content, session)
            if len(content) > CONTENT_LOOKED_INTO and self._contents.open(content):
                found = self._contents.read(content)
                session.limits.check_notification(found, len(content))
        except KbnError:
            return True
        return False

    def _check_content(self, content: bytes, session: ClientSession) -> None:
        """Raise `LimitError` when a content is too large to be read."""
        limits = session.limits
        limits.check_content(len(content))
        if len(content) > limits.values and not self._contents.is_open(content):
            count = value_count(content, limits.values)
            self._outbox.work.done += min(count, limits.values) // VALUES_COUNTED
            limits.check_values(count)

    def _checked(self, publish: Publish, session: ClientSession) -> Notification:
        """What a client publishes; a KbnError when it may not."""
        self._check_content(publish.content, session)
        if not abs(publish.time) <= SECONDS_MAX:
            raise InvalidInputError("a notification's time of publication is no number")
        notification = self._contents.read(publish.content)
        session.limits.check_notification(notification, len(publish.content))
        session.permission.check_publish(notification)
        if publish.durable and not self._settings.keeps:
            raise InvalidInputError("this broker keeps nothing: start it with a store")
        if publish.durable:
            self._network.check_room(publish.content, notification)
        return notification

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

    # Subscribing and advertising.

    def subscriptions(self) -> dict[Key, Subscription]:
        """What all clients want now."""
        return {
            (session.peer, id): subscription
            for session in self._clients.by_name.values()
            for id, subscription in session.subscriptions.items()
        }

    def _read(self, session: ClientSession, text: str, is_text: bool) -> Subscription:
        """What a client asks for, if it is not too much to read."""
        limits = session.limits
        limits.check_text(text)
        self._outbox.work.done += _reading(text, is_text, limits.tokens)
        return self._interests.read(text, is_text=is_text, tokens_max=limits.tokens)

    def _subscribe(
        self, session: ClientSession, id: int, subscription: Subscription, characters: int
    ) -> None:
        key, known = (session.peer, id), session.subscriptions.get(id)
        if known == subscription:
            if key not in self._interests.table:  # restored, and the ontology did not know a term
                self._interests.subscribe(key, subscription)
            return
        size = session.limits.check_subscription(subscription, len(session.subscriptions))
        cost = CHANGED + CONSTRAINT * size.constraints + ELEMENT * size.elements
        self._outbox.work.done += cost
        session.limits.check_size(characters + session.subscribed_bytes)
        session.permission.check_subscribe(subscription)
        if known is not None:
            raise InvalidInputError(
                f"you have another subscription {id}: {known}; unsubscribe it first, or let the "
                "broker forget you (kbn subscribe --durable --forget, without a filter)"
            )
        self._interests.subscribe(key, subscription)
        session.count_text(id, characters)
        self._clients.add_subscription(session, id, subscription)
        self._changes.of_subscriptions(session.name)

    def _unsubscribe(self, session: ClientSession, id: int) -> None:
        if self._clients.remove_subscription(session, id):
            self._outbox.work.done += CHANGED
            self._interests.unsubscribe((session.peer, id))
            self._changes.of_subscriptions(session.name)

    def withdraw_subscription(self, session: ClientSession, id: int, error: KbnError) -> None:
        """A client may not have a subscription any more: tell it."""
        self._unsubscribe(session, id)
        self.refuse(session.peer, Subscribe(id, ""), error)

    def withdraw_advertisement(self, session: ClientSession, id: int, error: KbnError) -> None:
        """A client may not publish any more what it advertised: tell it."""
        self._outbox.work.done += CHANGED
        self._unadvertise(session, id)
        self.refuse(session.peer, Advertise(id, ""), error)

    def _advertise(self, session: ClientSession, id: int, advertisement: Subscription) -> None:
        session.permission.check_publish(
            {c.attribute for filter in advertisement.filters for c in filter}
        )
        if id not in session.advertisements:
            held = len(session.advertisements)
            session.limits.check_subscription(advertisement, held)
            self._outbox.work.done += CHANGED
            session.advertisements[id] = advertisement
            self._interests.advertise((session.peer, id), advertisement)

        def in_force() -> None:
            if id not in session.advertisements:
                return  # it was withdrawn before the wave came back
            session.in_force.add(id)
            self._outbox.send(session.peer, Done("advertise", id))

        self._begin_wave(session, in_force)

    def _unadvertise(self, session: ClientSession, id: int) -> None:
        session.in_force.discard(id)
        if session.advertisements.pop(id, None) is not None:
            self._interests.unadvertise((session.peer, id))

    # Answers.

    def _begin_wave(self, session: ClientSession, request: Callable[[], None]) -> None:
        """Call `request` after a wave, unless another process of the client is here by then.

        That one numbers its requests anew.
        """
        epoch = session.epoch

        def arrived() -> None:
            if self._clients.by_name.get(session.name) is session and session.epoch == epoch:
                request()

        self._network.begin_wave(arrived)

    def refuse(self, sender: Peer, message: FromClient, error: KbnError) -> None:
        """Tell a client what was wrong with its message."""
        self.refused += 1
        self._outbox.send(sender, _refusal(message, error))


def _refusal(message: FromClient, error: KbnError) -> Refused:
    """What a client is told of an error; the message is named by its id, number or request."""
    names = ("id", "number", "request")
    reference = next((getattr(message, name) for name in names if hasattr(message, name)), 0)
    durable = isinstance(message, Publish) and message.durable
    what = str(message.__struct_config__.tag)
    return Refused(what, reference, type(error).__name__, shortened(str(error)), durable)


def _reading(text: str, is_text: bool, tokens_max: int) -> int:
    """What it costs to read a subscription, of which so many tokens are looked at."""
    commas = min(text.count(","), tokens_max)
    if not is_text:
        return len(text) // JSON_READ + commas
    return min(len(text), 4 * tokens_max) // CHARACTERS_READ + COMMA * commas
