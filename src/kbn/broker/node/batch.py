"""The batch: messages that have been read, and are handled together.

Their notifications are matched at once, which is cheaper than one by one. A message that the broker
stumbles over costs its sender only. What does not fit into the turn stays for the next. Who comes
first, `shares.py` says.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from heapq import heappop, heappush

from kbn.broker.broker import Broker
from kbn.broker.messages import AnyMessage, BestEffort, Forward, Frame, Peer, Publish
from kbn.broker.node import notes
from kbn.broker.node.connections import NodeConnection, NodeConnections
from kbn.broker.node.shares import Shares
from kbn.broker.node.turn import Turn
from kbn.broker.store import StoreError

BATCH_MAX = 512  # messages handled together
AT_ONCE = 1_000  # units of work for one peer, before one that has spent less comes
PREMATCHED_BYTES = 1 << 17  # of contents matched together

Arrived = tuple[AnyMessage, Peer]
# By what each will have spent, and among equals by who came first.
Line = list[tuple[float, int, Peer, NodeConnection | None]]


class Batch:
    """What has arrived at a broker and is not handled yet, by whom it came from.

    What one peer has said is handled in that order. Between peers `shares` says who is first.
    """

    __slots__ = ("_broker", "_charge", "_connections", "_shares", "_turn", "_waiting", "taken")

    def __init__(
        self,
        broker: Broker,
        connections: NodeConnections,
        turn: Turn,
        shares: Shares,
        charge: Callable[[Peer, int], None],
    ) -> None:
        self.taken = 0  # messages, since somebody has set it to zero
        self._waiting: dict[Peer, deque[AnyMessage]] = {}
        self._broker = broker
        self._connections = connections
        self._turn = turn
        self._shares = shares
        self._charge = charge

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def is_full(self) -> bool:
        """Whether enough was taken to be handled together."""
        return self.taken >= BATCH_MAX

    def add(self, messages: list[AnyMessage], peer: Peer) -> None:
        """A peer has said this."""
        if messages:
            self.taken += len(messages)
            waiting = self._waiting.get(peer)
            if waiting is None:
                self._waiting[peer] = deque(messages)
            else:
                waiting.extend(messages)

    def has_from(self, peer: Peer) -> bool:
        """Whether something that a peer has said is not handled yet."""
        return peer in self._waiting

    def brokers(self) -> set[str]:
        """The neighbours of which something is not handled yet."""
        return {peer.name for peer in self._waiting if peer.kind == "broker"}

    def run(self) -> None:
        """Let the broker handle what has arrived; what it has not come to stays."""
        waiting = self._waiting
        if not waiting:
            return
        broker, turn = self._broker, self._turn
        arrivals = Arrivals(waiting, self._line(), self._shares, broker, self._charge)
        contents = arrivals.contents()
        if len(contents) > 1:
            broker.prematch(within_reach(contents))
        for _ in range(1 + sum(map(len, waiting.values()))):
            try:
                turn.sends += broker.receive_many(arrivals, turn.now)
                break
            except StoreError:
                raise
            except Exception as error:
                self._stumbled(*arrivals.current, error)
            finally:
                arrivals.charge_sender()

    def _line(self) -> Line:
        bound, shares = self._connections.bound, self._shares
        peers = ((peer, bound.get(peer)) for peer in self._waiting)
        return sorted(
            (0.0 if connection is None else shares.place(connection), n, peer, connection)
            for n, (peer, connection) in enumerate(peers)
        )

    def _stumbled(self, message: AnyMessage, peer: Peer, error: Exception) -> None:
        self._connections.note(notes.Bug(peer, type(message).__name__, error))
        culprit = self._connections.bound.get(peer)
        if culprit is not None:
            self._connections.refuse(culprit, "this broker cannot handle that")


class Arrivals:
    """What waits, handed out once while the turn may go on; `charge` is told what a run of messages
    has cost, those of one peer that are handled one after another.

    `current` is the message that is being handled. What a peer says while the broker is busy with
    what it said before waits.
    """

    def __init__(
        self,
        waiting: dict[Peer, deque[AnyMessage]],
        line: Line,
        shares: Shares,
        broker: Broker,
        charge: Callable[[Peer, int], None],
    ) -> None:
        self._waiting = waiting
        self._line = line
        self._shares = shares
        self._work = broker.work
        self._broker = broker
        self._charge = charge
        self._owing: tuple[Peer, NodeConnection | None] | None = None
        self._since = self._work.done  # what is done from here on is owed
        self.current: Arrived

    def contents(self) -> list[bytes]:
        """The contents of the notifications that wait, of the first in line first."""
        waiting = (message for _, _, peer, _ in self._line for message in self._waiting[peer])
        return [found for message in waiting if (found := content_of(message)) is not None]

    def __iter__(self) -> Iterator[Arrived]:
        work, waiting, line = self._work, self._waiting, self._line
        busy, is_ready = self._broker.busy_with, self._broker.is_ready_for
        while line:
            place, n, peer, connection = heappop(line)
            self.charge_sender()
            self._owing, before, messages = (peer, connection), work.done, waiting[peer]
            enough = min(work.limit, before + AT_ONCE) if line else work.limit
            while peer not in busy:
                message = messages.popleft()
                if not messages:
                    del waiting[peer]
                self.current = arrived = (message, peer)
                content = content_of(message)
                if content is not None and not is_ready(content, peer):
                    messages.appendleft(message)
                    waiting[peer] = messages
                    break
                if connection is not None:
                    self._shares.serves(connection.spent)
                yield arrived
                if content is not None:
                    self._broker.was_handled(content)
                if not messages:
                    break
                if work.done >= enough:
                    heappush(line, (place + work.done - before, n, peer, connection))
                    break
            if work.done >= work.limit:
                break
        self.charge_sender()

    def charge_sender(self) -> None:
        """Charge what the messages since have cost, also the one that was stumbled over."""
        if self._owing is not None and self._work.done > self._since:
            (peer, connection), units = self._owing, self._work.done - self._since
            self._charge(peer, units)
            if connection is not None:
                connection.last_spent = units
        self._owing, self._since = None, self._work.done


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
