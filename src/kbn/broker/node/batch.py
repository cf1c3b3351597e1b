"""The batch: messages that have been read, and are handled together.

Their notifications are matched at once, which is cheaper than one by one. A message that the broker
stumbles over costs its sender only. What does not fit into the turn stays for the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kbn.broker.broker import Broker
from kbn.broker.messages import AnyMessage, BestEffort, Forward, Frame, Peer, Publish
from kbn.broker.node import notes
from kbn.broker.node.connections import NodeConnections
from kbn.broker.node.turn import Turn
from kbn.broker.store import StoreError

BATCH_MAX = 512  # messages handled together
PREMATCHED_BYTES = 1 << 17  # of contents matched together

Arrived = tuple[AnyMessage, Peer]


class Batch:
    """What has arrived at a broker and is not handled yet, with whom it came from."""

    __slots__ = ("_broker", "_charge", "_connections", "_turn", "arrived")

    def __init__(
        self,
        broker: Broker,
        connections: NodeConnections,
        turn: Turn,
        charge: Callable[[Peer, int], None],
    ) -> None:
        self.arrived: list[Arrived] = []
        self._broker = broker
        self._connections = connections
        self._turn = turn
        self._charge = charge

    def __bool__(self) -> bool:
        return bool(self.arrived)

    @property
    def is_full(self) -> bool:
        return len(self.arrived) >= BATCH_MAX

    def has_from(self, peer: Peer) -> bool:
        """Whether something that a peer has said is not handled yet."""
        return any(sender == peer for _, sender in self.arrived)

    def brokers(self) -> set[str]:
        """The neighbours of which something is not handled yet."""
        return {peer.name for _, peer in self.arrived if peer.kind == "broker"}

    def run(self) -> None:
        """Let the broker handle what has arrived; what it has not come to stays."""
        batch, self.arrived = self.arrived, []
        if not batch:
            return
        broker, turn = self._broker, self._turn
        contents = [found for message, _ in batch if (found := content_of(message)) is not None]
        if len(contents) > 1:
            broker.prematch(within_reach(contents))
        arrivals = Arrivals(batch, broker, self._charge)
        for _ in range(len(batch) + 1):
            try:
                turn.sends += broker.receive_many(arrivals, turn.now)
                break
            except StoreError:
                raise
            except Exception as error:
                self._stumbled(*arrivals.current, error)
            finally:
                arrivals.charge_sender()
        self.arrived = arrivals.left_over() + self.arrived

    def _stumbled(self, message: AnyMessage, peer: Peer, error: Exception) -> None:
        self._connections.note(notes.Bug(peer, type(message).__name__, error))
        culprit = self._connections.bound.get(peer)
        if culprit is not None:
            self._connections.refuse(culprit, "this broker cannot handle that")


class Arrivals:
    """The messages of a batch, handed out once while the turn may go on; `charge` is told what a
    run of them has cost, those of one peer that stand side by side.

    `current` is the one that is being handled. What a peer says while the broker is busy with what
    it said before waits.
    """

    def __init__(
        self, batch: list[Arrived], broker: Broker, charge: Callable[[Peer, int], None]
    ) -> None:
        self._rest = iter(batch)
        self._work = broker.work
        self._broker = broker
        self._charge = charge
        self._deferred: list[Arrived] = []
        self._owing: Peer | None = None
        self._since = self._work.done  # what is done from here on is owed
        self.current: Arrived

    def __iter__(self) -> Iterator[Arrived]:
        work, busy, is_ready = self._work, self._broker.busy_with, self._broker.is_ready_for
        for arrived in self._rest:
            message, peer = self.current = arrived
            if peer is not self._owing:
                self.charge_sender()
                self._owing = peer
            content = content_of(message)
            if peer in busy or (content is not None and not is_ready(content, peer)):
                self._deferred.append(arrived)
            else:
                yield arrived
                if content is not None:
                    self._broker.was_handled(content)
            if work.done >= work.limit:
                break
        self.charge_sender()

    def charge_sender(self) -> None:
        """Charge what the messages since have cost, also the one that was stumbled over."""
        if self._owing is not None and self._work.done > self._since:
            self._charge(self._owing, self._work.done - self._since)
        self._owing, self._since = None, self._work.done

    def left_over(self) -> list[Arrived]:
        """What was not handed out."""
        return [*self._deferred, *self._rest]


def within_reach(contents: list[bytes]) -> list[bytes]:
    """The contents to match together: the small ones, and not too many for one turn."""
    found, total = [], 0
    for content in contents:
        if len(content) <= PREMATCHED_BYTES // 8:
            total += len(content) + PREMATCHED_BYTES // BATCH_MAX
            if total > PREMATCHED_BYTES:
                break
            found.append(content)
    return found


def content_of(message: AnyMessage) -> bytes | None:
    """The content of a notification that a message brings, if it brings one."""
    match message:
        case Publish():
            return message.content
        case BestEffort():
            return message.envelope.content
        case Frame(body=Forward(envelope=envelope)):
            return envelope.content
        case _:
            return None
