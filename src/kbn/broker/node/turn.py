"""A turn of a node: when it is, and what its parts have gathered so far."""

from __future__ import annotations

from dataclasses import dataclass, field

from kbn.broker.messages import Send
from kbn.broker.node.events import Unlink


@dataclass(slots=True)
class Turn:
    """What all parts of a node may write in a turn.

    `sends` is what the broker wants sent. `unlinks` are done when the messages of the turn are
    handled, because the broker may be in the middle of them.
    """

    now: float
    sends: list[Send] = field(default_factory=list)
    unlinks: list[Unlink] = field(default_factory=list)

    def take_sends(self) -> list[Send]:
        """What the broker wants sent, once."""
        sends, self.sends = self.sends, []
        return sends

    def take_unlinks(self) -> list[Unlink]:
        """What is to be unlinked, once."""
        unlinks, self.unlinks = self.unlinks, []
        return unlinks
