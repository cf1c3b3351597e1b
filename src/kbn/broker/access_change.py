"""A change of the access rules: those who are attached, and those who are kept, obey the new ones.

Who is not admitted any more is told why, and its connection is closed. A durable client whose name
may still come in, with another token, say, is kept; one whose name may not is forgotten. From a
client that may do less, the subscriptions that it may not have are withdrawn, and it is told; what
waits for them is not delivered. Nor is what waits for one that the client has given up itself, or
that a disk has lost, unless it may subscribe to everything: nobody knows whether it may have that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kbn.broker.access import Authorizer, NotAllowedError, Permission
from kbn.broker.client_requests import ClientRequests
from kbn.broker.client_session import ClientSession
from kbn.broker.client_sessions import ClientSessions
from kbn.broker.messages import Refused
from kbn.broker.outbox import Outbox

WITHDRAWN = "your access was withdrawn or its token changed: you are not admitted any more"


class AccessChange:
    """Holds the clients of one broker to what the authorizer says now."""

    def __init__(
        self,
        authorizer: Authorizer,
        outbox: Outbox,
        clients: ClientSessions,
        requests: ClientRequests,
    ) -> None:
        self._authorizer = authorizer
        self._permission_of: Callable[[str], Permission | None] | None
        self._permission_of = getattr(authorizer, "permission_of", None)
        self._outbox = outbox
        self._clients = clients
        self._requests = requests

    def obey(self) -> None:
        """Look at every client."""
        for session in list(self._clients.by_name.values()):
            self._look_at(session)

    def _look_at(self, session: ClientSession) -> None:
        permission = self._of_name(session)
        if session.is_connected:
            admitted = self._authorizer.admit(session.name, session.token)
            if admitted is None:
                self._turn_away(session, WITHDRAWN)
            else:
                permission = admitted
        if permission is None:
            self._requests.forget(session)
        elif permission != session.permission:
            self._hold_to(permission, session)

    def _of_name(self, session: ClientSession) -> Permission | None:
        """What a client of that name may do; what this one may, where only tokens tell."""
        if self._permission_of is None:
            return session.permission
        return self._permission_of(session.name)

    def _turn_away(self, session: ClientSession, reason: str) -> None:
        refused = Refused("connect", 0, NotAllowedError.__name__, reason)
        self._outbox.send(session.peer, refused)
        self._requests.detach(session)

    def _hold_to(self, permission: Permission, session: ClientSession) -> None:
        self._clients.allow(session, permission)
        for id, subscription in [*session.subscriptions.items(), *session.former.items()]:
            if (error := _objection(permission.check_subscribe, subscription)) is not None:
                self._requests.withdraw_subscription(session, id, error)
        for id, advertisement in list(session.advertisements.items()):
            attributes = {c.attribute for filter in advertisement.filters for c in filter}
            if (error := _objection(permission.check_publish, attributes)) is not None:
                self._requests.withdraw_advertisement(session, id, error)
        if session.deliveries.when_slow == "block" and not permission.block:
            self._clients.stop_blocking(session)
            if session.is_connected and (error := _objection(permission.check_block)) is not None:
                self._turn_away(session, str(error))


def _objection(check: Callable[..., None], *arguments: Any) -> NotAllowedError | None:
    try:
        check(*arguments)
    except NotAllowedError as error:
        return error
    return None
