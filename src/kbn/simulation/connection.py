"""Simulated connections: two ends, with a link between them that may lose, repeat and delay.

The first messages of a connection (names, `Connect`, `Greet`) arrive once and before all others, as
over TCP. All later ones are in the hands of the link's faults, so that brokers and clients have to
repeat what was lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kbn.broker import AnyMessage, Peer, Refused, Who


@dataclass(slots=True, eq=False)
class End:
    """One side of a connection: who is there, and what to call when something reaches it."""

    peer: Peer
    received: Callable[[bytes], None]
    closed: Callable[[], None]
    is_open: bool = True
    answers: bool = True  # its machine is there, and says so when nobody listens
    has_begun: bool = False  # it has sent something other than a question for a name
    nothing_before: float = 0.0  # nothing that is sent to it arrives earlier


@dataclass(slots=True, eq=False)
class SimulatedConnection:
    id: int
    dialler: End
    acceptor: End
    pair: frozenset[Peer] = field(init=False)

    def __post_init__(self) -> None:
        self.pair = frozenset((self.dialler.peer, self.acceptor.peer))

    def other(self, end: End) -> End:
        return self.acceptor if end is self.dialler else self.dialler

    def is_opening(self, end: End, message: AnyMessage) -> bool:
        """Whether a message that an end sends is one of the first."""
        if isinstance(message, Who):
            return True
        if end is self.dialler and not end.has_begun:
            end.has_begun = True
            return True
        return isinstance(message, Refused) and message.what == "connect"
