"""Who may come in: versions, certificates, tokens, and which of two connections is kept."""

from __future__ import annotations

from typing import Literal

from kbn.broker.messages import VERSION, Bye, Connect, Greet, Who
from kbn.broker.node.settings import NodeSettings
from kbn.broker.wire import FrameError
from kbn.errors import InvalidInputError


class Admission:
    """Checks first messages; whoever may not come in is told by an `InvalidInputError`."""

    def __init__(self, settings: NodeSettings) -> None:
        self._authorizer = settings.authorizer
        self._checks_certificates = settings.checks_certificates

    def check_client(self, connect: Connect, certificate: str | None) -> None:
        self._check_certificate(connect.client, certificate)
        if self._authorizer.admit(connect.client, connect.token) is None:
            raise InvalidInputError(f"client {connect.client!r} is not admitted: check its token")

    def check_broker(self, greeting: Greet | Bye, certificate: str | None) -> None:
        """Refuse a broker that may not come in at all.

        Whether one that nobody told us of becomes a neighbour is for the `Broker` to decide.
        """
        self._check_certificate(greeting.broker, certificate)
        admits = getattr(self._authorizer, "admit_broker", None)
        if admits is not None and not admits(greeting.broker, greeting.token):
            raise InvalidInputError(f"broker {greeting.broker!r} is not admitted: check its token")

    def _check_certificate(self, name: str, certificate: str | None) -> None:
        if self._checks_certificates and certificate != name:
            raise InvalidInputError(f"your certificate is {certificate!r}'s: you are not {name!r}")


def check_version(opening: Connect | Greet | Who) -> None:
    """Refuse another version of the protocol."""
    if opening.version != VERSION:
        raise FrameError(f"version {opening.version} of the protocol; here it is {VERSION}")


def kept_of_two(us: str, them: str) -> Literal["ours", "theirs"]:
    """Which connection is kept when two brokers connect to each other: that of the lesser name.

    >>> kept_of_two("a", "b"), kept_of_two("b", "a")
    ('ours', 'theirs')
    """
    return "ours" if us < them else "theirs"
