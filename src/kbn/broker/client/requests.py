"""What one broker was asked and has not answered.

Every request is repeated until it is answered. A barrier asks whether the changes before it are in
force, so it waits until the broker has answered those: some may be refused.
"""

from __future__ import annotations

from typing import NamedTuple

from kbn.broker.messages import Message

CHANGES = frozenset({"subscribe", "unsubscribe", "advertise", "unadvertise"})
BARRIERS = frozenset({"barrier", "join"})


class Request(NamedTuple):
    """What was asked, and its number. `join` is the barrier of a move."""

    what: str
    number: int


class Requests:
    """The unanswered requests to one broker, in the order they were made.

    `has_changed` says that a subscription or advertisement changed since the last `join`.
    With `holds_barriers`, barriers of the application wait: an old broker may still deliver.
    """

    __slots__ = ("_change_count", "_unanswered", "has_changed", "holds_barriers")

    def __init__(self, *, holds_barriers: bool = False) -> None:
        self._unanswered: dict[Request, Message] = {}
        self._change_count = 0
        self.has_changed = False
        self.holds_barriers = holds_barriers

    def add(self, request: Request, message: Message) -> list[Message]:
        """Note a request; what can be sent of it at once."""
        self.note(request, message)
        if request.what in CHANGES:
            self.has_changed = True
        elif request.what == "join":
            self.has_changed = False
        return [message] if self._can_send(request) else []

    def note(self, request: Request, message: Message) -> None:
        """Note a request that changes nothing the application knows of, unless it is noted."""
        if request not in self._unanswered:
            self._change_count += request.what in CHANGES
            self._unanswered[request] = message

    def answered(self, request: Request) -> bool:
        """Whether the request was waiting for this answer; it waits no longer."""
        was_waiting = self._unanswered.pop(request, None) is not None
        if was_waiting:
            self._change_count -= request.what in CHANGES
        return was_waiting

    def is_waiting(self, request: Request) -> bool:
        return request in self._unanswered

    def has(self, what: str) -> bool:
        """Whether something of this kind was asked."""
        return any(request.what == what for request in self._unanswered)

    def sendable(self, at_most: int | None = None) -> list[Message]:
        """What can be sent of the oldest requests."""
        oldest = list(self._unanswered.items())[:at_most]
        return [message for request, message in oldest if self._can_send(request)]

    def barriers(self) -> list[Message]:
        """The barriers that can be sent, now that a change was answered."""
        if self._change_count:
            return []
        return [
            message
            for request, message in self._unanswered.items()
            if request.what in BARRIERS and self._can_send(request)
        ]

    def take(self, *what: str) -> list[tuple[Request, Message]]:
        """Give up the requests of these kinds: another broker answers them."""
        taken = [each for each in self._unanswered.items() if each[0].what in what]
        for request, _ in taken:
            self.answered(request)
        return taken

    def _can_send(self, request: Request) -> bool:
        if request.what == "barrier" and self.holds_barriers:
            return False
        return not self._change_count or request.what not in BARRIERS
