"""What one broker delivers to a client: repetitions, gaps, credit, acknowledgements.

A broker numbers its durable deliveries and its others separately. It may send as many as the client
has granted, and repeats the durable ones until the client acknowledges them.
"""

from __future__ import annotations

from kbn.broker.messages import Credit, Deliver, DeliverAck

ACKNOWLEDGED_EVERY = 32


class Inbox:
    """The deliveries of one broker.

    `held` collects what a new broker delivers while the old one still may; None otherwise.
    With `acknowledges_each`, nothing that is done with waits for its acknowledgement.
    """

    __slots__ = (
        "_acknowledged",
        "_consumed",
        "_done_up_to",
        "_granted",
        "_grants_at",
        "_last_best_effort",
        "_last_durable",
        "_window",
        "acknowledges_each",
        "dropped",
        "held",
        "in_order",
    )

    def __init__(self, window: int, *, acknowledges_each: bool, holds: bool = False) -> None:
        self._window = window
        self._grants_at = max(1, window // 2)
        self._last_durable = 0
        self._last_best_effort = 0
        self._consumed = 0
        self._granted = 0
        self._done_up_to = 0
        self._acknowledged = 0
        self.acknowledges_each = acknowledges_each
        self.dropped = 0  # what the broker has said that it dropped
        self.held: list[Deliver] | None = [] if holds else None
        self.in_order = True

    def connected(self, *, in_order: bool, is_resumed: bool) -> None:
        """A connection begins with a whole window of credit.

        A broker that does not resume counts its best-effort deliveries anew.
        """
        self._consumed, self._granted = 0, self._window
        self.in_order = in_order
        if not is_resumed:
            self._last_best_effort = 0

    def accept(self, delivery: Deliver) -> bool:
        """Whether a delivery is new, and no durable one before it is missing."""
        number = delivery.number
        if delivery.durable:
            if number <= self._last_durable or delivery.after > self._last_durable:
                return False
            self._last_durable = number
            return True
        if number <= self._last_best_effort:
            return False
        self._last_best_effort = number
        return True

    def answer_unaccepted(self, delivery: Deliver) -> list[Credit | DeliverAck]:
        """What to say to a delivery that was not accepted: it is acknowledged again if it is a
        repetition. After a gap the broker repeats by itself.
        """
        if not delivery.durable or delivery.number > self._last_durable:
            return []
        answers: list[Credit | DeliverAck] = []
        if delivery.number <= self._done_up_to:
            self._consumed += 1  # in an earlier connection; in this one it used up credit
            answers += self._due()
        self._acknowledged = self._done_up_to
        return [*answers, DeliverAck(self._acknowledged)]

    def done_with(self, delivery: Deliver) -> list[Credit | DeliverAck]:
        """The application is done with a delivery: grant more when half of the window is used."""
        self._consumed += 1
        if delivery.durable and delivery.number > self._done_up_to:
            self._done_up_to = delivery.number
        return self._due()

    def acknowledge(self) -> list[DeliverAck]:
        """Acknowledge what is done with, if it was not acknowledged yet."""
        if self._done_up_to <= self._acknowledged:
            return []
        self._acknowledged = self._done_up_to
        return [DeliverAck(self._acknowledged)]

    def release(self) -> list[Deliver]:
        """What was held back; nothing is from now on."""
        held, self.held = self.held or [], None
        return held

    def _due(self) -> list[Credit | DeliverAck]:
        due: list[Credit | DeliverAck] = []
        total = self._consumed + self._window
        if total - self._granted >= self._grants_at:
            self._granted = total
            due.append(Credit(total))
        if self._done_up_to and (self.acknowledges_each or not self._consumed % ACKNOWLEDGED_EVERY):
            due += self.acknowledge()
        return due
