"""Strangers: connections that have not said yet who they are, and how much is held for all of them.

Anybody may connect and send, so what is held before a first message was understood is bounded for
everybody together. When it is too much, the stranger that has sent most is closed: a first message
is short, and one who sends it gets in.
"""

from __future__ import annotations

from kbn.transport.connection import Connection

BYTES_MAX = 16 << 20


class Strangers:
    """How much each stranger has sent."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self.bytes = 0
        self._bytes_max = bytes_max
        self._sent: dict[Connection, int] = {}

    def __len__(self) -> int:
        return len(self._sent)

    def opened(self, connection: Connection) -> None:
        """Somebody connects."""
        self._sent[connection] = 0
        connection.watch = self._received

    def known(self, connection: Connection) -> None:
        """It is known who that is, or the connection is gone."""
        self.bytes -= self._sent.pop(connection, 0)
        connection.watch = None

    def _received(self, connection: Connection, size: int) -> None:
        """A stranger has sent so many bytes."""
        self._sent[connection] += size
        self.bytes += size
        while self.bytes > self._bytes_max:
            loudest = max(self._sent, key=self._sent.__getitem__)
            self.known(loudest)
            loudest.abort()
