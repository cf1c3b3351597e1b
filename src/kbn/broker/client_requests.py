"""Client requests: what clients say goes to the part it is for; how clients come and go.

What they publish is in `client_publishing.py`, what they want and advertise in
`client_subscribing.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import assert_never

from kbn.broker.access import NotConnectedError, Permission
from kbn.broker.administration import AdminBody, AdminResult, LoadOntology
from kbn.broker.changes import Changes
from kbn.broker.client_answers import ClientAnswers
from kbn.broker.client_explaining import ClientExplaining
from kbn.broker.client_publishing import ClientPublishing
from kbn.broker.client_session import ClientSession
from kbn.broker.client_sessions import ClientSessions
from kbn.broker.client_subscribing import ClientSubscribing
from kbn.broker.contents import Contents
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
    Explain,
    FromClient,
    Hops,
    Leave,
    Left,
    Peer,
    Publish,
    Redirect,
    Refuges,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from kbn.broker.network import Network
from kbn.broker.outbox import Outbox
from kbn.broker.settings import Settings
from kbn.broker.store import KeptClient
from kbn.broker.unknown_terms import grant_of, grants_of
from kbn.broker.work import CHANGED, LEAVING, REMEMBERED, WELCOMED
from kbn.errors import InvalidInputError, KbnError

EPOCH_AHEAD_S = 86_400.0  # a client's clock may be ahead of ours by so much


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
        self.answers = answers = ClientAnswers(clients.by_name, network.begin_wave, outbox)
        self.publishing = ClientPublishing(
            network, settings, outbox, clients, interests, contents, answers
        )
        self.subscribing = ClientSubscribing(outbox, clients, interests, answers, changes)
        self.explaining = ClientExplaining(
            outbox, interests, self.publishing, self.subscribing.read, network.begin_chore
        )
        self._network = network
        self._settings = settings
        self._outbox = outbox
        self._clients = clients
        self._interests = interests
        self._changes = changes

    def handle(self, message: FromClient, sender: Peer) -> None:
        """Do what a client asks, or refuse it."""
        session = self._clients.by_name.get(sender.name)
        try:
            if isinstance(message, Connect):
                self._connect(message, sender, session)
                return
            if session is not None and not session.is_looked_at:
                self._clients.traffic.look_at(session)
            if session is None or not session.is_connected:
                self._from_stranger(message, sender)
            else:
                session.heard_at = self._outbox.now
                self._request(message, session)
        except KbnError as error:
            self.answers.refuse(sender, message, error)

    def _from_stranger(self, message: FromClient, sender: Peer) -> None:
        if isinstance(message, Leave) and sender.name not in self._clients.by_name:
            # It has left before, and did not hear our answer.
            lost = self._clients.left_with(sender.name)
            self._outbox.send(sender, Left(message.request, lost))
            return
        raise NotConnectedError("send Connect first: this broker does not know you (any more)")

    def _request(self, message: FromClient, session: ClientSession) -> None:
        peer = session.peer
        match message:
            case Publish():
                self.publishing.publish(message, session)
            case DeliverAck(number):
                self._clients.traffic.acked(number, session)
            case Credit(total):
                self._clients.traffic.credit(total, session)
            case Subscribe(id):
                self.subscribing.subscribe(session, message)
                self._outbox.send(peer, Done("subscribe", id))
            case Unsubscribe(id):
                self.subscribing.unsubscribe(session, id)
                self._outbox.send(peer, Done("unsubscribe", id))
            case Advertise():
                self.subscribing.advertise(session, message)
            case Unadvertise(id):
                self.subscribing.unadvertise(session, id)
                self._outbox.send(peer, Done("unadvertise", id))
            case Barrier(request, reaching):
                self._outbox.send_all(peer, grants_of(session))
                reached = BarrierReached(request)
                answer = partial(self._outbox.send, peer, reached)
                self.answers.after_wave(session, answer, reaching)
            case Leave():
                self._leave(session, message)
            case AdminRequest(request, body):
                session.permission.check_manage()
                if isinstance(body, LoadOntology):
                    session.permission.check_ontologies()
                self._outbox.send(peer, AdminReply(request, self.administer(body)))
            case Explain():
                self.explaining.explain(message, session)
            case Hops():
                self._clients.hops.told(message, session)
                self._changes.of_hops(session.name)
            case Alive():
                self._outbox.send(peer, grant_of(session))
            case Connect():
                raise AssertionError("a connection begins elsewhere")
            case _:
                assert_never(message)

    # Coming and going.

    def _connect(self, connect: Connect, sender: Peer, known: ClientSession | None) -> None:
        settings = self._settings
        self._outbox.work.done += WELCOMED + REMEMBERED * connect.durable
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
            explains=True,
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
        self.subscribing.restore(session, kept)

    def _leave(self, session: ClientSession, leave: Leave) -> None:
        if session.leaving != leave.request:
            self._outbox.work.done += LEAVING
            session.leaving = leave.request
            drained = partial(self._drained, session, leave.request)
            self.answers.after_wave(session, drained, leave.reaching)

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
        self._clients.traffic.drained(session)

    def detach(self, session: ClientSession) -> None:
        """A client is away: a durable one is kept, another forgotten."""
        session.is_connected = False
        self._clients.flow.release(session)
        if not session.is_durable:
            self.forget(session)
        elif session.advertisements:
            self._network.begin_chore(self.subscribing.unadvertising(session), session.peer)

    def finish(self) -> None:
        """Deliver what waits, and forget those who have left."""
        for session in self._clients.traffic.send_ready():
            self._clients.say_left(session)
            self.forget(session)

    def forget(self, session: ClientSession) -> None:
        """A client is no longer ours, and nothing is kept for it; done in steps."""
        self._network.begin_chore(self._forgetting(session), session.peer)

    def _forgetting(self, session: ClientSession) -> Iterator[None]:
        yield from self.subscribing.unadvertising(session)
        yield from self.subscribing.unsubscribing(session)
        if self._clients.by_name.get(session.name) is session:  # not one that came since
            self._clients.forget(session)
