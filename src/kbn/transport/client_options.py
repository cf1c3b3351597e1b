"""What a client over TCP is told when it is made."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field

from kbn.broker import ClientSettings, TermNote


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """How a client connects; `settings` is what it tells brokers.

    `timeout_s` bounds the first connection; None waits for as long as it takes. `epoch` is the time
    of the connection unless given. `on_ontology` is called with the digest of each new ontology,
    `on_unknown_term` with each term that the broker's ontology does not know; without it, the log
    has a warning.

    >>> ClientOptions.with_token("secret").settings.token
    'secret'
    """

    settings: ClientSettings = field(default_factory=ClientSettings)
    tls: ssl.SSLContext | None = None
    timeout_s: float | None = None
    epoch: int | None = None
    on_ontology: Callable[[str], None] | None = None
    on_unknown_term: Callable[[TermNote], None] | None = None

    @classmethod
    def with_token(
        cls, token: str, tls: ssl.SSLContext | None = None, timeout_s: float | None = None
    ) -> ClientOptions:
        """The options of one who says who it is by a token, and talks to one broker only."""
        return cls(ClientSettings(token=token, stays=True), tls, timeout_s)
