"""Who may come in: certificates, tokens, and which of two connections is kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from kbn.broker.access import Authorizer, Permission, admits_broker
from kbn.broker.messages import Bye, Connect, Greet
from kbn.broker.node.connections import NodeConnection
from kbn.broker.node.guesses import Guesses
from kbn.broker.node.settings import NodeSettings
from kbn.errors import InvalidInputError


class Admission:
    """Checks first messages; whoever may not come in is told by an `InvalidInputError`.

    Who has to wait for a while is told by a `RemotePeerError`.
    """

    def __init__(self, settings: NodeSettings) -> None:
        self._authorizer = authorizer_of(settings)
        self._checks_certificates = settings.checks_certificates
        self._guesses = Guesses()

    def check_client(self, connect: Connect, connection: NodeConnection, now: float) -> Permission:
        """What a client may do."""
        name = connect.client
        self._check_certificate(name, connection.certificate)
        self._guesses.check(connection.address, name, now)
        permission = self._authorizer.admit(name, connect.token)
        if permission is None:
            self._guesses.failed(connection.address, name, now)
            raise InvalidInputError(f"client {name!r} is not admitted: check its token")
        connection.token = connect.token
        return permission

    def check_broker(self, greeting: Greet | Bye, connection: NodeConnection, now: float) -> None:
        """Refuse a broker that may not come in at all.

        Whether one that nobody told us of becomes a neighbour is for the `Broker` to decide.
        """
        name = greeting.broker
        self._check_certificate(name, connection.certificate)
        self._guesses.check(connection.address, name, now)
        if (reason := self.objection(name, greeting.token)) is not None:
            self._guesses.failed(connection.address, name, now)
            raise InvalidInputError(reason)
        connection.token = greeting.token

    def objection(self, name: str, token: str) -> str | None:
        """Why a broker with that token may not come in, if so."""
        if admits_broker(self._authorizer, name, token):
            return None
        return f"broker {name!r} is not admitted: check its token"

    def _check_certificate(self, name: str, certificate: str | None) -> None:
        if self._checks_certificates and certificate != name:
            raise InvalidInputError(f"your certificate is {certificate!r}'s: you are not {name!r}")


class ByCertificate:
    """An authorizer where certificates prove names."""

    def __init__(self, inner: Authorizer) -> None:
        self._inner = inner
        if hasattr(inner, "permission_of"):
            self.permission_of = lambda name: _proved(inner.permission_of(name))

    def admit(self, name: str, token: str) -> Permission | None:
        return _proved(self._inner.admit(name, token))

    def admit_broker(self, name: str, token: str) -> bool:
        return admits_broker(self._inner, name, token)


def authorizer_of(settings: NodeSettings) -> Authorizer:
    """The authorizer of a node; behind mutual TLS everybody has proved its name."""
    inner = settings.authorizer
    return ByCertificate(inner) if settings.checks_certificates else inner


def _proved(permission: Permission | None) -> Permission | None:
    return None if permission is None else replace(permission, known_by="proof")


def kept_of_two(us: str, them: str) -> Literal["ours", "theirs"]:
    """Which connection is kept when two brokers connect to each other: that of the lesser name.

    >>> kept_of_two("a", "b"), kept_of_two("b", "a")
    ('ours', 'theirs')
    """
    return "ours" if us < them else "theirs"
