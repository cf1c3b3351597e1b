"""A delivery on its way to the feeds of a client."""

from __future__ import annotations

from datetime import UTC, datetime

from kbn.broker import Delivered, Envelope, content
from kbn.filters import Notification


class Item:
    """A delivery, and how many feeds are not done with it; its content is read when asked for."""

    __slots__ = ("_read", "delivered", "remaining")

    def __init__(self, delivered: Delivered, remaining: int = 0) -> None:
        self.delivered = delivered
        self.remaining = remaining
        self._read: Notification | None = None

    @property
    def notification(self) -> Notification:
        """The notification; a `KbnError` when its content cannot be read."""
        if self._read is None:
            self._read = read(self.delivered.delivery.envelope)
        return self._read


def read(envelope: Envelope) -> Notification:
    """The notification in an envelope."""
    try:
        time = datetime.fromtimestamp(envelope.time, UTC)
    except (ValueError, OverflowError, OSError):
        time = None  # a time that is none: its publisher's own affair
    return content.decode(
        envelope.content, id=str(envelope.id), publisher=envelope.publisher, time=time
    )
