"""What a client publishes: numbers, what the broker has granted, what it has not confirmed.

Durable notifications and others are numbered separately. Each waits until the broker has granted
room for it. A durable one is kept after it is sent until a broker says that it is stored, so that
it can be sent again.
"""

from __future__ import annotations

from collections import deque

from kbn.broker.messages import Publish
from kbn.broker.number_ranges import Ranges, holds


class Publisher:
    """The notifications of one client that are on their way to its broker.

    >>> publisher = Publisher()
    >>> publisher.connected(granted=1)
    >>> for content in (b"a", b"b"):
    ...     _ = publisher.add(content, 0.0, durable=True)
    >>> [publish.content for publish in publisher.sendable()], publisher.unpublished
    ([b'a'], 2)
    >>> publisher.confirm(1), publisher.unpublished
    (([1], []), 1)
    """

    __slots__ = (
        "_granted",
        "_last_best_effort",
        "_last_durable",
        "_sent",
        "_unconfirmed",
        "_unsent",
        "sent_ever",
        "stored_up_to",
        "strand",
    )

    def __init__(self, published: int = 0) -> None:
        self.strand = 0  # see `Envelope`
        self.sent_ever = 0
        self.stored_up_to = published
        self._last_durable = published
        self._last_best_effort = 0
        self._granted = 0
        self._sent = 0  # of what is granted
        self._unsent: deque[Publish] = deque()
        self._unconfirmed: deque[Publish] = deque()

    @property
    def unpublished(self) -> int:
        """How many notifications wait for a grant, or durable ones for a confirmation."""
        return len(self._unsent) + len(self._unconfirmed)

    @property
    def has_unconfirmed(self) -> bool:
        """Whether a durable notification was sent and is not known to be stored."""
        return bool(self._unconfirmed)

    def add(self, content: bytes, time: float, durable: bool) -> int:
        """Queue a notification; its number.

        A durable one that an earlier process of this epoch has published is not queued again:
        its number is not above `stored_up_to`.
        """
        if durable:
            self._last_durable = number = self._last_durable + 1
            if number <= self.stored_up_to:
                return number
        else:
            self._last_best_effort = number = self._last_best_effort + 1
        self._unsent.append(Publish(number, time, content, durable))
        return number

    def sendable(self) -> list[Publish]:
        """Take from the queue what the broker has room for."""
        due: list[Publish] = []
        unsent = self._unsent
        while unsent and self._sent < self._granted:
            publish = unsent.popleft()
            self._sent += 1
            self.sent_ever += 1
            if publish.durable:
                self._unconfirmed.append(publish)
            due.append(publish)
        return due

    def grant(self, total: int) -> None:
        """The broker grants so many in all since the connection began."""
        self._granted = max(self._granted, total)

    def connected(self, granted: int) -> None:
        """A connection begins: the broker counts anew."""
        self._granted, self._sent = granted, 0

    def resend(self) -> list[Publish]:
        """Everything unconfirmed, for a broker that may not have it; uses the grant."""
        self._sent += len(self._unconfirmed)
        return list(self._unconfirmed)

    def repeat(self, at_most: int) -> list[Publish]:
        """The oldest unconfirmed ones, for a broker that has not answered."""
        return list(self._unconfirmed)[:at_most]

    def confirm(self, number: int, refused: Ranges = ()) -> tuple[list[int], list[int]]:
        """A broker has stored the durable ones up to a number, or refused some of them.

        Those that are stored, and those that were refused, as far as they were not known before.
        """
        self.stored_up_to = max(self.stored_up_to, number)
        confirmed: list[int] = []
        denied: list[int] = []
        while self._unconfirmed and self._unconfirmed[0].number <= self.stored_up_to:
            known = self._unconfirmed.popleft().number
            (denied if refused and holds(refused, known) else confirmed).append(known)
        return confirmed, denied
