"""A change of the access rules: those who are attached, and those who are kept, obey the new ones.

Who is not admitted any more is told why, and its connection is closed. A durable client whose name
may still come in, with another token, say, is kept; one whose name may not is forgotten. From a
client that may do less, the subscriptions that it may not have are withdrawn, and it is told; what
waits for them is not delivered. Nor is what waits for one that the client has given up itself, or
that a disk has lost, unless it may subscribe to everything: nobody knows whether it may have that.

**In steps.** All this takes turns, and yet the new rules are in force at once: before a client is
heard or sent anything, it is looked at. Who has to give up something is then *held*: it is
delivered nothing, and what it says waits, until all that it may not have is withdrawn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from kbn.broker.access import Authorizer, NotAllowedError, Permission
from kbn.broker.client_requests import ClientRequests
from kbn.broker.client_session import ClientSession
from kbn.broker.client_sessions import ClientSessions
from kbn.broker.messages import Refused
from kbn.broker.outbox import Outbox
from kbn.broker.router import Router
from kbn.broker.work import LOOKED_AT, RECONSIDERED, SENT
from kbn.filters import Subscription

AT_ONCE = 64  # clients that are looked at, and subscriptions, before other long work goes on

WITHDRAWN = "your access was withdrawn or its token changed: you are not admitted any more"


class AccessChange:
    """Holds the clients of one broker to what the authorizer says now."""

    def __init__(
        self,
        authorizer: Authorizer,
        outbox: Outbox,
        clients: ClientSessions,
        requests: ClientRequests,
        router: Router,
    ) -> None:
        self._authorizer = authorizer
        self._permission_of: Callable[[str], Permission | None] | None
        self._permission_of = getattr(authorizer, "permission_of", None)
        self._outbox = outbox
        self._clients = clients
        self._requests = requests
        self._chores = router.chores
        self._fan_outs = router.fan_outs
        self._held: deque[ClientSession] = deque()
        clients.traffic.look_at = self._look_at
        requests.hold_to_permission = self._permission_changed

    def obey(self) -> None:
        """The rules have changed: look at every client, in steps."""
        sessions = list(self._clients.by_name.values())
        for session in sessions:
            session.is_looked_at = False
        self._chores.start(self._obeying(sessions))

    def _obeying(self, sessions: list[ClientSession]) -> Iterator[None]:
        for number, session in enumerate(sessions, 1):
            if not session.is_looked_at and self._clients.by_name.get(session.name) is session:
                self._look_at(session)
            if number % AT_ONCE == 0 or self._outbox.work.is_spent:
                yield
        yield from self._withdrawing()

    def _look_at(self, session: ClientSession) -> None:
        session.is_looked_at = True
        self._outbox.work.done += LOOKED_AT
        permission = self._of_name(session)
        if session.is_connected:
            admitted = self._authorizer.admit(session.name, session.token)
            if admitted is None:
                self._turn_away(session, WITHDRAWN)
            else:
                permission = admitted
        if permission is None:
            if session.is_durable:  # another is forgotten when it is turned away
                self._requests.forget(session)
        elif permission != session.permission:
            self._clients.allow(session, permission)
            self._hold(session)

    def _of_name(self, session: ClientSession) -> Permission | None:
        """What a client of that name may do; what this one may, where only tokens tell."""
        if self._permission_of is None:
            return session.permission
        return self._permission_of(session.name)

    def _turn_away(self, session: ClientSession, reason: str) -> None:
        refused = Refused("connect", 0, NotAllowedError.__name__, reason)
        self._outbox.send(session.peer, refused)
        self._requests.detach(session)

    def _permission_changed(self, session: ClientSession) -> None:
        """A client came back, and may do something else than when it was here last."""
        self._hold(session)
        self._chores.start(self._withdrawing())

    def _hold(self, session: ClientSession) -> None:
        self._clients.traffic.hold_up(session)
        self._chores.hold(session.peer)
        self._held.append(session)
        permission = session.permission
        if session.deliveries.when_slow == "block" and not permission.block:
            self._clients.stop_blocking(session)
            if session.is_connected and (error := _objection(permission.check_block)) is not None:
                self._turn_away(session, str(error))

    def _withdrawing(self) -> Iterator[None]:
        """Withdraw what those may not have who are held, one after the other."""
        while self._held:
            session = self._held.popleft()
            try:
                yield from self._withdrawing_from(session)
            finally:
                self._chores.release(session.peer)

    def _withdrawing_from(self, session: ClientSession) -> Iterator[None]:
        """Withdraw what a client may not have; the store knows all of it before any is gone."""
        refused: dict[int, NotAllowedError] = {}
        check = session.permission.check_subscribe
        for number, (id, subscription) in enumerate(_all_of(session), 1):
            self._outbox.work.done += RECONSIDERED
            if (error := _objection(check, subscription)) is not None:
                refused[id] = error
            if number % AT_ONCE == 0:
                yield
        self._clients.traffic.withdraw(session, refused, is_over=False)
        for id, error in refused.items():
            self._outbox.work.done += SENT
            self._requests.subscribing.withdraw_subscription(session, id, error)
            yield
        yield from self._withdrawing_advertisements(session)
        # What is on its way belongs to what is withdrawn.
        self._fan_outs.deliver_to(session.name)
        self._clients.traffic.withdraw(session, refused, is_over=True)

    def _withdrawing_advertisements(self, session: ClientSession) -> Iterator[None]:
        check = session.permission.check_publish
        for number, (id, advertisement) in enumerate(list(session.advertisements.items()), 1):
            self._outbox.work.done += RECONSIDERED
            attributes = {c.attribute for filter in advertisement.filters for c in filter}
            if (error := _objection(check, attributes)) is not None:
                self._requests.subscribing.withdraw_advertisement(session, id, error)
                yield
            elif number % AT_ONCE == 0:
                yield


def _all_of(session: ClientSession) -> list[tuple[int, Subscription]]:
    return [*session.subscriptions.items(), *session.former.items()]


def _objection(check: Callable[..., None], *arguments: Any) -> NotAllowedError | None:
    try:
        check(*arguments)
    except NotAllowedError as error:
        return error
    return None
