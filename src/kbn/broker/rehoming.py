"""Moving a broker: from one neighbour to another, with all that hangs on it, and nothing lost.

While broker X goes from `old` to `new`, the network has a cycle, so X carries nothing between the
two and tells neither what the other wants. In steps:

1. *Joining.* X is linked to both. It publishes by way of `old`. What `new` sends is held back. A
   wave by way of `new` comes back when the whole network knows what X wants from there.
2. *Draining.* X puts what it publishes aside for `new`. A wave by way of `old` comes back when all
   that was sent to X, or by X, on that side has arrived.
3. X leaves `old`, hands on what it held back, and sends what it put aside. Whatever `new` brings
   that is not newer than what X has had from `old`, or published itself, is *past*: X had it, or
   nobody behind X wanted it at its time. (A subscription behind X is settled when both sides have
   it, and links keep order.)

So each notification is handled once, and those of one publisher in their order. A `new` that hangs
below X itself would cut the whole part off: X's own wave does not come round by way of `old` then,
and the move is given up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from kbn.broker.messages import Carry, Envelope, Fire
from kbn.broker.neighbour import Newest

# Waves of a move are numbered apart from others.
FIRST_WAVE = 1 << 40


@dataclass(slots=True)
class Rehoming:
    """A move on its way; `done` is told why it failed, or None."""

    old: str
    new: str
    done: Callable[[str | None], None]
    phase: Literal["joining", "draining"] = "joining"
    came_round: bool = False
    newest: Newest = field(default_factory=dict)
    held: deque[Carry | Fire] = field(default_factory=deque)

    @property
    def both(self) -> frozenset[str]:
        return frozenset((self.old, self.new))

    def saw(self, envelope: Envelope) -> None:
        """A notification was handled while the move is on."""
        row = (envelope.publisher, envelope.run, envelope.durable)
        self.newest[row] = max(self.newest.get(row, 0), envelope.number)

    def lets_pass(self, source: str | None, to: str) -> bool:
        """Whether a notification may go from one neighbour (None: from here) to another."""
        if to not in self.both:
            return True
        if source in self.both:
            return False
        return to == (self.old if self.phase == "joining" else self.new)
