"""A turn of a node: when it is, and what its parts have gathered so far."""

from __future__ import annotations

from dataclasses import dataclass, field

from kbn.broker.messages import Peer, Send
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
    _came: dict[Peer, int] = field(default_factory=dict)  # how much was to be sent then

    def came(self, peer: Peer) -> None:
        """A peer has another connection from now on: what was for it before is not for that one."""
        self._came[peer] = len(self.sends)

    def take_sends(self) -> list[Send]:
        """What the broker wants sent, once."""
        sends, self.sends = self.sends, []
        came, self._came = self._came, {}
        if came:
            sends = [send for at, send in enumerate(sends) if at >= came.get(send.to, 0)]
        return sends

    def take_unlinks(self) -> list[Unlink]:
        """What is to be unlinked, once."""
        unlinks, self.unlinks = self.unlinks, []
        return unlinks
