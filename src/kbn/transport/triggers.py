"""The trigger brokers of an overlay: any of them will do, and one that is away is passed over.

They are linked with each other, so that what is published at one is heard at all. Whoever is
attached to one that dies goes to a neighbour of it, as any client does. This is for those who come
when it is dead already, and for a neighbour that is dead, too.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence

from kbn.broker import ClientSettings
from kbn.errors import InvalidInputError
from kbn.transport.client_options import ClientOptions

ANSWER_S = 5.0
"""With another trigger broker to go to, one that does not answer is waited for so long."""


class Triggers:
    """URLs of trigger brokers, taken in turn.

    >>> triggers = Triggers(["kbn://one:1", "kbn://two:1"])
    >>> triggers.next(), triggers.next(), triggers.next()
    ('kbn://one:1', 'kbn://two:1', 'kbn://one:1')
    """

    def __init__(self, urls: str | Sequence[str]) -> None:
        self._urls = [urls] if isinstance(urls, str) else list(urls)
        if not self._urls:
            raise InvalidInputError("name at least one trigger broker")
        self._taken = 0

    @property
    def wait_s(self) -> float | None:
        """How long to wait for one; None: for ever, when there is no other."""
        return ANSWER_S if len(self._urls) > 1 else None

    def next(self) -> str:
        """The one to try now."""
        url = self._urls[self._taken % len(self._urls)]
        self._taken += 1
        return url

    def options(self, token: str, tls: ssl.SSLContext | None) -> ClientOptions:
        """How to connect to one of them."""
        # Where there is but one, it is waited for.
        settings = ClientSettings(token=token, stays=len(self._urls) == 1)
        return ClientOptions(settings, tls, self.wait_s)
