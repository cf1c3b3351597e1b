"""A neighbour, as a broker knows it: the link to it, what it wants, what it has been told.

The greetings of a neighbour tell its epoch. A session begins when both have greeted the other's
present epoch and believe in the same tree. What the neighbour said in an earlier session is
*stale*: it still counts, and goes when the neighbour has said everything again. Until then it is
not *complete*, and is sent everything.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from kbn.broker.announcements import Announcements
from kbn.broker.best_effort import AHEAD_MAX, BestEffortQueue
from kbn.broker.broker_move import Newest
from kbn.broker.channel import Channel
from kbn.broker.filter_index import FilterIndex
from kbn.broker.messages import Body, Echo, Envelope, Peer, Wave
from kbn.broker.topology import Role
from kbn.broker.unacked import UnackedQueue
from kbn.broker.wanted import Key
from kbn.filters import Subscription

EPOCH_UNKNOWN = 1
"""Of a neighbour that we had before a restart: it was some epoch, and those of links are larger."""


@dataclass(slots=True)
class Link:
    """The state of a link; `channel` is there while a session stands.

    `our_epoch` is the one we greet with, `epoch` the neighbour's as far as we have heard of one.
    `agrees`: the neighbour reasons with our ontology.
    """

    our_epoch: int
    epoch: int = 0
    channel: Channel | None = None
    is_connected: bool = False
    may_have_lost: bool = False  # the link was broken: what was on its way may be lost
    heard_at: float = 0.0
    ontology: str | None = None
    agrees: bool = False
    url: str = ""  # where clients find it


@dataclass(slots=True)
class Announced:
    """What a neighbour said that its side wants and advertises, by the numbers it gave."""

    subscriptions: dict[int, Key] = field(default_factory=dict)
    advertisements: dict[int, tuple[Key, Subscription]] = field(default_factory=dict)
    stale_subscriptions: list[Key] = field(default_factory=list)
    stale_advertisements: list[tuple[Key, Subscription]] = field(default_factory=list)
    # What its side may publish, as far as it has said, by equalities.
    advertised: FilterIndex = field(default_factory=FilterIndex)
    is_complete: bool = False
    # It has announced more than is remembered: it is sent everything, until its next session.
    is_overfull: bool = False
    # Before it is complete all is let through to it; whether all that was there is, by now.
    lets_through: bool = False

    def begin_session(self) -> None:
        """What it said before is stale until it has said everything again."""
        self.stale_subscriptions.extend(self.subscriptions.values())
        self.stale_advertisements.extend(self.advertisements.values())
        self.subscriptions, self.advertisements = {}, {}
        self.is_complete = self.lets_through = self.is_overfull = False

    def take_stale(self) -> tuple[list[Key], list[Key]]:
        """The keys of stale subscriptions and advertisements, which are forgotten here."""
        subscriptions, self.stale_subscriptions = self.stale_subscriptions, []
        advertisements, self.stale_advertisements = self.stale_advertisements, []
        for key, advertisement in advertisements:
            self.advertised.remove(key, advertisement)
        return subscriptions, [key for key, _ in advertisements]


@dataclass(slots=True)
class Told:
    """What a neighbour is told of everybody else, where it is told at all.

    `pending` counts what is still being worked out or told, turn by turn. `waves` wait for that:
    when a wave arrives, all that was wanted before it is known.
    """

    subscriptions: Announcements | None = None
    advertisements: Announcements | None = None
    is_complete: bool = False
    pending: int = 0
    waves: list[Wave | Echo] = field(default_factory=list)


@dataclass(slots=True)
class Received:
    """How far we are with what a neighbour sends.

    `sequence` is the last durable one that we stored, `acked` the last that we acknowledged;
    `best_effort` the last best-effort one, `reported` the last that we said we handled. Of what is
    `past` it brings nothing new, since we moved to it (see `broker_move.py`).
    """

    sequence: int = 0
    acked: int = 0
    best_effort: int = 0
    reported: int = 0
    past: Newest = field(default_factory=dict)

    def begin_session(self) -> None:
        self.best_effort = self.reported = 0

    def is_past(self, envelope: Envelope) -> bool:
        """Whether it was handled before we moved here."""
        return envelope.number <= self.past.get(envelope.stream, 0)

    @property
    def has_much_to_report(self) -> bool:
        return self.best_effort - self.reported >= AHEAD_MAX // 8


@dataclass(slots=True)
class Neighbour:
    """One neighbour; `role` is what it is to us, `token` what we show it."""

    peer: Peer
    role: Role
    link: Link
    unacked: UnackedQueue
    best_effort: BestEffortQueue
    token: str = ""
    since: int = 0  # its sequences are above this one
    announced: Announced = field(default_factory=Announced)
    told: Told = field(default_factory=Told)
    received: Received = field(default_factory=Received)
    # Waves and echoes that must not overtake the notifications queued before them: behind which
    # sequence and which best-effort one each waits.
    behind: deque[tuple[int, int, Wave | Echo]] = field(default_factory=deque)
    # What it said and must wait, because there is no room for the first of it (see `room.py`).
    held: deque[Body] = field(default_factory=deque)

    @property
    def name(self) -> str:
        return self.peer.name

    @property
    def is_connected(self) -> bool:
        return self.link.is_connected

    @property
    def is_in_session(self) -> bool:
        """Whether what we send to it now arrives, in order."""
        return self.link.channel is not None

    @property
    def is_trusted(self) -> bool:
        """Whether it wants nothing but what it announced."""
        return self.announced.is_complete and self.link.agrees

    @property
    def wants_everything(self) -> bool:
        """Whether it is sent what it has not announced, too."""
        return self.role == "parent" or not (self.announced.is_complete and self.link.agrees)

    def begin_session(self) -> None:
        """Start afresh, on a new channel."""
        self.link.channel = Channel(self.link.our_epoch, self.link.epoch)
        self.announced.begin_session()
        self.told.is_complete = False
        self.told.waves.clear()
        self.received.begin_session()
        self.best_effort.begin_session()
        self.behind.clear()
        self.held.clear()
        self.unacked.rewind()

    def put_behind(self, body: Wave | Echo) -> None:
        """Say something after all that is queued now."""
        self.behind.append((self.unacked.last, self.best_effort.enqueued, body))

    def no_longer_behind(self) -> Iterator[Wave | Echo]:
        """What can be said now, because all that was queued before it has been sent."""
        while self.behind:
            sequence, number, body = self.behind[0]
            if self.best_effort.sent < number or not self.unacked.has_sent(sequence):
                return
            self.behind.popleft()
            yield body
