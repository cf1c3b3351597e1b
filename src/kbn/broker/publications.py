"""Publications of one client: how far it is, and how much more it may publish."""

from __future__ import annotations

from dataclasses import dataclass, field

from kbn.broker.limits import ClientLimits
from kbn.broker.messages import Connect, Publish
from kbn.broker.number_ranges import Ranges, above, with_number
from kbn.broker.publisher_marks import Stored

# No publisher has so many times what it may publish ahead on its way.
REMEMBERED_AHEAD = 16


@dataclass(slots=True)
class Publications:
    """Numbers are of one epoch of the client, counts of one connection.

    `stored` is the last durable one that the broker stored, but for those it has `refused`;
    `best_effort` is the last of the others.
    Of `granted` the client has `published` so many; it gets no more while it waits for slow
    subscribers, whom `waits_for` names.
    """

    stored: int = 0
    strand: int = 0
    refused: Ranges = ()
    best_effort: int = 0
    published: int = 0
    granted: int = 0
    waits_for: set[str] = field(default_factory=set)

    def connect(self, connect: Connect, limits: ClientLimits, *, is_new_epoch: bool) -> None:
        """Begin a connection."""
        self.published, self.granted = 0, limits.publish_ahead
        self.strand = connect.strand
        self.stored = max(0 if is_new_epoch else self.stored, connect.published)
        if is_new_epoch:
            self.best_effort = 0
            self.refused = ()

    def resume(self, stored: Stored, published: int) -> None:
        """Go on where the store has the publisher, which knows of those it had `published`."""
        if stored.number >= self.stored:
            self.stored, self.refused = stored.number, stored.refused
        self.refused = above(self.refused, published)

    def refuse(self, publish: Publish, ahead: int) -> None:
        """One was refused. The publisher is told with every answer, until it must have heard."""
        known = above(self.refused, publish.number - REMEMBERED_AHEAD * ahead)
        self.refused = with_number(known, publish.number)

    def is_next(self, publish: Publish) -> bool:
        """Whether it is the next: no repetition, and no durable one is missing before it."""
        if publish.durable:
            return publish.number == self.stored + 1
        return publish.number > self.best_effort

    def count(self, publish: Publish) -> None:
        """The number is used up, whether the notification is good or refused."""
        if publish.durable:
            self.published += 1
            self.stored = publish.number
        else:
            self.published += publish.number - self.best_effort  # those lost count as well
            self.best_effort = publish.number

    def grant(self, ahead: int) -> int | None:
        """How many it may publish in all, when that is to be said: before it has to wait."""
        if self.waits_for or self.granted - self.published > ahead // 2:
            return None
        self.granted = self.published + ahead
        return self.granted
