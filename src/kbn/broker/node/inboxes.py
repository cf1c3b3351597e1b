"""Inboxes: what has arrived on connections and waits for its turn.

A node handles so much in one turn and no more. What came on one connection is handled in the order
it came; connections take turns, a few frames each, so that one that says much holds up nobody but
itself. One whose inbox is *crowded* is not read from until there is room.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kbn.broker.node.events import Broken, Closed

if TYPE_CHECKING:
    from kbn.broker.node.connections import NodeConnection

FRAMES_AT_ONCE = 32
FRAMES_TOGETHER = 512  # of all connections; where very many wait, each gets less at once
FRAMES_AT_LEAST = 16
FRAMES_ALONE = 128  # of a connection, while nothing waits on another
BYTES_AT_ONCE = 1 << 14  # of a connection, and a frame
FRAMES_MAX = 512
BYTES_MAX = 1 << 17

Item = bytes | Broken | Closed


@dataclass(slots=True)
class Inbox:
    """What waits on one connection: frames, and what happened after them."""

    items: deque[Item] = field(default_factory=deque)
    size: int = 0  # in bytes
    is_in_turn: bool = False
    rests: bool = False  # it has no turn until `Inboxes.wake`

    def __bool__(self) -> bool:
        return bool(self.items)

    @property
    def is_crowded(self) -> bool:
        """Whether so much waits that no more should come."""
        return len(self.items) > FRAMES_MAX or self.size > BYTES_MAX

    def put(self, frames: list[bytes]) -> None:
        self.items.extend(frames)
        self.size += sum(map(len, frames))

    def put_back(self, frames: list[bytes]) -> None:
        """Frames that must wait after all, in front of the others."""
        self.items.extendleft(reversed(frames))
        self.size += sum(map(len, frames))

    def take_frames(self, at_most: int) -> list[bytes]:
        """The next frames, up to whatever happened between them.

        >>> inbox = Inbox(deque([b"a", b"b", b"c", Closed(1)]))
        >>> inbox.take_frames(2), inbox.take_frames(2), inbox.take_event()
        ([b'a', b'b'], [b'c'], Closed(connection=1))
        """
        found: list[bytes] = []
        items, size = self.items, 0
        while items and len(found) < at_most and type(items[0]) is bytes:
            frame: bytes = items.popleft()  # type: ignore[assignment]
            found.append(frame)
            size += len(frame)
            if size >= BYTES_AT_ONCE:
                break
        self.size -= size
        return found

    def take_event(self) -> Broken | Closed | None:
        """What happened next, if no frame comes before it."""
        if self.items and type(self.items[0]) is not bytes:
            return self.items.popleft()  # type: ignore[return-value]
        return None

    def drop_frames(self) -> None:
        """Nobody listens there any more; that it was closed still counts."""
        self.items = deque(item for item in self.items if type(item) is not bytes)
        self.size = 0


class Inboxes:
    """The connections on which something waits, in turns."""

    def __init__(self) -> None:
        self._turns: deque[NodeConnection] = deque()
        self._resting: list[NodeConnection] = []

    def __bool__(self) -> bool:
        return bool(self._turns)

    @property
    def frames_at_once(self) -> int:
        """How many frames to take of the connection that is in turn."""
        others = len(self._turns)
        if not others:
            return FRAMES_ALONE
        return max(FRAMES_AT_LEAST, min(FRAMES_AT_ONCE, FRAMES_TOGETHER // others))

    def put(self, connection: NodeConnection, item: list[bytes] | Broken | Closed) -> None:
        """Something came on a connection."""
        inbox = connection.inbox
        if isinstance(item, list):
            inbox.put(item)
        else:
            inbox.items.append(item)
        self._line_up(connection)

    def rest(self, connection: NodeConnection) -> None:
        """Let what came on a connection wait, and all that comes."""
        connection.inbox.rests = True
        self._resting.append(connection)

    def wake(self, is_over: Callable[[NodeConnection], bool]) -> None:
        """Go on with the connections that have rested enough."""
        resting, self._resting = self._resting, []
        for connection in resting:
            if is_over(connection):
                connection.inbox.rests = False
                self._line_up(connection)
            else:
                self._resting.append(connection)

    def _line_up(self, connection: NodeConnection) -> None:
        inbox = connection.inbox
        if inbox and not inbox.is_in_turn and not inbox.rests:
            inbox.is_in_turn = True
            self._turns.append(connection)

    def in_turn(self) -> Iterator[NodeConnection]:
        """Each connection that has something once; it comes again if something is left."""
        for _ in range(len(self._turns)):
            connection = self._turns.popleft()
            connection.inbox.is_in_turn = False
            try:
                yield connection
            finally:
                self._line_up(connection)
