"""Moving a broker: from one neighbour to another, with all that hangs on it, and nothing lost.

While broker X goes from `old` to `new`, the network has a cycle, so X carries nothing between the
two and tells neither what the other wants. In steps:

1. *Joining.* X is linked to both. It publishes by way of `old`. What `new` sends is dropped. A
   wave by way of `new` comes back when the whole network knows what X wants from there, and then
   one from behind X (see below).
2. *Draining.* X puts what it publishes aside for `new`. A wave by way of `old` comes back when all
   that was sent to X, or by X, on that side has arrived. It reaches X by way of `new`, too: what
   `new` sends from then on is held back. (What it sent ahead of the wave was published before the
   wave came to the publisher's broker, so X has had it, or has it from `old` before the wave is
   back. That goes for all that X had, or published, before this step.)
3. X leaves `old`, hands on what it held back, and sends what it put aside. Whatever `new` brings
   that is not newer than what X has had from `old`, or published itself, meanwhile is *past*: X had
   it, or nobody behind X wanted it at its time. (A subscription behind X is settled when both sides
   have it, and links keep order.) The store has what is past, for X's next epoch.

So each notification is handled once, and those of one publisher in their order. A `new` that hangs
below X itself would cut the whole part off: X's own wave does not come round by way of `old` then,
and the move is given up. It is given up, too, when `new` will not have X, or has forgotten it.

X passes on others' waves from `old` to those behind it, and leaves some unanswered when it leaves
`old`. They come by way of `new` as well and are answered there, but for those that passed `new`
before X was known there. X had these when its first wave was back. So it then sends a wave to those
behind it: when that is back, they have been answered.

Two brokers that move at a time, each to below the other, would cut themselves off together, and
the waves of both come round. But each is then reached by the other's waves from behind itself. So
who is reached by another mover's wave from behind gives up its own move; when it is draining
already it keeps the wave until its move is over, and that wave does not come round any more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from kbn.broker.messages import BestEffort, Envelope, Forward, Wave
from kbn.broker.neighbour import Neighbour, Newest


@dataclass(slots=True)
class Rehoming:
    """A move on its way; `done` is told why it failed, or None."""

    old: str
    new: str
    done: Callable[[str | None], None]
    phase: Literal["joining", "draining"] = "joining"
    came_by_old: bool = False  # the wave of the first step
    came_by_new: bool = False  # the wave of the second
    newest: Newest = field(default_factory=dict)
    held: deque[Forward | BestEffort] = field(default_factory=deque)
    # Waves that wait, and who passed them to us: of movers behind us until we have moved, and from
    # the new neighbour until we know that it is not behind us.
    waves: list[tuple[Wave, Neighbour]] = field(default_factory=list)
    unsure: list[tuple[Wave, Neighbour]] = field(default_factory=list)

    @property
    def both(self) -> frozenset[str]:
        return frozenset((self.old, self.new))

    def saw(self, envelope: Envelope) -> None:
        """A notification was handled while the move is on."""
        stream = (envelope.publisher, envelope.epoch, envelope.durable)
        self.newest[stream] = max(self.newest.get(stream, 0), envelope.number)

    def came_round(self, neighbour: str) -> None:
        """The wave of this step has reached us."""
        self.came_by_old |= neighbour == self.old and self.phase == "joining"
        self.came_by_new |= neighbour == self.new and self.phase == "draining"

    def drops(self, source: str) -> bool:
        """Whether what a neighbour brings comes, or came, by way of the old one."""
        return source == self.new and not self.came_by_new

    def lets_pass(self, source: str | None, to: str) -> bool:
        """Whether a notification may go from one neighbour (None: from here) to another."""
        if to not in self.both:
            return True
        if source in self.both:
            return False
        return to == (self.new if self.phase == "draining" else self.old)
