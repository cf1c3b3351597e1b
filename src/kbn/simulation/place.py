"""Where a broker runs: its machine, with a disk and a clock, outlives its node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import inf

from kbn.broker import Node, NodeSettings, NotificationId, Peer, node_effects, node_events
from kbn.simulation.connection import End, SimulatedConnection
from kbn.simulation.disk import Disk, Losses, publications

# Only a machine that loses power loses commits, and it needs longer than that to come back.
REBOOT_S = 1.0


@dataclass(slots=True)
class Place:
    """A machine, and the node that runs there, if one does.

    A turn takes `turn_s`; what happens meanwhile waits for the next. The node reads the clock of
    the machine when it starts: from then on it is `ahead_by_s`, whatever is done to the clock.
    """

    settings: NodeSettings
    store: Disk
    node: Node | None = None
    ends: dict[int, tuple[SimulatedConnection, End]] = field(default_factory=dict)
    wakes_at: float = inf
    has_turn: bool = False
    turn_s: float = 0.0
    is_in_turn: bool = False
    ahead_s: float = 0.0
    ahead_by_s: float = 0.0
    _ahead_min_s: float = 0.0
    _waiting: list[node_events.Event] = field(default_factory=list)

    @classmethod
    def of(cls, name: str, common: NodeSettings, store: Disk) -> Place:
        """The place of a broker with settings that all share."""
        return cls(replace(common, name=name, store=store), store)

    def start(self, now: float, jitter: Callable[[], float]) -> list[node_effects.Effect]:
        """Run a node from what the disk has; `StoreError` while it fails."""
        self.wakes_at, self.has_turn, self.is_in_turn = inf, False, False
        self.ahead_by_s = self.ahead_s
        self._waiting.clear()
        node = self.node = Node(self.settings, now + self.ahead_by_s, jitter)
        node.broker.listens_at(self.settings.name)
        return node.start(now + self.ahead_by_s)

    def stop(self) -> Losses | None:
        """The node is gone at once; what the disk has lost."""
        self.node = None
        losses = self.store.crash()
        if losses is not None:
            self._ahead_min_s = self.ahead_by_s + REBOOT_S
            self.set_clock(self.ahead_s)
        return losses

    def unacked_for(self, to: str) -> dict[NotificationId, int]:
        """What the disk has for another broker, with the sequence of each."""
        peer = Peer("broker", to)
        rows = self.store.unacked(peer, 0, self.store.unacked_count(peer))
        return {id: row.sequence for row in rows for id in publications([row.envelope])}

    def set_clock(self, ahead_s: float) -> None:
        """The machine's clock is so far ahead when the node starts again.

        Where the disk has lost commits it is not behind what it was then: epochs that nobody
        remembers come from the clock, and one that begins again is for a person to mend.
        """
        self.ahead_s = max(ahead_s, self._ahead_min_s)

    def happened(self, event: node_events.Event) -> None:
        """Something waits for the next turn; of several ticks one does. New rules come first."""
        match event:
            case node_events.AccessChanged():
                self._waiting.insert(0, event)
            case node_events.Tick() if event in self._waiting:
                pass
            case _:
                self._waiting.append(event)

    @property
    def has_waiting(self) -> bool:
        """Whether another turn is needed."""
        return bool(self._waiting)

    def turn(self, now: float) -> list[node_effects.Effect]:
        """Let the node handle all that has happened."""
        assert self.node is not None
        happened, self._waiting = self._waiting, []
        return self.node.handle(happened, now + self.ahead_by_s)
