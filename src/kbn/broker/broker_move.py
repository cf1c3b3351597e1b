"""Moving a broker: from one neighbour to another, with all that hangs on it, and nothing lost.

While broker X goes from `old` to `new`, the network has a cycle, so X forwards nothing between the
two and tells neither what the other wants. In steps:

1. *Joining.* X is linked to both. It publishes by way of `old`. What `new` sends is dropped. A
   wave by way of `new` comes back when the whole network knows what X wants from there. It comes
   *round* to X by way of `old`, unless `new` hangs below X.
2. *Clearing.* A wave to those behind X comes back when they have answered the waves of others that
   X had passed on to them (see below).
3. *Draining.* X puts what it publishes aside for `new`. A wave by way of `old` comes back when all
   that was sent to X, or by X, on that side has arrived.
4. *Holding.* That wave has reached X by way of `new`, too: what `new` sends from then on is held
   back. (What it sent ahead of the wave was published before the wave came to the publisher's
   broker, so X has had it, or has it from `old` before the wave is back. That goes for all that X
   had, or published, before the draining began.)
5. *Moved.* X leaves `old`, handles what it held back, and sends what it put aside. Whatever `new`
   brings that is not newer than what X has had from `old`, or published itself, meanwhile is
   *past*: X had it, or nobody behind X wanted it at its time. (A subscription behind X is in force
   when both sides have it, and links keep order.) The store has what is past, for X's next epoch.

So each notification is handled once, and those of one publisher in their order. A `new` that hangs
below X itself would cut the whole part off: X's own wave does not come round by way of `old` then,
and X *stays*. It stays, too, when `new` refuses X, or has forgotten it.

X passes on others' waves from `old` to those behind it, and leaves some unanswered when it leaves
`old`. They come by way of `new` as well and are answered there, but for those that passed `new`
before X was known there. X had these when its first wave was back, and so clears them.

Two brokers that move at a time, each to below the other, would cut themselves off together, and
the waves of both come round. But each is then reached by the other's waves from behind itself. So
a mover that is reached by the wave of a *rival* from behind stays; when it is draining already it
keeps the wave until its move is over, and that wave does not come round any more.

`TRANSITIONS` is the whole of it; the broker carries out the actions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from kbn.broker.messages import BestEffort, Envelope, Forward, Wave

# Of each stream, the newest number.
Newest = dict[tuple[str, int, int | bool], int]


class State(Enum):
    JOINING = auto()
    ROUND = auto()
    CLEARING = auto()
    DRAINING = auto()
    HOLDING = auto()
    MOVED = auto()
    STAYED = auto()


class Event(Enum):
    """What happens to a move."""

    ECHOED = auto()  # the wave of this step is back
    CAME_BY_OLD = auto()  # the wave of this step has come round, by way of the old neighbour
    CAME_BY_NEW = auto()
    OLD_LOST = auto()  # the old neighbour is one no longer
    REFUSED = auto()  # by the new neighbour, or we were told to unlink it
    RIVAL = auto()  # the wave of another mover came from behind us


class Action(Enum):
    """What the broker does next."""

    ANSWER_UNSURE = auto()  # pass on the waves that waited to know where `new` hangs
    CLEAR_BEHIND = auto()  # begin a wave to those behind us
    DRAIN_OLD = auto()  # put aside for `new`, begin a wave by way of `old`
    KEEP_WAVE = auto()  # keep the rival's wave until the move is over
    LEAVE_OLD = auto()
    STAY = auto()


Transition = tuple[State, tuple[Action, ...]]

_STAY: Transition = (State.STAYED, (Action.STAY,))

# (state, event) → (next state, actions), of all states in which a move goes on.
TRANSITIONS: Mapping[tuple[State, Event], Transition] = {
    (State.JOINING, Event.ECHOED): _STAY,
    (State.JOINING, Event.CAME_BY_OLD): (State.ROUND, (Action.ANSWER_UNSURE,)),
    (State.JOINING, Event.CAME_BY_NEW): (State.JOINING, ()),
    (State.JOINING, Event.OLD_LOST): (State.JOINING, ()),
    (State.JOINING, Event.REFUSED): _STAY,
    (State.JOINING, Event.RIVAL): _STAY,
    (State.ROUND, Event.ECHOED): (State.CLEARING, (Action.CLEAR_BEHIND,)),
    (State.ROUND, Event.CAME_BY_OLD): (State.ROUND, ()),
    (State.ROUND, Event.CAME_BY_NEW): (State.ROUND, ()),
    (State.ROUND, Event.OLD_LOST): (State.ROUND, ()),
    (State.ROUND, Event.REFUSED): _STAY,
    (State.ROUND, Event.RIVAL): _STAY,
    (State.CLEARING, Event.ECHOED): (State.DRAINING, (Action.DRAIN_OLD,)),
    (State.CLEARING, Event.CAME_BY_OLD): (State.CLEARING, ()),
    (State.CLEARING, Event.CAME_BY_NEW): (State.CLEARING, ()),
    (State.CLEARING, Event.OLD_LOST): (State.CLEARING, ()),
    (State.CLEARING, Event.REFUSED): _STAY,
    (State.CLEARING, Event.RIVAL): _STAY,
    # Back by way of `old`, and it has not come round: `new` has forgotten us.
    (State.DRAINING, Event.ECHOED): _STAY,
    (State.DRAINING, Event.CAME_BY_OLD): (State.DRAINING, ()),
    (State.DRAINING, Event.CAME_BY_NEW): (State.HOLDING, ()),
    (State.DRAINING, Event.OLD_LOST): (State.HOLDING, ()),  # nothing more can come from there
    (State.DRAINING, Event.REFUSED): _STAY,
    (State.DRAINING, Event.RIVAL): (State.DRAINING, (Action.KEEP_WAVE,)),
    (State.HOLDING, Event.ECHOED): (State.MOVED, (Action.LEAVE_OLD,)),
    (State.HOLDING, Event.CAME_BY_OLD): (State.HOLDING, ()),
    (State.HOLDING, Event.CAME_BY_NEW): (State.HOLDING, ()),
    (State.HOLDING, Event.OLD_LOST): (State.HOLDING, ()),
    (State.HOLDING, Event.REFUSED): _STAY,
    (State.HOLDING, Event.RIVAL): (State.HOLDING, (Action.KEEP_WAVE,)),
}


@dataclass(slots=True)
class BrokerMove:
    """A move on its way; `done` is told why the broker stayed, or None when it has moved."""

    old: str
    new: str
    done: Callable[[str | None], None]
    state: State = State.JOINING
    newest: Newest = field(default_factory=dict)
    held: deque[Forward | BestEffort] = field(default_factory=deque)
    # Waves that wait, and who passed them to us: of rivals until the move is over, and from the new
    # neighbour until we know that it is not behind us.
    kept_waves: list[tuple[Wave, str]] = field(default_factory=list)
    unsure_waves: list[tuple[Wave, str]] = field(default_factory=list)

    def on(self, event: Event) -> tuple[Action, ...]:
        """Take a step; what the broker has to do."""
        self.state, actions = TRANSITIONS[self.state, event]
        return actions

    @property
    def both(self) -> frozenset[str]:
        """The old and the new neighbour."""
        return frozenset((self.old, self.new))

    @property
    def has_come_round(self) -> bool:
        """Whether it is known that the new neighbour does not hang below us."""
        return self.state is not State.JOINING

    def saw(self, envelope: Envelope) -> None:
        """A notification was handled while the move is on."""
        stream = envelope.stream
        self.newest[stream] = max(self.newest.get(stream, 0), envelope.number)

    def drops(self, source: str) -> bool:
        """Whether what a neighbour brings comes, or came, by way of the old one."""
        return source == self.new and self.state is not State.HOLDING

    def holds_back(self, source: str) -> bool:
        """Whether what a neighbour brings must wait until the move is over."""
        return source == self.new and self.state is State.HOLDING

    def lets_pass(self, source: str | None, to: str) -> bool:
        """Whether a notification may go from one neighbour (None: from here) to another."""
        if to != self.old and to != self.new:
            return True
        if source == self.old or source == self.new:
            return False
        drains = self.state is State.DRAINING or self.state is State.HOLDING
        return to == (self.new if drains else self.old)


def why_it_stayed(move: BrokerMove, before: State, event: Event, mover: str, detail: str) -> str:
    """The reason for a person, from the state that the move was given up in and what happened.

    `detail` is what the new neighbour said, or the rival's name.
    """
    match event:
        case Event.REFUSED:
            return detail
        case Event.RIVAL:
            return f"{detail!r} moves behind {mover!r}: try again later"
        case _ if before is State.JOINING:
            return f"{move.new!r} hangs below {mover!r}, or is not connected to {move.old!r}"
        case _:
            return f"{move.new!r} has forgotten {mover!r}"
