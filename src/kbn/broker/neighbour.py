"""A neighbour, as a broker knows it: the session with it, what it wants, what it has been told.

The greetings of a neighbour tell its epoch. A session begins when both have greeted the other's
present epoch and believe in the same tree. What the neighbour said in an earlier session is
*stale*: it still counts, and goes when the neighbour has said everything again. Until then it is
not *complete*, and is sent everything.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from kbn.broker.announcements import Announcements
from kbn.broker.channel import Channel
from kbn.broker.messages import BestEffort, Echo, Envelope, Peer, Wave
from kbn.broker.table import Key
from kbn.broker.unacked import UnackedQueue
from kbn.filters import Subscription

Role = Literal["peer", "parent", "child"]
# Of each publisher's epoch, durable ones or others: the number of the newest.
Newest = dict[tuple[str, int, bool], int]
FIRED_AHEAD_MAX = 8_192
FIRE_QUEUE_MAX = 65_536
CARRIED_AHEAD_MAX = 512


@dataclass(slots=True)
class Neighbour:
    """One neighbour; `role` is what it is to us.

    `announcements` and `offers` are what it is told of interests and advertisements, where it is
    told of them at all.
    """

    peer: Peer
    role: Role
    unacked: UnackedQueue
    announcements: Announcements | None = None
    offers: Announcements | None = None
    our_epoch: int = 0  # with which we greet it
    epoch: int = 0
    is_connected: bool = False
    may_have_lost: bool = False  # the link was broken: what was on its way may be lost
    channel: Channel | None = None
    heard_at: float = 0.0
    view: str = ""
    ontology: str | None = None
    token: str = ""
    wants: dict[int, Key] = field(default_factory=dict)
    stale_wants: list[Key] = field(default_factory=list)
    advertises: dict[int, tuple[Key, Subscription]] = field(default_factory=dict)
    stale_advertises: list[tuple[Key, Subscription]] = field(default_factory=list)
    unread: set[int] = field(default_factory=set)
    is_complete: bool = False
    told_complete: bool = False
    taken: int = 0
    took: int = 0
    fired: int = 0
    fired_heard: int = 0
    fire_queue: deque[Envelope] = field(default_factory=deque)
    fire_dropped: int = 0
    past: Newest = field(default_factory=dict)  # see `rehoming.py`
    fire_enqueued: int = 0
    last_fired: int = 0
    # Waves and echoes that must not overtake the notifications queued before them: behind which
    # sequence and which fired one each waits.
    behind: deque[tuple[int, int, Wave | Echo]] = field(default_factory=deque)
    answered_fired: int = 0

    @property
    def name(self) -> str:
        return self.peer.name

    def begin_session(self) -> None:
        """Start afresh; what it said before is stale until it has said everything again."""
        self.channel = Channel(self.our_epoch, self.epoch)
        self.stale_wants.extend(self.wants.values())
        self.stale_advertises.extend(self.advertises.values())
        self.wants, self.advertises = {}, {}
        self.unread.clear()
        self.is_complete = self.told_complete = False
        self.fired = self.fired_heard = self.last_fired = self.answered_fired = 0
        self.fire_enqueued = len(self.fire_queue)
        self.behind.clear()
        self.unacked.rewind()

    def is_past(self, envelope: Envelope) -> bool:
        """Whether what it brings was handled before we moved to it."""
        stream = (envelope.publisher, envelope.epoch, envelope.durable)
        return envelope.number <= self.past.get(stream, 0)

    def all_advertised(self) -> Iterator[tuple[Key, Subscription]]:
        """What its side may publish, as far as it has said."""
        yield from self.advertises.values()
        yield from self.stale_advertises

    def fires(self) -> Iterator[BestEffort]:
        """The queued notifications that can be sent now."""
        while (
            self.channel is not None
            and self.fire_queue
            and self.fired - self.fired_heard < FIRED_AHEAD_MAX
        ):
            self.fired += 1
            yield BestEffort(
                self.channel.sender_epoch,
                self.channel.receiver_epoch,
                self.fired,
                self.fire_queue.popleft(),
            )

    def enqueue(self, envelope: Envelope) -> None:
        """Queue a notification that may be lost, at the cost of the oldest when there are many."""
        if len(self.fire_queue) >= FIRE_QUEUE_MAX:
            self.fire_queue.popleft()
            self.fire_dropped += 1
            self.fired += 1
        self.fire_enqueued += 1
        self.fire_queue.append(envelope)

    def put_behind(self, body: Wave | Echo) -> None:
        """Have something said after all that is queued now."""
        self.behind.append((self.unacked.last, self.fire_enqueued, body))

    def no_longer_behind(self) -> Iterator[Wave | Echo]:
        """What can be said now, for all that was queued before it has been sent."""
        while self.behind:
            sequence, fired, body = self.behind[0]
            if self.fired < fired or not self.unacked.has_sent(sequence):
                return
            self.behind.popleft()
            yield body
